"""What a link has used, with a clock that is stepped, wrong, or was off. Days and months are those of the calendar in
the zone of the configuration."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from leafd.links.ledger import Calendar, Ledger, Passage

BERLIN = Calendar(ZoneInfo("Europe/Berlin"), "Europe/Berlin", 17)
DAY = 86400.0
HOUR = 3600.0


def at(text: str, zone: ZoneInfo | None = None) -> float:
    """Seconds since 1970."""
    return datetime.fromisoformat(text).replace(tzinfo=zone or ZoneInfo("Europe/Berlin")).timestamp()


def utc(year: int, month: int, day: int, hour: int = 0) -> float:
    return datetime(year, month, day, hour, tzinfo=UTC).timestamp()


class Box:
    """A machine whose clock may be wrong, and a ledger that is asked each minute, or as often as is said."""

    def __init__(self, wall: float, calendar: Calendar = BERLIN) -> None:
        self.wall, self.up, self.calendar = wall, 100.0, calendar
        self.ledger = Ledger(calendar, wall)
        self.passage = Passage(wall, self.up)

    def passes(self, seconds: float, step: float = 60.0) -> int:
        """How many days have begun meanwhile."""
        began = 0
        while seconds > 0:
            now = min(step, seconds)
            seconds -= now
            self.wall += now
            self.up += now
            began += self.turn()
        return began

    def turn(self) -> int:
        before = self.ledger.day.used
        passed, jumped = self.passage.step(self.wall, self.up)
        self.ledger.turn(self.wall, passed, jumped=jumped)
        return before > self.ledger.day.used

    def steps(self, seconds: float) -> int:
        """Its clock is set."""
        self.wall += seconds
        return self.turn()

    def restarts(self, off_s: float, clock: float | None = None, ahead: int = 0) -> None:
        """It was off for so long. clock: what it believes then; None: it has a clock with a battery."""
        record = self.ledger.record(ahead)
        self.wall = self.wall + off_s if clock is None else clock
        self.up = 5.0
        self.passage = Passage(self.wall, self.up)
        self.ledger = Ledger.read(record, self.calendar, self.wall)

    def spends(self, size: int) -> None:
        self.ledger.spend(size)

    @property
    def used(self) -> tuple[int, int]:
        return self.ledger.day.used, self.ledger.month.used


def test_a_day_ends_at_midnight_of_its_zone() -> None:
    """And with it what was used in it, of the day alone."""
    box = Box(at("2026-11-26 15:00"))
    box.spends(7)
    box.passes(9 * HOUR - 60)
    assert box.used == (7, 7)
    box.passes(60)
    assert box.used == (0, 7)


def test_a_month_begins_on_its_day() -> None:
    """On the 17th, whatever is used of days."""
    box = Box(at("2026-11-16 23:00"))
    box.spends(7)
    box.passes(HOUR - 60)
    assert box.used == (7, 7)
    box.passes(120)
    assert box.used == (0, 0)
    assert box.ledger.month.ends == at("2026-12-17 00:00")


@pytest.mark.parametrize(
    ("begins", "now", "ends"),
    [
        (31, "2026-01-31 12:00", "2026-02-28 00:00"),
        (31, "2026-02-28 12:00", "2026-03-31 00:00"),
        (29, "2028-02-01 12:00", "2028-02-29 00:00"),
        (30, "2028-02-29 12:00", "2028-03-30 00:00"),
        (1, "2026-12-31 23:59", "2027-01-01 00:00"),
        (1, "2026-12-01 00:00", "2027-01-01 00:00"),
        (17, "2026-12-16 23:59", "2026-12-17 00:00"),
    ],
)
def test_a_month_without_that_day_begins_on_its_last(begins: int, now: str, ends: str) -> None:
    """Whatever the length of months and years."""
    calendar = Calendar(ZoneInfo("Europe/Berlin"), "", begins)
    assert calendar.month_ends(at(now)) == at(ends)


def test_days_of_23_and_25_hours() -> None:
    """When the clocks of the zone change, a day is as long as it is."""
    assert BERLIN.day_ends(at("2026-03-29 00:00")) - at("2026-03-29 00:00") == 23 * HOUR
    assert BERLIN.day_ends(at("2026-10-25 00:00")) - at("2026-10-25 00:00") == 25 * HOUR
    for first, hours in (("2026-03-28 12:00", 12 + 23), ("2026-10-24 12:00", 12 + 25)):
        box = Box(at(first))
        box.passes(12 * HOUR)
        box.spends(5)
        box.passes((hours - 12) * HOUR - 60)
        assert box.used[0] == 5
        box.passes(60)
        assert box.used[0] == 0


def test_a_midnight_that_does_not_exist_is_not_waited_for_for_ever() -> None:
    """In zones whose clocks are put forward at midnight, the day ends at one o'clock."""
    calendar = Calendar(ZoneInfo("Africa/Cairo"), "Africa/Cairo")
    before = at("2026-04-23 12:00", ZoneInfo("Africa/Cairo"))
    assert before < calendar.day_ends(before) <= before + 13 * HOUR
    box = Box(before, calendar)
    box.spends(5)
    box.passes(13 * HOUR)
    assert box.used[0] == 0


