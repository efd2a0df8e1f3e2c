"""How clients are sent away: one by one on request, or all of them in lame duck mode. Not here: what
happens when the server ends (server.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from leafd import native_types as t

if TYPE_CHECKING:
    from leafd.daemon.current import Current
    from leafd.logins.clients import Clients
    from leafd.native_connections import Connections

SECOND: Final = 1_000_000_000


class Farewell:
    """The end of one server's connections. leave: tells the other servers, and ends the listeners."""

    def __init__(
        self,
        plane: Connections,
        clients: Clients,
        current: Current,
        leave: Callable[[], None],
    ) -> None:
        self._plane, self._clients, self._current, self._leave = plane, clients, current, leave

    def send_away(self, connection: int) -> bool:
        """Asks one client to connect elsewhere; False: there is none."""
        client = self._clients.get(connection)
        if client is None or client.account is None:
            return False
        self._clients.send_away(client)
        return True

    async def lame_duck(self) -> None:
        """Sends the clients away one after the other, over the configured time."""
        self._leave()
        config = self._current.config
        self._clients.announce(ldm=True)
        await trio.sleep(config.lame_duck_grace_period / SECOND)
        clients = self._clients.all()
        pause_s = min(1.0, config.lame_duck_duration / SECOND / max(len(clients), 1))
        for client in clients:
            self._plane.close_connection(client.connection, "", t.CloseReason.SHUTDOWN)
            await trio.sleep(pause_s)
