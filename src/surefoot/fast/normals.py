"""The noise of an optimizer as torch draws it, in a quarter of the time: `normals.cpp`."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from surefoot.fast.code_cache import load_source
from surefoot.optim.upgd import draw_noise

LEAST = 16
"""Shorter vectors are drawn by torch in another way."""
STATE_BYTES = 5056
"""Of a generator, as the compiled function reads it."""
_FLAGS = ("-ffp-contract=fast", "-ftree-loop-vectorize", "-fno-math-errno")


def fast_noise(out: Tensor, scale: Tensor, generator: torch.Generator) -> None:
    """As `draw_noise`: the same numbers but for rounding, and the generator moves on alike."""
    state = generator.get_state()
    _load().normals(state.data_ptr(), out.data_ptr(), scale.data_ptr(), out.numel())
    generator.set_state(state)


def fits(noise: Tensor) -> bool:
    """Whether the noise of such a vector can be drawn here, and is what this version of torch would draw."""
    known = noise.device.type == "cpu" and noise.dtype is torch.float32 and noise.numel() >= LEAST
    return known and torch.Generator().get_state().numel() == STATE_BYTES and _equals_torch()


@cache
def _equals_torch() -> bool:
    """On one vector, whose length is no multiple of 16 and more than the generator holds at a time."""
    ours, theirs = (torch.Generator().manual_seed(0) for _ in range(2))
    scale = torch.ones(1001)
    found, expected = torch.empty_like(scale), torch.empty_like(scale)
    fast_noise(found, scale, ours)
    draw_noise(expected, scale, theirs)
    return torch.equal(ours.get_state(), theirs.get_state()) and torch.allclose(found, expected, atol=1e-5)


@cache
def _load() -> Any:
    library = load_source(Path(__file__).with_suffix(".cpp"), _FLAGS)
    library.normals.argtypes, library.normals.restype = [ctypes.c_void_p] * 3 + [ctypes.c_int64], None
    return library
