"""The services that a server has only where its configuration asks for them: callouts, those who come over WebSocket,
the count of MQTT clients.

Each function imports its service when it is called, so a server without it starts sooner. Not here: what
they do (callouts.py, web.py), when they begin (server.py), the listener (listening.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leafd import native_types as t
from leafd.config.schema.mqtt import mqtt_address
from leafd.daemon.about import VERSION

if TYPE_CHECKING:
    from leafd.config.schema.websocket import WebSocket
    from leafd.daemon.about import About
    from leafd.daemon.current import Current
    from leafd.guard import Guard
    from leafd.host.listeners import Sockets
    from leafd.host.log import Log
    from leafd.links.leafs import Leafs
    from leafd.logins.callouts import Callouts, LookUp
    from leafd.logins.clients import Clients
    from leafd.logins.devices import Devices
    from leafd.logins.leaf_logins import LeafLogins
    from leafd.logins.web import Webs
    from leafd.native_plane import Plane


def make_callouts(
    plane: Plane, about: About, current: Current, seed: str, look_up: LookUp | None, guard: Guard, log: Log
) -> Callouts:
    """The callouts of a server. seed: of its id; where that is no key because the first configuration had no such
    service, requests are signed by a key of their own."""
    from leafd.auth.callout import ServerKeys
    from leafd.auth.nkeys import PREFIX_SERVER, new_seed
    from leafd.auth.xkeys import PREFIX_CURVE
    from leafd.logins.callouts import Callouts

    keys = ServerKeys(
        about.server_id,
        about.name,
        about.host,
        VERSION,
        seed or new_seed(PREFIX_SERVER),
        new_seed(PREFIX_CURVE),
        tags=current.config.server_tags,
    )
    return Callouts(plane, keys, current.account, guard, log, look_up)


def make_devices(sockets: Sockets) -> Devices | None:
    """The count of MQTT clients, where there is a listener for them."""
    if sockets.mqtt is None:
        return None
    from leafd.logins.devices import Devices

    return Devices()


def make_webs(
    plane: Plane, current: Current, clients: Clients, leafs: Leafs, leaf_logins: LeafLogins, guard: Guard, log: Log
) -> Webs:
    """The server's, whose configuration has the block."""
    from leafd.logins.web import Webs

    def block() -> WebSocket:
        assert current.config.websocket is not None
        return current.config.websocket

    def leaf(connection: int, peer: str, tls: t.Secured | None) -> None:
        leafs.accept_web(connection, peer, tls)
        leaf_logins.opened(connection)

    return Webs(
        plane,
        log,
        guard,
        block,
        leafs=lambda: current.config.leaf_address() is not None,
        mqtt=lambda: mqtt_address(current.config) is not None,
        client=clients.greet,
        leaf=leaf,
    )
