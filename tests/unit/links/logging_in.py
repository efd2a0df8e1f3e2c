"""The plane that the stages of routes and gateways play, and a promise that both give alike: whoever connects and says
nothing takes little, and not for long.

Not here: the stages that play a server's connections (test_routes.py, test_gateways.py).
"""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from typing import Any, Protocol

import trio
from leafd import native_types as t
from leafd.links.servers import LOGINS_MAX

from tests.rig.planes import Unwilling


class ServersPlane(Unwilling):
    """Takes the orders about connections with other servers, and keeps what it was told."""

    admitted: Any  # by connection: the terms of each

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[int, str, dict[str, Any]]] = []
        self.closed: dict[int, str] = {}
        self.last = 100
        self.received = 0
        """Bytes, by whatever connection."""
        self.trip_s = 0.0
        self.dead: set[int] = set()
        """They are open, and nobody answers on them."""

    async def connections(self) -> list[t.ConnectionRow]:
        row = t.ConnectionRow(*[0] * 16)
        row = replace(row, received=self.received, trip_ns=int(self.trip_s * 1e9))
        return [replace(row, connection=one) for one in self.admitted]

    async def adopt(self, fd: int, kind: t.ConnKind, *, secure: bool = False, web: bool = False) -> int:
        socket.socket(fileno=fd).close()
        self.last += 1
        return self.last

    def send(self, connection: int, frame: bytes) -> None:
        if frame == b"PING\r\n":
            self.received += connection not in self.dead
            return
        for line in frame.decode().splitlines():
            verb, _, payload = line.partition(" ")
            self.said.append((connection, verb, json.loads(payload)))

    def resume(self, connection: int) -> None: ...

    def close_connection(self, connection: int, text: str = "", reason: int = 0) -> None:
        self.closed[connection] = text


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
