"""The env: one against many, autoreset, staggering, saving, and what Gymnasium asks of it."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from surefoot.errors import ConfigError, EnvError
from surefoot.hedging import HEDGING, BlackScholes, Hedging, HedgingVector
from surefoot.hedging.dynamics import DYNAMICS, Floats
from surefoot.rollout.make import make_envs
from surefoot.vector.group import EnvGroup
from surefoot.vector.gymnasium_vector import VectorEnvs
from surefoot.vector.plain import decode, encode

Array = np.ndarray[Any, Any]
every_dynamics = pytest.mark.parametrize("name", sorted(DYNAMICS))


def random_actions(env: HedgingVector, n_steps: int, seed: int = 0) -> Array:
    assert isinstance(env.single_action_space, gymnasium.spaces.Box)
    high = env.single_action_space.high
    shares = np.random.default_rng(seed).uniform(0.0, 1.0, (n_steps, env.num_envs, len(high)))
    return (shares * high).astype(np.float32)


class Noise:
    """Hands out the columns ``rows`` of prepared noise, as a generator would draw them for so many paths."""

    def __init__(self, normals: Floats, rows: slice) -> None:
        self._normals, self._rows, self._drawn = normals, rows, 0

    def standard_normal(self, shape: tuple[int, ...]) -> Floats:
        self._drawn += 1
        return self._normals[self._drawn - 1, self._rows].reshape(shape).copy()


def test_many_envs_are_as_many_single_ones_on_the_same_noise() -> None:
    dynamics, n = BlackScholes(n_steps=4), 5
    normals = np.random.default_rng(0).standard_normal((12, n))
    many = HedgingVector(n, dynamics, cost_rate=0.01)
    many.reset(seed=0)
    many._np_random = Noise(normals, slice(None))  # type: ignore[assignment]  # a generator with given draws
    singles = [Hedging(dynamics, cost_rate=0.01) for _ in range(n)]
    for i, single in enumerate(singles):
        single.reset(seed=0)
        single._np_random = Noise(normals, slice(i, i + 1))  # type: ignore[assignment]  # the same draws
    for actions in random_actions(many, 12):
        observation, reward, terminated, truncated, info = many.step(actions)
        for i, single in enumerate(singles):
            own, own_reward, own_terminated, own_truncated, _ = single.step(actions[i])
            assert (own_reward, own_terminated, own_truncated) == (reward[i], terminated[i], truncated[i])
            if own_terminated:
                np.testing.assert_array_equal(info["final_obs"][i], own)
                own, _ = single.reset()
            np.testing.assert_array_equal(observation[i], own)


@every_dynamics
def test_an_episode_starts_again_in_the_step_that_ends_it(name: str) -> None:
    env = HedgingVector(4, name, cost_rate=0.01)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    start, _ = env.reset(seed=3)
    total = np.zeros(4)
    for day, actions in enumerate(random_actions(env, 30)):
        observation, reward, terminated, truncated, info = env.step(actions)
        total += reward
        assert not truncated.any()
        assert terminated.all() == (day == 29)
        assert ("final_obs" in info) == (day == 29)
    np.testing.assert_array_equal(observation, start)
    final = info["final_obs"]
    assert info["_final_obs"].all()
    seen = env.units.decode(final)
    assert (seen.day == 30).all()
    np.testing.assert_allclose(seen.pnl, total, rtol=1e-6)
    np.testing.assert_allclose(seen.position, actions, rtol=1e-6)


@every_dynamics
def test_the_columns_are_what_their_names_say(name: str) -> None:
    env = HedgingVector(6, name, cost_rate=0.01)
    observation, _ = env.reset(seed=5)
    dynamics, names = env.dynamics, env.units.names
    start = dict(zip(names, observation[0].tolist(), strict=True))
    assert start == {key: (1.0 if key == "volatility" else 0.0) for key in names}
    actions = random_actions(env, 2)
    rewards = [env.step(action)[1] for action in actions[:1]]
    observation, reward, *_ = env.step(actions[1])
    columns = dict(zip(names, observation.T, strict=True))
    state = env._book.state
    np.testing.assert_allclose(
        columns["log_moneyness"], np.log(state[0] / 100.0) / (0.2 * np.sqrt(30 / 365)), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(columns["time"], 2 / 30, rtol=1e-6)
    np.testing.assert_allclose(columns["pnl"] * dynamics.premium, rewards[0] + reward, rtol=1e-5)
    positions = [columns[key] for key in names if key.startswith("position")]
    np.testing.assert_allclose(np.stack(positions, 1) * dynamics.position_limits, actions[1], rtol=1e-6)
    assert ("volatility" in names) == (name == "heston")
    if name == "heston":
        np.testing.assert_allclose(columns["volatility"], np.sqrt(state[1] / 0.04), rtol=1e-5)
    assert env.observation_space.contains(observation)


def test_staggered_envs_first_sell_the_option_of_the_days_that_are_left() -> None:
    env = HedgingVector(60, "black_scholes", stagger=True)
    observation, _ = env.reset(seed=0)
    first = env.units.decode(observation).day.astype(int)
    assert first.tolist() == [i // 2 for i in range(60)]
    ends: list[list[int]] = [[] for _ in range(60)]
    earned = np.zeros(60)
    for step in range(75):
        _, reward, terminated, _, _ = env.step(np.zeros((60, 1), np.float32))
        if step == 0:
            earned = reward
        for i in np.flatnonzero(terminated):
            ends[i].append(step + 1)
    # Unhedged, a first reward before maturity is the premium alone; that of the last day has the payoff in it.
    expected = env.dynamics.premiums[30 - first]
    np.testing.assert_array_equal(earned[:58], expected[:58])
    assert [each[0] for each in ends] == [30 - int(day) for day in first]
    assert all(later - sooner == 30 for each in ends for sooner, later in itertools.pairwise(each))
    assert max(len(each) for each in ends) == 3


def test_staggered_first_episodes_are_fair_bets() -> None:
    env = HedgingVector(30_000, "black_scholes", stagger=True)
    env.reset(seed=4)
    total, open_ = np.zeros(30_000), np.ones(30_000, np.bool_)
    for _ in range(30):
        _, reward, terminated, _, _ = env.step(np.full((30_000, 1), 0.5, np.float32))
        total[open_] += reward[open_]
        open_ &= ~terminated
    assert not open_.any()
    assert total.mean() == pytest.approx(0.0, abs=4 * total.std() / np.sqrt(30_000))


def test_one_env_has_none_to_be_out_of_step_with() -> None:
    """So that an evaluation by single envs is of whole episodes, whatever training used."""
    env = gymnasium.make(HEDGING, stagger=True)
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("stagger", [False, True])
@every_dynamics
def test_a_saved_env_goes_on_bit_for_bit(name: str, stagger: bool) -> None:
    env, other = (HedgingVector(7, name, cost_rate=0.01, stagger=stagger) for _ in range(2))
    env.reset(seed=1)
    actions = random_actions(env, 50)
    for action in actions[:17]:
        env.step(action)
    saved = decode(json.loads(json.dumps(encode(env.state_dict(), "state_dict()"))))
    other.load_state_dict(saved)
    for action in actions[17:]:
        for mine, theirs in zip(env.step(action)[:4], other.step(action)[:4], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(EnvError, match="7 accounts, this env has 3"):
        HedgingVector(3, name).load_state_dict(saved)


def test_a_saved_single_env_goes_on_bit_for_bit() -> None:
    env, other = Hedging("heston"), Hedging("heston")
    env.reset(seed=1)
    action = np.array([0.5, 300.0], np.float32)
    env.step(action)
    other.load_state_dict(decode(json.loads(json.dumps(encode(env.state_dict(), "state_dict()")))))
    mine, theirs = env.step(action), other.step(action)
    np.testing.assert_array_equal(mine[0], theirs[0])
    assert mine[1:] == theirs[1:]


def test_an_expired_option_is_not_hedged_further() -> None:
    env = Hedging(BlackScholes(n_steps=1))
    with pytest.raises(EnvError, match=r"call reset\(\)"):
        env.step(np.zeros(1, np.float32))
    env.reset(seed=0)
    assert env.step(np.zeros(1, np.float32))[2]
    with pytest.raises(EnvError, match=r"call reset\(\)"):
        env.step(np.zeros(1, np.float32))


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # Gymnasium advises against boxes other than [-1, 1]
@every_dynamics
def test_gymnasium_finds_nothing_wrong(name: str) -> None:
    check_env(gymnasium.make(HEDGING, dynamics=name, cost_rate=0.01).unwrapped)


@every_dynamics
def test_both_ways_of_making_it(name: str) -> None:
    single = gymnasium.make(HEDGING, dynamics=name, cost_rate=0.01)
    many = gymnasium.make_vec(
        HEDGING, num_envs=8, vectorization_mode="vector_entry_point", dynamics=name, cost_rate=0.01
    )
    assert isinstance(single.unwrapped, Hedging)
    assert isinstance(many, HedgingVector)
    assert many.single_observation_space == single.observation_space
    assert many.single_action_space == single.action_space


def test_every_row_is_a_true_transition_for_the_library() -> None:
    envs = make_envs(HedgingVector(10, "black_scholes", stagger=True), 10, {})
    assert isinstance(envs, VectorEnvs)
    envs.reset(0)
    for _ in range(35):
        step = envs.step(np.full((10, 1), 0.5, np.float32))
        assert step.valid.all()
        assert sorted(step.final) == np.flatnonzero(step.terminated).tolist()
        assert all(next(iter(row.values()))[1] == 1.0 for row in step.final.values())
    assert envs.state_dict() is not None


def test_seeds_decide_the_paths() -> None:
    def spots(seed: Any) -> Array:
        env = HedgingVector(3)
        env.reset(seed=seed)
        return env.step(np.zeros((3, 1), np.float32))[0][:, 0]

    np.testing.assert_array_equal(spots(7), spots(7))
    np.testing.assert_array_equal(spots([1, 2, 3]), spots([1, 2, 3]))
    assert not np.array_equal(spots(7), spots(8))
    assert not np.array_equal(spots([1, 2, 3]), spots([1, 2, 4]))


def test_as_many_seeds_as_envs_are_needed() -> None:
    with pytest.raises(ConfigError, match="2 seeds for 3 envs"):
        HedgingVector(3).reset(seed=[1, 2])


@pytest.mark.parametrize("rate", ["x", None, True, [0.01], float("nan"), 1.0, -0.1])
def test_a_cost_rate_that_is_none_is_refused(rate: Any) -> None:
    for make in (lambda: HedgingVector(2, cost_rate=rate), lambda: gymnasium.make(HEDGING, cost_rate=rate)):
        with pytest.raises(ConfigError, match=r"cost_rate = .*must be a number in \[0, 1\)"):
            make()


def test_no_envs_are_refused() -> None:
    with pytest.raises(ConfigError, match="num_envs = 0"):
        HedgingVector(0)


def test_an_id_with_many_envs_is_stepped_by_one_call() -> None:
    envs = make_envs(HEDGING, 16, {"dynamics": "tree", "cost_rate": 0.01})
    assert isinstance(envs, VectorEnvs)
    assert isinstance(envs.env, HedgingVector)
    assert envs.env.num_envs == 16
    assert type(envs.env.dynamics).__name__ == "BinomialTree"
    assert isinstance(make_envs(HEDGING, 1, {}, vectorization="sync"), EnvGroup)
    with pytest.raises(ConfigError, match="cost_rate = 2"):
        make_envs(HEDGING, 16, {"cost_rate": 2})
    with pytest.raises(EnvError, match="cost_rat"):
        make_envs(HEDGING, 16, {"cost_rat": 0.01})


def test_the_env_needs_no_torch() -> None:
    """Worker processes make envs, and are quicker without it."""
    code = "import sys, surefoot.hedging; print('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "False"
