"""The loss terms of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from surefoot.algo.demonstrations import Demonstrations, fingerprint_of, load_demonstrations
from surefoot.algo.entropy_floor import EntropyFloor
from surefoot.algo.imitation import DemonstrationImitation, OwnImitation
from surefoot.algo.kl_penalty import KLPenalty
from surefoot.algo.logit_penalty import LogitPenalty
from surefoot.algo.loss_term import LossTerm
from surefoot.algo.robust import RobustKL
from surefoot.errors import ConfigError
from surefoot.math.streams import random_stream
from surefoot.rollout.features import attackable_features

if TYPE_CHECKING:
    import torch
    from gymnasium import spaces

    from surefoot.actions.distribution import Family
    from surefoot.config import Config
    from surefoot.spaces import Layout
    from surefoot.vector.normalize import ObservationNormalizer


class TermContext(NamedTuple):
    """What loss terms may be made from."""

    config: Config
    family: Family
    layout: Layout
    """What the networks see."""
    action_space: spaces.Space[Any]
    normalizer: ObservationNormalizer | None
    device: torch.device
    trains: bool = True
    """False for an agent that was loaded to act: files that only training needs may be gone."""


def _logit_penalty(context: TermContext) -> LossTerm | None:
    coefficient, n_logits = context.config.ppo.logit_penalty, context.family.n_logits
    if not coefficient:
        return None
    if n_logits == 0:
        raise ConfigError("ppo.logit_penalty is for discrete actions; the env's actions are a Box")
    return LogitPenalty(coefficient, n_logits)


def _kl_penalty(context: TermContext) -> LossTerm | None:
    ppo = context.config.ppo
    if not ppo.kl_coef:
        return None
    exact = context.family if ppo.kl_estimator == "exact" else None
    return KLPenalty(ppo.kl_coef, ppo.target_kl if ppo.adaptive_kl_coef else None, exact)


def _entropy_floor(context: TermContext) -> LossTerm | None:
    floor, most = context.config.ppo.entropy_floor, context.family.max_entropy
    return None if floor is None else EntropyFloor(floor, most)


def _own_imitation(context: TermContext) -> LossTerm | None:
    imitation = context.config.imitation
    if not imitation.coef or imitation.demonstrations:
        return None
    return OwnImitation(imitation.coef, imitation.beta, imitation.max_weight)


def _demonstrations(context: TermContext) -> LossTerm | None:
    config, imitation = context.config, context.config.imitation
    if not imitation.coef or not imitation.demonstrations:
        return None

    def load() -> Demonstrations:
        path, policy = Path(imitation.demonstrations), config.policy
        if imitation.fingerprint and (found := fingerprint_of(imitation.demonstrations)) != imitation.fingerprint:
            raise ConfigError(
                f"{path} holds other demonstrations than those that the training began with: its sha256 is {found}, "
                f"theirs {imitation.fingerprint}. Put the old file back, or name this one when the agent is loaded: "
                "PPO.load(…, imitation=dict(demonstrations=…))"
            )
        loaded = load_demonstrations(
            path, context.layout, context.action_space, context.family, policy.distribution, config.ppo.gamma
        )
        if imitation.beta is not None and loaded.returns is None:
            raise ConfigError(
                f"{path} has no rewards to weigh demonstrations by: set imitation.beta = none, which weighs all alike, "
                "or add an array `reward`"
            )
        return loaded

    generator = random_stream(config.seed, "imitation")
    parts = load, context.family, context.normalizer, generator, context.device
    return DemonstrationImitation(imitation.coef, imitation.beta, imitation.max_weight, *parts)


def _robust(context: TermContext) -> LossTerm | None:
    config, robust = context.config, context.config.robust
    if robust.kind == "none":
        return None
    return RobustKL(
        robust.coef,
        _ramped(robust.epsilon, robust.ramp),
        robust.steps,
        attackable_features(context.layout, robust.fixed_features),
        context.family,
        context.normalizer,
        random_stream(config.seed, "robust"),
        context.device,
    )


def _ramped(value: float, share: float) -> float | str:
    """From 0 to a value over a share of training."""
    if share == 1.0:
        return f"linear(0, {value})"
    return f"warmup({share}, {value})" if share else value


LOSS_TERMS: dict[type[LossTerm], Callable[[TermContext], LossTerm | None]] = {
    LogitPenalty: _logit_penalty,
    KLPenalty: _kl_penalty,
    EntropyFloor: _entropy_floor,
    OwnImitation: _own_imitation,
    DemonstrationImitation: _demonstrations,
    RobustKL: _robust,
}
"""Each kind of term, and how one is made for a configuration that asks for it."""


def build_loss_terms(context: TermContext) -> tuple[LossTerm, ...]:
    """Those that the configuration asks for."""
    terms = tuple(term for term in _made(context) if term is not None)
    if context.trains:
        for term in terms:
            term.prepare()
    return terms


def _made(context: TermContext) -> Iterable[LossTerm | None]:
    return (make(context) for make in LOSS_TERMS.values())
