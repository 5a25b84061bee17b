"""Which settings of the section ``critic`` go together, and with those of other sections (P12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefoot.config.schema import Config, CriticConfig, PPOConfig

ONLY_FOR = {
    "n_quantiles": "quantile",
    "kappa": "quantile",
    "n_atoms": "categorical",
    "v_min": "categorical",
    "v_max": "categorical",
}
"""The kind of critic that reads a field which the others do not."""


def decided_targets(config: Config) -> CriticConfig:
    """The section with ``targets = "auto"`` decided: whoever asks for tails gets returns whose tails are whole."""
    critic = config.critic
    if critic.targets != "auto":
        return critic
    asks_for_tails = critic.kind != "scalar" and config.risk.kind in ("cvar_objective", "cvar_constraint")
    return critic.model_copy(update={"targets": "monte_carlo" if asks_for_tails else "lambda"})


def critic_errors(config: Config) -> list[str]:
    """Contradictions, each as a sentence that names the fields."""
    critic = config.critic
    found = _unused(critic) + _clip(critic, config.ppo)
    if critic.kind == "scalar" and critic.targets in ("monte_carlo", "backup"):
        found.append(
            f'critic.targets = "{critic.targets}" is for a distribution: set critic.kind = "quantile" or "categorical"'
        )
    if critic.kind == "categorical":
        found += _support(critic)
    if critic.twin == "trunks" and config.policy.shared:
        found.append('critic.twin = "trunks" contradicts policy.shared, one trunk for all: use critic.twin = "heads"')
    if critic.twin == "trunks" and config.memory.kind != "none":
        found.append('critic.twin = "trunks" does not go with memory.kind, one memory for both: use "heads"')
    return found


def _unused(critic: CriticConfig) -> list[str]:
    fields = type(critic).model_fields
    return [
        f'critic.{name} needs critic.kind = "{kind}"; critic.kind is "{critic.kind}"'
        for name, kind in ONLY_FOR.items()
        if critic.kind != kind and getattr(critic, name) != fields[name].default
    ]


def _support(critic: CriticConfig) -> list[str]:
    if (critic.v_min is None) != (critic.v_max is None):
        return ["critic.v_min and critic.v_max go together: give both, or neither for a support that follows"]
    if critic.v_min is not None and critic.v_max is not None:
        found = []
        if critic.v_min >= critic.v_max:
            found.append(f"critic.v_min = {critic.v_min:g} must be below critic.v_max = {critic.v_max:g}")
        if critic.popart is True:
            found.append("critic.popart contradicts the fixed support critic.v_min, critic.v_max: drop one of them")
        return found
    return []


def _clip(critic: CriticConfig, ppo: PPOConfig) -> list[str]:
    if critic.kind == "scalar" and critic.clip_mode != "none":
        return ['critic.clip_mode needs critic.kind = "quantile" or "categorical"; scalars have ppo.clip_range_vf']
    if critic.clip_mode != "none" and ppo.clip_range_vf is None:
        return ["critic.clip_mode needs ppo.clip_range_vf, its range"]
    if critic.kind != "scalar" and critic.clip_mode == "none" and ppo.clip_range_vf is not None:
        return [f'ppo.clip_range_vf needs critic.clip_mode with critic.kind = "{critic.kind}", for example "mean_only"']
    return []
