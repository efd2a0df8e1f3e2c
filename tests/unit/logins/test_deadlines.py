"""When a connection is looked at that has not said in time who it is."""

from __future__ import annotations

import trio
import trio.testing
from leafd.logins.deadlines import Deadlines


def test_deadlines() -> None:
    """Each connection is looked at when its time is over, in the order of the times."""
    seen: list[tuple[int, float]] = []

    async def main() -> None:
        deadlines = Deadlines(lambda connection: seen.append((connection, trio.current_time() - began)))
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(deadlines.run)
            deadlines.add(1, 2.0)
            await trio.sleep(1)
            deadlines.add(2, 2.0)
            await trio.sleep(5)
            deadlines.add(3, 1.0)
            await trio.sleep(1.5)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [(1, 2.0), (2, 3.0), (3, 7.0)] == [(connection, round(at, 6)) for connection, at in seen]
