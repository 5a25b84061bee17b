"""The distribution of the return as probabilities of atoms (C03, C06, C07)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from critics.fitting import fit, normal_sample
from surefoot.critics.calibration import coverage
from surefoot.critics.categorical import CategoricalCritic
from surefoot.critics.support import ReturnRange
from surefoot.math.value_clip import ClipMode
from surefoot.nets.init import Initializer


def build(
    n: int = 51,
    support: tuple[float, float] | None = None,
    mode: ClipMode = "mean_only",
    backup: bool = False,
    n_features: int = 1,
) -> CategoricalCritic:
    return CategoricalCritic(n_features, Initializer(torch.Generator().manual_seed(0)), n, support, mode, backup)


def row(*numbers: float) -> Tensor:
    return torch.tensor(numbers)[None]


def logits(*probs: float) -> Tensor:
    return torch.tensor(probs)[None].log()


def valid(x: Tensor) -> Tensor:
    return torch.ones_like(x, dtype=torch.bool)


def test_the_mean_of_what_is_learned_is_exact_within_the_support() -> None:
    """C03: whatever the spacing, the two atoms around a return have it as their mean."""
    critic = build(n=5, support=(-2.0, 2.0))
    returns = row(-2.0, -1.3, 0.0, 0.25, 1.999, 2.0)
    distribution = critic.targets(returns, returns, returns, torch.zeros(1, 6, 5))
    torch.testing.assert_close(distribution.sum(-1), torch.ones(1, 6))
    torch.testing.assert_close(distribution @ critic.atoms, returns)
    assert ((distribution > 0).sum(-1) <= 2).all()


def test_the_loss_is_the_cross_entropy_in_units_of_ln_n() -> None:
    """C07: a uniform prediction costs 1 whatever the target and N."""
    for n in (2, 51):
        critic = build(n=n, support=(0.0, 1.0))
        wanted = critic.targets(row(0.3), row(0.3), row(0.0), torch.zeros(1, 1, n))[0]
        assert float(critic.loss(torch.zeros(1, n), torch.zeros(1, n), wanted, None).loss) == pytest.approx(1.0)
    critic = build(n=2, support=(0.0, 1.0))
    wanted = torch.tensor([[0.25, 0.75]])
    expected = -(0.25 * math.log(0.5) + 0.75 * math.log(0.5)) / math.log(2)
    assert float(critic.loss(logits(0.5, 0.5), logits(0.5, 0.5), wanted, None).loss) == pytest.approx(expected)


def test_a_fitted_distribution_has_mean_tail_and_coverage_of_the_truth() -> None:
    critic = build()
    fitted = fit(critic, 3.0 + 2.0 * normal_sample(400), rate=0.1)
    assert float(critic.mean(fitted)) == pytest.approx(3.0, abs=0.01)
    for alpha, cvar in ((0.05, -2.0627), (0.1, -1.7550), (0.25, -1.2711)):
        assert float(critic.risk(fitted, alpha)) == pytest.approx(3.0 + 2.0 * cvar, abs=0.02 * 2 * 2.06)
    returns = (3.0 + 2.0 * normal_sample(400)).view(100, 4)
    found = coverage(critic, fitted.expand(100, 4, 51), returns, valid(returns))
    for level in (5, 25, 75, 95):
        assert found[f"risk/coverage_{level:02d}"] == pytest.approx(level / 100, abs=0.015)


def test_a_backup_is_the_successors_distribution_on_moved_atoms() -> None:
    critic = build(n=3, support=(0.0, 2.0), backup=True)
    successors = torch.log(torch.tensor([0.5, 0.0, 0.5]) + 1e-30).expand(1, 2, 3)
    distribution = critic.targets(row(0.0, 0.0), row(0.5, 1.0), row(0.5, 0.0), successors)
    # 0.5 + 0.5·{0, 2} = {0.5, 1.5}, halves on both neighbours of each; the second step ends with reward 1
    torch.testing.assert_close(distribution, torch.tensor([[[0.25, 0.5, 0.25], [0.0, 1.0, 0.0]]]))


def test_many_rows_are_backed_up_as_one() -> None:
    critic = build(n=7, support=(-1.0, 1.0), backup=True)
    shape = (400, 6)
    successors = torch.randn(*shape, 7, generator=torch.Generator().manual_seed(0))
    rewards = torch.linspace(-1.0, 1.0, 2400).view(shape)
    distribution = critic.targets(rewards, rewards, torch.full(shape, 0.9), successors)
    assert distribution.shape == (*shape, 7)
    single = critic.targets(rewards[399:], rewards[399:], torch.full((1, 6), 0.9), successors[399:])
    torch.testing.assert_close(distribution[399:], single)


@pytest.mark.parametrize("mode", ["mean_only", "mean_and_variance", "per_quantile"])
def test_the_clipped_loss_is_that_of_a_distribution_within_bounds(mode: ClipMode) -> None:
    """C06. Atoms 0 … 8, old distribution at 4, new distribution half at 6 and half at 8, range 1."""
    critic = build(n=9, support=(0.0, 8.0), mode=mode)
    old, new = torch.full((1, 9), -40.0), torch.full((1, 9), -40.0)
    old[0, 4] = new[0, 6] = new[0, 8] = 0.0
    bound = torch.zeros(1, 9)
    if mode == "mean_only":  # mean 7 -> 5
        bound[0, 4] = bound[0, 6] = 0.5
    else:  # the old distribution has no spread, so none is left; each part moves to at most 4 + 1
        bound[0, 5] = 1.0
    found = critic.loss(new, old, bound, 1.0)
    entropy = math.log(2) if mode == "mean_only" else 0.0
    assert float(found.clipped) == pytest.approx(entropy / math.log(9), abs=1e-5)
    assert float(found.unclipped) > 5.0


def test_returns_beyond_a_fixed_support_are_counted_and_the_support_stays() -> None:
    critic = build(support=(-1.0, 1.0))
    returns = row(-3.0, 0.0, 1.0, 1.1)
    before = critic.atoms.clone()
    critic.update_statistics(returns, valid(returns))
    assert torch.equal(critic.atoms, before)
    found = critic.metrics(torch.zeros(1, 4, 51), returns, valid(returns))
    assert found["train/out_of_support_fraction"] == 0.5
    some = torch.tensor([[False, True, True, True]])
    assert critic.metrics(torch.zeros(1, 4, 51), returns, some)["train/out_of_support_fraction"] == pytest.approx(1 / 3)


def test_a_following_support_covers_the_returns_with_room_to_spare() -> None:
    critic = build()
    for low, high in ((0.0, 4.0), (-3.0, 100.0), (-1e6, 1e6), (5.0, 5.001)):
        returns = torch.linspace(low, high, 32).view(8, 4)
        for _ in range(1 if high > 10.0 or high == 4.0 else 400):
            critic.update_statistics(returns, valid(returns))
        width = max(high - low, 1e-3 * high)
        assert float(critic.atoms[0]) <= low
        assert float(critic.atoms[-1]) >= high
        assert float(critic.atoms[-1] - critic.atoms[0]) <= 3.1 * width
        spacing = critic.atoms.diff()
        assert (spacing > 0).all()


def test_returns_that_do_not_vary_leave_the_support_alone() -> None:
    critic = build()
    before = critic.atoms.clone()
    critic.update_statistics(torch.zeros(4, 2), torch.ones(4, 2, dtype=torch.bool))
    assert torch.equal(critic.atoms, before)


def test_small_changes_of_the_returns_move_nothing() -> None:
    critic = build()
    first = torch.linspace(-1.0, 1.0, 8).view(4, 2)
    critic.update_statistics(first, valid(first))
    before = critic.atoms.clone(), critic.output.weight.clone()
    for factor in (1.2, 0.7, 1.4):
        critic.update_statistics(factor * first, valid(first))
    assert torch.equal(critic.atoms, before[0])
    assert torch.equal(critic.output.weight, before[1])


def test_the_range_reaches_out_at_once_and_comes_back_slowly() -> None:
    span = ReturnRange()
    for numbers in ((0.0, 1.0), (-5.0, 1.0), (0.0, 2.0)):
        span.update_statistics(row(*numbers), torch.ones(1, 2, dtype=torch.bool))
    assert float(span.low) == pytest.approx(-5.0 + 0.05 * 5.0)
    assert float(span.high) == 2.0


@pytest.mark.parametrize(("low", "high"), [(0.0, 8.0), (2.0, 4.0)], ids=["wider", "narrower"])
def test_a_smooth_distribution_survives_a_move_of_the_support(low: float, high: float) -> None:
    """N(3, 0.4) on atoms from −1 to 7. Its mean stays; places in it move by a fraction of an atom's width."""
    critic = build(support=(-1.0, 7.0))
    fitted = fit(critic, 3.0 + 0.4 * normal_sample(400), rate=0.1)
    critic.range = ReturnRange()
    returns = row(2.9, 5.0)
    critic.update_statistics(returns, valid(returns))
    before = torch.cat([critic.mean(fitted), critic.quantile(fitted, 0.1), critic.quantile(fitted, 0.9)])
    returns = row(low, high)
    for _ in range(100):
        critic.update_statistics(returns, valid(returns))
    assert float(critic.atoms[0]) != -1.0
    moved = critic(torch.ones(1, 1)).detach()
    after = torch.cat([critic.mean(moved), critic.quantile(moved, 0.1), critic.quantile(moved, 0.9)])
    assert float((after - before)[0].abs()) < 0.02 * 0.4
    assert float((after - before).abs().max()) < 0.4 * float(critic.atoms[1] - critic.atoms[0])


