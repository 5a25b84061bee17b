"""What an account sees: a window of features up to the last close, and itself."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from surefoot.market.features.statistics import CLIP
from surefoot.market.limits import Limits
from surefoot.market.prices import Column
from surefoot.market.simulator import Indices

Observation = NDArray[np.float32]
ACCOUNT = ("position", "drawdown", "time_left")
"""Position as a fraction of equity, 1 − equity / its highest, part of the episode that is left."""


class Observer:
    """Gathers rows [N, window·F + account] out of one feature array [T, F] that all accounts share."""

    def __init__(self, features: Observation, window: int, limits: Limits) -> None:
        n_bars, n_features = features.shape
        features = np.ascontiguousarray(features)
        # A window is one stretch of memory, so a view with overlapping rows has them all and holds nothing itself.
        self._windows = as_strided(
            features,
            (n_bars - window + 1, window * n_features),
            (features.strides[0], features.strides[1]),
            writeable=False,
        )
        self._window, self._limits = window, limits
        self._width = window * n_features
        self.account_columns: tuple[str, ...] = ACCOUNT
        if limits.hold is not None:
            self.account_columns += ("may_trade",)
        if limits.most is not None:
            self.account_columns += ("position_limit",)
        self.space = spaces.Box(-CLIP, CLIP, (self._width + len(self.account_columns),), np.float32)

    def gather(self, bar: Indices, position: Column, drawdown: Column, time_left: Column) -> Observation:
        """A new array."""
        width = self._width
        seen = np.empty((len(bar), width + len(self.account_columns)), np.float32)
        seen[:, :width] = self._windows[bar if self._window == 1 else bar - (self._window - 1)]
        seen[:, width] = np.minimum(np.maximum(position, -CLIP), CLIP)
        seen[:, width + 1] = drawdown
        seen[:, width + 2] = time_left
        column = width + len(ACCOUNT)
        if self._limits.hold is not None:
            seen[:, column] = ~self._limits.hold[bar]
            column += 1
        if self._limits.most is not None:
            seen[:, column] = self._limits.most[bar]
        return seen
