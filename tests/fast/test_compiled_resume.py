"""A compiled run that is cut and continued equals an uninterrupted one, bit for bit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from contract.test_together import QUANTILE_TWIN, continued_equals_uninterrupted
from fast.test_compile import as_recorded, needs_compiler
from faults import training_faults
from surefoot.fast.compiled_step import CompiledStep


@needs_compiler
def test_memory_in_compiled_loops_with_heads_masks_and_twins_goes_on_exactly(tmp_path: Path) -> None:
    """Of one minibatch, since each size of one is compiled."""
    settings: dict[str, Any] = {"memory": {"kind": "lstm", "hidden_size": 16}, "critic": QUANTILE_TWIN}
    continued_equals_uninterrupted(settings | {"batch_size": 64, "compile": True}, tmp_path)


@needs_compiler
@pytest.mark.parametrize("name", training_faults.COMPILED)
def test_a_run_cut_in_two_equals_an_uninterrupted_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph as it was recorded; `make faults` has it compiled."""
    monkeypatch.setattr("surefoot.fast.acceleration.CompiledStep", partial(CompiledStep, compiler=as_recorded))
    assert training_faults.resume(2, [name])["problems"] == []
