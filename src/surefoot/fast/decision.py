"""Whether the gradient step is worth compiling."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from typing import Literal

import torch

from surefoot.errors import CodeCacheError, SurefootWarning
from surefoot.fast.code_cache import private_cache

PAYING_STEPS = 20_000
"""Gradient steps from which ``compile = "auto"`` compiles: about twice the break-even that
benchmarks/results/throughput.md has."""
PAYING_KERNEL_STEPS = 1_000
"""The same for the loops of a memory over time, which are compiled in a few seconds and save milliseconds each."""
PAYING_MEMORY_ROWS = 2_000_000
"""Rows of minibatches, over all gradient steps, from which the steps of a policy with memory are compiled: they take
longer the more rows they have, and each of a few sizes is compiled."""


def decide(
    setting: bool | Literal["auto"], device: torch.device, gradient_steps: int, paying_steps: int = PAYING_STEPS
) -> bool:
    """Compile a run that will make ``gradient_steps`` in all? The answer depends on nothing that a resume changes."""
    if setting is False or (setting == "auto" and gradient_steps < paying_steps):
        return False
    if device.type == "cpu" and not has_compiler():
        warnings.warn("no C++ compiler found: training runs uncompiled", SurefootWarning, stacklevel=2)
        return False
    try:
        private_cache()
    except CodeCacheError as error:
        if setting is True:
            raise
        warnings.warn(f"training runs uncompiled: {error}", SurefootWarning, stacklevel=2)
        return False
    return True


def has_compiler() -> bool:
    """Whether a C++ compiler that runs is on the path, or named by CXX."""
    named = os.environ.get("CXX")
    return any(_runs(name) for name in ((named,) if named else ("g++", "clang++", "c++")) if shutil.which(name))


def _runs(compiler: str) -> bool:
    """Whether a program answers as a compiler does."""
    try:
        asked = subprocess.run([compiler, "--version"], check=False, capture_output=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0
