"""The PPO update: epochs of minibatches."""

from __future__ import annotations

import math

import torch

from surefoot.algo.batch import Batch, flatten, minibatches
from surefoot.algo.coefficients import Coefficients
from surefoot.algo.diagnose import name_source
from surefoot.algo.estimate import Estimates
from surefoot.algo.gradient import EagerGradient
from surefoot.algo.objective import STATISTICS
from surefoot.algo.record import KLStop, Tally, UpdateRecord
from surefoot.config import Config
from surefoot.dists.interface import Family
from surefoot.errors import NonFiniteError
from surefoot.math.advantages import normalise
from surefoot.optim.adam import Adam
from surefoot.optim.flat import FlatParameters
from surefoot.policy.policy import Policy
from surefoot.rollout.buffer import Rollout

KL_SLACK = 1.5
"""An update stops once KL exceeds this multiple of target_kl."""

_KL, _WEIGHT = STATISTICS.index("kl"), STATISTICS.index("weight")
_NAN, _INF = STATISTICS.index("nan"), STATISTICS.index("inf")


class Updater:
    """Given policy, parameters and optimiser, improves the policy on a rollout."""

    def __init__(
        self,
        policy: Policy,
        family: Family,
        flat: FlatParameters,
        optimiser: Adam,
        config: Config,
        generator: torch.Generator,
    ) -> None:
        self._policy, self._family, self._flat, self._optimiser = policy, family, flat, optimiser
        self._config, self._ppo, self._batch_size = config, config.ppo, config.batch_size
        self._generator = generator
        self._gradient = EagerGradient(policy, family, flat, config.ppo)
        self.bad_streak = 0
        """Optimiser steps skipped in a row, over updates."""

    def update(self, rollout: Rollout, estimates: Estimates, coefficients: Coefficients, index: int) -> UpdateRecord:
        """``n_epochs`` passes over the rollout, each gradient judged before it is applied."""
        batch = flatten(rollout, estimates, self._flat.values.device)
        tally = Tally(tuple(self._flat.slices), self._ppo.max_grad_norm)
        for epoch in range(self._ppo.n_epochs):
            if tally.kl_stop is not None:
                break
            for number, rows in enumerate(minibatches(batch, self._batch_size, self._generator)):
                minibatch = self._prepared(rows)
                if minibatch is None:
                    continue
                statistics = self._gradient(minibatch, coefficients)
                squared_norms = self._flat.squared_norms()
                norm = math.sqrt(float(squared_norms.sum()))
                if not math.isfinite(norm) or float(statistics[_NAN] + statistics[_INF]) > 0:
                    tally.skip(statistics, self._name_source(minibatch, coefficients, rollout))
                    self._count_bad(tally)
                    continue
                tally.add(statistics, squared_norms)
                kl = float(statistics[_KL] / statistics[_WEIGHT])
                if self._ppo.target_kl is not None and kl > KL_SLACK * self._ppo.target_kl:
                    tally.kl_stop = KLStop(epoch, number, kl)
                    break
                self._apply(norm, coefficients.learning_rate)
                self.bad_streak = 0
                tally.gradient_steps += 1
        return tally.record(index, coefficients, estimates, rollout.valid)

    def _prepared(self, rows: Batch) -> Batch | None:
        """The minibatch ready for its gradient, or None if no row of it is a transition."""
        if not bool(rows.weight.any()):
            return None
        if self._ppo.normalize_advantage == "minibatch":
            magnitude = rows.returns.abs().amax()
            return rows._replace(advantages=normalise(rows.advantages, rows.weight, magnitude))
        return rows

    def _apply(self, norm: float, learning_rate: float) -> None:
        limit = self._ppo.max_grad_norm
        if limit and norm > limit:
            self._flat.gradient.mul_(limit / norm)
        self._optimiser.step(self._flat.gradient, learning_rate)

    def _name_source(self, minibatch: Batch, coefficients: Coefficients, rollout: Rollout) -> str:
        return name_source(
            minibatch,
            coefficients,
            self._policy,
            self._family,
            self._flat,
            self._ppo,
            rollout.n_envs,
            rollout.first_step,
        )

    def _count_bad(self, tally: Tally) -> None:
        self.bad_streak += 1
        if self.bad_streak >= self._ppo.max_nonfinite_updates:
            sources = "\n  ".join(tally.non_finite)
            raise NonFiniteError(
                f"{self.bad_streak} optimiser steps in a row were not finite, so training stopped. Parameters are as "
                f"before the first of them. Sources:\n  {sources}"
            )
