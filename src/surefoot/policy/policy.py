"""Actor and critic over one observation."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from surefoot.config import Config
from surefoot.critics.base import Critic
from surefoot.critics.build import build_critic
from surefoot.dists.interface import Family
from surefoot.nets.init import Initialiser
from surefoot.policy.encoder import Encoder
from surefoot.policy.head import ActionHead
from surefoot.spaces import Layout

Observation = Mapping[str, Tensor]


class Policy(nn.Module):
    """Encoder -> action head, and encoder (own or shared) -> critic."""

    def __init__(self, encoder: Encoder, head: ActionHead, value_encoder: Encoder, critic: Critic) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.value_encoder = value_encoder
        self.critic = critic

    @property
    def shared(self) -> bool:
        """Whether actor and critic have one trunk."""
        return self.value_encoder is self.encoder

    def action_parameters(self, observation: Observation) -> Tensor:
        """Parameters [B, P] of the action distribution."""
        out: Tensor = self.head(self.encoder(observation))
        return out

    def prediction(self, observation: Observation) -> Tensor:
        """Critic's prediction [B, K]."""
        out: Tensor = self.critic(self.value_encoder(observation))
        return out

    def forward(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """Action parameters and critic prediction; a shared trunk runs once."""
        features = self.encoder(observation)
        value_features = features if self.shared else self.value_encoder(observation)
        return self.head(features), self.critic(value_features)

    def parts(self) -> dict[str, nn.Module]:
        """The modules whose gradients are reported apart; each parameter is in exactly one (O05)."""
        parts: dict[str, nn.Module] = {"encoder": self.encoder, "head": self.head}
        if not self.shared:
            parts["value_encoder"] = self.value_encoder
        return parts | self.critic.heads()

    def critic_parts(self) -> frozenset[str]:
        """Names of the parts that only the value loss trains; weight decay acts on these (O04)."""
        own = {} if self.shared else {"value_encoder": self.value_encoder}
        return frozenset(own | self.critic.heads())


def build_policy(layout: Layout, family: Family, config: Config, generator: torch.Generator) -> Policy:
    """A freshly initialised policy; equal generators give equal weights."""
    init = Initialiser(generator, config.policy.ortho_init)
    encoder = Encoder(layout, config.policy, init)
    head = ActionHead(encoder.n_outputs, family, init)
    value_encoder = encoder if config.policy.shared else Encoder(layout, config.policy, init)
    return Policy(encoder, head, value_encoder, build_critic(config.critic, value_encoder.n_outputs, init))
