"""How much a link may carry, as the configuration says it: a second, a day, a month, and at which times of the day.

The less is left, the more important the messages it is for: bulk stops first, at a tenth of a budget, other messages
at a twentieth, and what keeps a quiet link alive until the end has its own part. Pure. Not here: what
was used (ledger.py), the lanes in which messages wait (native/plane/budget.h).
"""

from __future__ import annotations

from typing import Final

from leafd.links.ledger import Calendar, Ledger
from leafd.records import dataclass

ANY: Final = (1 << 64) - 1
IDLE_BYTES_PER_S: Final = 32
"""The cost of a quiet link, which is kept for it: two packets for each ping and its answer, and heartbeats."""
IDLE_PART: Final = 4
"""But not more than that part of a budget."""
LOW_PART: Final = 10
NORMAL_PART: Final = 20
ALL, NORMAL, HIGH, NONE = "all", "normal", "high", "none"
"""The messages that may go: all, all but bulk, urgent and prior ones, none but the link's own lines."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time of the day."""

    begins: int
    """Minutes since midnight, on one of the days."""
    ends: int
    """Not behind begins: on the next day."""
    days: frozenset[int]
    """0 is Monday; empty: all."""
    per_second: int | None
    """The rate; None: as at other times."""
    only: str
    """ALL, NORMAL or HIGH."""

    def holds(self, weekday: int, minute: int) -> bool:
        """Is it that time?"""
        if self.begins < self.ends:
            return self.begins <= minute < self.ends and self._on(weekday)
        return (minute >= self.begins and self._on(weekday)) or (minute < self.ends and self._on((weekday - 1) % 7))

    def _on(self, weekday: int) -> bool:
        return not self.days or weekday in self.days


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a link, both ways; bytes a second: of what is sent. 0: any number."""

    per_second: int = 0
    per_day: int = 0
    per_month: int = 0
    calendar: Calendar = Calendar()
    spans: tuple[Span, ...] = ()

    @property
    def counted(self) -> bool:
        """Whether it matters what was carried before."""
        return bool(self.per_day or self.per_month)

    @property
    def grain(self) -> int:
        """Bytes of which nobody needs to hear more exactly."""
        return max(min(one for one in (self.per_day, self.per_month) if one) // 100, 1) if self.counted else ANY

    def now(self, wall: float) -> tuple[int, str]:
        """Bytes a second, and what may go, at that time of the day."""
        if self.spans:
            there = self.calendar.local(wall)
            weekday, minute = there.weekday(), there.hour * 60 + there.minute
            for span in self.spans:
                if span.holds(weekday, minute):
                    return self.per_second if span.per_second is None else span.per_second, span.only
        return self.per_second, ALL


@dataclass(frozen=True, slots=True)
class Room:
    """How many bytes a link may still carry before a rank waits; ANY: it does not wait."""

    high: int = ANY
    """The bound of urgent messages, too."""
    normal: int = ANY
    low: int = ANY

    @property
    def goes(self) -> str:
        """The traffic that may go."""
        return ALL if self.low else NORMAL if self.normal else HIGH if self.high else NONE

    @property
    def next(self) -> int:
        """After so many bytes more it is something else."""
        return min((one for one in (self.high, self.normal, self.low) if one), default=ANY)


def room(limits: Limits, ledger: Ledger, only: str) -> Room:
    """The room that is left now. only: of limits.now()."""
    high = normal = low = ANY
    for limit, period in ((limits.per_day, ledger.day), (limits.per_month, ledger.month)):
        if limit:
            kept = min(int(IDLE_BYTES_PER_S * max(period.left, 0.0)), limit // IDLE_PART)
            spare = limit - period.used - kept
            high = min(high, max(spare, 0))
            normal = min(normal, max(spare - limit // NORMAL_PART, 0))
            low = min(low, max(spare - limit // LOW_PART, 0))
    return Room(high, normal if only != HIGH else 0, low if only == ALL else 0)
