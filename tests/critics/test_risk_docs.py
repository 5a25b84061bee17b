"""The page docs/risk-functionals.md says what its generator finds today."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"[-+]?\d+\.\d+")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_risk_table", DOCS / "generate_risk_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(generator: ModuleType) -> None:
    """Numbers to the last digit but one: processors round differently."""
    written, made = (DOCS / "risk-functionals.md").read_text(encoding="utf-8"), generator.page()
    assert NUMBER.sub("#", written) == NUMBER.sub("#", made)
    numbers = [[float(text) for text in NUMBER.findall(page)] for page in (written, made)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.11)


def test_the_audited_rule_has_the_errors_that_were_found(generator: ModuleType) -> None:
    """With exact quantiles of N(0, 1): 4.6 and 18 % at N = 21, 2.3 and 13 % at N = 32, for α = 0.05 and 0.01."""
    found = {(c.n, c.alpha): c.audited for c in _cells(generator) if c.distribution == "normal"}
    for cell, error in {(21, 0.05): 0.046, (21, 0.01): 0.18, (32, 0.05): 0.023, (32, 0.01): 0.13}.items():
        assert found[cell] == pytest.approx(error, abs=0.002)


def test_ours_is_at_most_half_as_far_off_or_next_to_nothing(generator: ModuleType) -> None:
    for cell in _cells(generator):
        assert abs(cell.ours) <= max(0.5 * abs(cell.audited), 0.003), cell


def _cells(generator: ModuleType) -> list[Any]:
    with pytest.warns(Warning, match="less than one"):
        found: list[Any] = generator.cells()
    return found
