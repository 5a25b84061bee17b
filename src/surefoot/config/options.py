"""Sections of options beside plain PPO: optimizers, gradient scaling, imitation, robustness."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from pydantic import Field, field_validator

from surefoot.config.section import (
    Decay,
    Fraction,
    Positive,
    Scheduled,
    Section,
    changed,
    changed_fields,
    is_zero,
)

if TYPE_CHECKING:
    from surefoot.config.schema import Config, PolicyConfig


class UPGDConfig(Section):
    """Utility-based perturbed gradient descent, for ppo.optimizer = "upgd" or "adaupgd"."""

    beta_utility: Decay = 0.999
    """Decay of the running utility of each weight."""
    sigma: Annotated[float, Ge(0.0)] = 0.001
    """Standard deviation of the noise that is added to the direction of each step."""
    exempt_vectors: bool = False
    """Leave biases, log standard deviations and LayerNorm without noise and weight decay. The authors exempt none."""


class VGSConfig(Section):
    """Learning rates lowered by the noise of the gradient, tensor by tensor."""

    alpha: Annotated[float, Ge(0.0)] = 0.0
    """Weight of noise/signal in the multiplier 1/(1 + alpha·noise/signal); 0 turns it off."""
    beta: Decay = 0.99
    """Decay of the running moments of the gradient."""


class ImitationConfig(Section):
    """Advantage-weighted regression: imitate actions that turned out well."""

    coef: Scheduled = 0.0
    """Weight of the term, a number or a schedule; 0 turns it off."""
    demonstrations: str = ""
    """File with demonstrations, .npz or .parquet (`surefoot record` makes one), or a Minari data set on this machine,
    minari:namespace/name-v0; empty imitates the agent's own rollouts."""
    fingerprint: str = ""
    """sha256 that the file of the demonstrations must have; empty takes what is there. The configuration of a run has
    it."""
    beta: Annotated[float, Gt(0.0)] | None = 1.0
    """Temperature of the weights exp(A/beta); none (in a file "none") weighs all actions alike, which is behaviour
    cloning."""
    max_weight: Annotated[float, Gt(1.0), Le(1e6)] = 20.0
    """Largest weight; A/beta is bounded by its logarithm before exp."""

    @field_validator("demonstrations", mode="before")
    @classmethod
    def _path_is_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, os.PathLike) else value

    @field_validator("beta", mode="before")
    @classmethod
    def _none_in_words(cls, value: Any) -> Any:
        return None if value == "none" else value


class RobustConfig(Section):
    """Training against changed observations."""

    kind: Literal["none", "sa_ppo"] = "none"
    """sa_ppo adds coef · max KL(π(s) ‖ π(ŝ)) over all ŝ that are at most epsilon away from s in every feature."""
    epsilon: Annotated[float, Gt(0.0)] = 0.1
    """Largest change of a feature, in standard deviations of the normalized observation."""
    coef: Scheduled = 1.0
    """Weight of the term, a number or a schedule."""
    steps: Positive = 5
    """Gradient steps of the search for the worst ŝ, each epsilon/steps long; the update costs as many times more."""
    ramp: Fraction = 0.75
    """Share of training in which epsilon rises from 0 to its value; 0 has it from the start."""
    fixed_features: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Features that nobody can change: names of observation leaves, leaf:index for one entry, the index alone, or a
    name out of the env's observation_columns."""
    units: Literal["normalized", "raw"] = "normalized"
    """Of epsilon: normalized needs ppo.normalize_observations; raw are the units of the env."""

    @field_validator("fixed_features", mode="before")
    @classmethod
    def _index_is_a_name(cls, value: Any) -> Any:
        if isinstance(value, str | int):
            value = [value]
        return tuple(str(x) if type(x) is int else x for x in value) if isinstance(value, list | tuple) else value


def option_errors(config: Config) -> list[str]:
    """Options that cannot take effect together (P12)."""
    return [
        *_upgd_errors(config),
        *_vgs_errors(config),
        *_std_errors(config.policy),
        *_imitation_errors(config),
        *_robust_errors(config),
    ]


def training_option_errors(config: Config) -> list[str]:
    """Options that training cannot use, and that an agent which only acts may have been saved with."""
    found, beta = [], config.imitation.beta
    if config.vgs.alpha and not config.vgs.beta:
        found.append("vgs.beta = 0.0 cannot act: moments that forget everything see no noise")
    if beta is not None and beta < LEAST_BETA:
        found.append(f"imitation.beta = {beta:g} is below {LEAST_BETA:g}: A/beta is not a number in float32")
    return found


