"""Advantage-weighted regression on one's own rollouts or on demonstrations (arxiv.org/abs/1910.00177; P11)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from surefoot.algo.demonstrations import Demonstrations, as_tensors
from surefoot.algo.loss_term import LossTerm, TermInputs, TermMetric, TermResult

if TYPE_CHECKING:
    from surefoot.actions.distribution import Family
    from surefoot.spaces import Array
    from surefoot.vector.normalize import ObservationNormalizer

METRICS = (
    TermMetric("train/imitation_loss", "mean", "nats", "−w·ln π(a|s) of what is imitated, before its coefficient."),
    TermMetric("train/imitation_ratio", "mean", "1", "coef · mean |loss| of the term by mean |policy loss| of rows."),
    TermMetric("train/imitation_capped", "mean", "share", "Imitated rows whose weight is at imitation.max_weight."),
)


def weights(advantages: Tensor, beta: float | None, max_weight: float) -> Tensor:
    """exp(min(A/β, ln w_max)): bounded before exp, so that nothing overflows, and constant to the gradient. Without β
    all are 1: behaviour cloning, the limit of large β."""
    if beta is None:
        return torch.ones_like(advantages)
    return torch.exp((advantages.detach() / beta).clamp(max=math.log(max_weight)))


class OwnImitation(LossTerm):
    """−w·ln π(a|s) of the minibatch's own rows."""

    name = "imitation"
    compilable = True
    metrics = METRICS

    def __init__(self, coefficient: float | str, beta: float | None, max_weight: float) -> None:
        super().__init__(coefficient)
        self._beta, self._max_weight = beta, max_weight

    def __call__(self, inputs: TermInputs, numbers: Sequence[Tensor | float], drawn: Sequence[Tensor]) -> TermResult:
        batch = inputs.batch
        weight = weights(batch.advantages, self._beta, self._max_weight)
        loss = -weight * (inputs.log_ratio + batch.log_prob)
        size = torch.dot(loss.detach().abs(), batch.weight) / batch.weight.sum()
        return TermResult(loss, (loss, _ratio(size, inputs, numbers), _capped(weight, self._max_weight)))


class DemonstrationImitation(LossTerm):
    """The mean of −w·ln π(a|s) over as many rows, drawn from a demonstration set for each gradient step.

    A is the discounted return after a demonstrated step, standardized over the set. Observations are normalized like
    those of the env, by the statistics of the rollout.
    """

    name = "imitation"
    compilable = True
    metrics = METRICS

    def __init__(
        self,
        coefficient: float | str,
        beta: float | None,
        max_weight: float,
        load: Callable[[], Demonstrations],
        family: Family,
        normalizer: ObservationNormalizer | None,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        super().__init__(coefficient)
        self._beta, self._max_weight, self._family, self._normalizer = beta, max_weight, family, normalizer
        self._generator, self._device, self._load = generator, device, load
        self._raw: dict[str, Array] = {}

    def prepare(self) -> None:
        if self._raw:
            return
        demonstrations = self._load()
        self._raw = demonstrations.observation
        self._action, self._mask = as_tensors(demonstrations, self._device)
        advantages = torch.zeros(len(demonstrations.action))
        if demonstrations.returns is not None:
            returns = torch.from_numpy(demonstrations.returns)
            advantages = ((returns - returns.mean()) / (returns.std(correction=0) + 1e-8)).to(torch.float32)
        self._weight = weights(advantages, self._beta, self._max_weight).to(self._device)
        self._seen = self._normalized()

    def _normalized(self) -> dict[str, Tensor]:
        seen = self._raw if self._normalizer is None else self._normalizer(self._raw)
        return {
            name: torch.from_numpy(np.asarray(x, np.float32 if x.dtype == np.float64 else x.dtype)).to(self._device)
            for name, x in seen.items()
        }

    def begin(self, advantages: Tensor, weight: Tensor) -> None:
        if self._normalizer is not None:
            self._seen = self._normalized()

    def draw(self, n_rows: int) -> tuple[Tensor, ...]:
        rows = torch.randint(len(self._weight), (n_rows,), generator=self._generator).to(self._device)
        chosen = [self._action, self._weight, *([] if self._mask is None else [self._mask]), *self._seen.values()]
        return tuple(x.index_select(0, rows) for x in chosen)

    def __call__(self, inputs: TermInputs, numbers: Sequence[Tensor | float], drawn: Sequence[Tensor]) -> TermResult:
        action, weight, *rest = drawn
        mask = None if self._mask is None else rest.pop(0)
        observation = dict(zip(self._seen, rest, strict=True))
        distribution = self._family.bind(inputs.forward(observation, False), mask)
        each = -weight * distribution.log_prob(action)
        size = each.detach().abs().mean()
        capped = _capped(weight, self._max_weight).mean()
        return TermResult(each.mean(), (each.detach().mean(), _ratio(size, inputs, numbers), capped))

    def state_dict(self) -> dict[str, Tensor]:
        return {"generator": self._generator.get_state()}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        self._generator.set_state(saved["generator"].to("cpu", torch.uint8))


def _ratio(size: Tensor, inputs: TermInputs, numbers: Sequence[Tensor | float]) -> Tensor:
    weight = inputs.batch.weight
    policy = torch.dot(inputs.policy_loss.detach().abs(), weight) / weight.sum()
    # Without any advantage there is no policy loss to compare with.
    return torch.where(policy > 0.0, numbers[0] * size / policy, torch.nan)


def _capped(weight: Tensor, most: float) -> Tensor:
    return (weight >= most * (1 - 1e-6)).to(weight.dtype)
