"""Features -> parameters of the action distribution."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.actions.distribution import Family
from surefoot.nets.init import POLICY_GAIN, Initializer


class ActionOutput(nn.Module):
    """A linear layer, followed by the family's state-independent parameters (a Gaussian's log_std) if it has any."""

    def __init__(self, n_features: int, family: Family, init: Initializer) -> None:
        super().__init__()
        self.linear = init(nn.Linear(n_features, family.n_outputs), POLICY_GAIN)
        own = family.state_independent
        self.state_independent = None if own is None else nn.Parameter(own.clone())

    def forward(self, features: Tensor) -> Tensor:
        outputs: Tensor = self.linear(features)
        if self.state_independent is None:
            return outputs
        return torch.cat([outputs, self.state_independent.expand(outputs.shape[0], -1)], 1)
