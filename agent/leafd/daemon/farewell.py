"""How clients are sent away: one by one on request, or all of them in lame duck mode. What does not live here: what
happens when the server ends (server.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from leafd import native_types as t
from leafd.logins.info_lines import frame, template

if TYPE_CHECKING:
    from leafd.daemon.server import Server

SECOND: Final = 1_000_000_000


def send_away(server: Server, connection: int) -> bool:
    """Asks one client to connect elsewhere; False: there is none."""
    client = server.clients.get(connection)
    if client is None or client.account is None:
        return False
    about = {"client_id": connection, "client_ip": client.host, "ldm": True}
    server.plane.send(connection, frame(server.info() | about))
    return True


async def lame_duck(server: Server) -> None:
    """Sends the clients away one after the other, over the configured time."""
    server.events.lame_duck()
    server.unlisten()
    if server.together is not None:
        server.together.leave()
    server.plane.broadcast(template(server.info() | {"ldm": True}))
    await trio.sleep(server.config.lame_duck_grace_period / SECOND)
    clients = server.clients.all()
    pause_s = min(1.0, server.config.lame_duck_duration / SECOND / max(len(clients), 1))
    for client in clients:
        server.plane.close_connection(client.connection, "", t.CloseReason.SHUTDOWN)
        await trio.sleep(pause_s)
