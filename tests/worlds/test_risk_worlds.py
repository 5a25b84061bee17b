"""The answers that the risk worlds claim to have, against brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.math.risk import cvar_from_atoms, cvar_from_samples
from surefoot.worlds import CostlyArm, CrashPortfolio, SafeOrRisky
from surefoot.worlds.return_distribution import ReturnDistribution, mixture

ALPHAS = [0.05, 0.1, 0.25, 0.4, 0.6, 1.0]
GRID = np.linspace(0.0, 1.0, 401)


def cvar(distribution: ReturnDistribution, alpha: float) -> float:
    """By the library's own rule for atoms."""
    atoms = torch.tensor(list(distribution.probabilities), dtype=torch.float64)
    masses = torch.tensor(list(distribution.probabilities.values()), dtype=torch.float64)
    return float(cvar_from_atoms(masses, atoms, alpha))


def played(env: Any, action: Any, episodes: int) -> np.ndarray[Any, Any]:
    """Returns of whole episodes with one action throughout."""
    env.reset(seed=3)
    found = []
    for _ in range(episodes):
        env.reset()
        total, done = 0.0, False
        while not done:
            _, reward, terminated, truncated, _ = env.step(action)
            total += reward
            done = terminated or truncated
        found.append(total)
    return np.array(found)


def test_a_distribution_by_hand() -> None:
    """Worst 0.3 of {−4: 0.2, 1: 0.5, 8: 0.3}: (0.2·(−4) + 0.1·1)/0.3 = −7/3."""
    distribution = ReturnDistribution({8.0: 0.3, -4.0: 0.2, 1.0: 0.5})
    assert list(distribution.probabilities) == [-4.0, 1.0, 8.0]
    assert distribution.mean == pytest.approx(2.1)
    assert distribution.shortfall(1.0) == pytest.approx(-1.0)
    assert distribution.cvar(0.3) == pytest.approx(-7 / 3)
    assert distribution.cvar(1.0) == pytest.approx(distribution.mean)
    with pytest.raises(ValueError, match="add up to 1"):
        ReturnDistribution({0.0: 0.4})


def test_a_mixture_of_distributions() -> None:
    mixed = mixture([(ReturnDistribution({0.0: 1.0}), 0.75), (ReturnDistribution({0.0: 0.5, 4.0: 0.5}), 0.25)])
    assert mixed.probabilities == {0.0: 0.875, 4.0: 0.125}


@pytest.mark.parametrize("alpha", ALPHAS)
def test_distribution_and_the_library_agree_on_cvar(alpha: float) -> None:
    for share in (0.0, 0.3, 0.8, 1.0):
        distribution = SafeOrRisky().return_distribution(share)
        assert distribution.cvar(alpha) == pytest.approx(cvar(distribution, alpha))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("limit", [-4.0, -3.0, -1.0, 0.0, 0.5, 0.9, 1.0])
def test_the_best_share_of_the_arm_is_that_of_a_grid(alpha: float, limit: float) -> None:
    env = SafeOrRisky()
    feasible = [share for share in GRID if cvar(env.return_distribution(share), alpha) >= limit - 1e-9]
    best = env.best_share(alpha, limit)
    assert best == pytest.approx(max(feasible), abs=1 / 400)
    assert cvar(env.return_distribution(best), alpha) >= limit - 1e-9


def test_the_best_share_moves_with_alpha_and_with_the_limit() -> None:
    env = SafeOrRisky()
    # (1 − limit)·α/(5·0.4)
    assert env.best_share(0.4, -3.0) == pytest.approx(0.8)
    assert env.best_share(0.2, -3.0) == pytest.approx(0.4)
    assert env.best_share(0.4, 0.9) == pytest.approx(0.02)
    assert env.best_share(1.0, -3.0) == 1.0
    with pytest.raises(ValueError, match="no policy"):
        env.best_share(0.4, 1.1)


@pytest.mark.parametrize("alpha", [0.5, 0.7])
def test_tails_that_reach_into_the_wins_are_answered_too(alpha: float) -> None:
    """A loss so rare that the worst half of the gamble holds wins; where both lines meet the limit."""
    env = SafeOrRisky(safe=1.0, win=1.5, loss=-3.0, crash_probability=0.1)
    for limit in np.linspace(cvar(env.return_distribution(1.0), alpha) + 0.01, 0.99, 7):
        feasible = [share for share in GRID if cvar(env.return_distribution(share), alpha) >= limit - 1e-9]
        assert env.best_share(alpha, float(limit)) == pytest.approx(max(feasible), abs=1 / 400)


