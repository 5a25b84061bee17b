from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# For the package `faults`. At the end, so that no folder of tests hides a module of Python.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from faults.samples import workspace


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where possible: what these tests prove does not depend on the disk, only their time does."""
    with workspace() as place:
        yield place
