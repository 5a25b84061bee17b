"""The contract of environments with factored actions: an inactive head changes nothing (F07).

A new environment adds a line to WORLDS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from contract.dead_heads import check_dead_heads
from surefoot.actions.heads import HeadSpec
from surefoot.errors import EnvError
from surefoot.worlds import Greenhouse

WORLDS: dict[str, Callable[[], gymnasium.Env[Any, Any]]] = {
    "greenhouse": Greenhouse,
    "greenhouse, eight heads": lambda: Greenhouse(n_dials=5),
    "greenhouse, wrapped": lambda: gymnasium.wrappers.TimeLimit(Greenhouse(n_slots=2), 7),
}


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS.keys())
def test_an_inactive_head_changes_nothing(make: Callable[[], gymnasium.Env[Any, Any]]) -> None:
    assert check_dead_heads(make, n_steps=500) > 100


class Leaky(gymnasium.Env[Any, Any]):
    """Reads the slot, or the amount, although it says that they do not matter for WAIT."""

    def __init__(self, leak: str) -> None:
        self._leak, self._clock = leak, 0
        self.observation_space = spaces.Box(-10.0, 10.0, (1,), np.float32)
        self.action_space = spaces.Dict(
            {"op": spaces.Discrete(2), "slot": spaces.Discrete(3, start=1), "amount": spaces.Box(-1, 1, (1,))}
        )
        self.action_heads = (
            HeadSpec("op", ("WAIT", "ACT")),
            HeadSpec("slot", 3, relevant_when={"op": "ACT"}),
            HeadSpec("amount", relevant_when={"op": "ACT"}),
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._clock = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self._clock += 1
        acts = action["op"] == 1
        amount, slot = float(action["amount"][0]), int(action["slot"])
        reward = amount if acts or self._leak == "reward" else 0.0
        seen = slot if acts or self._leak == "successor" else 0
        ended = slot == 2 and (acts or self._leak == "terminated")
        cut = self._clock >= 10 or (slot == 3 and self._leak == "truncated")
        return np.array([seen], np.float32), reward, ended, cut, {}


@pytest.mark.parametrize("leak", ["reward", "successor", "terminated", "truncated"])
def test_a_leak_is_found_and_named(leak: str) -> None:
    with pytest.raises(EnvError, match=rf"the {leak} depends on an inactive head \((slot, )?amount|slot"):
        check_dead_heads(lambda: Leaky(leak))


def test_an_env_without_a_leak_passes() -> None:
    assert check_dead_heads(lambda: Leaky("")) > 300


def test_an_env_that_is_not_seeded_is_told_so() -> None:
    class Unseeded(Leaky):
        def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
            return np.array([np.random.default_rng().random()], np.float32), {}

    with pytest.raises(EnvError, match="must be seeded"):
        check_dead_heads(lambda: Unseeded(""))
