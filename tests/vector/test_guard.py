"""NaN and Inf are found in the step where they appear, and named (R04, O09)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import Env, spaces

from algo.building import learner_on, make_learner
from faults.broken import Broken
from surefoot.algo.learner import Learner
from surefoot.errors import EnvError, NonFiniteError
from surefoot.vector.guard import Guard, read_costs
from surefoot.vector.infos import RowInfos
from surefoot.workers.envs import WorkerEnvs
from vector.worlds import SOURCES, Scripted, open_envs

every_source = pytest.mark.parametrize("source", SOURCES)
BIG = float(np.finfo(np.float32).max)


def array(rows: Any, dtype: type[np.floating[Any]] = np.float32) -> np.ndarray[Any, Any]:
    return np.array(rows, dtype)


@pytest.mark.parametrize(("bad", "written"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_the_first_bad_number_is_named_by_field_index_env_and_step(bad: float, written: str) -> None:
    rows = np.zeros((3, 2, 2), np.float32)
    rows[1, 0, 1] = bad
    rows[2] = np.nan
    with pytest.raises(NonFiniteError, match=rf"speed\[0, 1\] is {written} in env 1 at step 7"):
        Guard().check(rows, "speed", 7)


def test_an_entry_per_env_needs_no_index() -> None:
    with pytest.raises(NonFiniteError, match="reward is nan in env 1 at step 0"):
        Guard().check(array([0.0, np.nan], np.float64), "reward", 0)


def test_infinities_that_cancel_are_found() -> None:
    with pytest.raises(NonFiniteError, match="reward is inf in env 0 at step 3"):
        Guard().check(array([np.inf, -np.inf]), "reward", 3)


@pytest.mark.parametrize(
    "healthy",
    [
        array([[BIG, BIG], [BIG, BIG]]),
        array([[-BIG, -BIG], [BIG, BIG]]),
        array([1e308, 1e308], np.float64),
        np.array([[2**31, 2**62]]),
        np.array([[255, 0]], np.uint8),
        np.zeros((0, 3), np.float32),
    ],
    ids=["overflow", "overflow and back", "float64", "integers", "bytes", "empty"],
)
def test_finite_numbers_pass_however_large_their_sum(healthy: np.ndarray[Any, Any]) -> None:
    Guard().check(healthy, "speed", 0)


def test_the_leaf_of_an_observation_is_named() -> None:
    leaves = {"obs": array([[0.0]]), "deep/place": array([[0.0, np.inf]])}
    with pytest.raises(NonFiniteError, match=r"observation 'deep/place'\[1\] is inf in env 0 at step 2"):
        Guard().observations(leaves, 2)


def test_costs_are_read_as_numbers_and_absent_ones_are_zero_where_nothing_is_constrained() -> None:
    costs = read_costs(RowInfos([{"cost": np.float32(0.5)}, {}, {"cost": True}]), "cost", 0)
    assert costs is not None
    assert costs.tolist() == [0.5, 0.0, 1.0]
    assert read_costs(RowInfos([{}, {"price": 1.0}]), "cost", 0) is None


@pytest.mark.parametrize("infos", [[{"cost": 1.0}, {}], [{}, {}]], ids=["of one env", "of all"])
def test_a_cost_that_a_constraint_needs_is_missed_by_env_and_step(infos: list[dict[str, Any]]) -> None:
    missing = 0 if "cost" not in infos[0] else 1
    with pytest.raises(EnvError, match=rf"info\['cost'\] is missing in env {missing} at step 9.*risk\.cost_key"):
        read_costs(RowInfos(infos), "cost", 9, np.array([True, True]))


def test_a_row_that_carries_a_reset_has_no_cost() -> None:
    costs = read_costs(RowInfos([{"cost": 1.0}, {}]), "cost", 9, np.array([True, False]))
    assert costs is not None
    assert costs.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_cost_that_is_not_finite_is_named_by_key_env_and_step(bad: float) -> None:
    with pytest.raises(NonFiniteError, match=r"info\['cost'\] of env 1 at step 9 is -?(nan|inf)"):
        read_costs(RowInfos([{"cost": 0.0}, {"cost": bad}]), "cost", 9)


@pytest.mark.parametrize("bad", [10**400, 1e60], ids=["whole", "float"])
def test_a_cost_beyond_float32_is_named_by_key_env_and_step(bad: float) -> None:
    with pytest.raises((EnvError, NonFiniteError), match=r"info\['cost'\] of env 1 at step 9 .*float") as caught:
        read_costs(RowInfos([{"cost": 0.0}, {"cost": bad}]), "cost", 9)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("bad", ["much", None, [1.0, 2.0], np.ones(1), 1j, np.complex128(1j), torch.ones(2)], ids=str)
def test_a_cost_that_is_no_number_is_an_error_of_the_env(bad: Any) -> None:
    with pytest.raises(EnvError, match=r"info\['cost'\] of env 0 at step 4 .*not a number"):
        read_costs(RowInfos([{"cost": bad}]), "cost", 4)


class BrokenLate(Scripted):
    """Env 2 gives something bad in its seventh step; the others are healthy."""

    def __init__(self, number: int, fault: str, bad: float) -> None:
        super().__init__(number, cost=0.5)
        self._fault, self._bad, self._made = fault if number == 2 else "", bad, 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        self._made += 1
        if self._made == 7:
            if self._fault == "observation":
                observation[1] = self._bad
            if self._fault == "reward":
                reward = self._bad
            if self._fault == "cost":
                info = info | {"cost": self._bad}
            if self._fault == "missing":
                del info["cost"]
        return observation, reward, terminated, truncated, info


@every_source
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("observation", r"observation\[1\] is (nan|inf) in env 2"),
        ("reward", r"reward is (nan|inf) in env 2"),
        ("cost", r"info\['cost'\] of env 2"),
    ],
)
def test_training_stops_at_what_an_env_gives(source: str, fault: str, said: str, bad: float) -> None:
    factories = [partial(BrokenLate, n, fault, bad) for n in range(3)]
    learner = learner_on(open_envs(source, factories), n_steps=16, batch_size=16)
    with pytest.raises(NonFiniteError, match=said) as caught:
        learner.collect()
    # Counted from 0. One episode ended before, after which NEXT_STEP has spent a row on the reset.
    assert f"at step {7 if source == 'next-step' else 6}" in str(caught.value)


LIMIT = {"kind": "cost_constraint", "limit_per_episode": 1.0}


@every_source
def test_a_cost_that_vanishes_stops_a_run_that_limits_it(source: str) -> None:
    def learner(**settings: Any) -> Learner:
        factories = [partial(BrokenLate, n, "missing", 0.0) for n in range(3)]
        return learner_on(open_envs(source, factories), n_steps=16, batch_size=16, **settings)

    with pytest.raises(EnvError, match=r"info\['cost'\] is missing in env 2") as caught:
        learner(risk=LIMIT).collect()
    assert f"at step {7 if source == 'next-step' else 6}" in str(caught.value)
    assert int(learner().collect().valid.sum()) > 3 * 7  # without a limit, nothing depends on it


def test_a_cost_that_an_env_in_a_worker_does_not_give_is_named() -> None:
    envs = WorkerEnvs(Scripted, 2, 1)
    try:
        with pytest.raises(EnvError, match=r"info\['cost'\] is missing in env 0 at step 0"):
            learner_on(envs, n_steps=16, batch_size=16, risk=LIMIT).collect()
    finally:
        envs.close()


@pytest.mark.parametrize("fault", ["nan_observation", "inf_observation"])
def test_a_bad_first_observation_is_named(fault: str) -> None:
    learner = make_learner(lambda: Broken(fault, at_step=0))  # type: ignore[arg-type] # parametrised
    with pytest.raises((NonFiniteError, EnvError), match=r"observation\[1\].*(nan|inf)"):
        learner.collect()


def spoil(learner: Learner, name: str) -> None:
    """Make one parameter of the output layer NaN."""
    learner.flat.named()[f"output.{name}"].fill_(torch.nan)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "surefoot/IdentityBinary-v0"])
def test_a_policy_that_is_not_finite_stops_before_the_env_is_stepped(env: str) -> None:
    learner = make_learner(env)
    learner.collect()
    spoil(learner, "linear.bias")
    with pytest.raises(NonFiniteError, match=r"action parameter\[0\] is nan in env 0 at step 16"):
        learner.collect()
    assert learner.collector.vector_steps == 16


class Overflowing(Env[Any, Any]):
    """Env that gives numbers which float64 holds and float32 does not."""

    def __init__(self, fault: str, bad: float = 1e60, dtype: Any = np.float64) -> None:
        self._fault, self._bad, self._steps = fault, bad, 0
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), dtype)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.zeros(2, self.observation_space.dtype), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        bad = self._steps == 5
        observation = np.array([0.0, self._bad if bad and self._fault == "observation" else 0.0])
        return observation, self._bad if bad and self._fault == "reward" else 0.0, False, False, {}


def overflowing(source: str, *given: Any, **settings: Any) -> Learner:
    return learner_on(open_envs(source, [partial(Overflowing, *given)]), n_steps=16, batch_size=16, **settings)


@pytest.mark.parametrize("source", ["group", "next-step"])
@pytest.mark.parametrize("bad", [1e60, -1e300])
@pytest.mark.parametrize(
    ("fault", "said"), [("observation", r"observation\[1\] .*normalize_observations"), ("reward", "reward")]
)
def test_a_number_that_float32_cannot_hold_is_named_where_it_appeared(
    source: str, fault: str, said: str, bad: float
) -> None:
    with pytest.raises(NonFiniteError, match=said) as caught:
        overflowing(source, fault, bad).collect()
    assert f"is {bad:g} in env 0 at step 4, beyond float32" in str(caught.value)
    assert "inf" not in str(caught.value)


@pytest.mark.parametrize("source", ["group", "next-step"])
def test_a_normalizer_takes_what_float32_cannot_hold_as_long_as_it_has_a_square(source: str) -> None:
    rollout = overflowing(source, "observation", 1e60, normalize_observations=True).collect()
    assert rollout.observation["obs"].abs().max().item() <= 10.0
    with pytest.raises(NonFiniteError, match=r"observation\[1\] is 1e\+300 in env 0 at step 4, beyond 1e\+100"):
        overflowing(source, "observation", 1e300, normalize_observations=True).collect()


def test_a_space_of_float32_with_a_number_beyond_it_is_named() -> None:
    """A vector env of Gymnasium casts by itself; there it is infinite before we see it."""
    with pytest.raises(EnvError, match=r"env 0 \(Overflowing\) in step 5: observation 'obs' holds 1e\+60, .*float32"):
        overflowing("group", "observation", 1e60, np.float32).collect()
