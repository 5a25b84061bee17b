"""What a risk term needs from the learner: costs and tails as the critics see them, and the rollout's statistics."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from surefoot.config import PPOConfig
from surefoot.critics.base import Critic
from surefoot.critics.with_cost import WithCost
from surefoot.errors import SurefootWarning
from surefoot.math.explained import explained_variance
from surefoot.math.returns import gae
from surefoot.risk.term import Estimated, RiskTerm, Shaped, Steps
from surefoot.rollout.buffer import Rollout


@dataclass(frozen=True)
class Shaping:
    """The risk term, as it stands in one update."""

    term: RiskTerm
    multiplier_lr: float
    knows_tails: bool
    """Whether the critic predicts more than means."""


class CostEstimates(NamedTuple):
    """Of a rollout, by a critic that knows costs; all [T, N], raw."""

    critic: WithCost
    advantages: Tensor
    returns: Tensor
    explained_variance: float

    def update_statistics(self, valid: Tensor) -> None:
        """Show the returns to the critic, as `Critic.update_statistics` is shown those of the rewards."""
        self.critic.update_cost_statistics(self.returns, valid)


def estimate_costs(
    rollout: Rollout, critic: Critic, prediction: Tensor, successors: Tensor, config: PPOConfig
) -> CostEstimates | None:
    """GAE of the costs, with the discounts of the rewards; None without a cost critic. Predictions [T, N, K]."""
    if not isinstance(critic, WithCost):
        return None
    values, valid = critic.mean_cost(prediction), rollout.valid
    ends = rollout.terminated, rollout.truncated
    advantages, returns = gae(
        rollout.cost, values, critic.mean_cost(successors), *ends, config.gamma, config.gae_lambda, valid
    )
    return CostEstimates(critic, advantages, returns, float(explained_variance(values, returns, valid)))


def shape(
    shaping: Shaping,
    rollout: Rollout,
    critic: Critic,
    prediction: Tensor,
    advantages: Tensor,
    reward_scale: float,
    costs: CostEstimates | None,
) -> Shaped:
    """The risk term's advantages for a rollout whose plain ones [T, N] are given."""
    steps = Steps(rollout.reward, rollout.cost, rollout.start, rollout.terminated, rollout.truncated, rollout.valid)
    predicted = None
    if shaping.knows_tails and shaping.term.alpha is not None:
        with warnings.catch_warnings():  # the learner said once that the quantiles are too few for alpha
            warnings.simplefilter("ignore", SurefootWarning)
            predicted = reward_scale * critic.risk(prediction, shaping.term.alpha)
    estimated = Estimated(advantages, reward_scale, None if costs is None else costs.advantages, predicted)
    shaped = shaping.term(steps, estimated, shaping.multiplier_lr)
    if costs is not None:
        shaped.metrics["risk/cost_explained_variance"] = costs.explained_variance
    return shaped
