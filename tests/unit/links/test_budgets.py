"""What the plane is told of a budget, and what the disk is: with a plane in memory, a clock that is set by hand, and
records that outlive the object."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.guard import Guard
from leafd.links.budgets import LEAVING_MAX, RECORD, RESTING_MAX, Budgets, Clock, key_of
from leafd.links.ledger import Calendar
from leafd.links.limits import ANY, Limits, Span

from tests.rig.logs import KeptLog
from tests.rig.planes import Unwilling

UTC_DAYS = Calendar(UTC, "UTC")
NOON = datetime(2026, 11, 26, 12, tzinfo=UTC).timestamp()
HOUR = 3600.0
DAILY = Limits(per_day=1_000_000, calendar=UTC_DAYS)
KEY = key_of("remote", "A", "hub:7422")


class Hands(Clock):
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at, self.up = NOON, 50.0

    def wall(self) -> float:
        return self.at

    def elapsed(self) -> float:
        return self.up

    def passes(self, seconds: float) -> None:
        self.at += seconds
        self.up += seconds


class World(Unwilling):
    """Budgets, what the plane was told last of each connection, and the records."""

    def __init__(
        self, clock: Hands | None = None, records: dict[bytes, bytes] | None = None, resting_max: int = RESTING_MAX
    ) -> None:
        super().__init__()
        self.clock = clock or Hands()
        self.kept = {} if records is None else records
        self.sent: dict[int, t.Budget] = {}
        self.log = KeptLog()
        self.writes = 0
        self.told: list[tuple[int, str]] = []
        self.budgets = Budgets(self, self.log, Guard(), put=self.put, clock=self.clock, resting_max=resting_max)
        self.budgets.on_change = lambda connections, goes: self.told.extend((one, goes) for one in connections)
        for key, value in self.kept.items():
            self.budgets.load_record(key, value)

    def budget(self, connection: int, budget: t.Budget) -> None:
        self.sent[connection] = budget

    async def put(self, key: bytes, value: bytes) -> None:
        self.writes += 1
        if value:
            self.kept[key] = value
        else:
            self.kept.pop(key, None)

    def carries(self, connection: int, wire: int) -> None:
        """The connection has carried so much since it began."""
        self.budgets.carried(t.Carried(connection, wire))

    def report(self) -> dict[str, Any]:
        found = self.budgets.report_of(KEY)
        assert found is not None
        return found

    async def turn(self, seconds: float = 0.0) -> None:
        self.clock.passes(seconds)
        await self.budgets.turn()
        await self.budgets.write()


def linked(limits: Limits = DAILY, **world: Any) -> World:
    """A hub that is dialled, with its link up."""
    found = World(**world)
    found.budgets.limit(KEY, "to hub:7422", limits, dialled=True)
    found.budgets.up(KEY, 1)
    return found


def played(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Runs it in time that passes at once."""

    @functools.wraps(test)
    def run() -> None:
        trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))

    return run


