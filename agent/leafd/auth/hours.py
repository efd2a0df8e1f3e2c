"""The times of the day at which a user may be connected, in the zone that its JWT names.

Loaded at the first user that has such times: it needs the time zones' files. Not here: who has which
times (trust.py).
"""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo

from leafd.auth.jwt_claims import TimeRange


def open_until(ranges: tuple[TimeRange, ...], zone: str, now_s: float) -> int | None:
    """The end of the range that now is in, in seconds since 1970; None when it is in none, or cannot be told."""
    try:
        where: tzinfo = zoneinfo.ZoneInfo(zone) if zone and zone != "UTC" else UTC
    except (OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError in old versions
        return None
    except KeyError:
        return None
    now = datetime.fromtimestamp(now_s, where)
    for one in ranges:
        try:
            start, end = (datetime.strptime(text, "%H:%M:%S").time() for text in (one.start, one.end))
        except ValueError:
            return None
        for day in (now.date() - timedelta(days=1), now.date()):
            begins = datetime.combine(day, start, where)
            ends = datetime.combine(day if start <= end else day + timedelta(days=1), end, where)
            if begins < now < ends:
                return int(ends.timestamp())
    return None
