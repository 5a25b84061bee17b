"""From a rollout to what the update learns from: values, advantages, returns. Nothing here changes anything."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.config import PPOConfig
from surefoot.critics.auxiliary import WithAuxiliary
from surefoot.critics.base import Critic
from surefoot.critics.calibration import coverage, quantile_spread
from surefoot.errors import NonFiniteError
from surefoot.math.advantages import normalize, std_is_zero
from surefoot.math.episodes import broadcast_to_steps
from surefoot.math.explained import explained_variance
from surefoot.math.returns import gae
from surefoot.policy.memory import SequenceBatch
from surefoot.policy.policy import Policy
from surefoot.risk.term import RiskTerm, Steps
from surefoot.rollout.buffer import Rollout

LEAST_ADVANTAGES = 0.1
"""Share of the returns' running standard deviation by which advantages are divided at least. Once a task is solved they
are only errors of the critic, and a policy that is sure of its actions is lost if those are made as large as real ones
(A07)."""


class Predictions(NamedTuple):
    """What the critic says of a rollout, [T, N, K] each."""

    here: Tensor
    """Of the observations of all steps."""
    successors: Tensor
    """Of their true successors."""


class AuxiliaryEstimates(NamedTuple):
    """Of the quantity that a critic learns beside the return; [T, N], raw."""

    advantages: Tensor
    returns: Tensor
    explained_variance: float


@dataclass(frozen=True)
class Estimates:
    """All [T, N] unless said otherwise."""

    prediction: Tensor
    """[T, N, K], the critic's output when the rollout was made."""
    values: Tensor
    advantages: Tensor
    """As the objective uses them: risk-adjusted and normalized, except in mode minibatch, which normalizes later."""
    returns: Tensor
    targets: Tensor
    """What the critic learns: [T, N] or [T, N, M]."""
    raw_advantages: Tensor
    """Risk-adjusted, not normalized."""
    explained_variance: float
    zero_std: bool
    """Advantages did not vary, so that normalization gave zeros (A04)."""
    whole_returns: Tensor | None = None
    """With λ = 1; None if the critic predicts only means."""
    auxiliary: AuxiliaryEstimates | None = None
    """None without an auxiliary critic."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Of the critics, by log key."""


def estimate(
    rollout: Rollout,
    reward: Tensor,
    predictions: Predictions,
    critic: Critic,
    config: PPOConfig,
    risk: RiskTerm | None = None,
    reward_scale: float = 1.0,
) -> Estimates:
    """Advantages by GAE, risk-adjusted, and what the critic shall learn, from rewards [T, N] in units of
    ``reward_scale``.

    A risk term acts after GAE and before normalization: it changes what the policy learns, not what the critic does.
    """
    valid, (here, successors) = rollout.valid, predictions
    with torch.inference_mode():
        values, successor_values = critic.mean(here), critic.mean(successors)
        require_finite(values, "value", rollout)
        require_finite(successor_values, "value of the successor", rollout)
        ends = rollout.terminated, rollout.truncated
        advantages, returns = gae(reward, values, successor_values, *ends, config.gamma, config.gae_lambda, valid)
        whole = None
        if critic.is_distributional:
            whole = gae(reward, values, successor_values, *ends, config.gamma, 1.0, valid)[1]
            returns = whole if critic.learns_whole_returns else returns
        auxiliary = None
        if risk is not None and isinstance(critic, WithAuxiliary):
            auxiliary = estimate_auxiliary(rollout, predictions, critic, risk, config)
            advantages = risk.adjust(advantages, auxiliary.advantages / reward_scale)
        require_finite(advantages, "advantage", rollout)
        magnitude = returns.abs().amax()
        least = LEAST_ADVANTAGES * critic.return_std().to(valid.device)
        found = Estimates(
            prediction=here,
            values=values,
            advantages=scaled(advantages, valid, magnitude, least, config),
            returns=returns,
            targets=returns,
            raw_advantages=advantages,
            explained_variance=float(explained_variance(values, returns, valid)),
            zero_std=has_zero_std(advantages, valid, magnitude, config),
            whole_returns=whole,
            auxiliary=auxiliary,
        )
    return with_targets(found, rollout, reward, predictions, critic, config)


def with_targets(
    estimates: Estimates, rollout: Rollout, reward: Tensor, predictions: Predictions, critic: Critic, config: PPOConfig
) -> Estimates:
    """The same, with predictions, targets and metrics of the critic as it is now."""
    metrics: dict[str, float] = {}
    with torch.inference_mode():
        if estimates.whole_returns is not None:
            metrics |= quantile_spread(critic, predictions.here, rollout.valid)
            metrics |= coverage(critic, predictions.here, estimates.whole_returns, finished(rollout))
        discounts = torch.where(rollout.terminated, 0.0, config.gamma)
        targets = critic.targets(estimates.returns, reward, discounts, predictions.successors)
        if estimates.auxiliary is not None and isinstance(critic, WithAuxiliary):
            targets = critic.with_auxiliary_targets(targets, estimates.auxiliary.returns)
            metrics[f"risk/{critic.spec.name}_explained_variance"] = estimates.auxiliary.explained_variance
    return replace(estimates, prediction=predictions.here, targets=targets, metrics=metrics)


