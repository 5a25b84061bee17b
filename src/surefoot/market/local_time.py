"""UTC stamps as wall-clock time of a time zone, exactly and for a million bars at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import ConfigError
from surefoot.market.prices import Times

DAY = np.timedelta64(1, "D")


def to_local(times: Times, timezone: str) -> Times:
    """[T] UTC -> [T] datetime64[ns] as the clocks there show it."""
    if timezone == "UTC" or len(times) == 0:
        return times
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(f"the time zone {timezone!r} is not known; use a name such as 'America/New_York'") from None
    days, which = np.unique(times.astype("datetime64[D]"), return_inverse=True)
    begins, ends = (np.array([_offset(day, zone) for day in each]) for each in (days, days + DAY))
    offsets = begins[which]
    # Clocks change on few days; there each bar is asked for.
    for i in np.flatnonzero((begins != ends)[which]):
        offsets[i] = _offset(times[i], zone)
    local: Times = times + offsets.astype("timedelta64[s]")
    return local


def second_of_day(local: Times) -> NDArray[np.float64]:
    """[T] seconds since midnight."""
    since = (local - local.astype("datetime64[D]")).astype("timedelta64[ns]")
    return np.asarray(since.astype(np.int64) / 1e9, np.float64)


def weekday(local: Times) -> NDArray[np.int64]:
    """[T], 0 is Monday."""
    return (local.astype("datetime64[D]").astype(np.int64) + 3) % 7


def _offset(moment: np.datetime64, zone: ZoneInfo) -> int:
    """Seconds to add to UTC."""
    seconds = int(moment.astype("datetime64[s]").astype(np.int64))
    there = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    assert there is not None
    return int(there.total_seconds())
