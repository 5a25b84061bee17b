"""Weights of an older format, whose Gaussian actions were in the units of the env, in units of the box (P14)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from surefoot.actions.distribution import Family
from surefoot.optim.flat import FlatParameters

OUTPUT_LAYER = ("output.linear.weight", "output.linear.bias", "output.state_independent")


def in_box_units(tensors: Mapping[str, Tensor], flat: FlatParameters, family: Family) -> dict[str, Tensor]:
    """The tensors of a learner's state with the output layer converted, and with it the moments of its gradient.

    An output y′ = (y − shift)/scale has the gradient dL/dy′ = scale·dL/dy.
    """
    units, found = family.output_units(), dict(tensors)
    scale, shift = units.scale.to(torch.float32), units.shift.to(torch.float32)
    slots = {slot.name: slot for slot in flat.slots if slot.name in OUTPUT_LAYER}
    weight, bias, independent = (f"policy/{name}" for name in OUTPUT_LAYER)
    found[weight] = tensors[weight] / scale.unsqueeze(1)
    found[bias] = (tensors[bias] - shift) / scale
    if independent in tensors:
        found[independent] = tensors[independent] - units.state_independent_shift.to(torch.float32)
    for name, power in (("optimizer/mean", 1), ("optimizer/square", 2)):
        moments = found[name] = tensors[name].clone()
        for layer in OUTPUT_LAYER[:2]:
            slot = slots[layer]
            rows = moments[slot.where].view(len(scale), -1)
            rows.mul_((scale**power).unsqueeze(1))
    return found
