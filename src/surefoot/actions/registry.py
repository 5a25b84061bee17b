"""From an action space to its family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gymnasium import spaces

from surefoot.actions.bernoulli import BernoulliFamily
from surefoot.actions.beta import BetaFamily
from surefoot.actions.diagonal_gaussian import LOG_STD_LIMIT, DiagonalGaussianFamily
from surefoot.actions.distribution import Family
from surefoot.actions.factored import FactoredFamily
from surefoot.actions.heads import HeadSpec, heads_of, parts_of
from surefoot.actions.tanh_gaussian import TanhGaussianFamily
from surefoot.config import accept_names_of
from surefoot.errors import ConfigError, UnsupportedSpaceError

GAUSSIAN = {"gaussian": DiagonalGaussianFamily, "tanh_gaussian": TanhGaussianFamily}
"""For a Box, with ``log_std_init`` and ``state_dependent_std``."""
BOX_FAMILIES: dict[str, Callable[[spaces.Box], Family]] = {"beta": BetaFamily}
"""For a Box, without settings, by the name that ``policy.distribution`` has."""
accept_names_of(BOX_FAMILIES, "policy.distribution")


def family_for(
    space: spaces.Space[Any],
    kind: str = "auto",
    log_std_init: float = 0.0,
    state_dependent_std: bool = False,
    heads: Sequence[HeadSpec] | None = None,
) -> Family:
    """The family of distributions for an action space.

    `kind` chooses among those for a Box ("auto" is "gaussian"); `log_std_init` and `state_dependent_std`
    belong to the two Gaussian kinds. A setting that would have no effect on this space is an error (P12). `heads` says
    how the parts of the action depend on each other; a MultiDiscrete, Dict or Tuple has heads also without.
    """
    kinds = ("auto", *GAUSSIAN, *BOX_FAMILIES)
    if kind not in kinds:
        raise ConfigError(f"kind={kind!r} is no action distribution; choose one of {', '.join(kinds)}.")
    if not abs(log_std_init) <= LOG_STD_LIMIT:
        raise ConfigError(f"log_std_init={log_std_init} must be within ±{LOG_STD_LIMIT:g}.")
    if heads is None and isinstance(space, spaces.Box):
        return _box_family(space, kind, log_std_init, state_dependent_std)
    resolved = heads_of(space, heads)
    if not resolved:
        raise UnsupportedSpaceError(f"{space}: the action space is empty.")
    if not any(isinstance(part, spaces.Box) for _, part in parts_of(space)):
        if kind != "auto":
            raise ConfigError(
                f"kind={kind!r} is for Box action spaces and would have no effect on {space}; leave it at 'auto'."
            )
        _refuse_std_options(str(space), log_std_init, state_dependent_std)
    if heads is None and isinstance(space, spaces.MultiBinary):
        return BernoulliFamily(space)

    def leaf_family(leaf: spaces.Space[Any]) -> Family:
        if isinstance(leaf, spaces.MultiBinary):
            return BernoulliFamily(leaf)
        assert isinstance(leaf, spaces.Box), "heads_of knows no other leaf"
        return _box_family(leaf, kind, log_std_init, state_dependent_std)

    # A lone choice is measured as one whole: by its head it would only be measured twice.
    return FactoredFamily(
        space, resolved, leaf_family, by_head=heads is not None or not isinstance(space, spaces.Discrete)
    )


def _box_family(space: spaces.Box, kind: str, log_std_init: float, state_dependent_std: bool) -> Family:
    if kind in BOX_FAMILIES:
        _refuse_std_options(f"kind={kind!r}", log_std_init, state_dependent_std)
        return BOX_FAMILIES[kind](space)
    return GAUSSIAN["gaussian" if kind == "auto" else kind](space, log_std_init, state_dependent_std)


def _refuse_std_options(subject: str, log_std_init: float, state_dependent_std: bool) -> None:
    if log_std_init != 0.0 or state_dependent_std:
        raise ConfigError(
            f"{subject} has no log_std: log_std_init={log_std_init} and "
            f"state_dependent_std={state_dependent_std} would have no effect; leave them at 0.0 and False."
        )
