"""Training and acting on a CUDA device, with each of the options that hold tensors of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from surefoot import PPO

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "adaupgd, vgs": {"optimizer": "adaupgd", "vgs": {"alpha": 0.1}, "critic_learning_rate": 1e-3},
    "upgd": {"optimizer": "upgd", "weight_decay": 0.01},
    "robust, imitation, penalties": {
        "robust": {"kind": "sa_ppo", "steps": 2},
        "imitation": {"coef": 0.1},
        "kl_coef": 0.1,
        "entropy_floor": 5.0,
        "normalize_observations": True,
    },
    "memory": {"memory": {"kind": "lstm", "hidden_size": 8}},
}


@needs_cuda
@pytest.mark.parametrize("option", OPTIONS)
def test_an_agent_trains_on_a_device_and_is_resumed_there(option: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "compile": False, "device": "cuda"}
    agent = PPO("Pendulum-v1", **settings, **OPTIONS[option]).learn(64)
    assert agent.learner.flat.values.is_cuda
    assert torch.isfinite(agent.learner.flat.values).all()
    agent.save(tmp_path / "agent")
    loaded = PPO.load(tmp_path / "agent")
    assert torch.equal(loaded.learner.flat.values, agent.learner.flat.values)
    assert agent.learn(64).num_timesteps == 128
