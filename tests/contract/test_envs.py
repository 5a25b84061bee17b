"""The contract of `surefoot.vector.interface.Envs`: every kind of environment runs every test here.

A new implementation adds a line to SOURCES in `vector.worlds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

from surefoot.spaces import Layout
from surefoot.vector.interface import Envs, Step
from surefoot.worlds import Identity, register_envs
from vector.worlds import KINDS, SOURCES, Kind, Scripted, open_envs

register_envs()

N = 3
every_source = pytest.mark.parametrize("source", SOURCES)
every_kind = pytest.mark.parametrize("kind", KINDS)


def scripted(source: str, kind: Kind = "box") -> Envs:
    return open_envs(source, [partial(Scripted, n, kind=kind, cost=0.5) for n in range(N)])


def symbols(source: str) -> Envs:
    """Worlds that draw from their random stream in every step."""
    return open_envs(source, [partial(Identity, n=5, episode_length=4)] * N)


def steps(envs: Envs, n: int) -> Iterator[Step]:
    for _ in range(n):
        yield envs.step(np.zeros(envs.n_envs, np.int64))


def copied(leaves: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.array(array) for name, array in leaves.items()}


@every_source
@every_kind
def test_what_an_implementation_says_of_itself(source: str, kind: Kind) -> None:
    envs = scripted(source, kind)
    assert envs.n_envs == N
    assert envs.observation_space == Scripted(kind=kind).observation_space
    assert envs.action_space == gymnasium.spaces.Discrete(2)
    assert envs.layout == Layout.of(envs.observation_space)


@every_source
@every_kind
def test_shapes_and_dtypes(source: str, kind: Kind) -> None:
    envs = scripted(source, kind)
    first = envs.reset(0)
    for leaf in envs.layout.leaves:
        assert first[leaf.name].shape == (N, *leaf.shape)
        assert first[leaf.name].dtype == leaf.dtype
    for step in steps(envs, 20):
        assert step.observation.keys() == first.keys()
        for leaf in envs.layout.leaves:
            assert step.observation[leaf.name].shape == (N, *leaf.shape)
            assert step.observation[leaf.name].dtype == leaf.dtype
            for successor in step.final.values():
                assert successor[leaf.name].shape == leaf.shape
                assert successor[leaf.name].dtype == leaf.dtype
        assert (step.reward.shape, step.reward.dtype.name) == ((N,), "float64")
        for flags in (step.terminated, step.truncated, step.valid, step.active):
            assert (flags.shape, flags.dtype.name) == ((N,), "bool")
        assert len(step.infos) == N


@every_source
def test_flags_belong_together(source: str) -> None:
    envs = scripted(source)
    envs.reset(0)
    active = np.ones(N, np.bool_)
    endings = 0
    for step in steps(envs, 60):
        done = step.terminated | step.truncated
        assert np.array_equal(step.valid, active)  # a row that was announced as a reset is one, and no other
        assert not (done & ~step.valid).any()
        assert (step.reward[~step.valid] == 0.0).all()
        assert set(step.final) == set(np.flatnonzero(done))
        for i in np.flatnonzero(~step.valid).tolist():
            assert not step.infos[i]
        for i in np.flatnonzero(step.valid).tolist():
            assert step.infos[i]["cost"] == 0.5
            assert ("is_success" in step.infos[i]) == done[i]
        active = step.active
        endings += int(done.sum())
    assert endings > 30


@every_source
def test_episodes_follow_each_other_without_a_gap(source: str) -> None:
    """What is acted upon next is the first observation after an end, and the successor otherwise."""
    envs = scripted(source)
    before = copied(envs.reset(0))["obs"]
    for step in steps(envs, 60):
        done = step.terminated | step.truncated
        for i in range(N):
            number, episode, clock = (round(float(x)) for x in before[i] * (4, 8, 8))
            if not step.valid[i]:
                assert step.observation["obs"][i].tolist() == [number / 4, (episode + 1) / 8, 0.0]
                continue
            successor = step.final[i]["obs"] if done[i] else step.observation["obs"][i]
            assert successor.tolist() == [number / 4, episode / 8, (clock + 1) / 8]
            if done[i] and step.active[i]:
                assert step.observation["obs"][i].tolist() == [number / 4, (episode + 1) / 8, 0.0]
        before = copied(step.observation)["obs"]


@every_source
@every_kind
def test_what_was_given_is_not_changed_later(source: str, kind: Kind) -> None:
    envs = scripted(source, kind)
    given = [envs.reset(0)]
    kept = [copied(given[0])]
    for step in steps(envs, 20):
        for leaves in (step.observation, *step.final.values()):
            given.append(leaves)
            kept.append(copied(leaves))
    for leaves, copy in zip(given, kept, strict=True):
        for name, array in leaves.items():
            assert np.array_equal(array, copy[name])


@every_source
def test_equal_seeds_start_equal_worlds(source: str) -> None:
    one, two = symbols(source), symbols(source)
    assert np.array_equal(one.reset(5)["obs"], two.reset(5)["obs"])
    for left, right in zip(steps(one, 20), steps(two, 20), strict=True):
        assert np.array_equal(left.observation["obs"], right.observation["obs"])
        assert np.array_equal(left.reward, right.reward)


def first_symbols(source: str, seed: int) -> list[tuple[int, ...]]:
    """What each env shows in its first steps."""
    envs = symbols(source)
    shown = [envs.reset(seed)["obs"]] + [step.observation["obs"] for step in steps(envs, 3)]
    return [tuple(int(np.argmax(rows[i])) for rows in shown) for i in range(N)]


@every_source
def test_envs_of_a_run_differ(source: str) -> None:
    assert len(set(first_symbols(source, 5))) == N


@every_source
def test_runs_with_neighbouring_seeds_have_no_env_in_common(source: str) -> None:
    """Otherwise several seeds are hardly more evidence than one."""
    found = [set(first_symbols(source, seed)) for seed in (0, 1, 2)]
    assert sum(map(len, found)) == len(set.union(*found))


@every_source
def test_a_second_reset_starts_anew(source: str) -> None:
    envs = symbols(source)
    first = copied(envs.reset(5))
    traces = []
    for _ in range(2):
        assert np.array_equal(envs.reset(5)["obs"], first["obs"])
        traces.append([(step.observation["obs"].tolist(), step.valid.tolist()) for step in steps(envs, 7)])
    assert traces[0] == traces[1]


@every_source
def test_a_saved_state_goes_on_bit_for_bit_or_there_is_none(source: str) -> None:
    envs = symbols(source)
    envs.reset(5)
    list(steps(envs, 10))
    state = envs.state_dict()
    if state is None:
        assert source != "group"
        return
    expected = [(step.observation["obs"].tolist(), step.reward.tolist()) for step in steps(envs, 20)]
    other = symbols(source)
    other.load_state_dict(state)
    assert [(step.observation["obs"].tolist(), step.reward.tolist()) for step in steps(other, 20)] == expected


@every_source
def test_closing_twice_is_harmless(source: str) -> None:
    envs = scripted(source)
    envs.reset(0)
    envs.close()
    envs.close()
