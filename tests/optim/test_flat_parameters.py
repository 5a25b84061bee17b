"""All parameters as one vector, of which the parameters and their gradients are views (O05)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from surefoot.optim.flat import FlatParameters


def parts() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {
        "body": nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)),
        "nothing": nn.Tanh(),
        "head": nn.Linear(2, 1),
    }


def differentiate(modules: dict[str, nn.Module]) -> None:
    """Backpropagate a loss that every parameter has a share in."""
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    loss: Tensor = modules["head"](modules["body"](x)).square().sum()
    loss.backward()  # type: ignore[no-untyped-call]


def test_parameters_lie_one_after_the_other_in_the_order_of_the_parts() -> None:
    modules = parts()
    expected = torch.cat([p.detach().reshape(-1).clone() for m in modules.values() for p in m.parameters()])
    flat = FlatParameters(modules)
    assert torch.equal(flat.values, expected)
    assert {name: (w.start, w.stop) for name, w in flat.slices.items()} == {
        "body": (0, 26),
        "nothing": (26, 26),
        "head": (26, 29),
    }
    assert [slot.name for slot in flat.slots] == [
        "body.0.weight",
        "body.0.bias",
        "body.2.weight",
        "body.2.bias",
        "head.weight",
        "head.bias",
    ]


def test_changing_the_vector_changes_the_parameters_and_the_other_way_round() -> None:
    modules = parts()
    flat = FlatParameters(modules)
    head = modules["head"]
    assert isinstance(head, nn.Linear)
    flat.values[26:28] = torch.tensor([5.0, 6.0])
    assert head.weight.tolist() == [[5.0, 6.0]]
    with torch.no_grad():
        head.bias.fill_(7.0)
    assert flat.values[28].item() == 7.0
    flat.named()["head.bias"].fill_(8.0)
    assert head.bias.item() == flat.values[28].item() == 8.0


def test_backpropagation_adds_into_the_gradient_vector() -> None:
    modules = parts()
    flat = FlatParameters(modules)
    head = modules["head"]
    assert isinstance(head, nn.Linear)
    differentiate(modules)
    once = flat.gradient.clone()
    assert (once != 0).all()
    differentiate(modules)
    assert torch.allclose(flat.gradient, 2 * once)
    assert head.weight.grad is not None
    flat.gradient.zero_()
    assert not head.weight.grad.any()
    head.weight.grad.fill_(2.0)
    assert flat.gradient[26:28].tolist() == [2.0, 2.0]


def test_the_vector_holds_what_autograd_would_give_separate_parameters() -> None:
    modules, twins = parts(), parts()
    flat = FlatParameters(modules)
    differentiate(modules)
    differentiate(twins)
    expected = [p.grad.reshape(-1) for m in twins.values() for p in m.parameters() if p.grad is not None]
    assert torch.equal(flat.gradient, torch.cat(expected))


def test_norms_of_the_parts_are_those_of_their_gradients() -> None:
    modules = parts()
    flat = FlatParameters(modules)
    differentiate(modules)
    expected = [
        sum(float(p.grad.square().sum()) for p in module.parameters() if p.grad is not None)
        for module in modules.values()
    ]
    assert [float(x) for x in flat.squared_norms(flat.gradient)] == pytest.approx(expected)
    assert sum(expected) == pytest.approx(float(flat.gradient.square().sum()))


def test_the_mask_marks_the_parameters_of_the_parts() -> None:
    flat = FlatParameters(parts())
    assert flat.mask(frozenset({"head"})).tolist() == [0.0] * 26 + [1.0] * 3
    assert flat.mask(frozenset()).sum() == 0
    assert flat.mask(frozenset(flat.slices)).sum() == 29


def test_a_parameter_in_two_parts_is_refused() -> None:
    shared = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"critic\.0\.weight belongs to two parts"):
        FlatParameters({"actor": shared, "critic": nn.Sequential(shared)})


def test_a_parameter_used_twice_within_a_part_is_held_once() -> None:
    shared = nn.Linear(2, 2)
    flat = FlatParameters({"body": nn.Sequential(shared, nn.Tanh(), shared)})
    assert flat.values.shape == (6,)


def test_names_in_the_whole_module_are_found() -> None:
    whole = nn.ModuleDict(parts())
    flat = FlatParameters(dict(whole.items()))
    named = dict(whole.named_parameters())
    for slot, name in zip(flat.slots, flat.names_in(whole), strict=True):
        assert named[name].data_ptr() == flat.values[slot.where].data_ptr()
        assert named[name].shape == slot.shape
