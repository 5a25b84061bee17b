"""All parameters of a module as one vector.

Parameters and their gradients become views into two flat tensors, so that zeroing, norms, clipping and the optimiser
are one-tensor operations however many layers there are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class FlatParameters:
    """Parameters of named parts, one after the other in ``values`` [P], gradients in ``gradient`` [P]."""

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        self.slices: dict[str, slice] = {}
        """Where each part lies."""
        self.names: list[tuple[str, slice]] = []
        """Each parameter as ``part.name`` and where it lies."""
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
                self.names.append((f"{part}.{name}", slice(end, end + parameter.numel())))
                end += parameter.numel()
            self.slices[part] = slice(start, end)
        self.values = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.gradient = torch.zeros_like(self.values)
        for parameter, (_, where) in zip(parameters, self.names, strict=True):
            parameter.data = self.values[where].view(parameter.shape)
            parameter.grad = self.gradient[where].view(parameter.shape)

    def squared_norms(self) -> Tensor:
        """Squared gradient norm of each part [number of parts], in the order of ``slices``."""
        pieces = [self.gradient[where] for where in self.slices.values()]
        return torch.stack([torch.dot(piece, piece) for piece in pieces])

    def mask(self, parts: frozenset[str]) -> Tensor:
        """1 where a parameter belongs to one of the parts, else 0; [P]."""
        chosen = torch.zeros_like(self.values)
        for part in parts:
            chosen[self.slices[part]] = 1.0
        return chosen
