"""From settings to a critic."""

from __future__ import annotations

from surefoot.config import CriticConfig
from surefoot.critics.base import Critic
from surefoot.critics.scalar import ScalarCritic
from surefoot.nets.init import Initialiser


def build_critic(config: CriticConfig, n_features: int, init: Initialiser) -> Critic:
    """The critic of the configured kind over ``n_features`` inputs."""
    kinds = {"scalar": ScalarCritic}
    return kinds[config.kind](n_features, init)
