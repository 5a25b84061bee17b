"""Names that the outside relies on: they are there, take their arguments by the promised names, and work."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import surefoot
from surefoot import PPO


def column(*numbers: float) -> Tensor:
    """[T, 1]"""
    return torch.tensor(numbers).unsqueeze(1)


ONE, TWO = math.log(1.0), math.log(2.0)
FUNCTIONS: dict[str, tuple[dict[str, Any], Any]] = {
    "returns.gae": (
        {
            "rewards": column(1.0, 2.0),
            "values": column(0.5, 1.0),
            "successor_values": column(1.0, 7.0),
            "terminated": column(0, 1).bool(),
            "truncated": column(0, 0).bool(),
            "gamma": 0.5,
            "gae_lambda": 1.0,
            "valid": None,
        },
        # δ₁ = 2 − 1; δ₀ = 1 + ½·1 − ½, and ½·δ₁ more; returns are advantage + value
        (column(1.5, 1.0), column(2.0, 2.0)),
    ),
    "advantages.normalize": (
        {"advantages": torch.tensor([1.0, 2.0, 3.0]), "valid": None},
        torch.tensor([-1.0, 0.0, 1.0]),
    ),
    "surrogate.importance_ratio": (
        {"log_prob": torch.tensor([TWO]), "old_log_prob": torch.tensor([ONE]), "bound": "clamp"},
        torch.tensor([2.0]),
    ),
    "surrogate.clipped_surrogate": (
        {"ratio": torch.tensor([1.5]), "advantages": torch.tensor([2.0]), "clip_range": 0.2, "dual_clip": None},
        torch.tensor([-2.4]),
    ),
    "kl.k3": ({"log_ratio": torch.tensor([TWO])}, torch.tensor([1.0 - TWO])),
    "quantile.midpoints": ({"n": 2}, torch.tensor([0.25, 0.75])),
    # Levels ¼ and ¾, error 2 at both: the mean of τ·(2 − ½)
    "quantile.huber_loss": (
        {"quantiles": torch.tensor([[0.0, 0.0]]), "targets": torch.tensor([2.0]), "kappa": 1.0},
        torch.tensor([0.75]),
    ),
    "categorical.two_hot": (
        {"targets": torch.tensor([0.25]), "atoms": torch.tensor([0.0, 1.0])},
        torch.tensor([[0.75, 0.25]]),
    ),
    "categorical.project": (
        {
            "probs": torch.tensor([[1.0, 0.0]]),
            "moved_atoms": torch.tensor([[0.25, 1.0]]),
            "atoms": torch.tensor([0.0, 1.0]),
        },
        torch.tensor([[0.75, 0.25]]),
    ),
    "value_clip.clip_quantiles": (
        {
            "quantiles": torch.tensor([[3.0, 0.1]]),
            "old_quantiles": torch.tensor([[0.0, 0.0]]),
            "clip_range": 0.2,
            "mode": "per_quantile",
        },
        torch.tensor([[0.2, 0.1]]),
    ),
    "risk.cvar_from_quantiles": ({"q": torch.tensor([-3.0, 1.0, 5.0]), "alpha": 1.0}, torch.tensor(1.0)),
    "risk.cvar_from_atoms": (
        {"probs": torch.tensor([0.1, 0.9]), "atoms": torch.tensor([-10.0, 0.0]), "alpha": 0.2},
        torch.tensor(-5.0),
    ),
    "risk.cvar_from_samples": ({"x": torch.tensor([4.0, 1.0, 2.0, 3.0]), "alpha": 0.5}, torch.tensor(1.5)),
    "masking.masked_log_softmax": (
        {"logits": torch.tensor([0.0, 9.0]), "mask": torch.tensor([True, False])},
        torch.tensor([0.0, torch.finfo(torch.float32).min / 2]),
    ),
}
"""Arguments by promised name and in promised order, and what comes out, worked by hand."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_maths_has_its_promised_form(name: str) -> None:
    module, _, function = name.partition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(f"surefoot.math.{module}"), function)
    arguments, expected = FUNCTIONS[name]
    assert list(inspect.signature(found).parameters)[: len(arguments)] == list(arguments)
    torch.testing.assert_close(found(**arguments), expected)
    torch.testing.assert_close(found(*arguments.values()), expected)


def test_the_maths_is_reached_from_the_package() -> None:
    assert surefoot.math.returns.gae is importlib.import_module("surefoot.math.returns").gae


METHODS = {
    "learn": "self total_timesteps callback progress_bar reset_num_timesteps",
    "predict": "self obs state episode_start deterministic action_masks",
    "save": "self path",
    "load": "path env",
    "evaluate": "self n_episodes seed env",
}


@pytest.mark.parametrize("name", METHODS)
def test_the_agent_has_the_promised_methods(name: str) -> None:
    parameters = inspect.signature(getattr(PPO, name)).parameters
    promised = METHODS[name].split()
    assert [each for each in parameters if each in promised] == promised


def test_the_agent_is_used_as_promised(tmp_path: Path) -> None:
    """The lines that the design shows, one after the other."""
    settings: dict[str, Any] = {"critic": {"kind": "quantile"}, "memory": {"kind": "lstm", "hidden_size": 4}}
    agent = PPO("CartPole-v1", n_envs=2, seed=0, n_steps=16, **settings)
    assert agent.learn(32, callback=None, progress_bar=False, reset_num_timesteps=False) is agent
    assert agent.num_timesteps == 32
    assert "train/approx_kl" in agent.logger_values
    agent.save(tmp_path / "agent")
    again = PPO.load(tmp_path / "agent", env=None)
    seen = np.zeros(4, np.float32)
    for each in (agent, again):
        action, state = each.predict(seen, state=None, episode_start=None, deterministic=True, action_masks=None)
        assert action in (0, 1)
        assert state is not None
    assert again.learn(32).num_timesteps == 64
    assert len(agent.evaluate(2, seed=0, env=None).lengths) == 2
