"""From a rollout to what the update learns from: values, advantages, returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from surefoot.algo.shaping import CostEstimates, Shaping, estimate_costs, shape
from surefoot.config import PPOConfig
from surefoot.critics.calibration import coverage, quantile_spread
from surefoot.errors import NonFiniteError
from surefoot.math.advantages import normalize, normalize_by_env, std_is_zero, std_is_zero_by_env
from surefoot.math.episodes import broadcast_to_steps
from surefoot.math.explained import explained_variance
from surefoot.math.returns import gae
from surefoot.policy.memory import SequenceBatch
from surefoot.policy.policy import Policy
from surefoot.rollout.buffer import Rollout
from surefoot.vector.normalize import RewardNormalizer

LEAST_ADVANTAGES = 0.1
"""Share of the returns' running standard deviation by which advantages are divided at least. Once a task is solved they
are only errors of the critic, and a policy that is sure of its actions is lost if those are made as large as real ones
(A07)."""


@dataclass(frozen=True)
class Estimates:
    """All [T, N] unless said otherwise."""

    prediction: Tensor
    """[T, N, K], the critic's output when the rollout was made."""
    values: Tensor
    advantages: Tensor
    """As the objective uses them: normalized, except in mode minibatch, which normalizes later."""
    returns: Tensor
    targets: Tensor
    """What the critic learns: [T, N] or [T, N, M]."""
    raw_advantages: Tensor
    explained_variance: float
    zero_std: bool
    """Advantages did not vary, so that normalization gave zeros (A04)."""
    costs: CostEstimates | None = None
    """None without a cost critic."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Of the risk term and of the critic's calibration, by log key."""


def estimate(
    rollout: Rollout,
    policy: Policy,
    rewards: RewardNormalizer | None,
    config: PPOConfig,
    first: bool = False,
    shaping: Shaping | None = None,
) -> Estimates:
    """Evaluate the critic on the rollout and estimate advantages by GAE; ``first`` before the very first update.

    A risk term acts after GAE and before normalization: it changes what the policy learns, not what the critic does.
    """
    critic, valid = policy.critic, rollout.valid
    reward = rollout.reward
    if rewards is not None:
        factor = rewards.update_statistics(reward, rollout.done, valid)
        if not first and factor != 1.0:  # before the first update there is nothing to keep
            critic.rescale(torch.tensor(factor), torch.tensor(0.0))  # A11
        reward = rewards(reward)
    with torch.inference_mode():
        prediction, successors = predict(rollout, policy)
        values, successor_values = critic.mean(prediction), critic.mean(successors)
        require_finite(values, "value", rollout)
        require_finite(successor_values, "value of the successor", rollout)
        ends = rollout.terminated, rollout.truncated
        advantages, returns = gae(reward, values, successor_values, *ends, config.gamma, config.gae_lambda, valid)
        whole = None
        if critic.is_distributional:
            whole = gae(reward, values, successor_values, *ends, config.gamma, 1.0, valid)[1]
            returns = whole if critic.learns_whole_returns else returns
        costs = estimate_costs(rollout, critic, prediction, successors, config)
        if costs is not None:
            require_finite(costs.advantages, "advantage of the cost", rollout)
        metrics: dict[str, float] = {}
        if shaping is not None:
            scale = 1.0 if rewards is None else rewards.scale
            advantages, metrics = shape(shaping, rollout, critic, prediction, advantages, scale, costs)
        require_finite(advantages, "advantage", rollout)
        if first:
            critic.update_statistics(returns, valid)
            if costs is not None:
                costs.update_statistics(valid)
            prediction, successors = predict(rollout, policy)
        if whole is not None:
            metrics |= quantile_spread(critic, prediction, valid)
            metrics |= coverage(critic, prediction, whole, finished(rollout))
        discounts = torch.where(rollout.terminated, 0.0, config.gamma)
        targets = critic.targets(returns, reward, discounts, successors)
        if costs is not None:
            targets = costs.critic.with_cost_targets(targets, costs.returns, rollout.cost, discounts, successors)
        magnitude = returns.abs().amax()
        explained = float(explained_variance(values, returns, valid))
        return Estimates(
            prediction,
            values,
            scaled(advantages, valid, magnitude, LEAST_ADVANTAGES * critic.return_std().to(valid.device), config),
            returns,
            targets,
            advantages,
            explained,
            has_zero_std(advantages, valid, magnitude, config),
            costs,
            metrics,
        )


def finished(rollout: Rollout) -> Tensor:
    """Steps [T, N] whose episode terminates within the rollout: their return is known, no value stands in for it."""
    ends = rollout.terminated & rollout.valid
    return broadcast_to_steps(rollout.reward, rollout.start, ends, rollout.valid)[1]


def has_zero_std(advantages: Tensor, valid: Tensor, magnitude: Tensor, config: PPOConfig) -> bool:
    """Whether normalization finds nothing that varies: in the rollout, or in one of the envs if each has its scale."""
    if config.normalize_advantage == "env":
        return bool(std_is_zero_by_env(advantages, valid, magnitude).any())
    return config.normalize_advantage != "none" and bool(std_is_zero(advantages, valid, magnitude))


def scaled(advantages: Tensor, valid: Tensor, magnitude: Tensor, least: Tensor, config: PPOConfig) -> Tensor:
    """Advantages normalized over the rollout or within each env, as configured."""
    if config.normalize_advantage == "rollout":
        return normalize(advantages, valid, magnitude, least)
    if config.normalize_advantage == "env":
        return normalize_by_env(advantages, valid, magnitude, least)
    return advantages


def predict(rollout: Rollout, policy: Policy) -> tuple[Tensor, Tensor]:
    """The critic's predictions for the observations of all steps, and for their true successors; [T, N, K] each.

    The successor of a step is the next row, but for truncated steps: theirs are evaluated apart, with the memory state
    after the step (A01, M03).
    """
    device = next(policy.parameters()).device
    shape = (rollout.n_steps, rollout.n_envs, -1)
    if policy.state_size == 0:
        rows = {name: x.flatten(0, 1).to(device) for name, x in rollout.observation.items()}
        predictions = policy.prediction(rows).cpu()
        here, last = predictions[: -rollout.n_envs].view(shape), predictions[-rollout.n_envs :]
    else:
        pending = {name: x[-1].to(device) for name, x in rollout.observation.items()}
        last = policy.prediction(pending, SequenceBatch.single(rollout.state[-1].to(device))).cpu()
        here = policy.prediction_after(rollout.hidden.flatten(0, 1).to(device)).cpu().view(shape)
    successors = torch.cat([here[1:], last.unsqueeze(0)])
    if rollout.final:
        observation, state = rollout.final_batch()
        final = {name: x.to(device) for name, x in observation.items()}
        steps, envs = torch.from_numpy(rollout.final.t), torch.from_numpy(rollout.final.env)
        successors[steps, envs] = policy.prediction(final, SequenceBatch.single(state.to(device))).cpu()
    return here, successors


def require_finite(x: Tensor, what: str, rollout: Rollout) -> None:
    """Raise and name env and step if an entry of [T, N] is not finite."""
    if not bool(torch.isfinite(x).all()):
        t, env = torch.nonzero(~torch.isfinite(x))[0].tolist()
        raise NonFiniteError(
            f"{what} is {float(x[t, env])} in env {env} at step {rollout.first_step + t}; no optimizer step was made. "
            "Lower learning_rate, or look at the rewards and observations of that step"
        )
