"""The listeners of a server in the plane: opened when it serves, told what a reload changed, closed at the end.

    begin(): leaf, web, MQTT    begin_clients(): clients, last    again(): TLS and PROXY of today for new connections
    close(): nobody comes

Not here: binding (host/listeners.py); the listeners of routes and gateways (clustered.py,
supercluster.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leafd import native_types as t
from leafd.daemon.remotes import sending
from leafd.host.listeners import (
    CLIENT_LISTENER,
    LEAF_LISTENER,
    MQTT_LISTENER,
    WEB_LISTENER,
    Sockets,
    address_of,
    leaf_place,
    listen,
)
from leafd.links import leaf
from leafd.links.addresses import host_port
from leafd.links.compression import Compression
from leafd.links.dialling import hurry
from leafd.logins.handshakes import info_of

STANDS: Final = "no full packet of this end arrives: the other one is to dial again, and is told to take small ones"

if TYPE_CHECKING:
    import socket

    import trio

    from leafd.daemon.current import Current
    from leafd.daemon.doorway import Doorway
    from leafd.host.log import Log
    from leafd.links.leafs import Leafs
    from leafd.links.link import Link
    from leafd.logins.clients import Clients
    from leafd.native_plane import Plane


class Listeners:
    """The listeners of one server, by the configuration of today."""

    def __init__(
        self, plane: Plane, sockets: Sockets, current: Current, clients: Clients, leafs: Leafs, log: Log
    ) -> None:
        self._plane, self._sockets, self._current = plane, sockets, current
        self._clients, self._leafs, self._log = clients, leafs, log
        self._leaf_door: socket.socket | None = None
        self._doorway: Doorway | None = None
        self._nursery: trio.Nursery | None = None

    def begin(self, nursery: trio.Nursery) -> None:
        """Everybody may come from here on, but clients of the NATS protocol over TCP."""
        self._nursery = nursery
        self._open_leaf()
        self._open_web()
        if self._sockets.mqtt is not None:
            from leafd.daemon.mqtt import listen_mqtt

            listen_mqtt(self._plane, self._current.config, self._log, self._sockets.mqtt)

    def again(self) -> None:
        """After a reload: new connections get TLS, or not, as the configuration of today says."""
        config, plane = self._current.config, self._plane
        if self._sockets.leaf is not None:
            plane.listen(LEAF_LISTENER, 0, t.ConnKind.LEAF, secure=self._hold_leafs())
        web = config.websocket
        if self._sockets.web is not None and web is not None:
            plane.listen(WEB_LISTENER, 0, t.ConnKind.CLIENT, secure=web.tls is not None, web=True)
        if self._sockets.mqtt is not None:
            from leafd.daemon.mqtt import listen_mqtt

            listen_mqtt(plane, config, self._log)
        secure = self._current.compiled.client_terms.secure
        plane.listen(CLIENT_LISTENER, 0, t.ConnKind.CLIENT, secure=secure is not None, proxied=config.proxy_protocol)

    def close(self) -> None:
        """No new connections."""
        plane, sockets = self._plane, self._sockets
        if self._leaf_door is not None:
            self._leaf_door.close()
        plane.unlisten(CLIENT_LISTENER)
        for sock, listener in (
            (sockets.leaf, LEAF_LISTENER), (sockets.web, WEB_LISTENER), (sockets.mqtt, MQTT_LISTENER)
        ):  # fmt: skip
            if sock is not None:
                plane.unlisten(listener)

    def _open_leaf(self) -> None:
        sock, leafnodes = self._sockets.leaf, self._current.config.leafnodes
        if sock is None:
            return
        host, port = address_of(sock)
        told = not (leafnodes and leafnodes.no_advertise)
        self._leafs.listening(*leaf_place(leafnodes, host, port), told=told)
        hurry(sock)
        self._leaf_door = sock.dup()
        self._leafs.on_doubt += [self._doubted]
        self._plane.listen(LEAF_LISTENER, sock.detach(), t.ConnKind.LEAF, secure=self._hold_leafs())
        self._log.info(f"Listening for leafnode connections on {host_port(host, port)}")

    def _doubted(self, link: Link, doubt: int) -> None:
        """A server that dialled a link which stands at its first full packet is told of that by the listener alone."""
        from leafd.daemon.doorway import Doorway  # here: hardly ever does anybody need it

        dialled = isinstance(link.machine, leaf.Acceptor) and not link.web
        if doubt != t.Doubt.LARGE or not dialled or self._leaf_door is None or self._nursery is None:
            return
        if self._doorway is None:
            self._doorway = Doorway(self._leaf_door, self._log)
            self._leafs.on_up += [self._doorway.came]
            self._nursery.start_soon(self._doorway.run)
        self._doorway.stuck(link)
        link.last_error = STANDS
        self._plane.close_connection(link.connection, "", t.CloseReason.STALE)

    def begin_clients(self) -> None:
        """Clients may come. Raises StartError when another process has opened the port since it was bound."""
        config, sock = self._current.config, self._sockets.client
        listen(sock)
        secure = self._current.compiled.client_terms.secure
        host, port = address_of(sock)
        self._plane.listen(
            CLIENT_LISTENER,
            sock.detach(),
            t.ConnKind.CLIENT,
            secure=secure is not None,
            proxied=config.proxy_protocol,
        )
        self._clients.listening(CLIENT_LISTENER)
        if config.proxy_protocol:
            self._log.info("PROXY protocol enabled for client connections")
        self._log.info(f"Listening for client connections on {host_port(host, port)}")
        if secure is not None:
            available = "available" if secure.flags & t.SecureFlag.OPTIONAL else "required"
            self._log.info(f"TLS {available} for client connections")
            if secure.flags & t.SecureFlag.FIRST and not secure.wait_ns:
                self._log.warning('Clients that are not using "TLS Handshake First" option will fail to connect')

    def _open_web(self) -> None:
        sock, block = self._sockets.web, self._current.config.websocket
        if sock is None:
            return
        host, port = self._clients.info.web_address = address_of(sock)
        secure = block is not None and block.tls is not None
        hurry(sock)  # leaves come here, too
        self._plane.listen(WEB_LISTENER, sock.detach(), t.ConnKind.CLIENT, secure=secure, web=True)
        self._log.info(f"Listening for websocket clients on {'wss' if secure else 'ws'}://{host_port(host, port)}")
        if not secure:
            self._log.warning("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")

    def _hold_leafs(self) -> bool:
        """Says how leaf nodes are compressed and get TLS from now on; whether they get it."""
        secure = self._current.compiled.leaf_secure
        leafnodes, leafs = self._current.config.leafnodes, self._leafs
        leafs.secured_by(secure, info_of(leafnodes.tls if leafnodes else None))
        if leafnodes is not None:
            leafs.min_version = leafnodes.min_version
            leafs.isolates = leafnodes.isolate_leafnode_interest
            wanted = Compression(*leafnodes.compression)
            if wanted != leafs.compression:
                leafs.compress_anew(wanted)
            leafs.sending.change(None, *sending(leafnodes.priority, leafnodes.limits))
        return secure is not None
