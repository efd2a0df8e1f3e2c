"""Leaf nodes that log in wait for their turn (logins/arrivals.py)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import ceil

import trio
import trio.testing
from leafd import native_types as t
from leafd.logins.arrivals import (
    AGAIN_MAX_S,
    AHEAD,
    COST_S as LOGIN_S,
    NEWCOMERS_MAX,
    ROOM,
    Arrivals,
    Event,
    Turns,
)
from leafd.turns import SLICE_S

BOXES = 200
COST_S = SLICE_S / 4


def opened(connection: int) -> t.Opened:
    return t.Opened(connection, t.ConnKind.LEAF, 2, "10.0.0.1:4000")


def connect(connection: int, size: int = 300) -> t.Line:
    return t.Line(connection, t.LineKind.CONNECT, b"x" * size)


def closed(connection: int) -> t.Closed:
    return t.Closed(connection, 0, "")


def nobody(event: t.Opened, again_s: int) -> None:
    raise AssertionError(f"{event} was turned away")


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


def served(events: Sequence[Event]) -> list[Event]:
    """In the order in which they are handled."""
    found: list[Event] = []

    async def run() -> None:
        arrivals = Arrivals(found.append, nothing, nobody)
        assert all(arrivals.put(event) for event in events)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(arrivals.run)
            await trio.testing.wait_all_tasks_blocked()
            assert not any(arrivals.waits(event.connection) for event in events)
            nursery.cancel_scope.cancel()

    trio.run(run)
    return found


def test_somebody_else_has_a_turn_between_the_logins_of_boxes() -> None:
    """Each slice of work is followed by the others' turn: they wait for a slice, not for all boxes."""

    async def run() -> None:
        arrivals = Arrivals(lambda event: time.sleep(COST_S), nothing, nobody)
        for number in range(BOXES):
            arrivals.put(connect(number))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(arrivals.run)
            turns = 0
            while any(arrivals.waits(number) for number in range(BOXES)):
                await trio.lowlevel.checkpoint()
                turns += 1
            assert turns >= BOXES * COST_S / (SLICE_S + COST_S) / 2
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_the_next_slice_waits_until_the_plane_has_done_the_last_one() -> None:
    """Or its ring would hold the orders of all boxes before that of a client."""
    handled: list[Event] = []
    done: list[int] = []

    async def settled() -> None:
        before = len(handled)
        await trio.sleep(0.01)
        assert len(handled) == before
        done.append(before)

    async def run() -> None:
        def handle(event: Event) -> None:
            handled.append(event)
            time.sleep(COST_S)

        arrivals = Arrivals(handle, settled, nobody)
        for number in range(40):
            arrivals.put(connect(number))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(arrivals.run)
            while len(handled) < 40:
                await trio.sleep(0.005)
            nursery.cancel_scope.cancel()

    trio.run(run)
    assert len(done) >= 4


def test_the_events_of_one_connection_keep_their_order() -> None:
    """Also where who has just come is served in turn with who has said CONNECT."""
    events: list[Event] = [connect(100 + number) for number in range(50)]
    events += [make(number) for number in range(50) for make in (opened, connect, closed)]
    found = served(events)
    assert len(found) == len(events)
    for number in range(50):
        assert [event for event in found if event.connection == number] == [
            opened(number),
            connect(number),
            closed(number),
        ]


def test_who_has_just_come_is_not_behind_all_that_log_in() -> None:
    """A server that dials gives up where it does not hear an INFO within a second."""
    found = served([connect(number) for number in range(100)] + [opened(1000)])
    assert found.index(opened(1000)) <= 1


def test_what_waits_is_bounded_and_what_has_begun_keeps_its_place() -> None:
    """Beyond that an event is handled at once; but not before what the same connection has said before."""
    arrivals = Arrivals(lambda event: None, nothing, nobody)
    most = ROOM // 4096 + 1
    taken = [number for number in range(2 * most) if arrivals.put(connect(number, 4096))]
    assert most / 2 < len(taken) <= most
    assert taken == list(range(len(taken)))
    assert arrivals.put(closed(0))
    assert not arrivals.put(closed(2 * most))


