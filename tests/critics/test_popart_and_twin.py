"""Critics in the unit of their returns (A09), and two of them side by side (C02, C08)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from critics.fitting import fit, normal_sample
from surefoot.critics.popart import PopArt
from surefoot.critics.quantile import QuantileCritic
from surefoot.critics.scalar import ScalarCritic
from surefoot.critics.scale import ReturnScale
from surefoot.critics.twin import Twin
from surefoot.nets.init import Initializer


def init(seed: int = 0) -> Initializer:
    return Initializer(torch.Generator().manual_seed(seed))


def quantile(n: int = 32, backup: bool = False) -> QuantileCritic:
    return QuantileCritic(1, init(), n, 0.02, "mean_only", backup)


def valid(x: Tensor) -> Tensor:
    return torch.ones_like(x, dtype=torch.bool)


def test_the_output_layer_is_rescaled_by_hand() -> None:
    """μ = 3, σ = 2 from {1, 5}; with {9, 13} half and half μ′ = 7, σ′² = 4 + 16: w′ = 2w/√20, b′ = (2b + 3 − 7)/√20."""
    inner = ScalarCritic(2, init())
    critic = PopArt(inner)
    with torch.no_grad():
        inner.output.bias.fill_(0.5)
    weight = inner.output.weight.detach().clone()
    returns = torch.tensor([[1.0, 5.0]])
    critic.update_statistics(returns, valid(returns))
    assert torch.equal(inner.output.weight.detach(), weight)  # the first only sets the unit
    critic.update_statistics(returns + 8.0, valid(returns))
    torch.testing.assert_close(inner.output.weight.detach(), weight * 2.0 / 20.0**0.5)
    torch.testing.assert_close(inner.output.bias.detach(), torch.tensor([-3.0 / 20.0**0.5]))


def test_parameters_stay_where_they_are_in_memory() -> None:
    """They are views into one flat vector; to replace them would cut them off from the optimizer."""
    critic = Twin(PopArt(quantile()), PopArt(quantile()), (slice(None), slice(None)))
    before = {name: x.data_ptr() for name, x in critic.state_dict(keep_vars=True).items()}
    critic.update_statistics(normal_sample(8).view(4, 2), torch.ones(4, 2, dtype=torch.bool))
    assert {name: x.data_ptr() for name, x in critic.state_dict(keep_vars=True).items()} == before


@pytest.mark.parametrize("size", [1e-4, 1e4])
def test_returns_of_any_size_are_learned_alike(size: float) -> None:
    critic = PopArt(quantile())
    fitted = fit(critic, size * (3.0 + normal_sample()))
    assert float(critic.mean(fitted)) == pytest.approx(3.0 * size, rel=0.01)
    assert float(critic.risk(fitted, 0.05)) == pytest.approx((3.0 - 2.0627) * size, abs=0.04 * size)
    assert float(critic.quantile(fitted, 0.5)) == pytest.approx(3.0 * size, rel=0.01)


def test_a_backup_is_the_same_distribution_in_any_unit() -> None:
    plain, scaled = quantile(4, backup=True), PopArt(quantile(4, backup=True))
    returns = torch.tensor([[10.0, 30.0]])
    scaled.update_statistics(returns, valid(returns))
    rewards, discounts = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.9, 0.0]])
    after = torch.tensor([[[5.0, 10.0, 20.0, 40.0]] * 2])
    raw = plain.targets(returns, rewards, discounts, after)
    unit = scaled.targets(returns, rewards, discounts, scaled.scale.to_unit(after))
    torch.testing.assert_close(scaled.scale.to_raw(unit), raw)


def test_statistics_weigh_the_first_rollouts_evenly_and_then_forget() -> None:
    scale = ReturnScale()
    for mean in (0.0, 10.0, 20.0):
        scale.update_statistics(torch.tensor([[mean - 1.0, mean + 1.0]]), torch.ones(1, 2, dtype=torch.bool))
    # of {−1, 1, 9, 11, 19, 21}: mean 10, variance 1 + 200/3
    assert float(scale.mean) == pytest.approx(10.0)
    assert float(scale.std) == pytest.approx((1.0 + 200.0 / 3.0) ** 0.5)
    for _ in range(200):
        scale.update_statistics(torch.tensor([[-2.0, 2.0]]), torch.ones(1, 2, dtype=torch.bool))
    assert float(scale.mean) == pytest.approx(0.0, abs=1e-3)
    assert float(scale.std) == pytest.approx(2.0, abs=1e-3)


def test_returns_without_spread_do_not_blow_up_the_unit() -> None:
    scale = ReturnScale()
    for _ in range(500):
        scale.update_statistics(torch.full((2, 2), 7.0), torch.ones(2, 2, dtype=torch.bool))
    assert float(scale.std) == pytest.approx(7e-4)
    zero = ReturnScale()
    zero.update_statistics(torch.zeros(2, 2), torch.ones(2, 2, dtype=torch.bool))
    assert float(zero.std) == 1.0


def test_without_returns_other_than_0_raw_predictions_are_0() -> None:
    """A07: what an untrained network puts out would drown small rewards."""
    inner = quantile()
    critic = PopArt(inner)
    seen, weight = torch.ones(3, 1), inner.output.weight.detach().clone()
    for _ in range(3):
        assert not critic.mean(critic(seen)).any()
        assert not critic.risk(critic(seen), 0.1).any()
        nothing = torch.zeros(3, 2)
        assert not critic.targets(nothing, nothing, nothing, critic(seen)[:, None].expand(3, 2, -1)).any()
        critic.update_statistics(nothing, valid(nothing))
    returns = torch.tensor([[1e-6, 3e-6]])
    critic.update_statistics(returns, valid(returns))
    assert torch.equal(inner.output.weight, weight)  # they only set the unit
    # of three rollouts of zeros and one of {1, 3} millionths: mean ½, variance ¼·1 + 3/16·2²
    assert float(critic.scale.mean) == pytest.approx(0.5e-6)
    assert float(critic.scale.std) == pytest.approx(1e-6)
    assert 0 < float(critic.mean(critic(seen)).detach().abs().max()) < 1e-5


def test_wrappers_may_be_nested_either_way() -> None:
    """A unit around twins and twins in units say the same."""
    views = (slice(None), slice(None))
    inside = Twin(PopArt(ScalarCritic(2, init(1))), PopArt(ScalarCritic(2, init(2))), views)
    outside = PopArt(Twin(ScalarCritic(2, init(1)), ScalarCritic(2, init(2)), views))
    returns, seen = 5.0 + 3.0 * normal_sample(8).view(4, 2), torch.randn(4, 2)
    for critic in (inside, outside):
        critic.update_statistics(returns, valid(returns))
    torch.testing.assert_close(inside(seen), outside(seen))
    torch.testing.assert_close(inside.mean(inside(seen)), outside.mean(outside(seen)))


def test_the_lower_twin_is_believed_and_their_gap_is_measured() -> None:
    views = (slice(None), slice(None))
    twin = Twin(ScalarCritic(2, init(1)), ScalarCritic(2, init(2)), views)
    prediction = torch.tensor([[[1.0, 3.0], [5.0, 4.0]]])
    assert twin.mean(prediction).tolist() == [[1.0, 4.0]]
    assert twin.risk(prediction, 0.1).tolist() == [[1.0, 4.0]]
    returns = torch.zeros(1, 2)
    assert twin.metrics(prediction, returns, valid(returns)) == {"train/critic_gap": 1.5}
    first = torch.tensor([[True, False]])
    assert twin.metrics(prediction, returns, first) == {"train/critic_gap": 2.0}


def test_a_twin_is_clipped_around_its_own_old_prediction() -> None:
    """C02: old 0 and 10, new 1 and 11, target 5, range ½.

    first: max((1 − 5)², (0.5 − 5)²) = 20.25, clipped; second: max((11 − 5)², (10.5 − 5)²) = 36, not.
    """
    twin = Twin(ScalarCritic(2, init(1)), ScalarCritic(2, init(2)), (slice(None), slice(None)))
    new = torch.tensor([[1.0, 11.0]], requires_grad=True)
    result = twin.loss(new, torch.tensor([[0.0, 10.0]]), torch.tensor([[5.0, 5.0]]), 0.5)
    assert result.loss.tolist() == [(20.25 + 36.0) / 2]
    assert result.active.tolist() == [0.5]
    (gradient,) = torch.autograd.grad(result.loss.sum(), new)
    assert gradient.tolist() == [[0.0, 6.0]]
