"""The optimizer of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection

from torch import Tensor

from surefoot.config import PPOConfig
from surefoot.optim.adam import Adam, AdamSettings
from surefoot.optim.flat import FlatParameters
from surefoot.optim.optimizer import Optimizer


def _adam(flat: FlatParameters, config: PPOConfig, decays: Tensor) -> Optimizer:
    decoupled = config.optimizer == "adamw"
    return Adam(flat.values, AdamSettings(config.adam_betas, config.adam_eps, config.weight_decay, decoupled), decays)


OPTIMIZERS: dict[str, Callable[[FlatParameters, PPOConfig, Tensor], Optimizer]] = {
    "adam": _adam,
    "adamw": _adam,
}
"""By the name that ``ppo.optimizer`` has: made from the parameters, the settings, and where weight decay acts [P]."""


def build_optimizer(flat: FlatParameters, config: PPOConfig, critic_parts: Collection[str]) -> Optimizer:
    """The optimizer for parameters of which some parts belong to the critic alone."""
    decaying = frozenset(critic_parts if config.decay_scope == "critic" else flat.slices)
    return OPTIMIZERS[config.optimizer](flat, config, flat.mask(decaying))