def test_who_comes_when_thousands_wait_for_a_greeting_is_told_when_to_come_again() -> None:
    """It costs a line and nothing that is kept; those before it, and what they say, have their turn as before."""
    away: list[tuple[int, int]] = []
    handled: list[Event] = []

    async def run() -> None:
        arrivals = Arrivals(handled.append, nothing, lambda event, again_s: away.append((event.connection, again_s)))
        for number in range(NEWCOMERS_MAX + 3):
            assert arrivals.put(opened(number))
        assert arrivals.put(connect(0))
        assert not arrivals.waits(NEWCOMERS_MAX)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(arrivals.run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert arrivals.put(opened(9999))

    trio.run(run)
    assert [number for number, _ in away] == [NEWCOMERS_MAX, NEWCOMERS_MAX + 1, NEWCOMERS_MAX + 2]
    assert len(handled) == NEWCOMERS_MAX + 1
    assert all(again_s >= 1 for _, again_s in away)


def test_those_turned_away_come_one_after_the_other_as_fast_as_logins_are_served() -> None:
    """Each of them takes the time of a login; so early that some wait whenever somebody could be served."""
    turns = Turns(lambda: 1000.0)
    given = [turns.give(NEWCOMERS_MAX) for _ in range(20_000)]
    assert given[0] == ceil((NEWCOMERS_MAX - AHEAD) * LOGIN_S)
    assert given == sorted(given)
    each_second = [given.count(second) for second in range(given[0] + 1, given[-1])]
    assert len(each_second) > 20
    assert all(abs(count - 1 / LOGIN_S) <= 1 for count in each_second)


def test_who_should_have_come_by_now_is_not_waited_for() -> None:
    now_s = 1000.0
    turns = Turns(lambda: now_s)
    given = [turns.give(NEWCOMERS_MAX) for _ in range(5_000)]
    now_s += given[-1] + 1
    assert turns.give(AHEAD) == 1


def test_those_told_first_hold_up_nobody_once_logins_have_become_fast() -> None:
    """The first logins of a hub that has just started, beside all that it does then, take ten times what later ones do:
    the turns that were given by them are not the measure of later turns."""
    turns = Turns(lambda: 1000.0)
    turns.took(10, 100 * LOGIN_S)
    slow = [turns.give(NEWCOMERS_MAX) for _ in range(500)]
    for _ in range(300):
        turns.took(10, 10 * LOGIN_S)
    assert slow[-1] > 10
    assert turns.give(NEWCOMERS_MAX) <= ceil((NEWCOMERS_MAX - AHEAD + 500) * 2 * LOGIN_S)


def test_nobody_is_sent_away_for_longer_than_a_minute() -> None:
    """Servers that do not wait as they are told take turns that nobody uses."""
    turns = Turns(lambda: 1000.0)
    given = [turns.give(0) for _ in range(100_000)]
    assert max(given) <= AGAIN_MAX_S
    late = given[-1000:]
    assert min(late) >= AGAIN_MAX_S / 2
    assert len(set(late)) > 20


def test_the_time_of_a_login_is_learnt_from_those_that_were_served() -> None:
    """A machine that is ten times slower has them come ten times later."""
    turns = Turns(lambda: 1000.0)
    for _ in range(100):
        turns.took(4, 4 * 10 * LOGIN_S)
    assert abs(turns.give(AHEAD + 1000) - 1000 * 10 * LOGIN_S) <= 1


def test_a_slice_that_waited_for_the_plane_tells_as_much_as_it_served() -> None:
    """One login that took a second among hundreds that took none is no reason to send boxes away for minutes."""
    turns = Turns(lambda: 1000.0)
    for _ in range(20):
        turns.took(100, 100 * LOGIN_S)
    turns.took(1, 1.0)
    assert turns.give(AHEAD + 1000) <= ceil(1000 * (LOGIN_S + 1.0 / 1500))
