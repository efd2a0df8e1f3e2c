"""How long links take now, for all that wait for answers over them.

A link's round trip is known from its handshake. A line that was near then may have become slow, and its answers late:
so while answers do not come, it is measured again, by the kernel's figure with what waits in its queues.

Not here: what is judged by it (replica.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import trio

from leafd.guard import Guard
from leafd.links.link import Link
from leafd.native_commands import Commands

APART_S: Final = 10.0
"""Between two measurements: each reads the figures of all connections."""


class Trips:
    """The round trips of these links, by their connection."""

    def __init__(self, plane: Commands, guard: Guard, links: Mapping[int, Link]) -> None:
        self._plane = plane
        self._guard = guard
        self._links = links
        self._late = trio.Event()

    def late(self) -> None:
        """Notes that an answer did not come."""
        self._late.set()

    async def run(self) -> None:
        """Measures when an answer did not come, for ever."""
        while True:
            await self._late.wait()
            try:
                await self._measure()
            except Exception as error:
                self._guard.caught("measuring links", error)
            await trio.sleep(APART_S)
            self._late = trio.Event()

    async def _measure(self) -> None:
        """Sets each link's round trip as it is now. One whose kernel does not tell keeps what it had."""
        for row in await self._plane.connections() if self._links else ():
            link = self._links.get(row.connection)
            if link is not None and row.trip_ns > 0:
                link.round_trip_s = row.trip_ns / 1e9
