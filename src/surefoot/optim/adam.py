"""Adam and AdamW on one flat vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AdamSettings:
    """Constants of the optimiser."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-5
    weight_decay: float = 0.0
    decoupled: bool = False
    """AdamW: decay the parameters directly, not through the gradient."""


class Adam:
    """Kingma & Ba 2015 (arxiv.org/abs/1412.6980); decoupled decay by Loshchilov & Hutter 2019 (1711.05101).

        m <- b1 m + (1 - b1) g      v <- b2 v + (1 - b2) g²
        w <- w - lr · m/(1 - b1^t) / (sqrt(v/(1 - b2^t)) + eps)

    ``decays`` [P] is 1 where weight decay acts. The learning rate is given to every step, so that a schedule or a
    population that changes it takes effect at once (O03).
    """

    def __init__(self, values: Tensor, settings: AdamSettings, decays: Tensor) -> None:
        self.settings = settings
        self.mean = torch.zeros_like(values)
        self.square = torch.zeros_like(values)
        self.steps = 0
        self._values, self._decays = values, decays

    def step(self, gradient: Tensor, learning_rate: float) -> None:
        """Move the parameters in place."""
        settings = self.settings
        first, second = settings.betas
        self.steps += 1
        if settings.weight_decay and settings.decoupled:
            self._values.addcmul_(self._values, self._decays, value=-learning_rate * settings.weight_decay)
        elif settings.weight_decay:
            gradient = torch.addcmul(gradient, self._values, self._decays, value=settings.weight_decay)
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        root = (1 - second**self.steps) ** 0.5
        denominator = self.square.sqrt().div_(root).add_(settings.eps)
        self._values.addcdiv_(self.mean, denominator, value=-learning_rate / (1 - first**self.steps))

    def state(self) -> dict[str, Tensor]:
        """Moments and step count."""
        return {"mean": self.mean, "square": self.square, "steps": torch.tensor(self.steps)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore moments and step count."""
        self.mean.copy_(state["mean"])
        self.square.copy_(state["square"])
        self.steps = int(state["steps"])
