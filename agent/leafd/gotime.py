"""Times of the wire: RFC 3339 text as Go reads and writes it, and nanoseconds since 1970 inside.

Not here: clocks, but for the one function that reads the wall clock.
"""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

# 0001-01-01T00:00:00Z, Go's zero time, which stands for "unset" in JSON.
ZERO_TIME: Final = -62_135_596_800_000_000_000
SECOND: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
_BEGIN: Final = datetime(1970, 1, 1)
_INT64_MAX: Final = (1 << 63) - 1
# 9999-12-31T23:59:59.999999999Z: later ones cannot be written.
_LAST_TIME: Final = 253_402_300_800 * SECOND - 1
_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_PARTS: Final = (
    (r"[0-9]{4}", "2006"), ("-", "-"), (r"[0-9]{2}", "01"), ("-", "-"), (r"[0-9]{2}", "02"), ("T", "T"),
    (r"[0-9]{2}", "15"), (":", ":"), (r"[0-9]{2}", "04"), (":", ":"), (r"[0-9]{2}", "05"), (r"(?:[.,][0-9]+)?", ""),
    (r"Z|[+-][0-9]{2}:[0-9]{2}", "Z07:00"),
)  # fmt: skip


class TimeError(Exception):
    """Not a time; the text is Go's."""


def now_ns() -> int:
    """The wall clock."""
    return time.time_ns()


def parse_time(text: str) -> int:
    """RFC 3339 to nanoseconds since 1970."""
    at = 0
    found = []
    for pattern, layout in _PARTS:
        match = re.compile(pattern).match(text, at)
        if match is None:
            raise TimeError(f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{text[at:]}" as "{layout}"')
        found.append(match[0])
        at = match.end()
    if at != len(text):
        raise TimeError(f'parsing time "{text}": extra text: "{text[at:]}"')
    year, month, day, hour, minute, second = (int(found[i]) for i in (0, 2, 4, 6, 8, 10))
    for value, low, high, what in (
        (month, 1, 12, "month"), (day, 1, 31, "day"), (hour, 0, 23, "hour"), (minute, 0, 59, "minute"),
        (second, 0, 59, "second"),
    ):  # fmt: skip
        if not low <= value <= high:
            raise TimeError(f'parsing time "{text}": {what} out of range')
    try:
        moment = datetime(max(year, 1), month, day, hour, minute, second, tzinfo=timezone.utc)  # noqa: UP017
    except ValueError:
        raise TimeError(f'parsing time "{text}": day out of range') from None
    since = moment - _EPOCH
    seconds = since.days * 86_400 + since.seconds - _offset(text, found[12])
    nanoseconds = int(found[11][1:10].ljust(9, "0")) if found[11] else 0
    return min(max(seconds * SECOND + nanoseconds, ZERO_TIME), _LAST_TIME)


def _offset(text: str, zone: str) -> int:
    """Seconds that a zone is ahead of UTC."""
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    for value, most, what in ((hours, 23, "hour"), (minutes, 59, "minute")):
        if value > most:
            raise TimeError(f'parsing time "{text}": time zone offset {what} out of range')
    return (hours * 3600 + minutes * 60) * (1 if zone[0] == "+" else -1)


def plane_time(ns: int) -> int:
    """A time as the plane takes it: 64 bits end in 2262, and a later time is as good as that. Its 0 is "no time", and
    what is before 1970 is before everything that is stored all the same."""
    return min(max(ns, 1), _INT64_MAX)


def until(ns: int) -> int:
    """From now to a time: 0 when it has passed, and never more than Go's longest duration."""
    return min(max(ns - now_ns(), 0), _INT64_MAX)


def format_time(ns: int) -> str:
    """Nanoseconds since 1970 to RFC 3339 in UTC, the fraction without trailing zeros."""
    if not ZERO_TIME <= ns <= _LAST_TIME:
        ns = ZERO_TIME if ns < ZERO_TIME else _LAST_TIME
    seconds = ns // SECOND  # which is 0.15 us less than divmod(), thrice for each row of a report
    fraction = ns - seconds * SECOND
    text = _to_the_second(seconds)
    return f"{text}.{fraction:09d}".rstrip("0") + "Z" if fraction else f"{text}Z"


@lru_cache(maxsize=256)
def _to_the_second(seconds: int) -> str:
    """Many times of a report are within the same few seconds."""
    return (_BEGIN + timedelta(seconds=seconds)).isoformat()


_UNITS: Final = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"))


def format_duration(ns: int) -> str:
    """A duration as Go prints it: 1m30s, 100ms, 0s."""
    if ns == 0:
        return "0s"
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns < SECOND:
        scale, unit = max(pair for pair in _UNITS if pair[0] <= ns)
        return sign + _decimal(ns, scale) + unit
    minutes, rest = divmod(ns, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    text = _decimal(rest, SECOND) + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _decimal(ns: int, scale: int) -> str:
    whole, fraction = divmod(ns, scale)
    if not fraction:
        return str(whole)
    digits = len(str(scale)) - 1
    return f"{whole}." + str(fraction).rjust(digits, "0").rstrip("0")
