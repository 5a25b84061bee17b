"""Adam and AdamW on one flat vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.optim.optimizer import Optimizer, Rate, copy_into


@dataclass(frozen=True)
class AdamSettings:
    """Constants of the optimizer."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-5
    weight_decay: float = 0.0
    decoupled: bool = False
    """AdamW: decay the parameters directly, not through the gradient."""


class AdamState(NamedTuple):
    """Running mean and square of the gradient [P], and the number of steps made (0-dim, int64).

    An integer, because a compiled function takes a 0-dim float64 tensor for a constant and would not count.
    """

    mean: Tensor
    square: Tensor
    steps: Tensor


class Adam(Optimizer):
    """Kingma & Ba 2015 (arxiv.org/abs/1412.6980); decoupled decay by Loshchilov & Hutter 2019 (1711.05101).

        m <- b1 m + (1 - b1) g      v <- b2 v + (1 - b2) g²
        w <- w - lr · m/(1 - b1^t) / (sqrt(v/(1 - b2^t)) + eps)

    ``decays`` [P] is 1 where weight decay acts.
    """

    def __init__(self, values: Tensor, settings: AdamSettings, decays: Tensor) -> None:
        self.settings, self.decays = settings, decays
        self.state = AdamState(
            torch.zeros_like(values),
            torch.zeros_like(values),
            torch.zeros((), dtype=torch.int64, device=values.device),
        )
        self.bias_correction = torch.zeros(2, device=values.device)
        """1/(1 - b1^t) and 1/sqrt(1 - b2^t) of the next step: found in advance, because a compiled function would find
        them anew for every few parameters."""
        self.begin()

    @property
    def compilable(self) -> bool:
        return True

    def begin(self) -> None:
        first, second = self.settings.betas
        taken = int(self.state.steps) + 1
        self.bias_correction.copy_(torch.tensor([1 / (1 - first**taken), (1 - second**taken) ** -0.5]))

    def step_(self, values: Tensor, gradient: Tensor, learning_rate: Rate) -> None:
        settings, (mean, square, steps) = self.settings, self.state
        first, second = settings.betas
        steps.add_(1)
        taken = int(steps)
        if settings.weight_decay and settings.decoupled:
            if isinstance(learning_rate, Tensor):
                values.addcmul_(values * learning_rate, self.decays, value=-settings.weight_decay)
            else:
                values.addcmul_(values, self.decays, value=-learning_rate * settings.weight_decay)
        elif settings.weight_decay:
            gradient = torch.addcmul(gradient, values, self.decays, value=settings.weight_decay)
        mean.lerp_(gradient, 1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        denominator = square.sqrt().div_((1 - second**taken) ** 0.5).add_(settings.eps)
        if isinstance(learning_rate, Tensor):
            values.addcdiv_(mean * learning_rate, denominator, value=-1 / (1 - first**taken))
        else:
            values.addcdiv_(mean, denominator, value=-learning_rate / (1 - first**taken))

    def step(self, values: Tensor, gradient: Tensor, learning_rate: Rate, allowed: Tensor) -> None:
        settings, (mean, square, steps) = self.settings, self.state
        first, second = settings.betas
        gradient = torch.where(allowed, gradient, 0.0)
        steps.add_(allowed)
        rate = torch.where(allowed, learning_rate, 0.0)
        if settings.weight_decay and settings.decoupled:
            values.sub_(values * self.decays * (rate * settings.weight_decay))
        elif settings.weight_decay:
            gradient = gradient + values * self.decays * torch.where(allowed, settings.weight_decay, 0.0)
        mean.lerp_(gradient, torch.where(allowed, 1 - first, 0.0))
        square.lerp_(gradient * gradient, torch.where(allowed, 1 - second, 0.0))
        correction, root = self.bias_correction.unbind()
        values.sub_(mean / (square.sqrt() * root + settings.eps) * (rate * correction))
        taken = (steps + 1).to(torch.float64)
        following = torch.stack([1 / (1 - torch.pow(first, taken)), torch.rsqrt(1 - torch.pow(second, taken))])
        self.bias_correction.copy_(torch.where(allowed, following, self.bias_correction))

    def tensors(self) -> Sequence[Tensor]:
        return [*self.state, self.bias_correction]

    def state_dict(self) -> dict[str, Tensor]:
        return self.state._asdict()

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        copy_into(self.state_dict(), saved)
        self.begin()
