"""Two servers with one name: a cloned box or site, or the same one after a cut that ended no connection.

What streams and groups of servers know of a server is its name, so the first one keeps it for as long as it answers.
The second is refused, by each server that has a route or a gateway with the first, and comes again more and more
rarely. Not here: how the second one is noticed (route.py, gateway.py), the same for boxes (daemon/boxes.py).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.links.alive import answers
from leafd.links.servers import AGAIN_MAX_S, AGAIN_S
from leafd.native_commands import Commands
from leafd.operator_log import Log
from leafd.quoting import quoted


class Link(Protocol):
    """One connection with a first server."""

    @property
    def connection(self) -> int: ...
    @property
    def gone(self) -> trio.Event: ...


class Namesakes:
    """Keeps how often places have refused this server, and asks each first server once at a time."""

    def __init__(self, plane: Commands, log: Log, guard: Guard) -> None:
        self._plane, self._log, self._guard = plane, log, guard
        self._asked: set[str] = set()
        """The servers that are being asked whether they are there, by their ids."""
        self._refusals: dict[str, int] = {}
        """How often in turn each place has refused this server for its name."""

    def tell(self, log_name: str, name: str, who: str, event: str) -> None:
        """The log's line about a second server. log_name: its connection; who: the words for the first one."""
        self._log.error(
            f"{log_name} - Remote server has a duplicate name: {quoted(name)}: {who}, and each needs a server_name of "
            "its own",
            event=event,
        )

    async def ask(self, server_id: str, links: Collection[Link]) -> None:
        """Asks a server by its connections whether it is there. If not these end, and its name is free."""
        if server_id in self._asked:
            return
        self._asked.add(server_id)
        try:
            with self._guard.around("asking a server whether it is there"):
                numbers = {link.connection for link in links}
                if not await answers(self._plane, numbers, lambda: all(link.gone.is_set() for link in links)):
                    for link in links:
                        self._plane.close_connection(link.connection, "", t.CloseReason.STALE)
        finally:
            self._asked.discard(server_id)

    def refused(self, place: str) -> None:
        """The server there has a route with another one of this server's name."""
        self._refusals[place] = self._refusals.get(place, 0) + 1

    def welcome(self, place: str) -> None:
        """The server there has taken this one."""
        self._refusals.pop(place, None)

    def pause_s(self, place: str) -> float:
        """Seconds to wait, beyond the usual pause, before that place is dialled again."""
        return min(self._refusals.get(place, 0) * AGAIN_S, AGAIN_MAX_S)
