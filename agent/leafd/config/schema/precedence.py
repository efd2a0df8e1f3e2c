"""The order and the amount of traffic on a leaf link that carries little: the priority and limits of a remote, and of
links that leaves dial. The plane acts on it (native/plane/lanes.h, budget.h)."""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Annotated, Final

from leafd.config.schema.base import Number, StorageSize, Strings, Text
from leafd.config.schema.section import Reader, Section, Takes, option, shown

RULES_MAX: Final = 256
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES: Final = 24 * 60
_TIME: Final = re.compile(r"(\d{1,2}):(\d\d)")


class LeafPriority(Section):
    """The order of streams and subjects on a link that carries less than it is given. A stream that is not named goes
    by how much waits for it."""

    high: Strings = option((), "The subjects whose messages go before those of others.", takes=Takes.LIVE)
    low: Strings = option((), "The subjects whose messages go last, with what catches up.", takes=Takes.LIVE)
    high_streams: Strings = option(
        (), "The streams of this side whose consumers at the other side go before others.", takes=Takes.LIVE
    )
    normal_streams: Strings = option(
        (), "The streams whose consumers never go last, however much is left for them.", takes=Takes.LIVE
    )
    low_streams: Strings = option((), "The streams whose consumers go last.", takes=Takes.LIVE)

    def check(self) -> None:
        if len(self.rules) > 3 * RULES_MAX:
            raise ValueError(f"more than {RULES_MAX} subjects and streams are named")

    @property
    def rules(self) -> tuple[str, ...]:
        """As the plane takes them; the first one counts."""
        found: list[str] = []
        for rank, kind, names in (
            ("high", "subject", self.high),
            ("low", "subject", self.low),
            ("high", "stream", self.high_streams),
            ("normal", "stream", self.normal_streams),
            ("low", "stream", self.low_streams),
        ):
            for name in names:
                found += (rank, kind, name)
        return tuple(found)


def parse_minutes(value: object) -> int:
    """Minutes since midnight, from "22:30"."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    minutes = 60 * int(found.group(1)) + int(found.group(2)) if found else DAY_MINUTES + 1
    if found is None or int(found.group(2)) > 59 or minutes > DAY_MINUTES:
        raise ValueError(f'{shown(value)} is no time of the day: write it like "22:30"')
    return minutes % DAY_MINUTES


def _days(value: object) -> tuple[int, ...]:
    found: list[int] = []
    for one in (value,) if isinstance(value, str) else value if isinstance(value, list | tuple) else ():
        first, dash, last = str(one).lower().partition("-")
        names = first[:3], (last if dash else first)[:3]
        if not all(name in DAYS for name in names):
            raise ValueError(f'{shown(one)} is no day of the week: write it like "sat", or "mon-fri"')
        begin, end = map(DAYS.index, names)
        found += [day % 7 for day in range(begin, end + 1 + (7 if end < begin else 0))]
    if not found:
        raise ValueError('days are expected, like ["mon-fri"]')
    return tuple(dict.fromkeys(found))


def _only(value: object) -> object:
    if value not in ("all", "normal", "high"):
        raise ValueError(f"{shown(value)} is none of all, normal, high")
    return value


Minutes = Annotated[int, Reader(parse_minutes)]


class LeafSpan(Section):
    """A time of the day at which a link has other limits."""

    begin: Minutes = option(0, 'When it begins, like "22:00".', aliases=("from",), takes=Takes.LIVE, example='"22:00"')
    end: Minutes = option(
        0,
        "When it ends; not behind the beginning: on the next day.",
        aliases=("to",),
        takes=Takes.LIVE,
        example='"05:00"',
    )
    days: Annotated[tuple[int, ...], Reader(_days)] = option(
        (), "The days of the week on which it begins. Absent: every day.", takes=Takes.LIVE, example='["mon-fri"]'
    )
    bytes_per_second: StorageSize | None = option(
        None, "How many bytes a second then? Absent: as at other times; 0: no limit.", takes=Takes.LIVE, ge=0
    )
    only: Annotated[str, Reader(_only)] = option(
        "all",
        "What goes then: all; normal: no bulk (what catches up, and what priority names low); high: what is urgent, "
        "and what priority names high.",
        takes=Takes.LIVE,
    )

    def check(self) -> None:
        if not {"begin", "end"} <= self.given:
            raise ValueError("a time of the day needs from and to")


class LeafLimits(Section):
    """How much a link carries at most, as bytes are on the wire, with 52 for the headers of TCP and IP of each packet.
    What is over waits."""

    bytes_per_second: StorageSize = option(
        0, "How many bytes a second may this side send? 0: no limit.", takes=Takes.LIVE, ge=0, example='"2KB"'
    )
    bytes_per_day: StorageSize = option(
        0,
        "How many bytes a day may the link carry, both ways? What has more priority has a part that bulk does not "
        "get. 0: no limit.",
        takes=Takes.LIVE,
        ge=0,
        example="16M",
    )
    bytes_per_month: StorageSize = option(
        0, "How many bytes a month, both ways? 0: no limit.", takes=Takes.LIVE, ge=0, example="500M"
    )
    month_begins: Number = option(
        1, "The day on which a month begins; the last, in a month that has not so many.", takes=Takes.LIVE, ge=1, le=31
    )
    time_zone: Text = option(
        "",
        "Where days begin, and for times of the day. Empty: the zone of this system.",
        takes=Takes.LIVE,
        example='"Europe/Berlin"',
    )
    at: tuple[LeafSpan, ...] = option(
        (), "Times of the day with other limits, each a block; the first that fits counts.", takes=Takes.LIVE
    )

    def check(self) -> None:
        _ = self.zone

    @property
    def zone(self) -> tzinfo | None:
        """The time zone; None: the system's."""
        if not self.time_zone:
            return None
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(self.time_zone)
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"time_zone {shown(self.time_zone)} is not known on this system") from error
