"""Two services that a server has only where its configuration asks for them: callouts, and the WebSocket listener.

Each function imports its service when it is called, so a server without it starts sooner. What does not live here: what
they do (callouts.py, web.py), when they begin (server.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leafd import native_types as t
from leafd.config.schema.mqtt import mqtt_address
from leafd.daemon.about import VERSION
from leafd.daemon.server import WEB_LISTENER
from leafd.host.listeners import address_of

if TYPE_CHECKING:
    import socket

    from leafd.config.schema.websocket import WebSocket
    from leafd.daemon.server import Server
    from leafd.logins.callouts import Callouts
    from leafd.logins.web import Webs


def make_callouts(server: Server, seed: str) -> Callouts:
    """The callouts of a server. seed: of its id; where that is no key because the first configuration had no such
    service, requests are signed by a key of their own."""
    from leafd.auth.callout import ServerKeys
    from leafd.auth.nkeys import PREFIX_SERVER, new_seed
    from leafd.auth.xkeys import PREFIX_CURVE
    from leafd.logins.callouts import Callouts

    about, config = server.about, server.config
    keys = ServerKeys(
        about.server_id,
        about.name,
        about.host,
        VERSION,
        seed or new_seed(PREFIX_SERVER),
        new_seed(PREFIX_CURVE),
        tags=config.server_tags,
    )
    return Callouts(server.plane, keys, lambda name: server.compiled.graph.account(name), server.guard, server.log)


def make_webs(server: Server) -> Webs:
    """The server's, which has the block."""
    from leafd.logins.web import Webs

    def block() -> WebSocket:
        assert server.config.websocket is not None
        return server.config.websocket

    def leaf(connection: int, peer: str, tls: t.Secured | None) -> None:
        server.leafs.accept_web(connection, peer, tls)
        server.leaf_logins.opened(connection)

    return Webs(
        server.plane,
        server.log,
        server.guard,
        block,
        leafs=lambda: server.config.leaf_address() is not None,
        mqtt=lambda: mqtt_address(server.config) is not None,
        client=server.clients.welcome,
        leaf=leaf,
    )


def listen_web(server: Server, sock: socket.socket) -> None:
    """Visitors may come from here on."""
    host, port = server.clients.web_address = address_of(sock)
    block = server.config.websocket
    secure = block is not None and block.tls is not None
    server.plane.listen(WEB_LISTENER, sock.detach(), t.ConnKind.CLIENT, secure=secure, web=True)
    server.log.info(f"Listening for websocket clients on {'wss' if secure else 'ws'}://{host}:{port}")
    if not secure:
        server.log.warning("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")
