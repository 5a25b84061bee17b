"""Two encoders of the same observation, for twin critics with trunks of their own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from surefoot.policy.encoder import Encoder
from surefoot.policy.own_encoder import OwnEncoder


class SideBySide(nn.Module):
    """Features of the first encoder, then of the second, [B, F1 + F2]."""

    def __init__(self, first: Encoder | OwnEncoder, second: Encoder | OwnEncoder) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.n_outputs = first.n_outputs + second.n_outputs

    def forward(self, observation: Mapping[str, Tensor]) -> Tensor:
        return torch.cat([self.first(observation), self.second(observation)], 1)
