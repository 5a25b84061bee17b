"""The functions of `kernel.cpp`, compiled on the machine they run on."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from surefoot.fast.code_cache import load_source

LANES = 8
"""Numbers that are computed at once; the width of a recurrent layer must be a multiple of it."""
TANH, RELU = range(2)
NO_CELL, LSTM, GRU = range(3)

_FLAGS = ("-ffp-contract=fast",)
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_SIGNATURES = {
    "lstm_forward": [_POINTER] * 9 + [_NUMBER] * 6,
    "lstm_backward": [_POINTER] * 8 + [_NUMBER] * 6,
    "gru_forward": [_POINTER] * 10 + [_NUMBER] * 5,
    "gru_backward": [_POINTER] * 8 + [_NUMBER] * 4,
    "act": [_POINTER] + [_NUMBER] * 3,
}


class Linear(ctypes.Structure):
    """A layer with weights [in, width] in panels, and zeros in the columns that fill the width up to LANES."""

    _fields_ = [("weights", _POINTER), ("bias", _POINTER), ("n_inputs", _NUMBER), ("width", _NUMBER)]


class Network(ctypes.Structure):
    """Hidden layers, then perhaps a recurrent cell, then perhaps LayerNorm (of a cell's output), more layers and a
    output."""

    _fields_ = [
        ("layers", ctypes.POINTER(Linear)),
        ("n_layers", _NUMBER),
        ("activation", _NUMBER),
        ("cell", _NUMBER),
        ("hidden_size", _NUMBER),
        ("into", Linear),
        ("within", _POINTER),
        ("within_bias", _POINTER),
        ("scale", _POINTER),
        ("shift", _POINTER),
        ("eps", ctypes.c_float),
        ("later", ctypes.POINTER(Linear)),
        ("n_later", _NUMBER),
        ("output", ctypes.POINTER(Linear)),
        ("n_outputs", _NUMBER),
        ("widest", _NUMBER),
    ]


class Rows(ctypes.Structure):
    """Rows of float32: those of step t begin ``t · step`` numbers after the address, ``stride`` numbers apart."""

    _fields_ = [("data", _POINTER), ("step", _NUMBER), ("stride", _NUMBER)]


class Actor(ctypes.Structure):
    """A network and what it reads and writes."""

    _fields_ = [("network", ctypes.POINTER(Network)), ("x", Rows), ("state", Rows), ("out", Rows)]


class Kernel:
    """The compiled functions; what each takes is written beside it in `kernel.cpp`."""

    def __init__(self, library: Any) -> None:
        for name, signature in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = signature, None
        self.lstm_forward, self.lstm_backward = library.lstm_forward, library.lstm_backward
        self.gru_forward, self.gru_backward = library.gru_forward, library.gru_backward
        self.act = library.act
        self.choose = library.choose
        self.choose.argtypes = [_POINTER, _NUMBER] + [_POINTER] * 3 + [_NUMBER] * 3 + [_POINTER] * 3
        self.choose.restype = _NUMBER

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, also in another process, is the kernel of that process."""
        return load_kernel, ()


def panels(matrix: Tensor) -> Tensor:
    """A matrix [m, n] as the kernel reads it, [n / LANES, m, LANES]."""
    m, n = matrix.shape
    return matrix.reshape(m, n // LANES, LANES).transpose(0, 1).contiguous()


@cache
def load_kernel() -> Kernel:
    """Compile, or take from the cache of compiled code; raises if the compiler fails."""
    return Kernel(load_source(Path(__file__).with_suffix(".cpp"), _FLAGS))
