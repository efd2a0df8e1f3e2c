"""Leaf nodes that log in wait here, so that the login of a person passes by those of a thousand boxes.

    Opened ------> newcomers \\
                               in turn, for a slice of time --> handle() --> the plane has carried it out --> next slice
    Line, Closed -> others   /
    Opened, beyond NEWCOMERS_MAX --> turn_away(): "try again in n s"

When a hub is back, all its boxes are, within a second. Each of them costs control and plane some time, and its events
come before those of a client that connects a moment later. They wait here; a client's do not. A slice is followed by a
look whether the plane has done what it was told, so that orders of hundreds of links do not lie in its ring before the
one that lets a client in. A new connection is served in turn with those that have said CONNECT: dialling servers give
up where the first INFO does not come within a second.

Of those that come while so many have not heard an INFO, each is told when its turn would be, as fast as logins were
served. So ten thousand boxes come as fast as they can be let in, and knock once or twice, instead of each second. They
are told a little too early: one that finds the queue full knocks once more, which costs less than a login, and nobody
can be called who was told too late when there is nothing to do.

Events of one connection keep their order. What waits is bounded: by ROOM bytes; an event beyond them is handled at
once, as without a queue. Not here: what is done with an event (links/leafs.py), the time that a login may take
(leaf_logins.py).
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from leafd import native_types as t
from leafd.turns import SLICE_S

ROOM: Final = 4 << 20
"""Thousands of boxes, each with a line of some 300 bytes, or of 2 KB with a JWT."""
EVENT: Final = 512
"""Bytes that a waiting login takes beside its line."""
NEWCOMERS_MAX: Final = 2048
"""Newcomers at a time, who are greeted within a second or two."""
AGAIN_MIN_S: Final = 2.0
AGAIN_MAX_S: Final = 60.0
"""The longest that anybody is sent away: as long as boxes have been sent away so far, between these bounds. What the
first logins take of a hub that has just started on a busy machine may be ten times what the next ones do."""
COST_S: Final = 0.0015
"""The cost of a login, before any was served."""
KEPT: Final = 0.99
"""The part that counts of earlier slices when the next one is measured."""
AHEAD: Final = NEWCOMERS_MAX // 2
"""So many of those that are told to come again should be waiting when their turn comes."""
SLOTS: Final = 4
"""A second has so many: newcomers in the same one are counted together."""

Event = t.Opened | t.Secured | t.Line | t.Closed


class Turns:
    """The times at which those come again that were turned away."""

    def __init__(self, now: Callable[[], float], draw: Callable[[float, float], float] = random.uniform) -> None:
        self._now = now
        self._draw = draw
        self._logins = 1.0
        self._seconds = COST_S
        self._expected: dict[int, int] = {}
        """How many were told to come, by slot."""
        self._since_s = 0.0
        """Since then somebody is expected."""

    def took(self, logins: int, seconds: float) -> None:
        """So many have begun to log in during a slice that lasted so long.

        Logins and seconds are added up apart. Then a slice that served one event and waited for the plane tells as much
        as one event. A few of such slices would send boxes away for ten times as long as the others take.
        """
        self._logins = KEPT * self._logins + logins
        self._seconds = KEPT * self._seconds + seconds

    def give(self, waiting: int) -> int:
        """In how many seconds the next one may come, when so many wait. From 1 on."""
        now_s = self._now()
        past = int(now_s * SLOTS)
        self._expected = {slot: count for slot, count in self._expected.items() if slot > past}
        if not self._expected:
            self._since_s = now_s
        before = waiting + sum(self._expected.values()) - AHEAD
        again_s = max(math.ceil(before * self._seconds / self._logins), 1)
        most_s = min(max(now_s - self._since_s, AGAIN_MIN_S), AGAIN_MAX_S)
        if again_s > most_s:
            again_s = math.ceil(self._draw(most_s / 2, most_s))
        slot = int((now_s + again_s) * SLOTS)
        self._expected[slot] = self._expected.get(slot, 0) + 1
        return again_s


class Arrivals:
    """Events of leaf connections until each is up."""

    def __init__(
        self,
        handle: Callable[[Event], None],
        settled: Callable[[], Awaitable[None]],
        turn_away: Callable[[t.Opened, int], None],
    ) -> None:
        self._handle = handle
        self._settled = settled
        self._turn_away = turn_away
        self._turns = Turns(time.monotonic)
        self._newcomers: deque[Event] = deque()
        self._others: deque[Event] = deque()
        self._waiting: dict[int, int] = {}
        """How many events of each connection wait."""
        self._bytes = 0
        self._work = trio.Event()

    def waits(self, connection: int) -> bool:
        """Whether something of it has come that was not looked at yet."""
        return connection in self._waiting

    def put(self, event: Event) -> bool:
        """False: there is no room; the caller handles it at once, unless others of that connection wait."""
        connection = event.connection
        if isinstance(event, t.Opened) and len(self._newcomers) >= NEWCOMERS_MAX:
            self._turn_away(event, self._turns.give(len(self._newcomers)))
            return True
        if self._bytes >= ROOM and connection not in self._waiting:
            return False
        self._bytes += _weight(event)
        (self._newcomers if isinstance(event, t.Opened) else self._others).append(event)
        self._waiting[connection] = self._waiting.get(connection, 0) + 1
        self._work.set()
        return True

    async def run(self) -> None:
        """Serves them, for ever. Cancel to end it."""
        while True:
            while self._waiting:
                begun = time.perf_counter()
                begins = self._slice()
                await self._settled()
                self._turns.took(begins, time.perf_counter() - begun)
            self._work = trio.Event()
            await self._work.wait()

    def _slice(self) -> int:
        """How many logins begin in it."""
        until, begins = time.perf_counter() + SLICE_S, 0
        while self._waiting:
            if self._newcomers:
                self._serve(self._newcomers.popleft())
                begins += 1
            if self._others:
                self._serve(self._others.popleft())
            if time.perf_counter() >= until:
                break
        return begins

    def _serve(self, event: Event) -> None:
        self._bytes -= _weight(event)
        left = self._waiting[event.connection] - 1
        if left:
            self._waiting[event.connection] = left
        else:
            del self._waiting[event.connection]
        self._handle(event)


def _weight(event: Event) -> int:
    return EVENT + (len(event.payload) if isinstance(event, t.Line) else 0)
