"""The numbers that may change over a run, as they stand in one update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from surefoot.algo.loss_term import LossTerm
from surefoot.config import PPOConfig
from surefoot.config.schedule import ScheduleSpec, parse_schedule
from surefoot.math import schedules
from surefoot.math.entropy_decay import EntropyDecay, EntropyDecayState

KL_BAND = 2.0
RATE_FACTOR = 1.5
RATE_LIMITS = (1e-7, 1e-1)
PLATEAU_WINDOW = 20


class Coefficients(NamedTuple):
    """In force during one update: numbers, or 0-dim tensors inside a compiled step."""

    learning_rate: Any
    clip_range: Any
    clip_range_vf: Any
    """None if value clipping is off."""
    ent_coef: Any
    vf_coef: Any
    critic_learning_rate: Any = None
    """Of the parts that only the critic has; None is learning_rate."""
    head_ent_coefs: Any = None
    """[A] in place of ent_coef, if some head has its own; None otherwise."""
    terms: tuple[Any, ...] = ()
    """Of each loss term its `LossTerm.numbers`: the coefficient, then others."""


class CoefficientPlan:
    """Schedules of the configuration, and the two coefficients that react to training.

    The clock is the number of updates made; it never restarts and is saved (O03).
    """

    def __init__(self, config: PPOConfig, heads: tuple[str, ...] = (), terms: Sequence[LossTerm] = ()) -> None:
        self._config, self._heads, self._terms = config, heads, terms
        self._decay = _entropy_decay(parse_schedule(config.ent_coef))
        self.entropy_state = EntropyDecayState()
        self.adapted_rate: float | None = None

    def at(self, update: int, total: int) -> Coefficients:
        """Coefficients of update ``update`` of ``total``."""
        config = self._config
        rate = self.adapted_rate if self.adapted_rate is not None else value_at(config.learning_rate, update, total)
        vf_range = None if config.clip_range_vf is None else value_at(config.clip_range_vf, update, total)
        own_rate = config.critic_learning_rate
        decay = self._decay
        entropy = decay.coefficient(self.entropy_state) if decay else value_at(config.ent_coef, update, total)
        return Coefficients(
            rate,
            value_at(config.clip_range, update, total),
            vf_range,
            entropy,
            value_at(config.vf_coef, update, total),
            None if own_rate is None else value_at(own_rate, update, total),
            self._of_heads(entropy, update, total),
            tuple(tuple(value_at(number, update, total) for number in term.numbers) for term in self._terms),
        )

    def _of_heads(self, common: float, update: int, total: int) -> tuple[float, ...] | None:
        """Each head's own entropy coefficient, or else the common one; never below the head's floor."""
        own, floors = self._config.head_ent_coefs, self._config.head_ent_coef_floors
        if not own and not floors:
            return None
        given = {name: value_at(own[name], update, total) if name in own else common for name in self._heads}
        return tuple(max(value, floors.get(name, 0.0)) for name, value in given.items())

    def advance(self, used: Coefficients, kl: float, mean_return: float | None) -> None:
        """An update was made: let the entropy decay see the return, and the adaptive learning rate the KL."""
        if self._decay:
            self.entropy_state = self._decay.advance(self.entropy_state, mean_return)
        target = self._config.adaptive_lr_kl
        if target is not None:
            factor = 1 / RATE_FACTOR if kl > KL_BAND * target else RATE_FACTOR if kl < target / KL_BAND else 1.0
            low, high = RATE_LIMITS
            self.adapted_rate = min(max(used.learning_rate * factor, low), high)

    def metrics(self) -> dict[str, float]:
        """By log key."""
        return {"train/entropy_decay_delayed": float(self.entropy_state.delayed)} if self._decay else {}

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"entropy": self.entropy_state.state_dict(), "adapted_rate": self.adapted_rate}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore."""
        self.entropy_state = EntropyDecayState.from_json(state["entropy"])
        self.adapted_rate = state["adapted_rate"]


def rewards_entropy(config: PPOConfig) -> bool:
    """Whether some coefficient of an entropy can be above 0."""
    own = bool(config.head_ent_coefs) or bool(config.head_ent_coef_floors)
    return own or config.ent_coef != 0.0 or config.entropy_floor is not None


def value_at(text: float | str, update: int, total: int) -> float:
    """A number or a schedule, as it stands in update ``update`` of ``total``."""
    return _schedule(parse_schedule(text))(update, total)


def _schedule(spec: ScheduleSpec) -> schedules.Schedule:
    if spec.kind == "linear":
        return schedules.linear(*spec.values)
    if spec.kind == "cosine":
        return schedules.cosine(*spec.values)
    if spec.kind == "piecewise":
        return schedules.piecewise(list(zip(spec.marks, spec.values, strict=True)))
    if spec.kind == "warmup" and spec.inner is not None:
        return schedules.warmup(_schedule(spec.inner), 0.0, fraction=spec.marks[0])
    return schedules.constant(spec.values[0])


def _entropy_decay(spec: ScheduleSpec) -> EntropyDecay | None:
    if spec.kind != "decay":
        return None
    start, floor = spec.values
    updates, window, tolerance = (*spec.marks, *(float(PLATEAU_WINDOW), 0.0)[len(spec.marks) - 1 :])
    return EntropyDecay(start, floor, int(updates), int(window), tolerance)
