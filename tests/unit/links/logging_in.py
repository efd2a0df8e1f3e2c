"""A promise that routes and gateways give alike: whoever connects and says nothing takes little, and not for long.

Not here: the stages that play a server's connections (test_routes.py, test_gateways.py).
"""

from __future__ import annotations

from typing import Any, Protocol

import trio
from leafd import native_types as t
from leafd.links.servers import LOGINS_MAX


class Listening(Protocol):
    """A stage with an owner of connections that gives each 2 s for its login."""

    plane: Any  # .closed: what each closed connection was told

    def accept(self, number: int) -> None:
        """A connection comes."""

    def hear(self, number: int, kind: t.LineKind) -> None:
        """A connection sends such a line."""


async def logins_are_bounded(stage: Listening) -> None:
    """More than LOGINS_MAX connections come, of which the fifth and the last log in: the oldest other ones make room,
    and 2 s later all that said nothing are closed."""
    for number in range(1, LOGINS_MAX + 11):
        stage.accept(number)
        if number == 5:
            stage.hear(number, t.LineKind.CONNECT)
    assert list(stage.plane.closed) == [number for number in range(1, 12) if number != 5]
    last = LOGINS_MAX + 10
    await trio.sleep(1)
    stage.hear(last, t.LineKind.CONNECT)
    stage.hear(last, t.LineKind.INFO)
    await trio.sleep(2)
    assert last not in stage.plane.closed
    assert stage.plane.closed[last - 1] == "Authentication Timeout"
    assert len(stage.plane.closed) == last - 1