def kept(seconds: float, limit: int) -> int:
    """What a quiet link may cost until then, by 32 bytes a second and a quarter at most."""
    return min(int(32 * seconds), limit // 4)


def test_ranks_stop_at_parts_of_what_is_left() -> None:
    """The last tenth is not for bulk, the last twentieth for what is urgent or high, and a part for the link."""
    world = linked()
    idle = kept(12 * HOUR, 1_000_000)
    told = world.sent[1]
    assert (told.high, told.normal, told.low) == (1_000_000 - idle, 950_000 - idle, 900_000 - idle)
    assert told.urgent == told.high
    assert told.tell == 10_000
    assert told.pace == 0


def test_what_was_carried_is_counted_once() -> None:
    """Of each connection from its beginning, whatever is told how often."""
    world = linked()
    world.carries(1, 10_500)
    world.carries(1, 10_500)
    world.budgets.report(1, 12_000)
    assert world.report()["day"]["used"] == 12_000
    world.budgets.closed(KEY, 1, 13_000)
    world.budgets.up(KEY, 2)
    world.carries(2, 400)
    assert world.report()["day"]["used"] == 13_400


def test_a_connection_that_never_logged_in_counts_too() -> None:
    """What a handshake cost in vain was carried."""
    world = linked()
    world.budgets.closed(KEY, 7, 3_000)
    assert world.report()["day"]["used"] == 3_000


def test_the_counts_of_a_connection_begin_where_it_is() -> None:
    """The plane compares with the connection's own counter."""
    world = linked()
    first = world.sent[1].low
    world.carries(1, 100_000)
    assert world.sent[1].low == first
    world.budgets.closed(KEY, 1, 100_000)
    world.budgets.up(KEY, 2)
    assert world.sent[2].low == first - 100_000


def test_at_the_end_all_waits_and_each_step_is_said_once() -> None:
    """Bulk, then what is normal, then all."""
    world = linked()
    for wire in range(0, 1_000_000, 10_000):
        world.carries(1, wire)
    told = world.sent[1]
    assert told.urgent == told.high == told.normal == told.low == 0
    assert world.report()["goes"] == "none"
    assert [line.partition(": ")[2] for line in world.log.texts] == [
        "bulk waits",
        "all waits but what is urgent or has priority",
        "all waits: the link only stays up",
    ]


@played
async def test_midnight_wakes_what_waits() -> None:
    """With all of the next day's budget."""
    world = linked()
    world.carries(1, 990_000)
    assert world.sent[1].low == 0
    await world.turn(12 * HOUR - 1)
    assert world.sent[1].low == 0
    await world.turn(1)
    assert world.sent[1].low == 990_000 + 900_000 - kept(24 * HOUR, 1_000_000)
    assert world.log.texts[-1].endswith("nothing waits for it")
    assert world.report()["day"]["anew"] == "2026-11-28T00:00:00+00:00"


@played
async def test_a_part_that_a_quiet_link_does_not_need_is_given_back() -> None:
    """As the day goes."""
    world = linked(Limits(per_day=10_000_000, calendar=UTC_DAYS))
    world.carries(1, 8_000_000)
    assert world.report()["goes"] == "normal"
    await world.turn(11 * HOUR)
    assert world.report()["goes"] == "all"
    assert world.sent[1].low > 8_000_000


def test_the_tighter_of_day_and_month_counts() -> None:
    """And its end is not that of the other."""
    world = linked(Limits(per_day=1_000_000, per_month=1_500_000, calendar=UTC_DAYS))
    world.carries(1, 660_000)
    assert world.sent[1].high == 1_000_000 - kept(12 * HOUR, 1_000_000)
    world.budgets.limit(KEY, "", Limits(per_day=1_000_000, per_month=800_000, calendar=UTC_DAYS), dialled=True)
    assert world.sent[1].high == 0


@played
async def test_times_of_the_day_change_pace_and_what_goes() -> None:
    """Bulk at night alone, at another pace; a span over midnight belongs to the day on which it begins."""
    night = Span(22 * 60, 5 * 60, frozenset({3}), 64_000, "all")  # Thursdays
    limits = Limits(per_second=2_000, calendar=UTC_DAYS, spans=(night, Span(0, 24 * 60, frozenset(), None, "normal")))
    world = linked(limits)
    assert (world.sent[1].pace, world.sent[1].low, world.sent[1].normal) == (2_000, 0, ANY)
    await world.turn(10 * HOUR)
    assert (world.sent[1].pace, world.sent[1].low) == (64_000, ANY)
    await world.turn(6 * HOUR + 59 * 60)
    assert world.sent[1].pace == 64_000
    await world.turn(60)
    assert (world.sent[1].pace, world.sent[1].low) == (2_000, 0)
    await world.turn(18 * HOUR)  # a Friday
    assert (world.sent[1].pace, world.sent[1].low) == (2_000, 0)


@played
async def test_what_was_used_outlives_a_stop_exactly() -> None:
    """A stop is no new day."""
    world = linked()
    world.carries(1, 123_456)
    await world.turn()
    world.budgets.take([])
    await world.budgets.write(last=True)
    again = linked(clock=world.clock, records=world.kept)
    assert again.report()["day"]["used"] == 123_456


@played
async def test_a_power_cut_gives_nothing_back() -> None:
    """At whatever moment: the record says a hundredth more than was used, at most two."""
    world = linked()
    for wire in range(0, 400_000, 10_000):
        world.carries(1, wire)
        await world.turn(1)
        again = linked(clock=world.clock, records=dict(world.kept))
        assert wire <= again.report()["day"]["used"] <= wire + 20_000


@played
async def test_few_records_are_written() -> None:
    """A hundred of a budget and one an hour, however often the plane tells; an idle link's day has 24."""
    world = linked()
    for wire in range(0, 1_000_000, 500):
        world.carries(1, wire)
        await world.budgets.write()
    assert world.writes <= 101
    world.writes = 0
    for _ in range(24 * 120):
        await world.turn(30)
    assert world.writes <= 25


@played
async def test_other_limits_take_effect_at_once_and_give_nothing_back() -> None:
    """A reload: up, down, away, and back."""
    world = linked()
    world.carries(1, 500_000)
    world.budgets.limit(KEY, "", Limits(per_day=600_000, calendar=UTC_DAYS), dialled=True)
    assert world.sent[1].normal == 0
    world.budgets.limit(KEY, "", None, dialled=True)
    assert world.sent[1].low == world.sent[1].tell == ANY
    world.budgets.limit(KEY, "to hub:7422", DAILY, dialled=True)
    world.budgets.up(KEY, 1)
    world.carries(1, 500_100)
    assert world.report()["day"]["used"] == 500_100


@played
async def test_a_leaf_that_comes_and_goes_has_one_budget() -> None:
    """At its hub: while it is away, and when it is back after hours."""
    world = World()
    for turn in range(5):
        world.budgets.limit(KEY, "with box", DAILY, dialled=False)
        world.budgets.up(KEY, turn)
        world.carries(turn, 100_000)
        world.budgets.closed(KEY, turn, 100_000)
        await world.turn(0)
        await world.turn(HOUR)
        assert world.budgets.report_of(KEY) is None
    world.budgets.limit(KEY, "with box", DAILY, dialled=False)
    assert world.report()["day"]["used"] == 500_000
    await world.turn(0)
    world.clock.passes(10 * HOUR)
    world.budgets.limit(KEY, "with box", DAILY, dialled=False)
    assert world.report()["day"]["used"] == 0


@played
async def test_what_is_remembered_of_leaves_that_are_gone_is_bounded() -> None:
    """Whatever names they come with."""
    world = World()
    world.kept.clear()
    for number in range(RESTING_MAX + 10):
        key = key_of("leaf", str(number))
        world.budgets.limit(key, "with box", DAILY, dialled=False)
        world.budgets.limit(key, "", None, dialled=False)
    assert len(world.budgets._resting) == RESTING_MAX


@played
async def test_names_that_a_leaf_makes_up_fill_no_disk() -> None:
    """Of so many as are remembered there are records, the newest, and not one more."""
    world = World(resting_max=10)
    for number in range(100):
        key = key_of("leaf", str(number))
        world.budgets.limit(key, "with box", DAILY, dialled=False)
        world.budgets.up(key, number)
        world.carries(number, 1000 + number)
        world.budgets.closed(key, number, 1000 + number)
        await world.turn()  # writes it
        await world.turn(1.0)  # lets it rest
    assert world.writes > 100
    assert {RECORD + key_of("leaf", str(number)) for number in range(90, 100)} == set(world.kept)


@played
async def test_names_of_a_moment_fill_no_memory() -> None:
    """Thousands of leaves that come and go before there is time for a record; what each used is known meanwhile."""
    world = World()
    for number in range(5_000):
        key = key_of("leaf", str(number))
        world.budgets.limit(key, "with box", DAILY, dialled=False)
        world.budgets.up(key, number)
        world.budgets.closed(key, number, 1000)
    assert len(world.budgets._books) == LEAVING_MAX
    first = key_of("leaf", "0")
    world.budgets.limit(first, "with box", DAILY, dialled=False)
    found = world.budgets.report_of(first)
    assert found is not None
    assert found["day"]["used"] == 1000


@played
async def test_a_start_that_finds_too_many_records_keeps_the_newest() -> None:
    """As an earlier version left them, or a larger memory_limit."""
    world = World()
    for number in range(50):
        key = key_of("leaf", str(number))
        world.budgets.limit(key, "with box", DAILY, dialled=False)
        world.budgets.up(key, number)
        world.budgets.closed(key, number, 1000)
        await world.turn(60.0)
    assert len(world.kept) == 50
    later = World(clock=world.clock, records=world.kept, resting_max=10)
    with trio.move_on_after(1):
        await later.budgets.run()
    assert {RECORD + key_of("leaf", str(number)) for number in range(40, 50)} == set(later.kept)


@played
async def test_old_records_are_removed() -> None:
    """Of links that have not been there for longer than a month."""
    world = linked()
    world.carries(1, 500_000)
    await world.turn()
    assert list(world.kept) == [RECORD + KEY]
    world.clock.passes(70 * 86_400)
    later = World(clock=world.clock, records=world.kept)
    with trio.move_on_after(1):
        await later.budgets.run()
    assert not later.kept


@pytest.mark.parametrize("record", [b"", b"{", b'{"form":9}', b"\xff"])
def test_a_record_that_cannot_be_read_is_none(record: bytes) -> None:
    """And stops nothing."""
    world = linked(records={RECORD + KEY: record})
    assert world.report()["day"]["used"] == 0


@played
async def test_a_thousand_links_cost_little_while_nothing_happens() -> None:
    """A turn over them is a few ms of processor time, each half minute."""
    world = World()
    for number in range(1_000):
        key = key_of("leaf", str(number))
        world.budgets.limit(key, "with box", DAILY, dialled=False)
        world.budgets.up(key, number)
    began = time.process_time()
    for _ in range(10):
        await world.turn(30)
    assert (time.process_time() - began) / 10 < 0.1


@played
async def test_the_other_end_hears_of_each_change_once_and_a_new_connection_of_what_waits_already() -> None:
    world = linked()
    assert world.told == []
    world.budgets.up(KEY, 2)
    world.carries(1, 660_000)
    assert world.told == [(1, "normal"), (2, "normal")]
    world.carries(1, 665_000)
    assert world.budgets.goes(1) == "normal"
    world.budgets.up(KEY, 3)
    assert world.told[2:] == [(3, "normal")]
    await world.turn(12 * HOUR + 1)
    assert sorted(world.told[3:]) == [(1, "all"), (2, "all"), (3, "all")]
    assert world.budgets.goes(9) == ""