LEAST_BETA = 1e-6


def _upgd_errors(config: Config) -> list[str]:
    found = []
    given = changed_fields(config.upgd)
    if given and config.ppo.optimizer not in ("upgd", "adaupgd"):
        found.append(f'upgd.{", upgd.".join(given)} needs ppo.optimizer: "upgd" or "adaupgd"')
    if config.upgd.exempt_vectors and not config.upgd.sigma and not config.ppo.weight_decay:
        found.append("upgd.exempt_vectors has nothing to exempt from: upgd.sigma and ppo.weight_decay are 0")
    inert = [f"ppo.{name}" for name in ("adam_betas", "adam_eps") if changed(config.ppo, name)]
    if inert and config.ppo.optimizer == "upgd":
        found.append(f'{", ".join(inert)} cannot act: ppo.optimizer = "upgd" has no moments; "adaupgd" has')
    return found


def _vgs_errors(config: Config) -> list[str]:
    given = changed_fields(config.vgs, "alpha")
    return [f"vgs.{', vgs.'.join(given)} needs vgs.alpha > 0"] if given and not config.vgs.alpha else []


def _imitation_errors(config: Config) -> list[str]:
    imitation = config.imitation
    given = changed_fields(imitation, "coef")
    if given and is_zero(imitation.coef):
        return [f"imitation.{', imitation.'.join(given)} needs imitation.coef > 0"]
    found = []
    if imitation.fingerprint and not imitation.demonstrations:
        found.append("imitation.fingerprint needs imitation.demonstrations")
    if imitation.coef and imitation.beta is None and not imitation.demonstrations:
        found.append(
            "imitation.beta = none on the agent's own rollouts imitates all that it does, good or bad: set "
            "imitation.beta, or imitation.demonstrations"
        )
    if imitation.beta is None and changed(imitation, "max_weight"):
        found.append("imitation.max_weight bounds nothing with imitation.beta = none: all weights are 1")
    if imitation.demonstrations and config.risk.observe_return:
        found.append(
            "imitation.demonstrations do not go with risk.observe_return: what an episode had earned before a "
            "demonstrated step is not known to the term; leave one of them out"
        )
    if imitation.demonstrations and config.memory.kind != "none":
        found.append(
            "imitation.demonstrations do not go with memory: what it held before a demonstrated step is not known; "
            "leave them out to imitate the agent's own rollouts"
        )
    return found


def _robust_errors(config: Config) -> list[str]:
    robust = config.robust
    given = changed_fields(robust, "kind")
    if robust.kind == "none":
        return [f'robust.{", robust.".join(given)} needs robust.kind: "sa_ppo"'] if given else []
    found = []
    if is_zero(robust.coef):
        found.append("robust.coef = 0 leaves nothing of robust.kind: drop it, or raise coef")
    if robust.units == "normalized" and not config.ppo.normalize_observations:
        found.append(
            f"robust.epsilon = {robust.epsilon:g} has no scale: set ppo.normalize_observations = true, whose standard "
            'deviations it counts, or robust.units = "raw" if it is in the units of the env'
        )
    if robust.units == "raw" and config.ppo.normalize_observations:
        found.append('robust.units = "raw" contradicts ppo.normalize_observations: the policy sees normalized features')
    return found


def _std_errors(policy: PolicyConfig) -> list[str]:
    given = [f"policy.{name}" for name in ("std_min", "std_max") if changed(policy, name)]
    if given and policy.distribution == "beta":
        return [f'policy.distribution = "beta" has no standard deviation: drop {", ".join(given)}']
    low, high, first = policy.std_min or 0.0, policy.std_max or math.inf, math.exp(policy.log_std_init)
    if low >= high:
        return [f"policy.std_min = {low:g} must be below policy.std_max = {high:g}"]
    if not low <= first * (1 + 1e-6) or not first <= high * (1 + 1e-6):
        return [
            f"{', '.join(given)}: the policy starts with σ = exp(policy.log_std_init) = {first:g}, which is outside "
            f"[{low:g}, {high:g}]; set policy.log_std_init to a logarithm within"
        ]
    return []