def estimate_auxiliary(
    rollout: Rollout, predictions: Predictions, critic: WithAuxiliary, risk: RiskTerm, config: PPOConfig
) -> AuxiliaryEstimates:
    """GAE of the risk term's signal."""
    spec, valid = critic.spec, rollout.valid
    values, successor_values = (critic.mean_auxiliary(x) for x in predictions)
    terminated, truncated = rollout.terminated, rollout.truncated
    if spec.ends_with_truncation:
        terminated, truncated = rollout.done, torch.zeros_like(truncated)
    signal = risk.signal(steps_of(rollout))
    advantages, returns = gae(
        signal, values, successor_values, terminated, truncated, spec.discount, config.gae_lambda, valid
    )
    require_finite(advantages, f"advantage of the {spec.name}", rollout)
    return AuxiliaryEstimates(advantages, returns, float(explained_variance(values, returns, valid)))


def steps_of(rollout: Rollout) -> Steps:
    """A rollout as risk terms see it."""
    return Steps(
        rollout.reward,
        rollout.cost,
        rollout.start,
        rollout.terminated,
        rollout.truncated,
        rollout.valid,
        rollout.running,
        rollout.weight,
        rollout.first_step,
    )


def finished(rollout: Rollout) -> Tensor:
    """Steps [T, N] whose episode terminates within the rollout: their return is known, no value stands in for it."""
    ends = rollout.terminated & rollout.valid
    return broadcast_to_steps(rollout.reward, rollout.start, ends, rollout.valid)[1]


def has_zero_std(advantages: Tensor, valid: Tensor, magnitude: Tensor, config: PPOConfig) -> bool:
    """Whether normalization finds nothing that varies: in the rollout, or in one of the envs if each has its scale."""
    how = config.normalize_advantage
    return how != "none" and bool(std_is_zero(advantages, valid, magnitude, by_env=how == "env").any())


def scaled(advantages: Tensor, valid: Tensor, magnitude: Tensor, least: Tensor, config: PPOConfig) -> Tensor:
    """Advantages normalized over the rollout or within each env, as configured."""
    how = config.normalize_advantage
    if how in ("rollout", "env"):
        return normalize(advantages, valid, magnitude, least, by_env=how == "env")
    return advantages


@torch.inference_mode()
def predict(rollout: Rollout, policy: Policy) -> Predictions:
    """The critic's predictions for the observations of all steps, and for their true successors.

    The successor of a step is the next row, but for truncated steps: theirs are evaluated apart, with the memory state
    after the step (A01, M03).
    """
    device = next(policy.parameters()).device
    shape = (rollout.n_steps, rollout.n_envs, -1)
    rows = {name: x.flatten(0, 1).to(device) for name, x in rollout.observation.items()}
    if policy.state_size == 0:
        predictions = policy.prediction(rows).cpu()
        here, last = predictions[: -rollout.n_envs].view(shape), predictions[-rollout.n_envs :]
    else:
        pending = {name: x[-rollout.n_envs :] for name, x in rows.items()}
        last = policy.prediction(pending, SequenceBatch.single(rollout.state[-1].to(device))).cpu()
        before = {name: x[: -rollout.n_envs] for name, x in rows.items()}
        here = policy.prediction_after(rollout.hidden.flatten(0, 1).to(device), before).cpu().view(shape)
    successors = torch.cat([here[1:], last.unsqueeze(0)])
    if rollout.final:
        observation, state = rollout.final_batch()
        final = {name: x.to(device) for name, x in observation.items()}
        steps, envs = torch.from_numpy(rollout.final.t), torch.from_numpy(rollout.final.env)
        successors[steps, envs] = policy.prediction(final, SequenceBatch.single(state.to(device))).cpu()
    return Predictions(here, successors)


def update_critic_statistics(critic: Critic, estimates: Estimates, valid: Tensor) -> None:
    """Let critics see the returns of a rollout, of which their units are made."""
    critic.update_statistics(estimates.returns, valid)
    if estimates.auxiliary is not None and isinstance(critic, WithAuxiliary):
        critic.update_auxiliary_statistics(estimates.auxiliary.returns, valid)


def require_finite(x: Tensor, what: str, rollout: Rollout) -> None:
    """Raise and name env and step if an entry of [T, N] is not finite."""
    if not bool(torch.isfinite(x).all()):
        t, env = torch.nonzero(~torch.isfinite(x))[0].tolist()
        raise NonFiniteError(
            f"{what} is {float(x[t, env])} in env {env} at step {rollout.first_step + t}; no optimizer step was made. "
            "Lower learning_rate, or look at the rewards and observations of that step"
        )