@pytest.mark.parametrize("jump", [DAY, 40 * DAY, 14 * 365 * DAY])
def test_a_step_forward_gives_nothing(jump: float) -> None:
    """A running box's second step, to whatever time: the budget is given when as much time has passed as should."""
    box = Box(at("2026-11-26 10:00"))
    box.steps(HOUR)  # the first one is believed: it tells how long the box was off
    box.spends(9)
    assert box.steps(jump) == 0
    assert box.passes(12 * HOUR) == 0
    assert box.passes(2 * HOUR) == 1


@pytest.mark.parametrize("jump", [-HOUR, -3 * DAY, -40 * 365 * DAY])
def test_a_step_back_gives_nothing_twice_and_starves_nobody(jump: float) -> None:
    """The period goes on to the end of the day that the clock says then: it is given once in each two days at least."""
    box = Box(at("2026-11-26 10:00"))
    box.spends(9)
    assert box.steps(jump) == 0
    assert box.passes(13 * HOUR + 50 * 60) == 0
    box.spends(9)
    assert box.passes(DAY + HOUR) == 1


def test_a_clock_that_swings_around_midnight_gives_one_day() -> None:
    """Back by a second, forward by a second."""
    box = Box(at("2026-11-26 23:59"))
    box.spends(9)
    box.passes(61)
    assert box.used[0] == 0
    given = 0
    for _ in range(100):
        box.spends(1)
        given += box.steps(-2) + box.passes(1, 1) + box.steps(2) + box.passes(1, 1)
    assert given == 0
    assert box.used[0] == 100


def test_a_restart_gives_nothing() -> None:
    """Nor does a hundred of them."""
    box = Box(at("2026-11-26 10:00"))
    box.spends(9)
    for _ in range(100):
        box.restarts(60)
        box.turn()
    assert box.used == (9, 9)
    box.passes(13 * HOUR)
    assert box.used == (0, 9)


def test_days_go_by_while_the_box_is_off() -> None:
    """With a clock with a battery what was used yesterday is no matter of today."""
    box = Box(at("2026-11-26 10:00"))
    box.spends(9)
    box.restarts(DAY)
    assert box.used == (0, 9)
    box.restarts(40 * DAY)
    assert box.used == (0, 0)


