"""Between flat stored actions and the shape, dtype and bounds of a Box."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.errors import ConfigError, UnsupportedSpaceError

Array = np.ndarray[Any, Any]
MAX_HALF_WIDTH = 1e7
"""Bounds that are farther apart mean that there are none (±1e8, ±1e10, the largest number of a dtype)."""


class BoxCodec:
    """Writes flat actions [N, D] into a floating Box of any shape.

    Arithmetic is float64 until the last cast. The bounds are numbers of the space's dtype and rounding is
    monotone, so a value within them stays within them.
    """

    def __init__(self, space: spaces.Box) -> None:
        if not np.issubdtype(space.dtype, np.floating):
            raise UnsupportedSpaceError(
                f"{space}: an integer Box has no natural policy. Declare a MultiDiscrete space for a few "
                "levels, or a float Box whose values the environment rounds."
            )
        limits = np.finfo(np.dtype(space.dtype).name)
        self._shape = space.shape
        self._dtype = space.dtype
        # Finite even where the box is not, so that the cast to a narrow dtype cannot overflow.
        self._low = space.low.reshape(-1).astype(np.float64).clip(limits.min, limits.max)
        self._high = space.high.reshape(-1).astype(np.float64).clip(limits.min, limits.max)
        self.n_dims = int(self._low.size)
        if self.n_dims == 0:
            raise UnsupportedSpaceError(f"{space}: the action space is empty.")
        half_width = 0.5 * self._high - 0.5 * self._low  # which cannot overflow
        bounded = np.isfinite(space.low).reshape(-1) & np.isfinite(space.high).reshape(-1)
        has_unit = bounded & (half_width >= np.finfo(np.float64).tiny) & (half_width <= MAX_HALF_WIDTH)
        self.half_width: Array = np.where(has_unit, half_width, 1.0)
        """[D] the unit of each dimension: half the distance of its bounds, or 1 where they give none (a side without a
        bound, no width, more than `MAX_HALF_WIDTH`)."""
        self.centre: Array = np.where(has_unit, self._low + half_width, 0.0)
        """[D] the middle of the bounds, or 0 where they give no unit."""

    def clip(self, action: Array) -> Array:
        """Env actions [N, *space.shape] nearest to `action` [N, D]."""
        inside = np.clip(action.astype(np.float64), self._low, self._high)
        return inside.astype(self._dtype).reshape(-1, *self._shape)

    def is_outside(self, action: Array) -> Array:
        """Which entries of `action` [N, D], in half-widths from the centre, are beyond a bound."""
        raw = self.centre + self.half_width * action.astype(np.float64)
        outside: Array = (raw < self._low) | (raw > self._high)
        return outside

    def bounds_in_box_units(self) -> tuple[Array, Array]:
        """Low and high [D] in half-widths from the centre."""
        return (self._low - self.centre) / self.half_width, (self._high - self.centre) / self.half_width

    def from_box_units(self, action: Array) -> Array:
        """Env actions [N, *space.shape] so many half-widths from the centre, `action` [N, D], clipped to the box."""
        return self.clip(self.centre + self.half_width * action.astype(np.float64))


class BoundedBoxCodec(BoxCodec):
    """A Box with finite bounds on every side: also maps the unit interval onto it."""

    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space)
        bounded = np.isfinite(space.low).all() and np.isfinite(space.high).all()
        with np.errstate(over="ignore"):  # finite bounds of a float64 box can still be infinitely far apart
            self._width = self._high - self._low
        if not bounded or not np.isfinite(self._width).all():
            raise ConfigError(
                f"{space}: tanh_gaussian and beta need finite bounds on every side. Use kind='gaussian', or "
                "bound the space (gymnasium.wrappers.RescaleAction)."
            )
        if (self._width <= 0).any():
            raise ConfigError(
                f"{space}: some dimension has no width (low == high), so tanh_gaussian and beta have no "
                "density there. Use kind='gaussian', or remove the dimension."
            )
        self.log_volume = float(np.log(self._width).sum())
        """ln of the box's volume: Σ_d ln(high_d − low_d)."""

    def from_unit(self, unit: Array) -> Array:
        """Env actions [N, *space.shape] at the fractions `unit` [N, D] of the way from low to high."""
        return self.clip(self._low + self._width * unit)
