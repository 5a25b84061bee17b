"""A compiled run that is cut and continued equals an uninterrupted one, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract.test_together import QUANTILE_TWIN, continued_equals_uninterrupted
from faults import training_faults
from surefoot.fast.decision import has_compiler

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="needs a C++ compiler")


@needs_compiler
def test_memory_in_compiled_loops_with_heads_masks_and_twins_goes_on_exactly(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"memory": {"kind": "lstm", "hidden_size": 16}, "critic": QUANTILE_TWIN}
    continued_equals_uninterrupted(settings | {"compile": True}, tmp_path)


@needs_compiler
@pytest.mark.parametrize("name", training_faults.COMPILED)
def test_a_run_cut_in_two_equals_an_uninterrupted_one(name: str) -> None:
    assert training_faults.resume(2, [name])["problems"] == []
