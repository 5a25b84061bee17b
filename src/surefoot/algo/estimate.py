"""From a rollout to what the update learns from: values, advantages, returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.config import PPOConfig
from surefoot.errors import NonFiniteError
from surefoot.math.advantages import normalise, normalise_by_env, spread_is_zero
from surefoot.math.explained import explained_variance
from surefoot.math.returns import gae
from surefoot.policy.policy import Policy
from surefoot.rollout.buffer import Rollout
from surefoot.rollout.normalise import RewardNormaliser


@dataclass(frozen=True)
class Estimates:
    """All [T, N] unless said otherwise."""

    prediction: Tensor
    """[T, N, K], the critic's output when the rollout was made."""
    values: Tensor
    advantages: Tensor
    """As the objective uses them: normalised, except in mode minibatch, which normalises later."""
    returns: Tensor
    targets: Tensor
    """What the critic learns: [T, N] or [T, N, M]."""
    raw_advantages: Tensor
    explained_variance: float
    zero_spread: bool
    """Advantages did not vary, so that normalisation gave zeros (A04)."""


def estimate(
    rollout: Rollout, policy: Policy, rewards: RewardNormaliser | None, config: PPOConfig, first: bool = False
) -> Estimates:
    """Evaluate the critic on the rollout and estimate advantages by GAE; ``first`` before the very first update."""
    critic, valid = policy.critic, rollout.valid
    reward = rollout.reward
    if rewards is not None:
        rewards.absorb(reward, rollout.done, valid)
        reward = rewards(reward)
    with torch.inference_mode():
        prediction, successors = predict(rollout, policy)
        values, successor_values = critic.mean(prediction), critic.mean(successors)
        require_finite(values, "value", rollout)
        require_finite(successor_values, "value of the successor", rollout)
        ends = rollout.terminated, rollout.truncated
        advantages, returns = gae(reward, values, successor_values, *ends, config.gamma, config.gae_lambda, valid)
        require_finite(advantages, "advantage", rollout)
        if first:
            critic.absorb(returns, valid)
            prediction, successors = predict(rollout, policy)
        discounts = torch.where(rollout.terminated, 0.0, config.gamma)
        targets = critic.targets(returns, reward, discounts, successors)
        magnitude = returns.abs().amax()
        explained = float(explained_variance(values, returns, valid))
        return Estimates(
            prediction,
            values,
            scaled(advantages, valid, magnitude, config),
            returns,
            targets,
            advantages,
            explained,
            bool(spread_is_zero(advantages, valid, magnitude)),
        )


def scaled(advantages: Tensor, valid: Tensor, magnitude: Tensor, config: PPOConfig) -> Tensor:
    """Advantages normalised over the rollout or within each env, as configured."""
    if config.normalize_advantage == "rollout":
        return normalise(advantages, valid, magnitude)
    if config.normalize_advantage == "env":
        return normalise_by_env(advantages, valid, magnitude)
    return advantages


def predict(rollout: Rollout, policy: Policy) -> tuple[Tensor, Tensor]:
    """The critic's predictions for the observations of all steps, and for their true successors; [T, N, K] each.

    One pass over all T + 1 rows serves both, but for truncated steps: their successors are evaluated apart (A01).
    """
    device = next(policy.parameters()).device
    rows = {name: x.flatten(0, 1).to(device) for name, x in rollout.observation.items()}
    predictions = policy.prediction(rows).cpu().view(rollout.n_steps + 1, rollout.n_envs, -1)
    successors = predictions[1:].clone()
    if rollout.final:
        final = {name: x.to(device) for name, x in rollout.final_batch().items()}
        steps, envs = [t for t, _, _ in rollout.final], [n for _, n, _ in rollout.final]
        successors[steps, envs] = policy.prediction(final).cpu()
    return predictions[:-1], successors


def require_finite(x: Tensor, what: str, rollout: Rollout) -> None:
    """Raise and name env and step if an entry of [T, N] is not finite."""
    if not bool(torch.isfinite(x).all()):
        t, env = torch.nonzero(~torch.isfinite(x))[0].tolist()
        raise NonFiniteError(
            f"{what} is {float(x[t, env])} in env {env} at step {rollout.first_step + t}; no optimiser step was made. "
            "Lower learning_rate, or look at the rewards and observations of that step"
        )
