"""From settings to a critic."""

from __future__ import annotations

from collections.abc import Callable

from surefoot.config import CriticConfig
from surefoot.critics.base import Critic
from surefoot.critics.categorical import CategoricalCritic
from surefoot.critics.popart import PopArt
from surefoot.critics.quantile import QuantileCritic
from surefoot.critics.scalar import ScalarCritic
from surefoot.critics.twin import Twin
from surefoot.nets.init import Initializer


def build_critic(config: CriticConfig, n_features: int, init: Initializer) -> Critic:
    """The configured critic over ``n_features`` inputs; twins with own trunks see one half of them each."""
    critic = _one(config, n_features, init) if config.twin == "none" else _two(config, n_features, init)
    critic.learns_whole_returns = config.targets == "monte_carlo"
    return critic


def build_cost_critic(config: CriticConfig, n_features: int, init: Initializer) -> Critic:
    """A critic of the mean cost; in the unit of the costs' spread if the critic of the return is in that of its own."""
    critic = ScalarCritic(n_features, init)
    return PopArt(critic) if config.in_return_stds else critic


def _two(config: CriticConfig, n_features: int, init: Initializer) -> Critic:
    width = n_features // 2 if config.twin == "trunks" else n_features
    views = slice(width), slice(n_features - width, n_features)
    return Twin(_one(config, width, init), _one(config, width, init), views)


def _one(config: CriticConfig, n_features: int, init: Initializer) -> Critic:
    critic = _KINDS[config.kind](config, n_features, init)
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


_KINDS: dict[str, Callable[[CriticConfig, int, Initializer], Critic]] = {
    "scalar": _scalar,
    "quantile": _quantile,
    "categorical": _categorical,
}
