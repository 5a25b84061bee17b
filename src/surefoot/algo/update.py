"""The PPO update: epochs of minibatches."""

from __future__ import annotations

from collections.abc import Callable

import torch

from surefoot.algo.batch import Batch, RowBatches, SequenceBatches, flatten, head_statistics_of
from surefoot.algo.coefficients import Coefficients, rewards_entropy
from surefoot.algo.diagnose import name_source
from surefoot.algo.estimate import Estimates
from surefoot.algo.heads import HeadMetrics
from surefoot.algo.record import UpdateRecord
from surefoot.algo.rows import RolloutData
from surefoot.algo.step import APPLIED, KL_EXCEEDED, NON_FINITE, EagerStep, Step, StepResult
from surefoot.algo.update_metrics import UpdateMetrics
from surefoot.config import Config
from surefoot.errors import NonFiniteError
from surefoot.rollout.buffer import Rollout


class Updater:
    """Improves the policy on a rollout, one judged gradient step after the other."""

    def __init__(self, step: EagerStep, config: Config, generator: torch.Generator) -> None:
        self._eager = step
        self.step: Step = step
        """What is used; may be replaced by a compiled one at any update."""
        self._config, self._ppo = config, config.ppo
        self._generator = generator
        self.bad_streak = 0
        """Optimizer steps skipped in a row, over updates."""

    def update(
        self,
        rollout: Rollout,
        estimates: Estimates,
        coefficients: Coefficients,
        index: int,
        check: Callable[[], None] = lambda: None,
    ) -> UpdateRecord:
        """``n_epochs`` passes over the rollout, each gradient judged before it is applied.

        ``check`` is called before each minibatch and may raise to give up.
        """
        flat, family = self.step.flat, self.step.family
        statistics = head_statistics_of(rollout, family, flat.values.device, rewards_entropy(self._ppo))
        batch = flatten(rollout, estimates, flat.values.device, statistics)
        if self._ppo.kl_estimator != "exact":  # which alone asks what would have been, after other choices too
            mask = batch.mask
            if statistics is not None and not any(term.needs_masks for term in self.step.terms):
                mask = statistics.mask
            batch = batch._replace(parameters=None, mask=mask)
        heads = None
        if statistics is not None:
            counts = (statistics.active & (batch.weight > 0)).sum(1).tolist()
            heads = HeadMetrics(family, statistics, counts, coefficients, self._ppo)
        metrics = UpdateMetrics(tuple(flat.slices), coefficients, self._ppo, heads, self.step.terms)
        for term in self.step.terms:
            term.begin(batch.advantages, batch.weight)
        self.step.begin()
        # Reading an outcome makes an accelerator wait, so there it is done once per epoch; the result is the same.
        reads_each = flat.values.device.type == "cpu"
        all_valid = bool(rollout.valid.all())
        batches: SequenceBatches | RowBatches = RowBatches(batch, self._config)
        if self.step.policy.state_size:
            batches = SequenceBatches(batch, rollout, self._config, self.step.sizes)
        for epoch in range(self._ppo.n_epochs):
            unread: list[tuple[int, Batch, StepResult]] = []
            for number, minibatch in enumerate(batches.epoch(self._generator)):
                check()
                if not all_valid and not bool(minibatch.weight.any()):
                    continue
                unread.append((number, minibatch, self.step(minibatch, coefficients)))
                if reads_each and not self._settle(unread, epoch, coefficients, rollout, metrics):
                    break
            if not self._settle(unread, epoch, coefficients, rollout, metrics):
                break
        record = metrics.record(index, RolloutData(rollout, estimates, family))
        if record.gradient_steps or record.kl_stop:
            for term in self.step.terms:
                term.advance(record)
        return record

    def _settle(
        self,
        unread: list[tuple[int, Batch, StepResult]],
        epoch: int,
        coefficients: Coefficients,
        rollout: Rollout,
        metrics: UpdateMetrics,
    ) -> bool:
        """Count what became of the steps made since the last call; False once the KL limit was exceeded."""
        for number, minibatch, result in unread:
            outcome = int(result.outcome)
            step_metrics, weight = result.step_metrics, minibatch.weight
            if outcome in (APPLIED, KL_EXCEEDED):
                metrics.add(step_metrics, result.squared_norms, weight, minibatch.row)
            if outcome == APPLIED:
                metrics.gradient_steps += 1
                self.bad_streak = 0
            elif outcome == NON_FINITE:
                source = name_source(minibatch, coefficients, self._eager, rollout.n_envs, rollout.first_step)
                metrics.skip(step_metrics, weight, minibatch.row, source)
                self._count_bad(metrics)
            elif outcome == KL_EXCEEDED:
                metrics.stop(step_metrics, weight, epoch, number)
        unread.clear()
        return metrics.kl_stop is None

    def _count_bad(self, metrics: UpdateMetrics) -> None:
        self.bad_streak += 1
        if self.bad_streak >= self._ppo.max_nonfinite_updates:
            sources = "\n  ".join(metrics.non_finite)
            raise NonFiniteError(
                f"{self.bad_streak} optimizer steps in a row were not finite, so training stopped. Parameters are "
                f"as before the first of them. Sources:\n  {sources}"
            )
