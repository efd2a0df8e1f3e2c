"""The ledger of a link: the bytes of this day and this month, whatever the clock of the box does.

    |<------------- a day ------------->|<--------- the next ---------
    used: 0 ... 3 MB ...                | used: 0
                                        ends: what the clock will say then
                       |<--- left ----->|  seconds that have still to pass

A period has ended when both are true: so many seconds have passed as were to pass, and the clock has come to its end.
So no step of the clock gives a budget a second time: a step forward does not make time pass, and after a step back the
period goes on to the end of the day or month that the clock says then. What passed while the box was off is known from
the clock alone: of a start, what the clock says beyond the stamp of the record, and the first step forward after it,
which is how a box without a clock battery learns the time. A clock that is ahead then gives the next period early,
once.

Pure: the time is handed in. Not here: what follows from it (budgets.py), the record's place on the disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final

from leafd.records import dataclass

WALL_MAX: Final = 32_503_680_000.0
"""The year 3000: a clock beyond that says nothing."""
_FORM: Final = 1


@dataclass(frozen=True, slots=True)
class Calendar:
    """The ends of days and months."""

    zone: tzinfo | None = None
    """The zone; None: that of the system."""
    name: str = ""
    """The name of the zone."""
    month_begins: int = 1
    """On this day, or on the last of a month that has not so many."""

    def local(self, wall: float) -> datetime:
        """The time on the wall of that place."""
        within = min(max(wall, 0.0), WALL_MAX)
        return datetime.fromtimestamp(within, UTC).astimezone(self.zone)

    def _midnight(self, day: date, after: float) -> float:
        """The moment in which that day begins. Not before `after`: where clocks change at midnight."""
        naive = datetime.combine(day, time())
        found = (naive.replace(tzinfo=self.zone) if self.zone is not None else naive.astimezone()).timestamp()
        return found if found > after else after + 3600.0

    def day_ends(self, wall: float) -> float:
        """The end of the day of that time."""
        return self._midnight(self.local(wall).date() + timedelta(days=1), min(max(wall, 0.0), WALL_MAX))

    def month_ends(self, wall: float) -> float:
        """The end of the month of that time."""
        today = self.local(wall).date()
        begins = self._begin(today.year, today.month)
        if today >= begins:
            following = today.replace(day=1) + timedelta(days=31)
            begins = self._begin(following.year, following.month)
        return self._midnight(begins, min(max(wall, 0.0), WALL_MAX))

    def _begin(self, year: int, month: int) -> date:
        last = (date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)).day
        return date(year, month, min(self.month_begins, last))

    @property
    def rule(self) -> str:
        """The rule by which a period's end was reckoned."""
        return f"{self.name}/{self.month_begins}"


@dataclass(slots=True)
class Period:
    """A day, or a month."""

    used: int
    ends: float
    """Seconds since 1970, by the clock."""
    left: float
    """Seconds that have still to pass."""

    def turn(self, wall: float, passed: float, ends: Callable[[float], float]) -> bool:
        """Time has passed. Whether a new period has begun."""
        self.left -= passed
        if self.left > 0:
            return False
        began = wall >= self.ends
        if began:
            self.used = 0
        self.ends = ends(wall)
        self.left = self.ends - wall
        return began


class Passage:
    """How much time has passed, and whether the clock has told of more: once after a start."""

    STEP_S: Final = 30.0
    """Less than this is no step but a correction."""

    def __init__(self, wall: float, elapsed: float) -> None:
        self.wall, self._elapsed, self._fresh = wall, elapsed, True

    def since(self, elapsed: float) -> float:
        """Seconds since the last step."""
        return max(elapsed - self._elapsed, 0.0)

    def step(self, wall: float, elapsed: float) -> tuple[float, bool]:
        """Seconds since the last call, and whether the clock has stepped forward to what it can be believed."""
        passed = self.since(elapsed)
        jumped = self._fresh and wall - self.wall - passed > self.STEP_S
        self._fresh = self._fresh and not jumped
        self.wall, self._elapsed = wall, elapsed
        return passed, jumped


class Ledger:
    """The ledger of one link, over all of its connections."""

    __slots__ = ("_calendar", "_known", "day", "month")

    def __init__(self, calendar: Calendar, wall: float) -> None:
        self._calendar = calendar
        self._known = wall
        """The earliest that the time can be, by what has passed."""
        self.day = Period(0, 0.0, 0.0)
        self.month = Period(0, 0.0, 0.0)
        self._reckon(wall)

    def _reckon(self, wall: float) -> None:
        for period, ends in self._periods():
            period.ends = ends(wall)
            period.left = period.ends - wall

    def _periods(self) -> tuple[tuple[Period, Callable[[float], float]], ...]:
        return (self.day, self._calendar.day_ends), (self.month, self._calendar.month_ends)

    def spend(self, size: int) -> None:
        """So many bytes were carried."""
        self.day.used += size
        self.month.used += size

    def turn(self, wall: float, passed: float, *, jumped: bool = False) -> bool:
        """Time has passed. Whether a day or month has begun."""
        if jumped:
            passed = max(wall - self._known, passed)
        self._known += passed
        began = False
        for period, ends in self._periods():
            began = period.turn(wall, passed, ends) or began
        return began

    def reckon_by(self, calendar: Calendar, wall: float) -> None:
        """The configuration has other days or months: what was used stays, and counts to the new end."""
        if calendar.rule != self._calendar.rule:
            self._calendar = calendar
            self._reckon(wall)

    # ---- its record

    def record(self, ahead: int = 0) -> bytes:
        """The record for the disk. ahead: bytes that count as used already, since the next record comes later."""
        periods = {
            name: [one.used + ahead, round(one.ends), round(one.left)]
            for name, one in (("day", self.day), ("month", self.month))
        }
        found = {"form": _FORM, "stamp": round(self._known), "rule": self._calendar.rule, **periods}
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def read(cls, record: bytes, calendar: Calendar, wall: float) -> Ledger:
        """As the record has it. Raises ValueError for one that is none."""
        found = json.loads(record)
        if not isinstance(found, Mapping) or found.get("form") != _FORM:
            raise ValueError("no record of a budget")
        ledger = cls(calendar, wall)
        stamp = _number(found["stamp"])
        ledger.day, ledger.month = _period(found["day"]), _period(found["month"])
        ledger._known = stamp
        ledger.turn(wall, max(wall - stamp, 0.0))
        if found["rule"] != calendar.rule:
            ledger._reckon(ledger._known)
        return ledger


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("no number in a record of a budget")
    return float(value)


def _period(value: Any) -> Period:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError("no period in a record of a budget")
    used, ends, left = map(_number, value)
    return Period(int(used), ends, left)


def stamp_of(record: bytes) -> float:
    """The time at which a record was written; a time far ahead for bytes that are not a record, so that it is not taken
    for old."""
    try:
        return _number(json.loads(record)["stamp"])
    except (ValueError, KeyError, TypeError):
        return WALL_MAX
