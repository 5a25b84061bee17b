"""Random inputs for comparing a function with its twin."""

from __future__ import annotations

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

QUICK = settings(max_examples=60, deadline=None, derandomize=True, database=None)

seeds = st.integers(min_value=0, max_value=2**31)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(rng: torch.Generator, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    return scale * torch.randn(shape, generator=rng, dtype=dtype)


def flags(rng: torch.Generator, *shape: int, probability: float) -> Tensor:
    return torch.rand(shape, generator=rng) < probability


def distribution(rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random probabilities over the last dimension, some of them tiny."""
    return torch.softmax(3.0 * torch.randn(shape, generator=rng, dtype=dtype), -1)