def test_an_arm_that_is_no_gamble_is_refused() -> None:
    with pytest.raises(ValueError, match="gamble must pay more"):
        SafeOrRisky(safe=5.0)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_best_weight_is_that_of_a_grid(alpha: float) -> None:
    env = CrashPortfolio()
    low, high = env.return_distribution(1.0).cvar(alpha), env.return_distribution(0.0).cvar(alpha)
    for limit in np.linspace(min(low, high) - 0.5, high, 4):
        feasible = [weight for weight in GRID if cvar(env.return_distribution(weight), alpha) >= limit - 1e-9]
        assert env.best_weight(alpha, float(limit)) == pytest.approx(max(feasible), abs=1 / 400)


def test_no_plan_for_the_weights_beats_the_constant_one() -> None:
    """All crash patterns of three steps, random plans (w₁, w₂, w₃), and dice between two plans."""
    env, alpha, limit = CrashPortfolio(), 0.1, -2.0
    patterns = list(itertools.product((True, False), repeat=3))

    def return_distribution(plan: tuple[float, ...]) -> ReturnDistribution:
        found: dict[float, float] = {}
        for pattern in patterns:
            value = sum((1 - w) * 0.1 + w * (-3.0 if crash else 2.0) for w, crash in zip(plan, pattern, strict=True))
            found[value] = found.get(value, 0.0) + float(np.prod([0.2 if crash else 0.8 for crash in pattern]))
        return ReturnDistribution(found)

    best = env.return_distribution(env.best_weight(alpha, limit))
    assert cvar(best, alpha) == pytest.approx(limit)
    constant = return_distribution((0.3, 0.3, 0.3))
    assert constant.mean == pytest.approx(env.return_distribution(0.3).mean)
    assert cvar(constant, alpha) == pytest.approx(cvar(env.return_distribution(0.3), alpha))
    rng = np.random.default_rng(0)
    plans = [tuple(rng.random(3)) for _ in range(300)]
    distributions = [return_distribution(plan) for plan in plans] + [
        mixture([(return_distribution(a), 0.5), (return_distribution(b), 0.5)]) for a, b in itertools.pairwise(plans)
    ]
    feasible = [each for each in distributions if cvar(each, alpha) >= limit]
    assert len(feasible) > 50
    assert max(each.mean for each in feasible) <= best.mean + 1e-9


def test_a_portfolio_whose_risk_does_not_pay_is_refused() -> None:
    with pytest.raises(ValueError, match="must earn more"):
        CrashPortfolio(gain=0.5)
    with pytest.raises(ValueError, match="no weight"):
        CrashPortfolio().best_weight(0.1, 5.0)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_the_portfolio_pays_as_its_distribution_says(weight: float) -> None:
    env = CrashPortfolio()
    returns, distribution = played(env, np.array([weight], np.float32), 20_000), env.return_distribution(weight)
    assert returns.mean() == pytest.approx(distribution.mean, abs=5 * returns.std() / 20_000**0.5 + 1e-6)
    assert float(cvar_from_samples(torch.from_numpy(returns), 0.1)) == pytest.approx(distribution.cvar(0.1), abs=0.15)


def test_the_arm_pays_as_its_distribution_says() -> None:
    env = SafeOrRisky()
    assert set(played(env, 0, 50)) == {1.0}
    returns = played(env, 1, 20_000)
    assert set(returns) == {-4.0, 10.0}
    assert (returns == -4.0).mean() == pytest.approx(0.4, abs=0.02)


def test_harm_is_told_and_costs_as_much_as_said() -> None:
    env = CostlyArm(n_pulls=4, harm_probability=0.5, harm_cost=3.0, cost_key="damage")
    env.reset(seed=0)
    assert env.step(np.int64(0))[4] == {"damage": 0.0}
    costs = []
    for _ in range(20_000):
        env.reset()
        costs.append(sum(env.step(np.int64(1))[4]["damage"] for _ in range(4)))
    assert np.mean(costs) == pytest.approx(env.mean_cost(1.0), abs=0.1)
    assert env.mean_cost(1.0) == 6.0
    assert env.best_share(1.5) == pytest.approx(0.25)
    assert env.best_share(99.0) == 1.0
