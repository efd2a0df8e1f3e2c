"""Lame duck mode: who is sent away when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing
from leafd.daemon.farewell import SECOND, Farewell


def test_clients_and_leaves_are_sent_away_within_the_time_of_lame_duck_mode() -> None:
    """That before the first one included, and each at its moment, though each takes a while: so a supervisor that waits
    for that time does not kill a server that still has clients."""
    config = SimpleNamespace(lame_duck_grace_period=10 * SECOND, lame_duck_duration=30 * SECOND)
    closed: dict[int, float] = {}

    class Plane:
        def close_connection(self, connection: int, text: str, reason: int) -> None:
            closed[connection] = trio.current_time()
            clock.jump(0.015)

    some = [SimpleNamespace(connection=n) for n in range(1000)]
    present = SimpleNamespace(connections=lambda: list(range(600)))
    clients = SimpleNamespace(announce=lambda ldm: None, present=present)
    leafs = SimpleNamespace(links=lambda: some[600:], accepted=lambda connection: connection != 999)
    farewell = Farewell(
        cast("Any", Plane()),
        cast("Any", clients),
        cast("Any", leafs),
        cast("Any", SimpleNamespace(config=config)),
        lambda: None,
    )
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(farewell.lame_duck, clock=clock)
    assert list(closed) == list(range(999))  # and not a hub of this server's own
    assert 10.0 <= closed[0] < 10.1
    assert 29.0 < closed[998] <= 30.0
