"""Training and acting on a CUDA device, with each of the options that hold tensors of their own, and moving there and
back. That no tensor of the host gets into a gradient is shown without a device in `algo/test_devices.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from surefoot import PPO
from surefoot.algo.learner import IterationRecord
from surefoot.errors import ConfigError
from surefoot.train.setup import require_bfloat16
from train.agents import parameters

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "compile": False}
PENDULUM, HEADS = "Pendulum-v1", "surefoot/Greenhouse-v0"
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": (PENDULUM, {}),
    "adaupgd, vgs": (PENDULUM, {"optimizer": "adaupgd", "vgs": {"alpha": 0.1}, "critic_learning_rate": 1e-3}),
    "upgd": (PENDULUM, {"optimizer": "upgd", "weight_decay": 0.01}),
    "robust, imitation, penalties": (
        PENDULUM,
        {
            "robust": {"kind": "sa_ppo", "steps": 2},
            "imitation": {"coef": 0.1},
            "kl_coef": 0.1,
            "entropy_floor": 5.0,
            "policy": {"std_min": 0.1, "std_max": 20.0},
            "normalize_observations": True,
        },
    ),
    "lstm": (PENDULUM, {"memory": {"kind": "lstm", "hidden_size": 8}}),
    "gru, cut": (PENDULUM, {"memory": {"kind": "gru", "hidden_size": 8, "max_length": 6, "burn_in": 2}}),
    "heads, masks": (HEADS, {"ent_coef": 0.01, "target_kl": 0.5}),
    "heads with memory": (HEADS, {"memory": {"kind": "lstm", "hidden_size": 8}, "kl_estimator": "exact"}),
    "quantiles": (PENDULUM, {"critic": {"kind": "quantile", "twin": "trunks"}, "normalize_rewards": True}),
    "atoms": (PENDULUM, {"critic": {"kind": "categorical", "targets": "backup"}}),
    "risk": ("surefoot/SafeOrRisky-v0", {"risk": {"kind": "cvar_objective", "alpha": 0.2}}),
}


@needs_cuda
@pytest.mark.parametrize("option", OPTIONS)
def test_an_agent_trains_on_a_device_and_is_resumed_there(option: str, tmp_path: Path) -> None:
    env, settings = OPTIONS[option]
    agent = PPO(env, **SMALL, **settings, device="cuda").learn(64)
    assert agent.learner.flat.values.is_cuda
    assert torch.isfinite(agent.learner.flat.values).all()
    agent.save(tmp_path / "agent")
    loaded = PPO.load(tmp_path / "agent")
    assert loaded.learner.flat.values.is_cuda
    assert parameters(loaded).equal(parameters(agent))
    assert loaded.learn(64).num_timesteps == agent.learn(64).num_timesteps == 128
    assert len(loaded.evaluate(2, seed=0).returns) == 2


@needs_cuda
def test_demonstrations_are_imitated_on_a_device(tmp_path: Path) -> None:
    np.savez(tmp_path / "demos.npz", observation=np.zeros((5, 4)), action=np.ones(5), mask=np.ones((5, 2), bool))
    imitation = {"coef": 0.5, "beta": None, "demonstrations": str(tmp_path / "demos.npz")}
    agent = PPO("CartPole-v1", **SMALL, imitation=imitation, normalize_observations=True, device="cuda").learn(64)
    again = PPO.load(agent.save(tmp_path / "agent"))
    assert again.learn(64).num_timesteps == agent.learn(64).num_timesteps == 128


@needs_cuda
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(("there", "here"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_an_agent_moves_between_devices(option: str, there: str, here: str, tmp_path: Path) -> None:
    env, settings = OPTIONS[option]
    agent = PPO(env, **SMALL, **settings, device=there).learn(64)
    loaded = PPO.load(agent.save(tmp_path / "agent"), device=here)
    assert loaded.learner.device.type == here
    assert parameters(loaded).cpu().equal(parameters(agent).cpu())
    assert loaded.learn(64).num_timesteps == 128


@needs_cuda
@pytest.mark.parametrize("memory", [{}, {"memory": {"kind": "lstm", "hidden_size": 8}}])
def test_networks_in_bfloat16_start_each_update_where_the_rollout_was(memory: dict[str, Any]) -> None:
    try:
        require_bfloat16(torch.device("cuda"))
    except ConfigError:
        pytest.skip("needs a CUDA device with bfloat16")
    found: list[float] = []

    def keep(agent: PPO, record: IterationRecord) -> None:
        found.append(record.update.log_ratio_first)

    PPO(PENDULUM, **SMALL, **memory, device="cuda", autocast="bfloat16").learn(32 * 4, callback=keep)
    # The batch's size decides how a product is summed up, and so now and then which way a number is rounded.
    assert max(found) < 0.02
