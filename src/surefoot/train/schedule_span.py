"""How long schedules last: the first training, or the setting ``total_timesteps`` (O03).

A schedule never rises by itself: what is trained beyond its span is trained with its end value.
"""

from __future__ import annotations

import math
import warnings

from surefoot.algo.coefficients import value_at
from surefoot.algo.learner import Learner
from surefoot.errors import ConfigError, SurefootWarning


def span_schedules(learner: Learner, target: int) -> None:
    """Before training to ``target`` env steps: set the span if there is none yet. If part of the training lies beyond
    it, a warning says with what values; it is an error if nothing could be learned with these."""
    span = learner.schedules.timesteps
    if span is None:
        learner.schedules = learner.schedules._replace(timesteps=target)
        return
    ends = require_learnable(learner, target)
    if ends:
        said = ", ".join(f"{name} = {value:g}" for name, value in ends.items())
        warnings.warn(
            f"schedules span {span} env steps; from there to {target} they keep their end values: {said}",
            SurefootWarning,
            stacklevel=4,
        )


def require_learnable(learner: Learner, target: int) -> dict[str, float]:
    """The values that schedules keep beyond their span, if training to ``target`` goes there; raises if nothing could
    be learned with them."""
    span, rows = learner.schedules.timesteps, learner.config.rollout_rows
    if span is None:
        return {}
    first_beyond = learner.timesteps + rows * max(0, math.ceil((span - learner.timesteps) / rows))
    ends = end_values(learner) if first_beyond < target else {}
    dead = [name for name in ("learning_rate", "clip_range") if ends.get(name) == 0.0]
    if dead:
        raise ConfigError(
            f"schedules span {span} env steps and then keep their end values: with {' and '.join(dead)} = 0 nothing "
            f"can be learned from there to {target}. Give total_timesteps={target} when the agent is made, so that "
            "they span all of its training; or learn(…, reset_num_timesteps=True), which begins them anew; or "
            f"PPO.load(path, {'=…, '.join(dead)}=…); or let them end above 0"
        )
    return ends


SCHEDULED = (
    "learning_rate",
    "critic_learning_rate",
    "clip_range",
    "clip_range_vf",
    "ent_coef",
    "vf_coef",
    "kl_coef",
    "logit_penalty",
)
"""Settings of the section ppo that may be schedules."""


def end_values(learner: Learner) -> dict[str, float]:
    """With what each schedule ends; constants are none."""
    ppo, risk = learner.config.ppo, learner.config.risk
    settings: dict[str, float | str | None] = {name: getattr(ppo, name) for name in SCHEDULED}
    settings |= {"robust.coef": learner.config.robust.coef, "imitation.coef": learner.config.imitation.coef}
    settings |= {f"head_ent_coefs[{name!r}]": value for name, value in ppo.head_ent_coefs.items()}
    if learner.risk is not None:
        settings["risk.multiplier_lr"] = risk.multiplier_lr
    return {
        name: value_at(value, 1, 1)
        for name, value in settings.items()
        if isinstance(value, str) and not value.strip().startswith("decay")
    }


def scheduled_updates(learner: Learner, began: int) -> int:
    """How many updates the schedules span, counted from where they began, for the update of a rollout that began at
    ``began`` env steps.

    Counted in mean transitions per rollout, because rows that only carry a reset are no env steps.
    """
    span, made = learner.schedules.timesteps, learner.timesteps
    updates = learner.updates - learner.schedules.first_update
    assert span is not None, "span_schedules comes before training"
    if began >= span:
        return max(updates, 1)
    rollouts = learner.collector.vector_steps // learner.config.ppo.n_steps
    if not made:  # a first rollout without a transition: as if the next ones had only such
        made = rollouts * learner.config.rollout_rows
    return updates + 1 + max(0, math.ceil((span - learner.timesteps) * rollouts / made))
