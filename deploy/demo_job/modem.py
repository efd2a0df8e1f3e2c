"""The demo behind a bad line: the hub in one place of this machine, the leaves in another, and nothing between them but
a modem (tests/cell.py): real TCP over a line with rate, delay and loss.

    this program --door--> 127.0.0.1:port of the leaves' place          leaf --modem--> hub
                 --door--> 127.0.0.1:port of the hub's place

A door listens here, at the same number, and goes on in the place: so everything else of the demo is as without it. It
needs the right to make network namespaces, as root has. Not here: what a modem does to packets.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

from .nodes import NodeError, pass_on

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link, missing

LINES = {
    "cell": Link(rate=1e6, delay=0.1, loss=0.01, jitter=0.02),
    "satellite": Link(rate=2e6, delay=0.3, loss=0.005),
}
ABOUT = {
    "cell": "1 Mbit/s, 200 ms round trip, 1 % of the packets lost",
    "satellite": "2 Mbit/s, 600 ms round trip, 0.5 % of the packets lost",
}
"""The rate that all three leaves share, each way."""


class Modem:
    """Both places, and the doors to them. Raises NodeError where this machine has no such places."""

    address = HUB_ADDRESS

    def __init__(self, kind: str) -> None:
        if lacks := missing():
            raise NodeError(f"--link {kind} needs root and /dev/net/tun: {lacks}")
        self._cell = Cell(LINES[kind])
        self._doors: list[asyncio.Server] = []
        self._entered: contextlib.AbstractContextManager[None] | None = None

    def enter(self, *, hub: bool) -> Callable[[], None]:
        """For a process that is about to begin: its place."""
        return functools.partial(self._enter, HUB if hub else LEAF)

    def _enter(self, place: int) -> None:
        """In the process that is about to begin, which never comes back: a manager that nobody holds would go back."""
        self._entered = self._cell.at(place)
        self._entered.__enter__()

    def socket(self, *, hub: bool) -> socket.socket:
        """One of that place, which it stays in."""
        with self._cell.at(HUB if hub else LEAF):
            made = socket.socket()
        made.setblocking(False)
        return made

    async def door(self, port: int, *, hub: bool) -> None:
        """To a port of that place, under the same number here."""
        self._doors.append(await asyncio.start_server(self._through(port, hub), "127.0.0.1", port))

    def _through(
        self, port: int, hub: bool
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]:
        async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            onward = self.socket(hub=hub)
            try:
                await asyncio.get_running_loop().sock_connect(onward, ("127.0.0.1", port))
            except OSError:
                onward.close()
                writer.transport.abort()
                return
            far_reader, far_writer = await asyncio.open_connection(sock=onward)
            await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))

        return through

    @property
    def carried(self) -> tuple[int, int]:
        """Bytes that came to the hub, and to the leaves, with the headers of IP."""
        return self._cell.carried[HUB], self._cell.carried[LEAF]

    def close(self) -> None:
        """After the processes."""
        for door in self._doors:
            door.close()
        with contextlib.suppress(OSError):
            self._cell.close()
