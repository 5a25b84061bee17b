"""What an env may give and should not, by the part of what it gives. Observations are meant for three numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import torch


class Refuses:
    """Can be made into nothing: whatever it is asked for, it raises."""

    def _refuse(self, *given: Any) -> Any:
        raise RuntimeError("asked too much")

    __array__ = __float__ = __bool__ = __len__ = __iter__ = __getitem__ = _refuse


class Absent:
    """The key is not there at all."""


OBSERVATIONS: dict[str, Any] = {
    "complex": np.array([1j, 0, 0]),
    "dates": np.array(["2024-01-01"] * 3, "datetime64[s]"),
    "durations": np.array([1, 2, 3], "timedelta64[s]"),
    "objects": np.array([0.1, None, 0.2], object),
    "records": np.zeros(3, [("a", "f4")]),
    "text": np.array(["0.1", "0.2", "0.3"]),
    "bytes": b"abc",
    "ragged": [0.1, [0.2, 0.3], 0.4],
    "a tensor with a gradient": torch.zeros(3, requires_grad=True),
    "nothing": None,
    "a dict": {"obs": np.zeros(3, np.float32)},
    "refusing": Refuses(),
    "huge integers": [10**400, 0, 0],
    "NaN": np.array([0, np.nan, 0], np.float32),
    "NaN in float64": np.array([0, np.nan, 0]),
    "infinite": np.array([0, 0, np.inf], np.float32),
    "minus infinite": np.array([-np.inf, 0, 0], np.float32),
    "beyond float32": np.array([0, 1e60, 0]),
    "longer": np.zeros(4, np.float32),
    "empty": np.zeros(0, np.float32),
    "one number": np.float32(0),
    "of more axes": np.zeros((1, 3), np.float32),
}
CODES: dict[str, Any] = {
    "too large": 7,
    "negative": -1,
    "no integer": 1.5,
    "NaN": np.nan,
    "nothing": None,
    "text": "a",
    "of one axis": np.array([1]),
    "huge": 10**400,
}
PARTS: dict[str, Any] = {
    "without a part": {"a": np.zeros(2, np.float32)},
    "a list": [1, 2],
    "nothing": None,
    "a part that is nothing": {"a": np.zeros(2, np.float32), "b": None},
    "a part of NaN": {"a": np.full(2, np.nan, np.float32), "b": np.int64(1)},
    "a longer part": {"a": np.zeros(5, np.float32), "b": np.int64(1)},
    "a part beyond its codes": {"a": np.zeros(2, np.float32), "b": np.int64(5)},
    "parts inside out": {"a": {"a": np.zeros(2)}, "b": {"b": 1}},
}
REWARDS: dict[str, Any] = {
    "of one axis": np.ones(1),
    "of two axes": np.ones((1, 1)),
    "a list": [1.0],
    "an empty list": [],
    "complex": 1j,
    "text": "much",
    "nothing": None,
    "a dict": {"reward": 1.0},
    "a date": np.datetime64("2024-01-01"),
    "refusing": Refuses(),
    "huge": 10**400,
    "NaN": np.nan,
    "a decimal NaN": Decimal("NaN"),
    "infinite": np.inf,
    "minus infinite": -np.inf,
    "beyond float32": 1e39,
}
COSTS: dict[str, Any] = {
    "missing": Absent,
    "NaN": np.nan,
    "infinite": np.inf,
    "minus infinite": -np.inf,
    "beyond float32": -1e39,
    "huge": 10**400,
    "text": "x",
    "nothing": None,
    "two numbers": np.ones(2),
    "an empty list": [],
    "complex": 1j,
    "a dict": {"cost": 1.0},
    "refusing": Refuses(),
}
SUCCESSES: dict[str, Any] = {
    "two flags": np.array([True, False]),
    "text": "yes",
    "NaN": np.nan,
    "an empty list": [],
    "two": 2,
    "a dict": {"yes": True},
    "complex": 1j,
    "huge": 10**400,
    "refusing": Refuses(),
}
INFOS: dict[str, Any] = {
    "nothing": None,
    "a list": [],
    "pairs": [("a", 1)],
    "text": "fine",
    "a number": 5,
    "a flag": True,
}
MASKS: dict[str, Any] = {
    "nothing legal": np.zeros(2, np.bool_),
    "too long": np.ones(3, np.bool_),
    "empty": [],
    "text": "yes",
    "nothing": None,
    "ragged": [True, [True]],
    "NaN": np.array([np.nan, 1.0]),
    "two": np.array([2, 1]),
    "missing": Absent,
    "by an unknown head": {"other": np.ones(2, np.bool_)},
    "refusing": Refuses(),
}
ANSWERS: dict[str, Any] = {
    "nothing": None,
    "a number": 5,
    "an empty tuple": (),
    "one part": (np.zeros(3),),
    "text": "done",
}
RAISED: dict[str, Any] = {
    kind.__name__: kind("on purpose")
    for kind in (RuntimeError, KeyError, StopIteration, AssertionError, MemoryError, RecursionError, SystemExit)
}
FLAGS: dict[str, Any] = {"two flags": np.array([True, False]), "refusing": Refuses()}
