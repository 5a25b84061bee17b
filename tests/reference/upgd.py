"""UPGD and AdaUPGD weight by weight, in Python numbers, as the paper and its README write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class SlowUPGD:
    """One number per weight; AdaUPGD if ``betas`` are given."""

    weights: list[float]
    beta_utility: float
    weight_decay: float
    betas: tuple[float, float] | None = None
    eps: float = 1e-5
    t: int = 0
    utility: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    second: list[float] = field(default_factory=list)

    def step(self, gradient: Sequence[float], noise: Sequence[float], rate: float) -> None:
        n = len(self.weights)
        if self.t == 0:
            self.utility, self.first, self.second = [0.0] * n, [0.0] * n, [0.0] * n
        self.t += 1
        for i in range(n):
            instant = -gradient[i] * self.weights[i]
            self.utility[i] = self.beta_utility * self.utility[i] + (1 - self.beta_utility) * instant
        largest = max(self.utility)
        assert largest > 0, "the published formula divides by it"
        for i in range(n):
            corrected = self.utility[i] / (1 - self.beta_utility**self.t)
            gate = 0.5 * (1 + math.tanh(0.5 * corrected / largest))  # the sigmoid, which cannot overflow like this
            direction = gradient[i]
            if self.betas is not None:
                b1, b2 = self.betas
                self.first[i] = b1 * self.first[i] + (1 - b1) * gradient[i]
                self.second[i] = b2 * self.second[i] + (1 - b2) * gradient[i] ** 2
                mean, square = self.first[i] / (1 - b1**self.t), self.second[i] / (1 - b2**self.t)
                direction = mean / (math.sqrt(square) + self.eps)
            moved = (direction + noise[i]) * (1 - gate)
            self.weights[i] = self.weights[i] * (1 - rate * self.weight_decay) - 2.0 * rate * moved
