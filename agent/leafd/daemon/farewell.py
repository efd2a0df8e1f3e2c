"""How clients are sent away: one by one on request, or all of them in lame duck mode. Not here: what
happens when the server ends (server.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.logins.info_lines import frame, template

if TYPE_CHECKING:
    from leafd.daemon.current import Current
    from leafd.logins.clients import Clients
    from leafd.native_connections import Connections

SECOND: Final = 1_000_000_000


class Farewell:
    """The end of one server's connections. info: what INFO says to every client. leave: tells the other servers, and
    ends the listeners."""

    def __init__(
        self,
        plane: Connections,
        clients: Clients,
        current: Current,
        info: Callable[[], dict[str, Any]],
        leave: Callable[[], None],
    ) -> None:
        self._plane, self._clients, self._current = plane, clients, current
        self._info, self._leave = info, leave

    def send_away(self, connection: int) -> bool:
        """Asks one client to connect elsewhere; False: there is none."""
        client = self._clients.get(connection)
        if client is None or client.account is None:
            return False
        about = {"client_id": connection, "client_ip": client.host, "ldm": True}
        self._plane.send(connection, frame(self._info() | about))
        return True

    async def lame_duck(self) -> None:
        """Sends the clients away one after the other, over the configured time."""
        self._leave()
        config = self._current.config
        self._plane.broadcast(template(self._info() | {"ldm": True}))
        await trio.sleep(config.lame_duck_grace_period / SECOND)
        clients = self._clients.all()
        pause_s = min(1.0, config.lame_duck_duration / SECOND / max(len(clients), 1))
        for client in clients:
            self._plane.close_connection(client.connection, "", t.CloseReason.SHUTDOWN)
            await trio.sleep(pause_s)
