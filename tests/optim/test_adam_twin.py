"""Our Adam and AdamW on one vector equal PyTorch's on the parameters (O04)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from surefoot.errors import SurefootError
from surefoot.optim.adam import Adam, AdamSettings

P = 40
YES, NO = torch.tensor(True), torch.tensor(False)


def numbers(seed: int, n: int = P) -> Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def gradients(n: int, scale: float = 1.0) -> list[Tensor]:
    """Of very different sizes, and some exactly 0."""
    sizes = torch.logspace(-6, 3, P)
    return [scale * sizes * numbers(100 + k) * (numbers(200 + k) > -1.0) for k in range(n)]


def ours(settings: AdamSettings, decays: Tensor, rates: list[float]) -> Tensor:
    values = numbers(0)
    adam = Adam(values, settings, decays)
    for gradient, rate in zip(gradients(len(rates)), rates, strict=True):
        adam.step(values, gradient, rate, YES)
    return values


def theirs(optimizer: type[torch.optim.Adam], decays: Tensor, rates: list[float], **options: Any) -> Tensor:
    """One group of parameters that decay, one of those that do not."""
    start, chosen = numbers(0), decays.bool()
    decaying, other = (torch.nn.Parameter(start[mask].clone()) for mask in (chosen, ~chosen))
    decay = options.pop("weight_decay")
    groups = [{"params": [decaying], "weight_decay": decay}, {"params": [other], "weight_decay": 0.0}]
    twin = optimizer(groups, foreach=False, **options)
    for gradient, rate in zip(gradients(len(rates)), rates, strict=True):
        for group in twin.param_groups:
            group["lr"] = rate
        decaying.grad, other.grad = gradient[chosen], gradient[~chosen]
        twin.step()
    out = torch.empty(P)
    out[chosen], out[~chosen] = decaying.detach(), other.detach()
    return out


CONSTANT = [1e-2] * 20
FALLING = [1e-2 * (1 - k / 20) for k in range(20)]


@pytest.mark.parametrize("rates", [CONSTANT, FALLING], ids=["constant", "falling"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("decoupled", [False, True], ids=["adam", "adamw"])
@pytest.mark.parametrize(("betas", "eps"), [((0.9, 0.999), 1e-5), ((0.5, 0.9), 1e-8), ((0.0, 0.99), 1e-3)])
def test_twenty_steps_equal_pytorchs(
    decoupled: bool, weight_decay: float, rates: list[float], betas: tuple[float, float], eps: float
) -> None:
    decays = (torch.arange(P) % 3 == 0).float()
    mine = ours(AdamSettings(betas, eps, weight_decay, decoupled), decays, rates)
    twin = torch.optim.AdamW if decoupled else torch.optim.Adam
    assert torch.allclose(mine, theirs(twin, decays, rates, betas=betas, eps=eps, weight_decay=weight_decay), atol=1e-6)


@pytest.mark.parametrize("decoupled", [False, True], ids=["adam", "adamw"])
def test_decay_acts_only_where_it_should(decoupled: bool) -> None:
    decays = torch.zeros(P)
    decays[:10] = 1.0
    with_decay, without = (
        ours(AdamSettings(weight_decay=wd, decoupled=decoupled), decays, CONSTANT) for wd in (0.5, 0.0)
    )
    assert torch.equal(with_decay[10:], without[10:])
    assert not torch.isclose(with_decay[:10], without[:10], atol=1e-6).any()


def test_decoupled_decay_shrinks_by_the_rate_times_the_decay() -> None:
    """w ← w(1 − 0.1·0.5) with no gradient at all."""
    values = torch.ones(3)
    adam = Adam(values, AdamSettings(weight_decay=0.5, decoupled=True), torch.tensor([1.0, 0.0, 1.0]))
    adam.step(values, torch.zeros(3), 0.1, YES)
    assert values.tolist() == pytest.approx([0.95, 1.0, 0.95])


def test_the_first_step_is_one_learning_rate_long() -> None:
    """m/(1 − b1) = g and √(v/(1 − b2)) = |g|, so the step is lr·g/(|g| + eps)."""
    values = torch.zeros(3)
    Adam(values, AdamSettings(eps=1e-8), torch.zeros(3)).step(values, torch.tensor([5.0, -0.01, 0.0]), 0.1, YES)
    assert values.tolist() == pytest.approx([-0.1, 0.1, 0.0], rel=1e-5)


@pytest.mark.parametrize("decoupled", [False, True], ids=["adam", "adamw"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1.0])
@pytest.mark.parametrize("steps_before", [0, 3])
def test_a_step_that_is_not_allowed_leaves_every_bit(decoupled: bool, bad: float, steps_before: int) -> None:
    values = numbers(0)
    adam = Adam(values, AdamSettings(weight_decay=0.1, decoupled=decoupled), torch.ones(P))
    for gradient in gradients(steps_before):
        adam.step(values, gradient, 1e-2, YES)
    before = values.clone(), {name: x.clone() for name, x in adam.state_dict().items()}
    adam.step(values, torch.full((P,), bad), 1e-2, NO)
    assert torch.equal(values, before[0])
    for name, x in adam.state_dict().items():
        assert torch.equal(x, before[1][name])


@pytest.mark.parametrize("decoupled", [False, True], ids=["adam", "adamw"])
def test_saved_moments_go_on_bit_for_bit(decoupled: bool) -> None:
    settings = AdamSettings(weight_decay=0.1, decoupled=decoupled)
    values = numbers(0)
    adam = Adam(values, settings, torch.ones(P))
    steps = gradients(10)
    for gradient in steps[:5]:
        adam.step(values, gradient, 1e-2, YES)
    saved_values, saved = values.clone(), {name: x.clone() for name, x in adam.state_dict().items()}
    twin = Adam(saved_values, settings, torch.ones(P))
    twin.load_state_dict(saved)
    for gradient in steps[5:]:
        adam.step(values, gradient, 1e-2, YES)
        twin.step(saved_values, gradient, 1e-2, YES)
    assert torch.equal(values, saved_values)


@pytest.mark.parametrize("name", ["mean", "square", "steps"])
def test_a_missing_or_misshapen_moment_is_refused(name: str) -> None:
    """Y05: a vector of one entry must not be spread over all parameters."""
    adam = Adam(numbers(0), AdamSettings(), torch.ones(P))
    saved = {key: x.clone() for key, x in adam.state_dict().items()}
    with pytest.raises((SurefootError, KeyError), match=name):
        adam.load_state_dict({key: x for key, x in saved.items() if key != name})
    with pytest.raises((SurefootError, RuntimeError, ValueError), match=r"shape|size"):
        adam.load_state_dict(saved | {name: torch.zeros(1) if name != "steps" else torch.zeros(2)})
