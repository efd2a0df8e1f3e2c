"""How clients are sent away: one by one on request, or all of them and the leaves in lame duck mode. Not here: what
happens when the server ends (server.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from leafd import native_types as t

if TYPE_CHECKING:
    from leafd.daemon.current import Current
    from leafd.links.leafs import Leafs
    from leafd.logins.clients import Clients
    from leafd.native_connections import Connections

SECOND: Final = 1_000_000_000
LEAST_S: Final = 1.0
"""Within which they go where the time before the first is as long as all of it."""


class Farewell:
    """The end of one server's connections. leave: tells the other servers, and ends the listeners."""

    def __init__(
        self,
        plane: Connections,
        clients: Clients,
        leafs: Leafs,
        current: Current,
        leave: Callable[[], None],
    ) -> None:
        self._plane, self._clients, self._leafs = plane, clients, leafs
        self._current, self._leave = current, leave

    def send_away(self, connection: int) -> bool:
        """Asks one client to connect elsewhere; False: there is none."""
        client = self._clients.get(connection)
        if client is None or client.account is None:
            return False
        self._clients.send_away(client)
        return True

    async def lame_duck(self) -> None:
        """Sends the clients away one after the other, then the leaves whose hub this server is, so that they do not
        all dial the next server at once. All are gone when the configured time is over, which includes the one before
        the first: each has its moment, whatever those before it took."""
        self._leave()
        config = self._current.config
        self._clients.announce(ldm=True)
        grace_s = config.lame_duck_grace_period / SECOND
        await trio.sleep(grace_s)
        leaving = self._clients.present.connections()
        leaving += [link.connection for link in self._leafs.links() if self._leafs.accepted(link.connection)]
        span_s = max(config.lame_duck_duration / SECOND - grace_s, LEAST_S)
        pause_s, begun = min(1.0, span_s / max(len(leaving), 1)), trio.current_time()
        for number, connection in enumerate(leaving):
            await trio.sleep_until(begun + number * pause_s)
            self._plane.close_connection(connection, "", t.CloseReason.SHUTDOWN)
