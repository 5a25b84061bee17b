"""Spans of one series for training, validation and a test: one after the other in time, never overlapping (E04).

No gap is needed between them: a reward is of one bar, and features look back only, so that those of the first bar of a
validation see bars of the training, which are past by then, and nothing of the training sees the validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.errors import ConfigError
from surefoot.market.prices import Prices, shown
from surefoot.market.spec import require

Span = tuple[str, str]
"""Closes of the first bar, and of the first bar that is not in it."""


@dataclass(frozen=True)
class Splits:
    """Spans as `Market` takes them."""

    train: Span
    validation: Span
    test: Span | None

    def named(self) -> dict[str, Span]:
        """Those that there are, in the order of time."""
        found = {"train": self.train, "validation": self.validation}
        return found if self.test is None else found | {"test": self.test}


def split(prices: Prices, fractions: Sequence[float] = (0.6, 0.2, 0.2)) -> Splits:
    """By shares of the bars."""
    require(
        len(fractions) in (2, 3) and min(fractions[:2]) > 0.0 and min(fractions) >= 0.0,
        f"fractions = {tuple(fractions)} must be those of training, validation and perhaps a test, the first two > 0",
    )
    require(sum(fractions) <= 1.0 + 1e-9, f"fractions = {tuple(fractions)} are more than 1 in all")
    ends = [round(share * len(prices)) for share in np.cumsum(fractions).tolist()]
    spans: list[Span | None] = []
    for name, first, last in zip(("train", "validation", "test"), [0, *ends[:-1]], ends, strict=False):
        if last <= first and name == "test":
            continue
        require(last > first, f"{len(prices)} bars are too few: none of them is left for {name}")
        spans.append((_moment(prices, first), _moment(prices, last)))
    return Splits(*_two(spans), spans[2] if len(spans) > 2 else None)


def split_at(prices: Prices, train: Sequence[str], validation: Sequence[str], test: Sequence[str] = ()) -> Splits:
    """By (begin, end) of each, the end excluded; the end of the last one may be left out."""
    given = {name: span for name, span in (("train", train), ("validation", validation), ("test", test)) if span}
    spans = {name: _read(prices, name, span) for name, span in given.items()}
    for (name, (start, end)), (later, (then, _)) in zip(list(spans.items())[:-1], list(spans.items())[1:], strict=True):
        a, b, c = (np.datetime64(x) for x in (start, end, then))
        require(
            bool(c > a), f"{later} begins at {then}, before {name}, which begins at {start}: spans follow one another"
        )
        require(bool(b <= c), f"{name} ends at {end} and {later} begins at {then}: they overlap, set the end to {then}")
    for name, (start, end) in spans.items():
        bars = prices.between(start, end)
        require(
            bars.stop > bars.start,
            f"{name}, from {start} to {end}, has no bars: the data are from {shown(prices.closes_at[0])} to "
            f"{shown(prices.closes_at[-1])}",
        )
    return Splits(spans["train"], spans["validation"], spans.get("test"))


def _read(prices: Prices, name: str, span: Sequence[str]) -> Span:
    start, end = span[0], span[1] if len(span) > 1 else _moment(prices, len(prices))
    try:
        first, last = np.datetime64(start), np.datetime64(end)
    except ValueError as error:
        raise ConfigError(f"{name} = {list(span)} cannot be read ({error}): write it as 2010 2015-06-30") from None
    require(bool(first < last), f"{name} = {list(span)} ends before it begins")
    return str(start), str(end)


def _moment(prices: Prices, bar: int) -> str:
    """The close of a bar; after the last one, a moment that excludes nothing."""
    if bar < len(prices):
        return shown(prices.closes_at[bar])
    return shown(prices.closes_at[-1] + np.timedelta64(1, "s"))


def _two(spans: Sequence[Span | None]) -> tuple[Span, Span]:
    train, validation = spans[:2]
    assert train is not None
    assert validation is not None
    return train, validation
