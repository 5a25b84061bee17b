"""The loss of one minibatch, term by term, and their metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from surefoot.actions.distribution import Distribution, Family
from surefoot.algo.batch import Batch
from surefoot.algo.coefficients import Coefficients, rewards_entropy
from surefoot.algo.heads import estimated_divergence
from surefoot.algo.loss_term import LossTerm, TermInputs
from surefoot.config import PPOConfig
from surefoot.critics.base import Critic
from surefoot.math.surrogate import Bound, clipped_surrogate, importance_ratio


class StepMetrics(NamedTuple):
    """What a minibatch step_metrics."""

    loss: Tensor
    """Sum over the rows."""
    largest: Tensor
    """Largest |log-ratio|, not finite if one of them is not: seen here before any bound hides it (P01)."""
    kl: Tensor | None
    """Sum over the rows, where it decides about the step or cannot be computed from the log-ratios."""
    rows: Tensor | None
    """`Terms.stacked`; None without diagnostics."""


class Terms(NamedTuple):
    """Per-sample terms [B]; minimised is policy + vf_coef·value − ent_coef·entropy, plus added terms (P05)."""

    loss: Tensor
    policy: Tensor
    value: Tensor
    value_unclipped: Tensor
    value_clipped: Tensor
    value_clip_active: Tensor
    entropy: Tensor
    log_ratio: Tensor
    ratio: Tensor
    heads: tuple[Tensor, Tensor] | None = None
    """Log-ratio and entropy by head [A, B], 0 where it is inactive, if the action has heads."""
    metrics: tuple[Tensor, ...] = ()
    """What loss terms that were added say, one for each of their `LossTerm.metrics`."""

    def stacked(self) -> Tensor:
        """[R, B] all of them in one tensor but the ratio, which follows from the log-ratio; last those by head."""
        each: Any = self[:N_STACKED]
        if self.metrics:
            each = (*each, *(x.expand_as(self.loss) for x in self.metrics))
        rows = torch.stack([x.to(self.loss.dtype) for x in each])
        return rows if self.heads is None else torch.cat([rows, *self.heads])

    @staticmethod
    def unstacked(rows: Tensor, bound: Bound, n_metrics: int = 0) -> Terms:
        """The inverse of `stacked`."""
        first_head = N_STACKED + n_metrics
        own = rows[:N_STACKED].unbind()
        ratio = importance_ratio(own[Terms._fields.index("log_ratio")], bound=bound)
        by_head = rows[first_head:].chunk(2) if rows.shape[0] > first_head else None
        fields: Any = (*own, ratio, by_head, rows[N_STACKED:first_head].unbind())
        return Terms(*fields)


N_STACKED = Terms._fields.index("ratio")
"""Terms whose values are kept for every row; what follows from them is computed later, for many minibatches at once."""


def loss_terms(
    distribution: Distribution,
    prediction: Tensor,
    batch: Batch,
    coefficients: Coefficients,
    critic: Critic,
    config: PPOConfig,
) -> Terms:
    """PPO's clipped objective with value loss and entropy bonus (arxiv.org/abs/1707.06347, eq. 9)."""
    log_ratio, entropy, bonus, heads = _policy_terms(distribution, batch, coefficients, config)
    ratio = importance_ratio(log_ratio, bound=config.log_ratio_bound)
    policy = clipped_surrogate(ratio, batch.advantages, coefficients.clip_range, config.dual_clip)
    value = critic.loss(prediction, batch.prediction, batch.targets, coefficients.clip_range_vf)
    loss = policy + coefficients.vf_coef * value.loss - bonus
    return Terms(loss, policy, *value, entropy, log_ratio, ratio, heads)


class AddedTerms(NamedTuple):
    """Loss terms that are added to PPO's own, and what they need for one minibatch."""

    terms: tuple[LossTerm, ...] = ()
    drawn: Sequence[Sequence[Tensor]] = ()
    """What each of them drew."""
    forward: Callable[[Mapping[str, Tensor], bool], Tensor] | None = None
    """As `TermInputs.forward`."""


NO_TERMS = AddedTerms()


def with_added_terms(
    terms: Terms,
    added: AddedTerms,
    parameters: Tensor,
    distribution: Distribution,
    batch: Batch,
    coefficients: Coefficients,
) -> Terms:
    """PPO's own terms and the others."""
    assert added.forward is not None
    inputs = TermInputs(parameters, distribution, batch, terms.log_ratio, terms.policy, terms.entropy, added.forward)
    for term, drawn, numbers in zip(added.terms, added.drawn, coefficients.terms, strict=True):
        result = term(inputs, numbers, drawn)
        terms = terms._replace(loss=terms.loss + numbers[0] * result.loss, metrics=(*terms.metrics, *result.metrics))
    return terms


