"""All parameters of a module as one vector.

Parameters and their gradients become views into two flat tensors, so that zeroing, norms, clipping and the optimizer
are one-tensor operations however many layers there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Slot(NamedTuple):
    """One parameter: ``part.name``, where it lies in the vector, and its shape."""

    name: str
    where: slice
    shape: torch.Size


class FlatParameters:
    """Parameters of named parts, one after the other in ``values`` [P], gradients in ``gradient`` [P]."""

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        self.slices: dict[str, slice] = {}
        """Where each part lies."""
        self.slots: list[Slot] = []
        parameters: list[nn.Parameter] = []
        seen: set[int] = set()
        end = 0
        for part, module in parts.items():
            start = end
            for name, parameter in module.named_parameters():
                if id(parameter) in seen:
                    raise ValueError(f"{part}.{name} belongs to two parts; each parameter must be in exactly one (O05)")
                seen.add(id(parameter))
                parameters.append(parameter)
                self.slots.append(Slot(f"{part}.{name}", slice(end, end + parameter.numel()), parameter.shape))
                end += parameter.numel()
            self.slices[part] = slice(start, end)
        self.values = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.gradient = torch.zeros_like(self.values)
        for parameter, slot in zip(parameters, self.slots, strict=True):
            parameter.data = self.values[slot.where].view(slot.shape)
            parameter.grad = self.gradient[slot.where].view(slot.shape)

    def named(self) -> dict[str, Tensor]:
        """Each parameter by name, as a view."""
        return {slot.name: self.values[slot.where].view(slot.shape) for slot in self.slots}

    def squared_norms(self, vector: Tensor) -> list[Tensor]:
        """Squared norm of each part of a vector [P], in the order of ``slices``."""
        pieces = [vector[where] for where in self.slices.values()]
        return [torch.dot(piece, piece) for piece in pieces]

    def names_in(self, module: nn.Module) -> list[str]:
        """What ``module``, which holds the parts, calls the parameter of each slot."""
        called = {parameter.data_ptr(): name for name, parameter in module.named_parameters()}
        return [called[self.values[slot.where].data_ptr()] for slot in self.slots]

    def mask(self, parts: frozenset[str]) -> Tensor:
        """1 where a parameter belongs to one of the parts, else 0; [P]."""
        chosen = torch.zeros_like(self.values)
        for part in parts:
            chosen[self.slices[part]] = 1.0
        return chosen
