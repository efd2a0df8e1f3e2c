"""The packets of leaves that dial: small ones, for some minutes, where large ones were seen to be lost.

    a link that others dialled stands at its first full packet --stuck--> it ends, and its server dials again
    who connects now is told to send small packets --all are back, or SMALL_S later--> as large as they like

Some ways lose every packet above some size without a word (links/packets.py). Each TCP says in its first packet what it
takes. A leafd that dials says so itself; for a nats-server, which does not know better, the listener does. The kernel
has that for all who come, so others that connect meanwhile have small packets, too, as long as their links last: some
6 % less. Not here: how a link is seen to stand (native/plane/window_learn.c).
"""

from __future__ import annotations

import socket
from typing import Final

import trio

from leafd.links.link import Link
from leafd.links.packets import SMALL
from leafd.operator_log import Log

SMALL_S: Final = 120.0
"""For so long at most: a nats-server dials again after some seconds."""


class Doorway:
    """The listener of leaf nodes, as far as it decides about packets. door: its socket."""

    def __init__(self, door: socket.socket, log: Log) -> None:
        self._door = door
        self._log = log
        self._stuck: set[str] = set()
        """The hosts whose links stood, and that have not come back."""
        self._until_s = 0.0
        self._opened = trio.Event()

    async def run(self) -> None:
        """Lets packets be large again when the time is over, for ever."""
        while True:
            if not self._stuck:
                self._opened = trio.Event()
                await self._opened.wait()
            await trio.sleep_until(self._until_s)
            if self._stuck and trio.current_time() >= self._until_s:
                self._stuck.clear()
                self._set(0)

    def stuck(self, link: Link) -> None:
        """A link stands at its first full packet: it may be more than the way carries."""
        self._log.warning(
            f"{link.log_name} - No full packet comes through: new connections are told to send small ones"
        )
        self._stuck.add(_host(link))
        self._until_s = trio.current_time() + SMALL_S
        self._opened.set()
        self._set(SMALL)

    def came(self, link: Link) -> None:
        """A link is up."""
        if not self._stuck:
            return
        self._stuck.discard(_host(link))
        if not self._stuck:
            self._set(0)

    def _set(self, size: int) -> None:
        try:
            self._door.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, size)
        except OSError as error:
            self._log.debug(f"leaf nodes: the size of packets cannot be set: {error}")


def _host(link: Link) -> str:
    return link.peer.rpartition(":")[0]