def _policy_terms(
    distribution: Distribution, batch: Batch, coefficients: Coefficients, config: PPOConfig
) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor] | None]:
    """Log-ratio, entropy and entropy bonus [B], and log-ratio and entropy by head.

    With heads the log-ratio is a sum over the active ones, so that a head which the chosen action makes inactive gets
    no gradient from it (F02). The bonus is for the joint entropy, whatever was chosen, and so also for operations that
    have more choices below them (P13). Where none is paid, the entropy is the sum of the active heads', which has the
    joint one as its mean.
    """
    if batch.heads is None:
        # A coefficient that is 0 for certain leaves nothing to differentiate; a tensor may change.
        unrewarded = not isinstance(coefficients.ent_coef, Tensor) and coefficients.ent_coef == 0.0
        unrewarded = unrewarded and config.entropy_floor is None
        with torch.set_grad_enabled(torch.is_grad_enabled() and not unrewarded):
            entropy = distribution.entropy()
        assert batch.action is not None, "an action without heads is needed itself"
        return distribution.log_prob(batch.action) - batch.log_prob, entropy, coefficients.ent_coef * entropy, None
    rewarded = rewards_entropy(config)
    heads = distribution.heads(batch.action, batch.heads, rewarded)
    log_ratio = heads.log_prob - batch.heads.log_prob
    expected = heads.expected_entropy if rewarded else heads.expected_entropy.detach()
    entropy, own = expected.sum(0), coefficients.head_ent_coefs
    bonus = coefficients.ent_coef * entropy if own is None else torch.as_tensor(own).to(entropy) @ expected
    return log_ratio.sum(0), entropy, bonus, (log_ratio, heads.entropy)


def objective(
    parameters: Tensor,
    prediction: Tensor,
    batch: Batch,
    coefficients: Coefficients,
    family: Family,
    critic: Critic,
    config: PPOConfig,
    added: AddedTerms = NO_TERMS,
) -> tuple[Tensor, StepMetrics]:
    """Weighted *sum* of the loss over the rows (divide by the weight for the mean), and what was step_metrics."""
    distribution = family.bind(parameters, batch.mask)
    terms = loss_terms(distribution, prediction, batch, coefficients, critic, config)
    if added.terms:
        terms = with_added_terms(terms, added, parameters, distribution, batch, coefficients)
    loss = torch.dot(terms.loss, batch.weight)
    with torch.no_grad():
        return loss, _measure(loss, terms, distribution, batch, family, config)


def needs_divergence(config: PPOConfig, has_heads: bool) -> bool:
    """Whether each minibatch must say its KL: to stop, to adapt, or because the rows that are kept do not tell it."""
    decides = config.target_kl is not None or config.adaptive_lr_kl is not None
    return decides or config.kl_estimator == "exact" or (has_heads and not config.diagnostics)


def _measure(
    loss: Tensor, terms: Terms, distribution: Distribution, batch: Batch, family: Family, config: PPOConfig
) -> StepMetrics:
    largest = torch.where(batch.weight > 0, terms.log_ratio, 0.0).abs().amax()
    kl = None
    if needs_divergence(config, terms.heads is not None):
        by_head = None if terms.heads is None else estimated_divergence(terms.heads[0], config.kl_estimator)
        kl = torch.dot(divergence(distribution, terms.log_ratio, batch, family, config, by_head), batch.weight)
    if not config.diagnostics:
        return StepMetrics(loss.detach(), largest, kl, None)
    return StepMetrics(loss.detach(), largest, kl, terms.stacked())


def divergence(
    distribution: Distribution,
    log_ratio: Tensor,
    batch: Batch,
    family: Family,
    config: PPOConfig,
    by_head: Tensor | None = None,
) -> Tensor:
    """KL(old ‖ new) per sample [B] by the configured estimator; of heads, the sum of theirs [A, B] (F06)."""
    if config.kl_estimator == "exact":
        assert batch.parameters is not None, "an exact divergence needs the acting distribution"
        return family.bind(batch.parameters, batch.mask).kl(distribution)
    if by_head is not None:
        return by_head.sum(0)
    return estimated_divergence(log_ratio, config.kl_estimator)
