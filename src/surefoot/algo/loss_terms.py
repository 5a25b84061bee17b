"""The loss terms of the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from surefoot.algo.entropy_floor import EntropyFloor
from surefoot.algo.kl_penalty import KLPenalty
from surefoot.algo.logit_penalty import LogitPenalty
from surefoot.algo.loss_term import LossTerm
from surefoot.errors import ConfigError

if TYPE_CHECKING:
    from surefoot.actions.distribution import Family
    from surefoot.config import Config


def _logit_penalty(config: Config, family: Family) -> LossTerm | None:
    if not config.ppo.logit_penalty:
        return None
    if family.n_logits == 0:
        raise ConfigError("ppo.logit_penalty is for discrete actions; the env's actions are a Box")
    return LogitPenalty(config.ppo.logit_penalty, family.n_logits)


def _kl_penalty(config: Config, family: Family) -> LossTerm | None:
    ppo = config.ppo
    if not ppo.kl_coef:
        return None
    exact = family if ppo.kl_estimator == "exact" else None
    return KLPenalty(ppo.kl_coef, ppo.target_kl if ppo.adaptive_kl_coef else None, exact)


def _entropy_floor(config: Config, _: Family) -> LossTerm | None:
    return None if config.ppo.entropy_floor is None else EntropyFloor(config.ppo.entropy_floor)


LOSS_TERMS: dict[type[LossTerm], Callable[[Config, Family], LossTerm | None]] = {
    LogitPenalty: _logit_penalty,
    KLPenalty: _kl_penalty,
    EntropyFloor: _entropy_floor,
}
"""Each kind of term, and how one is made for a configuration that asks for it."""


def build_loss_terms(config: Config, family: Family) -> tuple[LossTerm, ...]:
    """Those that the configuration asks for."""
    made = (make(config, family) for make in LOSS_TERMS.values())
    return tuple(term for term in made if term is not None)
