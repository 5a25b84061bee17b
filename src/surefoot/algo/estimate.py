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
    raw_advantages: Tensor
    explained_variance: float
    zero_spread: bool
    """Advantages did not vary, so that normalisation gave zeros (A04)."""


def estimate(rollout: Rollout, policy: Policy, rewards: RewardNormaliser | None, config: PPOConfig) -> Estimates:
    """Evaluate the critic on the rollout and estimate advantages by GAE."""
    device = next(policy.parameters()).device
    reward, valid = rollout.reward, rollout.valid
    if rewards is not None:
        rewards.absorb(reward, rollout.done, valid)
        reward = rewards(reward)
    with torch.inference_mode():
        prediction = _predict(rollout, policy, device)
        values = policy.critic.mean(prediction).cpu()
        successors = values[1:].clone()
        if rollout.final:
            final = {name: x.to(device) for name, x in rollout.final_batch().items()}
            steps, envs = [t for t, _, _ in rollout.final], [n for _, n, _ in rollout.final]
            successors[steps, envs] = policy.critic.mean(policy.prediction(final)).cpu()
        require_finite(values, "value", rollout)
        require_finite(successors, "value of the successor", rollout)
        advantages, returns = gae(
            reward,
            values[:-1],
            successors,
            rollout.terminated,
            rollout.truncated,
            config.gamma,
            config.gae_lambda,
            valid,
        )
        require_finite(advantages, "advantage", rollout)
        magnitude = returns.abs().amax()
        zero_spread = bool(spread_is_zero(advantages, valid, magnitude))
        used = advantages
        if config.normalize_advantage == "rollout":
            used = normalise(advantages, valid, magnitude)
        elif config.normalize_advantage == "env":
            used = normalise_by_env(advantages, valid, magnitude)
        explained = float(explained_variance(values[:-1], returns, valid))
    return Estimates(prediction[:-1], values[:-1], used, returns, advantages, explained, zero_spread)


def _predict(rollout: Rollout, policy: Policy, device: torch.device) -> Tensor:
    """The critic over all T + 1 rows in one pass, [T + 1, N, K]."""
    rows = {name: x.flatten(0, 1).to(device) for name, x in rollout.observation.items()}
    return policy.prediction(rows).cpu().view(rollout.n_steps + 1, rollout.n_envs, -1)


def require_finite(x: Tensor, what: str, rollout: Rollout) -> None:
    """Raise and name env and step if an entry of [T, N] is not finite."""
    if not bool(torch.isfinite(x).all()):
        t, env = torch.nonzero(~torch.isfinite(x))[0].tolist()
        raise NonFiniteError(
            f"{what} is {float(x[t, env])} in env {env} at step {rollout.first_step + t}; no optimiser step was made. "
            "Lower learning_rate, or look at the rewards and observations of that step"
        )
