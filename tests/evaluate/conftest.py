from __future__ import annotations

import sys
from pathlib import Path

# For the package `train`. At the end, so that no folder of tests hides a module of Python.
sys.path.append(str(Path(__file__).resolve().parents[1]))
