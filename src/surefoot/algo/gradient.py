"""The gradient of one minibatch, written into the flat gradient vector."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.algo.batch import Batch
from surefoot.algo.coefficients import Coefficients
from surefoot.algo.objective import EXTREMES, objective
from surefoot.config import PPOConfig
from surefoot.dists.interface import Family
from surefoot.optim.flat import FlatParameters
from surefoot.policy.policy import Policy


class EagerGradient:
    """Runs the networks, the objective and backpropagation operation by operation."""

    def __init__(self, policy: Policy, family: Family, flat: FlatParameters, config: PPOConfig) -> None:
        self._policy, self._family, self._flat, self._config = policy, family, flat, config

    def __call__(self, batch: Batch, coefficients: Coefficients) -> Tensor:
        """Gradient of the mean loss over the rows of the batch; its statistics [S].

        In pieces of ``micro_batch_size`` rows the sums of the pieces add up to that of the whole, and one division by
        the whole weight makes the mean: pieces of any size and any mask give the same gradient (O01).
        """
        self._flat.gradient.zero_()
        size = self._config.micro_batch_size
        if size is None:
            return self._accumulate(batch, coefficients, batch.weight.sum())
        total = batch.weight.sum()
        count = batch.weight.shape[0]
        pieces = [batch.rows(slice(start, start + size)) for start in range(0, count, size)]
        return combine([self._accumulate(p, coefficients, total) for p in pieces if bool(p.weight.any())])

    def _accumulate(self, batch: Batch, coefficients: Coefficients, total: Tensor) -> Tensor:
        parameters, prediction = self._policy(batch.observation)
        loss, statistics = objective(
            parameters, prediction, batch, coefficients, self._family, self._policy.critic, self._config
        )
        (loss / total).backward()  # type: ignore[no-untyped-call]
        return statistics


def combine(statistics: list[Tensor]) -> Tensor:
    """Statistics of several pieces as those of the whole: sums add up, extremes are taken."""
    table = torch.stack(statistics)
    n = table.shape[1] - len(EXTREMES)
    largest, low, high = table[:, n].amax(0), table[:, n + 1].amin(0), table[:, n + 2].amax(0)
    return torch.cat([table[:, :n].sum(0), torch.stack([largest, low, high])])
