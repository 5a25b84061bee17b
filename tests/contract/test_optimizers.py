"""The contract of `surefoot.optim`: every optimizer runs every test here.

A new name that the configuration knows is tested without a change here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from surefoot.config import PPOConfig, from_flat
from surefoot.optim.build import OPTIMIZERS, build_optimizer
from surefoot.optim.flat import FlatParameters
from surefoot.optim.optimizer import Optimizer, Rate

NAMES: tuple[str, ...] = get_args(PPOConfig.model_fields["optimizer"].annotation)
every_optimizer = pytest.mark.parametrize("name", [*NAMES, *(f"{name} with vgs" for name in NAMES)])
YES, NO = torch.tensor(True), torch.tensor(False)
N_STEPS = 7


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(name: str, **settings: Any) -> tuple[FlatParameters, Optimizer]:
    """Two parts of 12 and 4 parameters; weight decay acts on both."""
    actor, critic = nn.Linear(3, 3), nn.Linear(3, 1)
    flat = FlatParameters({"actor": actor, "critic": critic})
    flat.values.copy_(torch.randn(16, generator=seeded(0)))
    settings = {"optimizer": name.partition(" ")[0], "weight_decay": 0.1, "decay_scope": "all"} | settings
    if "vgs" in name:
        settings["vgs"] = {"alpha": 0.3, "beta": 0.9}
    return flat, build_optimizer(flat, from_flat(**settings), ["critic"])


def gradients(seed: int = 1) -> list[Tensor]:
    return list(torch.randn(N_STEPS, 16, generator=seeded(seed)))


def run(flat: FlatParameters, optimizer: Optimizer, rates: list[Rate], eagerly: bool, seed: int = 1) -> Tensor:
    optimizer.begin()
    for gradient, rate in zip(gradients(seed), rates, strict=True):
        optimizer.prepare()
        if eagerly:
            optimizer.observe(gradient)
            optimizer.step_(flat.values, gradient.clone(), rate)
        else:
            optimizer.observe(gradient, YES)
            optimizer.step(flat.values, gradient, rate, YES)
    return flat.values.clone()


def everything(flat: FlatParameters, optimizer: Optimizer) -> list[Tensor]:
    tensors = [flat.values, *optimizer.tensors(), *optimizer.state_dict().values()]
    return [x.clone() for x in tensors]


PER_TENSOR = torch.linspace(0.0, 0.1, 16)
RATES: dict[str, Callable[[], list[Rate]]] = {
    "number": lambda: [0.01] * N_STEPS,
    "schedule": lambda: [0.05 / (i + 1) for i in range(N_STEPS)],
    "by parameter": lambda: [PER_TENSOR] * N_STEPS,
}


def test_every_optimizer_of_the_configuration_is_registered() -> None:
    assert set(OPTIMIZERS) == set(NAMES)


@every_optimizer
@pytest.mark.parametrize("rates", RATES)
def test_both_forms_of_a_step_agree(name: str, rates: str) -> None:
    given = RATES[rates]()
    eager, conditional = (run(*build(name), given, eagerly) for eagerly in (True, False))
    assert not torch.equal(eager, build(name)[0].values)
    torch.testing.assert_close(eager, conditional, rtol=1e-6, atol=1e-6)


@every_optimizer
def test_a_vector_of_equal_rates_is_that_rate(name: str) -> None:
    rates: list[Rate] = [0.01, torch.full((16,), 0.01)]
    one, vector = (run(*build(name), [rate] * N_STEPS, True) for rate in rates)
    torch.testing.assert_close(one, vector, rtol=1e-6, atol=1e-7)


@every_optimizer
def test_a_rate_of_0_holds_a_parameter(name: str) -> None:
    rate = torch.cat([torch.zeros(12), torch.full((4,), 0.1)])
    for eagerly in (True, False):
        flat, optimizer = build(name)
        before = flat.values.clone()
        after = run(flat, optimizer, [rate] * N_STEPS, eagerly)
        assert torch.equal(after[:12], before[:12])
        assert (after[12:] != before[12:]).all()


@every_optimizer
@pytest.mark.parametrize("bad", [1.0, torch.nan, torch.inf])
def test_a_step_that_is_not_allowed_changes_nothing(name: str, bad: float) -> None:
    flat, optimizer = build(name)
    run(flat, optimizer, [0.01] * N_STEPS, False)
    optimizer.prepare()
    before = everything(flat, optimizer)
    gradient = torch.full((16,), bad)
    optimizer.observe(gradient, NO)
    optimizer.step(flat.values, gradient, 0.01, NO)
    assert all(torch.equal(x, y) for x, y in zip(before, everything(flat, optimizer), strict=True))


@every_optimizer
@pytest.mark.parametrize("eagerly", [True, False])
def test_a_saved_state_goes_on_bit_for_bit(name: str, eagerly: bool) -> None:
    flat, optimizer = build(name)
    run(flat, optimizer, [0.01] * N_STEPS, eagerly)
    saved = {key: x.clone() for key, x in optimizer.state_dict().items()}
    twin_flat, twin = build(name)
    twin_flat.values.copy_(flat.values)
    held = list(twin.tensors())
    twin.load_state_dict(saved)
    assert all(x is y for x, y in zip(held, twin.tensors(), strict=True))
    ends = [run(*each, [0.02] * N_STEPS, eagerly, seed=2) for each in ((flat, optimizer), (twin_flat, twin))]
    assert torch.equal(*ends)


@every_optimizer
def test_a_saved_state_of_another_shape_is_refused(name: str) -> None:
    _, optimizer = build(name)
    saved = optimizer.state_dict()
    for key, x in saved.items():
        if x.dtype.is_floating_point:
            with pytest.raises(ValueError, match=key):
                optimizer.load_state_dict(saved | {key: torch.zeros(5, 5)})
        with pytest.raises(KeyError, match=key):
            optimizer.load_state_dict({other: y for other, y in saved.items() if other != key})


@every_optimizer
def test_a_recorded_step_reads_all_that_changes(name: str) -> None:
    """What is not among `tensors` would be a constant of the graph, and the second step as the first."""
    (flat, optimizer), (plain_flat, plain) = build(name), build(name)
    assert optimizer.compilable
    optimizer.begin()
    plain.begin()
    rate, start = torch.tensor(0.01), everything(flat, optimizer)

    def whole(values: Tensor, gradient: Tensor, *state: Tensor) -> Tensor:
        optimizer.observe(gradient, YES)
        optimizer.step(flat.values, gradient, rate, YES)
        return flat.values.clone()

    optimizer.prepare()
    graph = make_fx(whole)(flat.values, gradients()[0], *optimizer.tensors())
    inputs = [flat.values, *optimizer.tensors()]
    for x, saved in zip(inputs, start, strict=False):
        x.copy_(saved)
    plain.prepare()
    for i, gradient in enumerate(gradients()):
        if i:
            optimizer.prepare()
            plain.prepare()
        else:  # what was drawn before recording is drawn again
            for x, y in zip(optimizer.tensors(), plain.tensors(), strict=True):
                x.copy_(y)
        graph(flat.values, gradient, *optimizer.tensors())
        plain.observe(gradient, YES)
        plain.step(plain_flat.values, gradient, rate, YES)
        torch.testing.assert_close(flat.values, plain_flat.values, rtol=1e-6, atol=1e-6)
