"""One gradient step: gradient, judgement, clipping, optimizer. Operation by operation; compiled it is in `fast`.

The judgement stands between gradient and optimizer (P04, O09) and is made of tensor operations, so that one form serves
the compiled step, and an accelerator need not wait for the host.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.actions.distribution import Family
from surefoot.algo.batch import Batch
from surefoot.algo.coefficients import Coefficients
from surefoot.algo.heads import HeadNorms
from surefoot.algo.loss_term import LossTerm
from surefoot.algo.objective import NO_TERMS, AddedTerms, StepMetrics, objective
from surefoot.config import PPOConfig
from surefoot.math.advantages import normalize
from surefoot.optim.flat import FlatParameters
from surefoot.optim.optimizer import Optimizer, Rate
from surefoot.policy.policy import Policy

APPLIED, NON_FINITE, KL_EXCEEDED, IDLE = range(4)
"""What became of a gradient. IDLE: an earlier one of this update exceeded the KL limit, so nothing moves any more."""

KL_SLACK = 1.5
"""An update stops once KL exceeds this multiple of target_kl."""


class StepResult(NamedTuple):
    """The metrics of a step, and what became of its gradient."""

    step_metrics: StepMetrics
    squared_norms: Tensor
    """Squared gradient norm of each part, then, if the action has heads, of each output of its last layer; before
    clipping."""
    outcome: Tensor | int
    """APPLIED, NON_FINITE, KL_EXCEEDED or IDLE."""


class Step(ABC):
    """Gradient and optimizer step on one minibatch."""

    def __init__(
        self,
        policy: Policy,
        family: Family,
        flat: FlatParameters,
        optimizer: Optimizer,
        config: PPOConfig,
        terms: tuple[LossTerm, ...] = (),
    ) -> None:
        self.policy, self.family, self.flat, self.optimizer, self.config = policy, family, flat, optimizer, config
        self.terms = terms
        self._of_critic = flat.mask(frozenset(policy.critic_parts())) > 0
        self._stopped = torch.zeros((), dtype=torch.bool, device=flat.values.device)
        self._head_norms = HeadNorms(flat) if family.head_names else None

    def begin(self) -> None:
        """A new update: forget that the last one was stopped."""
        self._stopped.zero_()
        self.optimizer.begin()

    def sizes(self, usual: int, longest: int) -> tuple[int, ...]:
        """To which numbers of rows minibatches of sequences are padded, if about ``usual`` are asked for and a
        sequence has at most ``longest``; none if a minibatch may have any number of rows."""
        return ()

    @abstractmethod
    def __call__(self, batch: Batch, coefficients: Coefficients) -> StepResult:
        """Compute the gradient of the mean loss over the batch and, if all is well, follow it."""

    def rates(self, coefficients: Coefficients) -> Rate:
        """The learning rate, or if the critic has its own, that of each parameter [P]."""
        if coefficients.critic_learning_rate is None:
            rate: Rate = coefficients.learning_rate
            return rate
        return torch.where(self._of_critic, coefficients.critic_learning_rate, coefficients.learning_rate)

    def piece_sizes(self, n_rows: int) -> list[int]:
        """How many rows each of the `pieces` of a batch has."""
        size = self.config.micro_batch_size or n_rows
        return [min(size, n_rows - start) for start in range(0, n_rows, size)]

    def draw(self, n_rows: int) -> list[list[tuple[Tensor, ...]]]:
        """What each loss term needs, for each of the pieces."""
        if not self.terms:
            return []
        sizes = self.piece_sizes(n_rows)
        drawn = [[torch.split(x, sizes) for x in term.draw(n_rows)] for term in self.terms]  # O01: as for the whole
        return [[tuple(x[i] for x in of_term) for of_term in drawn] for i in range(len(sizes))]

    def pieces(self, batch: Batch) -> list[Batch]:
        """The batch as it is differentiated: advantages normalized, cut to ``micro_batch_size`` rows."""
        if self.config.normalize_advantage == "minibatch":
            magnitude = batch.returns.abs().amax()
            batch = batch._replace(advantages=normalize(batch.advantages, batch.weight, magnitude))
        size = self.config.micro_batch_size
        if size is None:
            return [batch]
        return [batch.rows(slice(start, start + size)) for start in range(0, batch.weight.shape[0], size)]

    def finish(self, gradient: Tensor, step_metrics: StepMetrics, total: Tensor, rate: Rate) -> StepResult:
        """Judge a gradient and apply it; ``total`` is the weight of the batch."""
        of_parts = self.flat.squared_norms(gradient)
        norm = sum(of_parts[1:], of_parts[0]).sqrt()
        of_outputs = () if self._head_norms is None else (self._head_norms(gradient),)
        squared_norms = torch.cat([*(part.view(1) for part in of_parts), *of_outputs])
        finite = torch.isfinite(norm) & torch.isfinite(step_metrics.loss) & torch.isfinite(step_metrics.largest)
        within = torch.ones_like(finite)
        if self.config.target_kl is not None and step_metrics.kl is not None:
            within = step_metrics.kl <= KL_SLACK * self.config.target_kl * total
        allowed = finite & within & ~self._stopped
        outcome = torch.where(
            self._stopped, IDLE, torch.where(finite, torch.where(within, APPLIED, KL_EXCEEDED), NON_FINITE)
        )
        self._stopped.copy_(self._stopped | (finite & ~within))
        self.optimizer.observe(gradient, allowed)
        limit = self.config.max_grad_norm
        if limit:
            gradient = gradient * _once(torch.clamp(limit / norm, max=1.0))
        self.optimizer.step(self.flat.values, gradient, rate, allowed)
        return StepResult(step_metrics, squared_norms, outcome)


def _once(number: Tensor) -> Tensor:
    """The same number, which a compiled function then computes once and not anew for every few parameters: it stores
    what a reduction gives, if that is over eight entries or more."""
    return number.expand(16).amax()


class EagerStep(Step):
    """Operation by operation."""

    def __call__(self, batch: Batch, coefficients: Coefficients) -> StepResult:
        self.optimizer.prepare()
        step_metrics = self.gradient(batch, coefficients)
        total = batch.weight.sum()
        with torch.no_grad():
            rate = self.rates(coefficients)
            if self.flat.values.device.type == "cpu":
                return self._finish_on_host(step_metrics, float(total), rate)
            return self.finish(self.flat.gradient, step_metrics, total, rate)

    def _finish_on_host(self, step_metrics: StepMetrics, total: float, rate: Rate) -> StepResult:
        """`finish` where reading a number costs less than computing with it: the same judgement, fewer operations."""
        gradient = self.flat.gradient
        squared_norms = torch.stack(self.flat.squared_norms(gradient))
        norm = math.sqrt(sum(squared_norms.tolist()))
        if self._head_norms is not None:
            squared_norms = torch.cat([squared_norms, self._head_norms(gradient)])
        if not all(math.isfinite(x) for x in (norm, float(step_metrics.loss), float(step_metrics.largest))):
            return StepResult(step_metrics, squared_norms, NON_FINITE)
        limit = self.config.target_kl
        if limit is not None and step_metrics.kl is not None and not float(step_metrics.kl) <= KL_SLACK * limit * total:
            return StepResult(step_metrics, squared_norms, KL_EXCEEDED)
        self.optimizer.observe(gradient)
        longest = self.config.max_grad_norm
        if longest and norm > longest:
            gradient.mul_(longest / norm)
        self.optimizer.step_(self.flat.values, gradient, rate)
        return StepResult(step_metrics, squared_norms, APPLIED)

    def gradient(self, batch: Batch, coefficients: Coefficients) -> StepMetrics:
        """Write the gradient into the flat gradient vector; its metrics.

        The pieces' sums add up to that of the whole, and one division by the whole weight makes the mean: pieces of any
        size and any mask give the same gradient (O01).
        """
        self.flat.gradient.zero_()
        total = batch.weight.sum()
        found = []
        drawn = iter(self.draw(batch.weight.shape[0]))
        for piece in self.pieces(batch):
            parameters, prediction = self.policy(piece.observation, piece.sequences)
            added = AddedTerms(self.terms, next(drawn), partial(self.forward, piece)) if self.terms else NO_TERMS
            loss, step_metrics = objective(
                parameters, prediction, piece, coefficients, self.family, self.policy.critic, self.config, added
            )
            (loss / total).backward()  # type: ignore[no-untyped-call]
            found.append(step_metrics)
        return combine(found)

    def forward(self, batch: Batch, observation: Mapping[str, Tensor], in_sequence: bool) -> Tensor:
        """As `TermInputs.forward`."""
        return self.policy.parameters_at(observation, batch.sequences if in_sequence else None)


def combine(pieces: list[StepMetrics]) -> StepMetrics:
    """The metrics of several pieces as those of the whole: sums add up, extremes are taken, rows follow each other."""
    if len(pieces) == 1:
        return pieces[0]
    losses, largest, divergences, rows = zip(*pieces, strict=True)
    return StepMetrics(
        torch.stack(losses).sum(),
        torch.stack(largest).amax(),
        None if divergences[0] is None else torch.stack(divergences).sum(),
        None if rows[0] is None else torch.cat(rows, 1),
    )
