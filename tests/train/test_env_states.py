"""What an env says of itself is kept as it was, or the save is not exact and says so; no run is lost over it (Y08)."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from faults.worker_worlds import Faltering
from surefoot import PPO
from surefoot.algo.learner import IterationRecord
from surefoot.errors import SurefootWarning
from surefoot.store import CheckpointStore, read_manifest
from surefoot.train.signals import Interrupted
from train.agents import ROWS, SMALL, Info, checkpoints, same_training, small


def refuse() -> Any:
    raise RuntimeError("no state today")


def endless() -> Any:
    state: list[Any] = []
    state.append(state)
    return state


UNKEPT: dict[str, tuple[Callable[[], Any], str]] = {
    "tensor": (lambda: torch.zeros(2), r"state_dict\(\)\['extra'\] is a Tensor"),
    "object": (lambda: np.random.default_rng(0), "is a Generator"),
    "array of objects": (lambda: np.array([{}]), "is of object"),
    "set": (lambda: {1, 2}, "is a set"),
    "raising": (refuse, r"state_dict\(\) raised RuntimeError: no state today"),
    "large array": (lambda: np.zeros(300_000), "2400000 bytes"),
    "large list": (lambda: [0.5] * 60_000, "at most .* can be kept"),
    "large number": (lambda: 1 << 10_000, "10001 bits"),
    "in itself": (endless, "nested deeper"),
}


class Telling(gymnasium.Env[Any, Any]):
    """Counts up to 7. Its state holds ``extra()``, from step ``since`` on."""

    def __init__(self, extra: Callable[[], Any] | None = None, since: int = 0) -> None:
        self.observation_space, self.action_space = spaces.Box(-9.0, 9.0, (2,)), spaces.Discrete(2)
        self._extra, self._since = extra, since
        self._count, self._steps = [0], 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self._count[0] = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self._count[0] += 1
        self._steps += 1
        return self._observe(), float(action), self._count[0] == 7, False, {}

    def state_dict(self) -> dict[str, Any]:
        extra = self._extra() if self._extra is not None and self._steps >= self._since else None
        return {"count": self._count, "extra": extra, "random": self.np_random.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._count, self.np_random.bit_generator.state = state["count"], state["random"]

    def _observe(self) -> Any:
        return np.array([self._count[0], self.np_random.normal()], np.float32)


@pytest.mark.parametrize("case", UNKEPT)
@pytest.mark.filterwarnings("always::surefoot.errors.SurefootWarning")
def test_a_run_whose_env_cannot_be_kept_goes_on_and_says_why_once(tmp_path: Path, case: str) -> None:
    extra, reason = UNKEPT[case]
    agent, run = small(lambda: Telling(extra), run={"checkpoint_every": ROWS}), tmp_path / "run"
    with pytest.warns(
        SurefootWarning, match=rf"env 0 \(Telling\): .*{reason}|the states of all envs.*{reason}"
    ) as said:
        agent.learn(3 * ROWS, run_dir=run)
    assert len(said) == 1
    assert "not exact" in str(said[0].message)
    assert checkpoints(run) == [32, 64, 96]
    latest = CheckpointStore(run / "checkpoints").latest()
    assert not latest.manifest.exact
    again = PPO.load(latest.path, env=Telling)
    assert same_training(again, agent)
    assert again.learn(ROWS).num_timesteps == 4 * ROWS


def test_it_is_said_before_the_first_step() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", SurefootWarning)
        agent = small(lambda: Telling(refuse))
        with pytest.raises(SurefootWarning, match="no state today"):
            agent.learn(ROWS)
    assert agent.num_timesteps == 0


def test_a_state_that_fails_later_makes_only_later_saves_inexact(tmp_path: Path) -> None:
    agent, run = small(lambda: Telling(refuse, since=20), run={"checkpoint_every": ROWS}), tmp_path / "run"
    with pytest.warns(SurefootWarning, match="no state today"):
        agent.learn(3 * ROWS, run_dir=run)
    store = CheckpointStore(run / "checkpoints")
    assert [read_manifest(store.path_of(step)).exact for step in (32, 64, 96)] == [True, False, False]


def test_ctrl_c_saves_a_run_whose_env_cannot_be_kept(tmp_path: Path) -> None:
    def interrupt(agent: PPO, record: IterationRecord) -> None:
        if agent.num_timesteps == 2 * ROWS:
            os.kill(os.getpid(), signal.SIGINT)

    agent = small(lambda: Telling(lambda: {1}))
    with pytest.warns(SurefootWarning, match="is a set"), pytest.raises(Interrupted):
        agent.learn(20 * ROWS, callback=interrupt, run_dir=tmp_path / "run")
    latest = CheckpointStore(tmp_path / "run" / "checkpoints").latest()
    assert (latest.path.name, latest.manifest.exact) == ("000000000064", False)
    with pytest.warns(SurefootWarning, match="goes on with new episodes"):
        assert same_training(PPO.load(latest.path, env=Telling), agent)


KEPT: dict[str, Any] = {
    "array": np.array([[1.5, np.nan], [-0.0, np.inf]], np.float32),
    "empty array": np.zeros((2, 0), np.int8),
    "number of numpy": np.float16(0.1),
    "image": np.arange(30_000, dtype=np.uint8),
    "tuple": ([1, (2.5, "x")], ()),
    "keys of any kind": {0: 1, (1, 2): 3, "tuple": [4], None: 5},
    "words that mean something": {"array": "x", "dict": {"tuple": 1}, "$float": "nan"},
}


@pytest.mark.parametrize("case", KEPT)
def test_what_can_be_kept_comes_back_as_it_was(tmp_path: Path, case: str) -> None:
    given: list[Any] = []

    class Asked(Telling):
        def load_state_dict(self, state: dict[str, Any]) -> None:
            given.append(state["extra"])
            super().load_state_dict(state)

    agent = small(lambda: Asked(lambda: KEPT[case])).learn(ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"), env=lambda: Asked(lambda: KEPT[case]))
    assert read_manifest(tmp_path / "agent").exact
    assert [type(x) for x in given] == [type(KEPT[case])] * 2
    for x in given:
        np.testing.assert_equal(x, KEPT[case])
        assert repr(x) == repr(KEPT[case])  # also the types within
    assert same_training(again.learn(2 * ROWS), agent.learn(2 * ROWS))


def test_a_kept_state_is_a_copy() -> None:
    """An env that gives its own list would be saved a step ahead of its observation."""
    agent = small(Telling).learn(ROWS)
    state = agent.learner.state_dict()
    agent.learn(ROWS - 2)
    again = small(Telling)
    again.learner.load_state_dict(state)
    fresh = small(Telling).learn(ROWS)
    assert same_training(again.learn(2 * ROWS), fresh.learn(2 * ROWS))


class TellingVector(VectorEnv[Any, Any, Any]):
    """All envs count up to 7; see `Telling`."""

    def __init__(self, extra: Callable[[], Any] | None = None) -> None:
        self.num_envs, self.metadata = 2, {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space, self.single_action_space = spaces.Box(-9.0, 9.0, (1,)), spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, 2)
        self.action_space = batch_space(self.single_action_space, 2)
        self._extra, self._count = extra, np.zeros((2, 1), np.float32)

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        self._count[:] = 0
        return self._count.copy(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Info]:
        self._count = (self._count + 1) % 8
        return self._count.copy(), np.asarray(actions, float), self._count[:, 0] == 7, np.zeros(2, np.bool_), {}

    def state_dict(self) -> dict[str, Any]:
        return {"count": self._count, "extra": None if self._extra is None else self._extra()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._count = state["count"]


def test_a_vector_env_whose_state_is_an_array_goes_on_exactly(tmp_path: Path) -> None:
    agent = PPO(TellingVector(), **SMALL).learn(ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"), env=TellingVector())
    assert read_manifest(tmp_path / "agent").exact
    assert same_training(again.learn(2 * ROWS), agent.learn(2 * ROWS))


@pytest.mark.parametrize("case", ["tensor", "raising", "large list"])
def test_a_vector_env_that_cannot_be_kept_is_saved_inexactly(tmp_path: Path, case: str) -> None:
    extra = UNKEPT[case][0]
    enlarged = (lambda: [extra(), extra()]) if case == "large list" else extra
    with pytest.warns(SurefootWarning, match=rf"the vector env TellingVector: .*{UNKEPT[case][1]}"):
        agent = PPO(TellingVector(enlarged), **SMALL).learn(ROWS)
    with pytest.warns(SurefootWarning, match="goes on with new episodes"):
        PPO.load(agent.save(tmp_path / "agent"), env=TellingVector())
    assert not read_manifest(tmp_path / "agent").exact


def test_workers_that_cannot_be_kept_are_saved_inexactly(tmp_path: Path) -> None:
    agent = small(lambda: Faltering(0.0, lambda: {1}), workers=1, run={"checkpoint_every": ROWS})
    try:
        with pytest.warns(SurefootWarning, match="is a set"):
            agent.learn(2 * ROWS, run_dir=tmp_path / "run")
    finally:
        agent.close()
    assert checkpoints(tmp_path / "run") == [0, 32, 64]
    assert not CheckpointStore(tmp_path / "run" / "checkpoints").latest().manifest.exact
