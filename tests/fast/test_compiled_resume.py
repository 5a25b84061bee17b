"""A compiled run that is cut and continued equals an uninterrupted one, bit for bit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from contract.test_together import QUANTILE_TWIN, continued_equals_uninterrupted
from fast.test_compile import as_recorded, needs_compiler
from surefoot import PPO
from surefoot.fast.compiled_step import CompiledStep


@needs_compiler
@pytest.mark.parametrize("more", [{}, {"optimizer": "upgd", "vgs": {"alpha": 0.5}}], ids=["adam", "upgd, vgs"])
def test_a_compiled_run_goes_on_exactly(more: dict[str, Any], tmp_path: Path) -> None:
    """Y02: `make faults` cuts one after every update."""
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 2, "compile": True} | more
    straight = PPO("CartPole-v1", policy={"hidden_sizes": (8,)}, **settings).learn(64)
    straight.save(tmp_path / "half")
    straight.learn(64)
    resumed = PPO.load(tmp_path / "half").learn(64)
    assert resumed.learner.compiled
    assert straight.learner.compiled
    assert torch.equal(resumed.learner.flat.values, straight.learner.flat.values)


@needs_compiler
def test_memory_in_compiled_loops_with_heads_masks_and_twins_goes_on_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loops are machine code, the rest of the step is the graph as it was recorded."""
    monkeypatch.setattr("surefoot.fast.acceleration.CompiledStep", partial(CompiledStep, compiler=as_recorded))
    settings: dict[str, Any] = {"memory": {"kind": "lstm", "hidden_size": 16}, "critic": QUANTILE_TWIN}
    continued_equals_uninterrupted(settings | {"compile": True}, tmp_path)
