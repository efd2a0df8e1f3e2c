"""Whether somebody is still there at the other end of connections that are open: each is asked, and anything that comes
from it is an answer.

Where a second machine comes with the name or the key of a first one, that decides which of the two it is to be: after
a power cut the first connection stands open for minutes with nobody behind it. Not here: who is refused then, and how
people hear of it (routes.py, daemon/boxes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol

import trio

from leafd import native_types as t

PROBE_S: Final = 3.0
"""So long does a connection have to answer, or four of its round trips .."""
PROBE_MAX_S: Final = 12.0
""".. and at most so long."""
_FIRST_LOOK_S: Final = 0.05
_LOOK_S: Final = 0.5


class Asked(Protocol):
    """The part of the plane that this needs."""

    def send(self, connection: int, frame: bytes) -> None: ...
    async def connections(self) -> list[t.ConnectionRow]: ...


async def answers(plane: Asked, numbers: Collection[int], gone: Callable[[], bool]) -> bool:
    """Whether one of the connections is alive. gone: they have all ended meanwhile. Raises PlaneError."""
    before = await _heard(plane, numbers)
    for number in numbers:
        plane.send(number, b"PING\r\n")
    trips_s = max((trip_ns for _, trip_ns in before.values()), default=0) * 4 / 1e9
    pause_s, deadline = _FIRST_LOOK_S, trio.current_time() + min(max(PROBE_S, trips_s), PROBE_MAX_S)
    while trio.current_time() < deadline:
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LOOK_S)
        now = await _heard(plane, numbers)
        if any(number in before and heard > before[number][0] for number, (heard, _) in now.items()):
            return True
        if gone():
            return False
    return False


async def _heard(plane: Asked, numbers: Collection[int]) -> dict[int, tuple[tuple[int, int, int], int]]:
    """The counters of each connection that grow with all that comes from it, and its round trip in ns."""
    rows = [row for row in await plane.connections() if row.connection in numbers]
    return {row.connection: ((row.received, row.in_bytes, row.in_msgs), row.trip_ns) for row in rows}
