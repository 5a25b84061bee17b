"""The comparison with another commit: which rows it knows, and what its page concludes."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="a source distribution has no benchmarks")


@pytest.fixture
def against(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("throughput_against")


def row(ours: float, theirs: float) -> dict[str, Any]:
    return {"ours": [ours] * 3, "theirs": [theirs] * 3, "mean_returns": [20.0, 21.0], "commit": "abc"}


def test_the_page_has_the_geometric_mean_and_the_lowest_row(against: Any) -> None:
    """√(2 · 0.5) = 1, though the lower row is below its goal."""
    text = against.page("1234567", {"one": row(1.0, 2.0), "other": row(2.0, 1.0)})
    assert (
        "All rows (2): geometric mean 1.000 (goal ≥ 0.95: met), lowest other, 0.500 (goal ≥ 0.85: **missed**)" in text
    )
    assert "same work" not in text
    assert "| one | 1000.0 ms | 2000.0 ms | 2.00 [2.00, 2.00] | 3 | 20 / 21 | abc |" in text


def test_a_row_of_more_work_counts_and_is_named(against: Any) -> None:
    (risk,) = against.OTHER_WORK
    text = against.page("1234567", {"one": row(1.0, 1.0), risk: row(4.0, 1.0)})
    assert f"All rows (2): geometric mean 0.500 (goal ≥ 0.95: **missed**), lowest {risk}, 0.250" in text
    assert "Rows of the same work (1): geometric mean 1.000 (goal ≥ 0.95: met), lowest one, 1.000" in text
    assert against.OTHER_WORK[risk] in text


@pytest.mark.parametrize(
    ("workload", "system", "name"),
    [
        ("cartpole", "surefoot", "surefoot"),
        ("cartpole", "surefoot-normalized", "surefoot-normalised"),
        ("cartpole", "surefoot-upgd", None),
        ("options", "surefoot", None),
    ],
)
def test_systems_are_known_by_older_names_and_left_out_if_unknown(
    workload: str, system: str, name: str | None, tmp_path: Path, against: Any
) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "throughput_systems.py").write_text(
        'WORKLOADS = {"cartpole": Workload("CartPole-v1")}\nkinds = {"surefoot": {}, "surefoot-normalised": {}}\n'
    )
    assert against.name_there(tmp_path, workload, system) == name
