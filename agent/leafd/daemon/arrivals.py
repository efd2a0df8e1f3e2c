"""Leaf nodes that log in wait here, so that the login of a person passes by those of a thousand boxes.

    Opened ------> newcomers \\
                               in turn, for a slice of time --> handle() --> the plane has carried it out --> next slice
    Line, Closed -> others   /

When a hub is back, all its boxes are, within a second. Each of them costs control and plane some time, and its events
come before those of a client that connects a moment later. They wait here; a client's do not. A slice is followed by a
look whether the plane has done what it was told, so that orders of hundreds of links do not lie in its ring before the
one that lets a client in. Who has just come is served in turn with who has said CONNECT: dialling servers give up where
the first INFO does not come within a second.

Events of one connection keep their order. What waits is bounded: by ROOM bytes; who comes beyond them is handled at
once, as without a queue. What does not live here: what is done with an event (links/leafs.py), the time that a login
may take (leaf_logins.py).
"""

from __future__ import annotations

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
"""What one takes beside its line."""

Event = t.Opened | t.Secured | t.Line | t.Closed


class Arrivals:
    """Events of leaf connections until each is up."""

    def __init__(self, handle: Callable[[Event], None], settled: Callable[[], Awaitable[None]]) -> None:
        self._handle = handle
        self._settled = settled
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
                self._slice()
                await self._settled()
            self._work = trio.Event()
            await self._work.wait()

    def _slice(self) -> None:
        until = time.perf_counter() + SLICE_S
        while self._waiting and time.perf_counter() < until:
            for queue in (self._newcomers, self._others):
                if queue:
                    self._serve(queue.popleft())

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
