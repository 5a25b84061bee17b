"""Every space that trains also saves, loads and goes on exactly (Y09)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from surefoot import PPO
from surefoot.actions.heads import heads_of
from surefoot.errors import SurefootError
from surefoot.spaces import Layout
from surefoot.store import read_manifest
from train.agents import ROWS, Info, checkpoints, same_training, small

Space = spaces.Space[Any]


class Spaced(gymnasium.Env[Any, Any]):
    """Random observations of any space; it can be saved in mid-episode. An ``action_mask`` allows at least action 0."""

    def __init__(self, observation_space: Space, action_space: Space) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self._steps += 1
        return self._observe(), float(self.np_random.normal()), False, self._steps >= 7, {}

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps, "random": self.np_random.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps = state["steps"]
        self.np_random.bit_generator.state = state["random"]

    def _observe(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        observation = self.observation_space.sample()
        if isinstance(observation, dict) and "action_mask" in observation:
            observation["action_mask"][0] = 1
        return observation


FLOATS, INTEGERS = (np.float16, np.float32, np.float64), (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64)
SHAPES = st.lists(st.integers(1, 3), max_size=2).map(tuple)
LEAVES: st.SearchStrategy[Space] = st.one_of(
    st.builds(lambda shape, dtype: spaces.Box(-2.0, 2.0, shape, dtype), SHAPES, st.sampled_from(FLOATS)),
    st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 4), st.integers(-2, 2)),
    st.lists(st.integers(1, 3), min_size=1, max_size=3).map(spaces.MultiDiscrete),
    st.just(spaces.MultiDiscrete(np.array([[2, 3], [1, 2]]))),
    st.one_of(st.integers(1, 4), st.tuples(st.integers(1, 2), st.integers(1, 2))).map(spaces.MultiBinary),
)
SEEN: st.SearchStrategy[Space] = st.one_of(
    LEAVES,
    st.builds(lambda shape, dtype: spaces.Box(0, 9, shape, dtype), SHAPES, st.sampled_from(INTEGERS)),
    st.just(spaces.Box(0, 255, (36, 36, 1), np.uint8)),
)
KEYS = st.one_of(st.sampled_from(["a", "b.c", "pending", "x/y", "", "..", "\\", "%2F", "zwölf\n"]), st.text(max_size=3))


def nested(leaves: st.SearchStrategy[Space]) -> st.SearchStrategy[Space]:
    """Such spaces, and a Dict or Tuple of them, twice deep at most."""

    def deeper(inner: st.SearchStrategy[Space]) -> st.SearchStrategy[Space]:
        return st.one_of(
            st.dictionaries(KEYS, inner, min_size=1, max_size=3).map(spaces.Dict),
            st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
        )

    return st.one_of(leaves, deeper(leaves), deeper(st.one_of(leaves, deeper(leaves))))


def goes_on_exactly(observation_space: Space, action_space: Space, **options: Any) -> bool:
    """Whether an agent that is saved and loaded is exact, and trains on as the one that was not."""

    def make() -> Spaced:
        return Spaced(observation_space, action_space)

    agent = small(make, **options).learn(ROWS)
    with tempfile.TemporaryDirectory() as place:
        again = PPO.load(agent.save(Path(place) / "agent"), env=make)
        exact = read_manifest(Path(place) / "agent").exact
    return exact and same_training(again.learn(ROWS), agent.learn(ROWS))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(nested(SEEN), nested(LEAVES))
def test_an_agent_of_any_space_goes_on_exactly(seen: Space, done: Space) -> None:
    try:
        numbers = any(leaf.is_continuous for leaf in Layout.of(seen).leaves)
        heads_of(done)
    except SurefootError:  # two parts with one name
        reject()
    assert goes_on_exactly(seen, done, normalize_observations=numbers)


@pytest.mark.parametrize("flags", [spaces.MultiBinary(4), spaces.Box(0, 1, (4,), np.int8)], ids=str)
def test_a_mask_in_the_observation_goes_on_exactly(flags: Space) -> None:
    seen = spaces.Dict({"action_mask": flags, "numbers": spaces.Box(-1.0, 1.0, (2,))})
    assert goes_on_exactly(seen, spaces.Discrete(4))


def test_a_run_on_flags_keeps_its_checkpoints(tmp_path: Path) -> None:
    agent = small(lambda: Spaced(spaces.MultiBinary(5), spaces.Discrete(2)), run={"checkpoint_every": ROWS})
    agent.learn(3 * ROWS, run_dir=tmp_path / "run")
    assert checkpoints(tmp_path / "run") == [32, 64, 96]


@pytest.mark.parametrize("with_env", [False, True])
def test_the_order_of_a_dict_is_kept(with_env: bool, tmp_path: Path) -> None:
    """Gymnasium sorts the keys of a dict and not those of keywords; features must not change places."""
    box = spaces.Box(-1.0, 1.0, (1,))
    space = spaces.Dict(velocity=box, angle=box, image=spaces.Box(0, 255, (12, 12, 3), np.uint8))

    def make() -> Spaced:
        return Spaced(space, spaces.Discrete(5))

    agent = small(make, policy={"cnn_channels": (4,)}).learn(4 * ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"), env=make if with_env else None)
    assert [leaf.name for leaf in Layout.of(again.envs.observation_space).leaves] == ["velocity", "angle", "image"]
    space.seed(0)
    for _ in range(20):
        shown = space.sample()
        assert agent.predict(shown, deterministic=True)[0] == again.predict(shown, deterministic=True)[0]
