"""The examples of the page on extending run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surefoot.actions.registry import BOX_FAMILIES
from surefoot.algo.loss_terms import LOSS_TERMS
from surefoot.algo.metrics import OF_ROLLOUT
from surefoot.critics.build import CRITICS
from surefoot.optim.build import OPTIMIZERS
from surefoot.policy.memories import MEMORIES
from surefoot.risk.build import KINDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## (To add .*?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = {title: BLOCK.findall(text) for title, text in SECTION.findall(PAGE)}


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """What an example registers is forgotten after it."""
    tables: list[dict[Any, Any]] = [LOSS_TERMS, OPTIMIZERS, CRITICS, BOX_FAMILIES, MEMORIES, KINDS]
    before, metrics = [dict(table) for table in tables], list(OF_ROLLOUT)
    yield
    OF_ROLLOUT[:] = metrics
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


def test_every_section_has_an_example() -> None:
    added = {title.split(maxsplit=3)[3] for title in EXAMPLES}
    promised = {"optimizer", "loss term", "critic", "action distribution", "memory", "encoder", "risk term", "metric"}
    assert added == promised
    assert all(blocks for blocks in EXAMPLES.values())


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_examples_run(title: str) -> None:
    for block in EXAMPLES[title]:
        exec(compile(block, f"docs/extending.md: {title}", "exec"), {"__name__": "example"})