def test_a_box_without_a_battery_learns_the_time() -> None:
    """It boots in 1970: nothing is given until the time comes, and then what the calendar says."""
    box = Box(at("2026-11-26 10:00"))
    box.spends(9)
    box.restarts(600, clock=30.0)
    box.passes(300)
    assert box.used == (9, 9)
    box.steps(at("2026-11-26 10:15") - box.wall)  # off for ten minutes: the same day
    assert box.used == (9, 9)
    box.passes(HOUR)
    box.restarts(DAY, clock=30.0)
    box.steps(at("2026-11-27 12:00") - box.wall)
    assert box.used == (0, 9)


def test_a_box_that_boots_at_the_time_of_its_last_shutdown() -> None:
    """As systemd-timesyncd has it: the step of the time server tells how long it was off."""
    box = Box(at("2026-11-26 18:00"))
    box.spends(9)
    box.restarts(12 * HOUR, clock=at("2026-11-26 18:00") + 5)
    box.passes(60)
    assert box.used[0] == 9
    box.steps(at("2026-11-27 06:01") - box.wall)
    assert box.used == (0, 9)


def test_a_box_that_never_learns_the_time_has_a_budget_a_day_of_its_running_at_most() -> None:
    """In thirty starts of six hours each, all in 1970."""
    box = Box(30.0)
    given = 0
    for _ in range(30):
        box.spends(9)
        given += box.passes(6 * HOUR)
        box.restarts(0, clock=30.0)
    assert given <= 30 * 6 / 24


def test_what_a_power_cut_takes_away_counts_as_used() -> None:
    """The record says more than was used."""
    box = Box(at("2026-11-26 10:00"))
    box.spends(1000)
    box.restarts(60, ahead=160)
    assert box.used == (1160, 1160)


def test_other_days_in_the_configuration_give_nothing() -> None:
    """What was used counts to the new end."""
    box = Box(at("2026-11-16 10:00"))
    box.spends(9)
    box.ledger.reckon_by(Calendar(ZoneInfo("Europe/Berlin"), "Europe/Berlin", 20), box.wall)
    assert box.used == (9, 9)
    assert box.ledger.month.ends == at("2026-11-20 00:00")
    box.ledger.reckon_by(Calendar(UTC, "UTC", 20), box.wall)
    assert box.used == (9, 9)
    assert box.ledger.day.ends == utc(2026, 11, 17)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_clock_does_days_are_given_no_oftener_than_they_pass(seed: int) -> None:
    """Steps of seconds to years at random, of a box whose first step is long past. True days that pass bound what is
    given, and none is withheld for longer than two of them after the last step."""
    draw = random.Random(seed)
    box = Box(at("2026-11-26 10:00"))
    box.steps(40)
    true_s, given, since_s = 0.0, 0, 0.0
    for _ in range(400):
        box.spends(1)
        passes = draw.choice([60.0, HOUR, 5 * HOUR])
        began = box.passes(passes, step=passes / 4)
        true_s += passes
        since_s = 0.0 if began else since_s + passes
        given += began
        if draw.random() < 0.2:
            given += box.steps(draw.choice([-1, 1]) * draw.choice([1, 60, 2 * HOUR, 3 * DAY, 900 * DAY]))
            since_s = 0.0
        assert since_s <= 2 * DAY + 6 * HOUR
        assert given <= true_s / DAY * 24 / 23 + 2


@pytest.mark.parametrize(
    "record",
    [b"", b"{}", b"[]", b'{"form":1}', b'{"form":2,"stamp":1,"rule":"/1","day":[1,1,1],"month":[1,1,1]}',
     b'{"form":1,"stamp":"x","rule":"/1","day":[1,1,1],"month":[1,1,1]}',
     b'{"form":1,"stamp":1,"rule":"/1","day":[1,1],"month":[1,1,1]}',
     b'{"form":1,"stamp":1,"rule":"/1","day":[true,1,1],"month":[1,1,1]}'],
)  # fmt: skip
def test_what_is_no_record_is_refused(record: bytes) -> None:
    """And taken for none."""
    with pytest.raises((ValueError, KeyError)):
        Ledger.read(record, BERLIN, at("2026-11-26 10:00"))
