from __future__ import annotations

import sys
from pathlib import Path

import pytest

# For the packages `cli` and `train`. At the end, so that no folder of tests hides a module of Python.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from cli.commands import Surefoot


@pytest.fixture
def surefoot(capsys: pytest.CaptureFixture[str]) -> Surefoot:
    return Surefoot(capsys)
