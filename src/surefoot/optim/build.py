"""The optimizer of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor

from surefoot.config import Config, accept_names_of
from surefoot.math.streams import random_stream
from surefoot.optim.adam import Adam, AdamSettings
from surefoot.optim.flat import FlatParameters
from surefoot.optim.optimizer import Optimizer
from surefoot.optim.upgd import UPGD, UPGDSettings
from surefoot.optim.vgs import VGS


def _adam(flat: FlatParameters, config: Config, decays: Tensor) -> Optimizer:
    ppo = config.ppo
    settings = AdamSettings(ppo.adam_betas, ppo.adam_eps, ppo.weight_decay, ppo.optimizer == "adamw")
    return Adam(flat.values, settings, decays)


def _upgd(flat: FlatParameters, config: Config, decays: Tensor) -> Optimizer:
    ppo, upgd = config.ppo, config.upgd
    betas = ppo.adam_betas if ppo.optimizer == "adaupgd" else None
    settings = UPGDSettings(upgd.beta_utility, upgd.sigma, ppo.weight_decay, betas, ppo.adam_eps)
    shaken = torch.ones_like(flat.values)
    if upgd.exempt_vectors:
        for slot in flat.slots:
            if len(slot.shape) < 2:
                shaken[slot.where] = 0.0
    generator = random_stream(config.seed, "upgd", flat.values.device)
    return UPGD(flat.values, settings, decays * shaken, shaken, generator)


OPTIMIZERS: dict[str, Callable[[FlatParameters, Config, Tensor], Optimizer]] = {
    "adam": _adam,
    "adamw": _adam,
    "upgd": _upgd,
    "adaupgd": _upgd,
}
"""By the name that ``ppo.optimizer`` has: made from the parameters, the settings, and where weight decay acts [P]."""
accept_names_of(OPTIMIZERS, "ppo.optimizer")


def build_optimizer(
    flat: FlatParameters, config: Config, critic_parts: Collection[str], heads: Mapping[str, slice] | None = None
) -> Optimizer:
    """The optimizer for parameters of which some parts belong to the critic alone, and some outputs to heads."""
    decaying = frozenset(critic_parts if config.ppo.decay_scope == "critic" else flat.slices)
    optimizer = OPTIMIZERS[config.ppo.optimizer](flat, config, flat.mask(decaying))
    return VGS(optimizer, flat, config.vgs.alpha, config.vgs.beta, heads or {}) if config.vgs.alpha else optimizer
