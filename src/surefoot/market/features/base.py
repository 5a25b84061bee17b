"""What a feature is: a causal function of the last few bars."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import ClassVar

from surefoot.market.prices import Column, Prices
from surefoot.market.spec import require


class Feature(ABC):
    """One or a few columns computed from bars; concrete ones are frozen dataclasses whose fields are their settings.

    The value at bar t is an exact function of the bars t − `lookback` … t, and of nothing else: not of later bars, and
    not of where the history begins. So the bar-by-bar form is `compute` on the last bars, bit for bit (E06).
    """

    name: ClassVar[str]
    needs_ohlc: ClassVar[bool] = False
    needs_volume: ClassVar[bool] = False
    scaled: ClassVar[bool] = True
    """Whether statistics of the training span scale it; False for what is bounded by nature."""
    parts: ClassVar[tuple[str, ...]] = ("",)
    """Names of its columns, behind its own; one nameless column for most."""

    @property
    @abstractmethod
    def lookback(self) -> int:
        """How many bars before t the value at t depends on; as many first bars have no value."""

    @abstractmethod
    def compute(self, prices: Prices) -> list[Column]:
        """One [T] float64 column for each of `parts`; NaN in the first `lookback` rows, finite after them."""

    def bars_needed(self, prices: Prices) -> int:
        """How many of the last bars the value at the last one depends on."""
        return self.lookback + 1

    @property
    def title(self) -> str:
        """As it is written in a list of features."""
        settings = [getattr(self, x.name) for x in fields(self)]  # type: ignore[arg-type]  # leaves are dataclasses
        return f"{self.name}({','.join(f'{x:g}' if isinstance(x, float) else str(x) for x in settings)})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its columns."""
        return tuple(f"{self.title}.{part}" if part else self.title for part in self.parts)

    def require(self, prices: Prices) -> None:
        """Raise if the bars lack what it needs."""
        require(
            prices.has_ohlc or not self.needs_ohlc,
            f"the feature {self.title} needs open, high and low, and {prices.instrument or 'the data'} has closes "
            "only; give OHLC data or leave it out",
        )
        require(
            prices.volume is not None or not self.needs_volume,
            f"the feature {self.title} needs volume, and {prices.instrument or 'the data'} has none; "
            "give data with a volume column or leave it out",
        )

    def _require_period(self, period: int, least: int = 1, what: str = "period") -> None:
        require(period >= least, f"the feature {self.title}: {what} is {period}, it must be at least {least}")
