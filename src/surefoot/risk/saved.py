"""Reading what a risk term has saved: a file may hold anything, and ValueError says what does not belong there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

LARGEST = 1e150
"""Of a saved number: its square is finite."""


def number(saved: Any, least: float = -LARGEST, most: float = LARGEST) -> float:
    """A number within bounds."""
    if isinstance(saved, bool) or not isinstance(saved, int | float) or not least <= saved <= most:
        raise ValueError(f"{str(saved)[:40]!r} is not a number from {least:g} to {most:g}")
    return float(saved)


def numbers(saved: Any, length: int | None = None) -> Tensor:
    """A list of numbers, of so many if that is said, as float64 [n]."""
    if not isinstance(saved, Sequence) or isinstance(saved, str) or length not in (None, len(saved)):
        wanted = "numbers" if length is None else f"{length} numbers"
        raise ValueError(f"{str(saved)[:40]!r} is not a list of {wanted}")
    return torch.tensor([number(x) for x in saved], dtype=torch.float64)


def count(saved: Any) -> int:
    """A whole number of at least 0."""
    if isinstance(saved, bool) or not isinstance(saved, int) or not 0 <= saved < 2**53:
        raise ValueError(f"{str(saved)[:40]!r} is not a count")
    return saved


def flag(saved: Any) -> bool:
    """True or False."""
    if not isinstance(saved, bool):
        raise ValueError(f"{str(saved)[:40]!r} is neither true nor false")
    return saved
