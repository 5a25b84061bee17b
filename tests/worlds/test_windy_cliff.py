"""The exact answers of the windy cliff, against every deterministic policy and against the world itself."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.math.risk import cvar_from_samples
from surefoot.worlds import WindyCliff
from surefoot.worlds.return_distribution import ReturnDistribution
from surefoot.worlds.windy_cliff import EDGE, FORWARD, INLAND, Place

ALPHA, WIND, FALL, COLUMNS, TIME_LIMIT = 0.1, 0.05, 8.0, 5, 12
FELL, ARRIVED = 10, 11
Matrix = np.ndarray[Any, np.dtype[np.float64]]
Policy = dict[Place, tuple[float, float, float]]


def certain(actions: dict[Place, int]) -> Policy:
    return {place: (float(action == 0), float(action == 1), float(action == 2)) for place, action in actions.items()}


def by_lane(edge: int, inland: int) -> Policy:
    env = WindyCliff()
    actions = {place: inland if place[0] else edge for place in env.places()}
    actions[1, COLUMNS - 1] = EDGE
    return certain(actions)


def transitions() -> Matrix:
    """P[action, from, to] over ten places, fallen and arrived, written down apart from the world."""
    chances = np.zeros((3, 12, 12))
    for action, lane, column in itertools.product(range(3), range(2), range(COLUMNS)):
        here = lane * COLUMNS + column
        to_column = min(column + 1, COLUMNS - 1) if action == FORWARD else column
        to_lane = {FORWARD: lane, INLAND: 1, EDGE: 0}[action]
        there = ARRIVED if (to_lane, to_column) == (0, COLUMNS - 1) else to_lane * COLUMNS + to_column
        if 0 < to_column < COLUMNS - 1:
            chances[action, here, there] += 1 - WIND
            chances[action, here, FELL if to_lane == 0 else to_column] += WIND
        else:
            chances[action, here, there] += 1.0
    return chances


@cache
def all_distributions() -> tuple[Matrix, Matrix]:
    """Returns [R], and their probabilities [19683, R] under each deterministic policy."""
    places = [i for i in range(2 * COLUMNS) if i != COLUMNS - 1]
    policies = np.array(list(itertools.product(range(3), repeat=len(places))))
    moves = transitions()
    mass = np.zeros((len(policies), 12))
    mass[:, 0] = 1.0
    values = np.array([-step - fall for step in range(1, TIME_LIMIT + 1) for fall in (0.0, FALL)])
    distributions = np.zeros((len(policies), len(values)))
    for step in range(TIME_LIMIT):
        after = np.zeros_like(mass)
        for i, place in enumerate(places):
            for action in range(3):
                chosen = policies[:, i] == action
                after[chosen] += mass[chosen, place, None] * moves[action, place]
        last = step == TIME_LIMIT - 1
        distributions[:, 2 * step] += after[:, ARRIVED] + (after[:, :FELL].sum(1) if last else 0.0)
        distributions[:, 2 * step + 1] += after[:, FELL]
        mass = after
        mass[:, [FELL, ARRIVED]] = 0.0
    return values, distributions


def best_mixture(limit: float) -> float:
    """Highest mean of two deterministic policies and a coin with CVaR ≥ limit, by scanning all ν and upper hulls."""
    values, distributions = all_distributions()
    means = distributions @ values
    best = -np.inf
    for threshold in values[values >= limit]:
        room = threshold + (distributions @ np.minimum(values - threshold, 0.0)) / ALPHA - limit
        good, bad = room >= 0, room < 0
        if not good.any():
            continue
        best = max(best, float(means[good].max()))
        better = bad & (means > means[good].max())
        for i in np.flatnonzero(better):
            weight = room[good] / (room[good] - room[i])  # of the infeasible one, so that the limit is met exactly
            best = max(best, float((weight * means[i] + (1 - weight) * means[good]).max()))
    return best


def test_the_best_mean_is_that_of_the_best_deterministic_policy() -> None:
    values, distributions = all_distributions()
    assert np.allclose(distributions.sum(1), 1.0)
    assert WindyCliff().optimal_return == pytest.approx(float((distributions @ values).max()))


def test_the_edge_is_best_on_average_and_inland_in_the_tail() -> None:
    env = WindyCliff()
    edge = env.return_distribution(by_lane(FORWARD, EDGE))
    inland = env.return_distribution(by_lane(INLAND, FORWARD) | {(0, 3): (1.0, 0.0, 0.0)})
    assert edge.mean == pytest.approx(env.optimal_return)
    assert edge.mean > inland.mean + 1.0
    assert edge.cvar(ALPHA) < inland.cvar(ALPHA) - 3.0


@pytest.mark.parametrize("seed", range(3))
def test_the_distribution_of_a_random_policy_is_that_of_the_twin(seed: int) -> None:
    env = WindyCliff()
    values, distributions = all_distributions()
    index = int(np.random.default_rng(seed).integers(len(distributions)))
    digits = np.base_repr(index, 3).zfill(9)
    actions = dict(zip(env.places(), map(int, digits), strict=True))
    distribution = env.return_distribution(certain(actions))
    for value in set(values.tolist()):  # −12 is both: twelve steps, and a fall after four
        assert distribution.probabilities.get(value, 0.0) == pytest.approx(
            float(distributions[index, values == value].sum())
        )


@pytest.mark.parametrize("limit", [-9.0, -7.0])
def test_no_mixture_of_policies_beats_the_best_return_and_one_reaches_it(limit: float) -> None:
    bound, found = WindyCliff().best_return(ALPHA, limit), best_mixture(limit)
    assert found <= bound + 1e-6
    assert found == pytest.approx(bound, abs=0.02)


def test_the_best_return_without_a_binding_limit_is_the_best_mean() -> None:
    env = WindyCliff()
    assert env.best_return(ALPHA, -20.0) == pytest.approx(env.optimal_return, abs=1e-6)


def test_a_limit_that_nobody_keeps_has_no_best_return() -> None:
    assert WindyCliff().best_return(ALPHA, -4.0) == -np.inf


def test_the_world_plays_by_its_law() -> None:
    """A policy that visits everything: uniformly random, 20,000 walks."""
    env, n = WindyCliff(), 20_000
    distribution: ReturnDistribution = env.return_distribution(dict.fromkeys(env.places(), (1 / 3, 1 / 3, 1 / 3)))
    env.reset(seed=0)
    actions = iter(np.random.default_rng(1).integers(3, size=TIME_LIMIT * n))
    returns = []
    for _ in range(n):
        env.reset()
        total, done = 0.0, False
        while not done:
            _, reward, terminated, truncated, _ = env.step(next(actions))
            total, done = total + reward, terminated or truncated
        returns.append(total)
    for value, p in distribution.probabilities.items():
        assert np.mean(np.array(returns) == value) == pytest.approx(p, abs=5 * (p * (1 - p) / n) ** 0.5 + 1e-9)
    assert float(cvar_from_samples(torch.tensor(returns), ALPHA)) == pytest.approx(distribution.cvar(ALPHA), abs=0.2)
