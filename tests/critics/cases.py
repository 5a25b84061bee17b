"""Every critic that the configuration can build, and data for it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from surefoot.config import CriticConfig, from_flat
from surefoot.critics.base import Critic
from surefoot.critics.build import build_critic
from surefoot.errors import ConfigError
from surefoot.nets.init import Initializer

F, T, N = 6, 8, 4
B = T * N
CLIP_RANGE = 0.1
MODES = ("none", "mean_only", "mean_and_variance", "per_quantile")


@dataclass(frozen=True)
class Case:
    """A critic's settings, and whether its predictions are clipped."""

    critic: dict[str, Any]
    clips: bool

    @property
    def settings(self) -> dict[str, Any]:
        """As `PPO` takes them."""
        return {"critic": self.critic} | ({"clip_range_vf": CLIP_RANGE} if self.clips else {})

    @property
    def clip_range(self) -> float | None:
        return CLIP_RANGE if self.clips else None

    @property
    def kind(self) -> str:
        return str(self.critic["kind"])

    def has(self, **settings: Any) -> bool:
        """Whether these are among the settings."""
        return all(self.critic.get(name) == value for name, value in settings.items())

    def build(self, seed: int = 0) -> Critic:
        return build_critic(CriticConfig.model_validate(self.critic), F, Initializer(generator(seed)))

    def __str__(self) -> str:
        words = [name if value is True else str(value) for name, value in self.critic.items() if value]
        return "-".join([*words, *(["clip"] if self.clips else [])])


def _candidates() -> list[Case]:
    found = []
    twins, popart, targets = ("none", "heads", "trunks"), (False, True), ("lambda", "backup")
    for kind, twin, scaled, mode, target in product(
        ("scalar", "quantile", "categorical", "fixed"), twins, popart, MODES, targets
    ):
        critic: dict[str, Any] = {"kind": kind, "twin": twin, "popart": scaled, "clip_mode": mode, "targets": target}
        if kind == "fixed":
            critic |= {"kind": "categorical", "v_min": -6.0, "v_max": 6.0}
        found += [Case(critic, clips) for clips in (False, True)]
    return found


def _accepted(case: Case) -> bool:
    try:
        from_flat(**case.settings)
    except ConfigError:
        return False
    return True


CASES = [case for case in _candidates() if _accepted(case)]
"""All combinations that do not contradict themselves."""


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def features(seed: int = 0, rows: int = B) -> Tensor:
    return torch.randn(rows, F, generator=generator(seed))


def grid(seed: int = 1) -> Tensor:
    """Numbers of a rollout, [T, N]."""
    return torch.randn(T, N, generator=generator(seed))


def everything() -> Tensor:
    """All rows valid, [T, N]."""
    return torch.ones(T, N, dtype=torch.bool)


def targets_of(critic: Critic, seed: int = 1) -> Tensor:
    """What the critic learns from random returns, rewards and successors, row by row: [B, ...]."""
    discounts = torch.where(grid(seed + 1) > 1.0, 0.0, 0.9)
    with torch.no_grad():
        successors = critic(features(seed + 2)).view(T, N, -1)
        return critic.targets(2.0 * grid(seed), grid(seed + 3), discounts, successors).flatten(0, 1)