@pytest.mark.parametrize("seed", [0, 1])
def test_a_following_support_learns_while_returns_grow(seed: int) -> None:
    """Each rollout's returns are 8 % larger, as those of an agent that gets better: the critic stays better than one
    that knows nothing (loss 1), and tells good states from bad ones."""
    torch.manual_seed(seed)
    critic = build(n_features=64)
    trunk = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh())
    optimizer = torch.optim.Adam([*trunk.parameters(), *critic.parameters()], lr=1e-3)
    losses, explained = [], []
    for rollout in range(25):
        states = torch.randn(256, 4)
        returns = (8.0 * 1.08**rollout * (1.0 + 0.3 * torch.tanh(states[:, 0])))[:, None]
        if rollout == 0:
            critic.update_statistics(returns, valid(returns))
        errors = returns[:, 0] - critic.mean(critic(trunk(states))).detach()
        explained.append(1.0 - float(errors.var() / returns.var()))
        targets = critic.targets(returns, returns, returns, returns)[:, 0]
        for _ in range(20):
            prediction = critic(trunk(states))
            loss = critic.loss(prediction, prediction.detach(), targets, None)[0].mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        losses.append(float(loss.detach()))
        critic.update_statistics(returns, valid(returns))
    assert max(losses) < 1.0
    assert max(explained[:10]) > 0.8
    assert min(explained[5:]) > 0.05
