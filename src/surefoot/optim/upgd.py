"""UPGD and AdaUPGD on one flat vector: gradient descent that protects useful weights and shakes useless ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.optim.optimizer import Optimizer, Rate, copy_into

SMALLEST = 1e-30
"""A largest utility that counts: dividing by a smaller one leaves the numbers that float32 has."""


@dataclass(frozen=True)
class UPGDSettings:
    """Constants of the optimizer."""

    beta_utility: float = 0.999
    sigma: float = 0.001
    weight_decay: float = 0.0
    betas: tuple[float, float] | None = None
    """Of AdaUPGD's running mean and square of the gradient; None is UPGD."""
    eps: float = 1e-5


def draw_noise(out: Tensor, scale: Tensor, generator: torch.Generator) -> None:
    """Fill with normal variables of these standard deviations."""
    out.normal_(generator=generator).mul_(scale)


class UPGD(Optimizer):
    """Elsayed & Mahmood 2024 (openreview.net/forum?id=sKPzAXoylB), as the authors publish it (O07).

        u <- β u + (1 - β)(-g ⊙ w)          û = u/(1 - β^t)
        w <- (1 - lr·λ) w - 2·lr·(d + ξ) ⊙ (1 - sigmoid(û/max u)),    ξ ~ N(0, σ²)

    d is the gradient g, or with ``betas`` (AdaUPGD) Adam's direction m̂/(sqrt(v̂) + eps). The largest utility is that
    over all parameters, and is not corrected for its bias while û is: both as published. A weight of utility 0 takes
    the whole step, since 2·(1 - sigmoid(0)) = 1. Where no utility is above 0 there is nothing to protect, and every
    weight takes the whole step.

    ``decays`` and ``shaken`` [P] are 1 where weight decay and noise act.
    """

    def __init__(
        self, values: Tensor, settings: UPGDSettings, decays: Tensor, shaken: Tensor, generator: torch.Generator
    ) -> None:
        self.settings, self.decays, self._generator = settings, decays, generator
        self._noise_scale = shaken * settings.sigma
        self.draw = draw_noise
        self.utility, self.noise = torch.zeros_like(values), torch.zeros_like(values)
        self.steps = torch.zeros((), dtype=torch.int64, device=values.device)
        self.moments: tuple[Tensor, ...] = (
            () if settings.betas is None else (torch.zeros_like(values), torch.zeros_like(values))
        )
        self._decay_rates = torch.tensor(
            [settings.beta_utility, *(settings.betas or ())], dtype=torch.float64, device=values.device
        )
        self.bias_correction = torch.zeros(len(self._decay_rates), device=values.device)
        """1/(1 - β^t) of the next step, of each of the running means: found in advance, because a compiled function
        would find them anew for every few parameters."""
        self.begin()

    @property
    def compilable(self) -> bool:
        return True

    def begin(self) -> None:
        self.bias_correction.copy_(1 / (1 - self._decay_rates ** (self.steps + 1)))

    def prepare(self) -> None:
        if self.settings.sigma:
            self.draw(self.noise, self._noise_scale, self._generator)

    def step_(self, values: Tensor, gradient: Tensor, learning_rate: Rate) -> None:
        settings = self.settings
        self.steps.add_(1)
        correction = [1 / (1 - float(rate) ** int(self.steps)) for rate in self._decay_rates.tolist()]
        self.utility.lerp_((gradient * values).neg_(), 1 - settings.beta_utility)
        direction = gradient
        if settings.betas is not None:
            mean, square = self.moments
            mean.lerp_(gradient, 1 - settings.betas[0])
            square.mul_(settings.betas[1]).addcmul_(gradient, gradient, value=1 - settings.betas[1])
            denominator = square.sqrt().mul_(correction[2] ** 0.5).add_(settings.eps)
            direction = mean.div(denominator).mul_(correction[1])
        largest = float(self.utility.amax())
        scale = correction[0] / largest if largest > SMALLEST else 0.0
        kept = torch.sigmoid_(self.utility * -scale)
        if settings.weight_decay:
            values.sub_(values * self.decays * (learning_rate * settings.weight_decay))
        values.sub_((direction + self.noise).mul_(kept).mul_(2 * learning_rate))

    def step(self, values: Tensor, gradient: Tensor, learning_rate: Rate, allowed: Tensor) -> None:
        settings = self.settings
        gradient = torch.where(allowed, gradient, 0.0)
        rate = torch.where(allowed, learning_rate, 0.0)
        self.steps.add_(allowed)
        correction = self.bias_correction.unbind()
        self.utility.lerp_(-gradient * values, torch.where(allowed, 1 - settings.beta_utility, 0.0))
        direction = gradient
        if settings.betas is not None:
            mean, square = self.moments
            mean.lerp_(gradient, torch.where(allowed, 1 - settings.betas[0], 0.0))
            square.lerp_(gradient * gradient, torch.where(allowed, 1 - settings.betas[1], 0.0))
            direction = mean * correction[1] / ((square * correction[2]).sqrt() + settings.eps)
        largest = self.utility.amax()
        scale = torch.where(largest > SMALLEST, correction[0] / largest, 0.0)
        kept = torch.sigmoid(self.utility * -scale)
        if settings.weight_decay:
            values.sub_(values * self.decays * (rate * settings.weight_decay))
        values.sub_((direction + self.noise) * kept * (2 * rate))
        following = 1 / (1 - torch.pow(self._decay_rates, (self.steps + 1).to(torch.float64)))
        self.bias_correction.copy_(torch.where(allowed, following, self.bias_correction))

    def tensors(self) -> Sequence[Tensor]:
        return [self.utility, self.noise, self.steps, *self.moments, self.bias_correction]

    def state_dict(self) -> dict[str, Tensor]:
        return self._tensors_by_name() | {"noise_generator": self._generator.get_state()}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        copy_into(self._tensors_by_name(), saved)
        self._generator.set_state(saved["noise_generator"].to("cpu", torch.uint8))
        self.begin()

    def _tensors_by_name(self) -> dict[str, Tensor]:
        return {"utility": self.utility, "steps": self.steps} | dict(
            zip(("mean", "square"), self.moments, strict=False)
        )
