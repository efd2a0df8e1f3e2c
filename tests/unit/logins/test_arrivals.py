"""Leaf nodes that log in wait for their turn (logins/arrivals.py)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.logins.arrivals import (
    AGAIN_MAX_S,
    AGAIN_MIN_S,
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


def told(turns: Turns, clock: list[float], boxes: int, *, each_s: float = LOGIN_S) -> tuple[float, int]:
    """So many boxes come at once to a hub that lets one in after the other, and as many wait as may: when the last one
    is in, and how often they knock."""
    coming, waiting, knocks, free_s, begun_s = (
        [(clock[0], number) for number in range(boxes)],
        deque[int](),
        0,
        0.0,
        clock[0],
    )
    while coming or waiting:
        now_s = min([coming[0][0]] if coming else [], default=free_s) if not waiting else free_s
        clock[0] = max(clock[0], now_s)
        while coming and coming[0][0] <= clock[0]:
            knocks += 1
            _, number = heappop(coming)
            if len(waiting) < NEWCOMERS_MAX:
                waiting.append(number)
            else:
                heappush(coming, (clock[0] + turns.give(len(waiting)), number))
        if waiting:
            waiting.popleft()
            turns.took(1, each_s)
            free_s = clock[0] + each_s
    return free_s - begun_s, knocks


@pytest.mark.parametrize("first_s", [LOGIN_S / 20, LOGIN_S, LOGIN_S * 50])
def test_boxes_are_in_as_soon_as_the_hub_can_let_them_in(first_s: float) -> None:
    """Whatever the first logins took: the hub hardly ever has nothing to do, and boxes knock a few times each."""
    clock = [1000.0]
    turns = Turns(lambda: clock[0])
    turns.took(20, 20 * first_s)
    took_s, knocks = told(turns, clock, 10_000)
    assert took_s < 1.2 * 10_000 * LOGIN_S
    assert knocks < 10_000 * 5


def test_nobody_is_sent_away_for_longer_than_others_have_come_and_a_minute_at_most() -> None:
    """Servers that do not wait as they are told take turns that nobody uses."""
    clock = [1000.0]
    turns = Turns(lambda: clock[0])
    for lasted_s in range(200):
        clock[0] = 1000.0 + lasted_s
        given = [turns.give(1_000_000) for _ in range(100)]
        most_s = min(max(lasted_s, AGAIN_MIN_S), AGAIN_MAX_S)
        assert max(given) <= most_s
        assert min(given) >= most_s / 2
    assert len(set(given)) > 20
    clock[0] += AGAIN_MAX_S + 1
    assert max(turns.give(1_000_000) for _ in range(100)) == AGAIN_MIN_S


def test_the_time_of_a_login_is_learnt_from_those_that_were_served() -> None:
    """A machine that is ten times slower has them come ten times later."""
    for slower in (1, 10):
        turns = Turns(lambda: 1000.0)
        for _ in range(300):
            turns.took(4, 4 * slower * LOGIN_S)
        assert turns.give(AHEAD + 100) == ceil(100 * slower * LOGIN_S)


def test_a_slice_that_waited_for_the_plane_tells_as_much_as_it_served() -> None:
    """One login that took a second among hundreds that took none is no reason to send boxes away for minutes."""
    turns = Turns(lambda: 1000.0)
    for _ in range(20):
        turns.took(100, 100 * LOGIN_S)
    turns.took(1, 1.0)
    assert turns.give(AHEAD + 400) == 1
