"""The examples of the page on extending run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surefoot.algo.loss_terms import LOSS_TERMS
from surefoot.optim.build import OPTIMIZERS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## (To add .*?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = {title: BLOCK.findall(text) for title, text in SECTION.findall(PAGE)}


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """What an example registers is forgotten after it."""
    tables: list[dict[Any, Any]] = [LOSS_TERMS, OPTIMIZERS]
    before = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


def test_every_section_has_an_example() -> None:
    assert len(EXAMPLES) >= 2
    assert all(blocks for blocks in EXAMPLES.values())


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_examples_run(title: str) -> None:
    for block in EXAMPLES[title]:
        exec(compile(block, f"docs/extending.md: {title}", "exec"), {"__name__": "example"})
