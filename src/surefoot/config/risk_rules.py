"""Which settings of the section ``risk`` go together (P12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surefoot.config.schedule import parse_schedule

if TYPE_CHECKING:
    from surefoot.config.schema import RiskConfig

_LIMITS = ("limit_per_episode", "limit_discounted", "limit_per_step")
_OF_EPISODES = ("observe_return", "max_steps_without_episode")
_MULTIPLIER = ("multiplier_lr", "multiplier_init", "multiplier_kp", "multiplier_kd", "multiplier_smoothing")
USED: dict[str, frozenset[str]] = {
    "none": frozenset(),
    "cvar_objective": frozenset({"alpha", "cvar_weight", *_OF_EPISODES}),
    "cvar_constraint": frozenset({"alpha", *_LIMITS, *_OF_EPISODES, *_MULTIPLIER}),
    "cost_constraint": frozenset({"cost_key", "max_steps_without_episode", *_LIMITS, *_MULTIPLIER}),
}
"""The fields that each kind reads; one that a caller has registered may read all."""


def risk_errors(risk: RiskConfig) -> list[str]:
    """Contradictions, each as a sentence that names the fields."""
    found = _unused(risk)
    if risk.kind == "cvar_objective" and risk.alpha == 1.0:
        found.append(
            'risk.alpha = 1 with risk.kind = "cvar_objective": CVaR of all episodes is their mean; lower alpha'
        )
    if risk.kind in ("cvar_constraint", "cost_constraint"):
        found += _limits(risk) + _multiplier(risk)
    return found


def limit_name(risk: RiskConfig) -> str | None:
    """Which limit is set; None if there is none."""
    return next((name for name in _LIMITS if getattr(risk, name) is not None), None)


def _unused(risk: RiskConfig) -> list[str]:
    found: list[str] = []
    if risk.kind not in USED:
        return found
    for name, field in type(risk).model_fields.items():
        if name == "kind" or name in USED[risk.kind] or getattr(risk, name) == field.default:
            continue
        readers = " or ".join(f'"{kind}"' for kind, names in USED.items() if name in names)
        found.append(f'risk.{name} needs risk.kind = {readers}; risk.kind is "{risk.kind}"')
    return found


def _limits(risk: RiskConfig) -> list[str]:
    given = [name for name in _LIMITS if getattr(risk, name) is not None]
    if risk.kind == "cost_constraint" and risk.limit_per_step is not None:
        return [
            'risk.limit_per_step with risk.kind = "cost_constraint": a cost is limited by the episode; set '
            "risk.limit_per_episode (the limit of a step times the steps of an episode)"
        ]
    if len(given) == 1:
        if risk.limit_per_step is None:
            return []
        return [
            f"risk.{name} is about whole episodes and has no effect on risk.limit_per_step; leave it out"
            for name in _OF_EPISODES
            if getattr(risk, name) != type(risk).model_fields[name].default
        ]
    names = ("risk.limit_per_episode", "risk.limit_discounted", "risk.limit_per_step")
    if given:
        return [f"{' and '.join(f'risk.{name}' for name in given)} are both set: set only one"]
    wanted = names if risk.kind == "cvar_constraint" else names[:2]
    meant = ", ".join(wanted[:-1]) + f" or {wanted[-1]}"
    return [
        f'risk.kind = "{risk.kind}" needs a limit and what it is a limit of: set one of {meant} (the sum of an '
        "episode's rewards or costs, its discounted sum, the reward of one step)"
    ]


def _multiplier(risk: RiskConfig) -> list[str]:
    found = []
    moves = any(parse_schedule(risk.multiplier_lr).all_values()) or risk.multiplier_kp or risk.multiplier_kd
    if not moves and not risk.multiplier_init:
        found.append(
            "risk.multiplier_lr, multiplier_kp, multiplier_kd and multiplier_init are all 0: the constraint would have "
            "no effect"
        )
    damped = risk.multiplier_kp or risk.multiplier_kd
    if not damped and risk.multiplier_smoothing != type(risk).model_fields["multiplier_smoothing"].default:
        found.append("risk.multiplier_smoothing needs risk.multiplier_kp or risk.multiplier_kd")
    return found
