"""From settings to a critic."""

from __future__ import annotations

from collections.abc import Callable

from surefoot.config import CriticConfig, accept_names_of
from surefoot.critics.auxiliary import Auxiliary, WithAuxiliary
from surefoot.critics.base import Critic
from surefoot.critics.categorical import CategoricalCritic
from surefoot.critics.popart import PopArt
from surefoot.critics.quantile import QuantileCritic
from surefoot.critics.scalar import ScalarCritic
from surefoot.critics.twin import Twin
from surefoot.nets.init import Initializer
from surefoot.nets.mlp import MLP


def build_critic(config: CriticConfig, n_features: int, init: Initializer) -> Critic:
    """The configured critic over ``n_features`` inputs; twins with own trunks see one half of them each."""
    critic = _one(config, n_features, init) if config.twin == "none" else _two(config, n_features, init)
    critic.learns_whole_returns = config.targets == "monte_carlo"
    return critic


def with_auxiliary(
    critic: Critic, spec: Auxiliary, config: CriticConfig, n_features: int, init: Initializer, activation: str
) -> Critic:
    """The critic, and beside it one of the auxiliary quantity, in standard deviations of its own sums.

    A context is a number on which what is learned depends in no simple way, so it is joined by a hidden layer as wide
    as the features.
    """
    hidden = None
    if spec.n_context:
        hidden = MLP(n_features + spec.n_context, (n_features,), activation, False, init)
    own = ScalarCritic(n_features, init, hidden)
    return WithAuxiliary(critic, PopArt(own) if config.in_return_stds or spec.n_context else own, spec)


def _two(config: CriticConfig, n_features: int, init: Initializer) -> Critic:
    width = n_features // 2 if config.twin == "trunks" else n_features
    views = slice(width), slice(n_features - width, n_features)
    return Twin(_one(config, width, init), _one(config, width, init), views)


def _one(config: CriticConfig, n_features: int, init: Initializer) -> Critic:
    critic = CRITICS[config.kind](config, n_features, init)
    return PopArt(critic) if config.in_return_stds else critic


def _scalar(config: CriticConfig, n_features: int, init: Initializer) -> Critic:
    del config
    return ScalarCritic(n_features, init)


def _quantile(config: CriticConfig, n_features: int, init: Initializer) -> Critic:
    backup = config.targets == "backup"
    return QuantileCritic(n_features, init, config.n_quantiles, config.kappa, config.clip_mode, backup)


def _categorical(config: CriticConfig, n_features: int, init: Initializer) -> Critic:
    backup = config.targets == "backup"
    support = None if config.v_min is None or config.v_max is None else (config.v_min, config.v_max)
    return CategoricalCritic(n_features, init, config.n_atoms, support, config.clip_mode, backup)


CRITICS: dict[str, Callable[[CriticConfig, int, Initializer], Critic]] = {
    "scalar": _scalar,
    "quantile": _quantile,
    "categorical": _categorical,
}
"""By the name that ``critic.kind`` has: made from the settings, the number of features, and how weights start."""
accept_names_of(CRITICS, "critic.kind")
