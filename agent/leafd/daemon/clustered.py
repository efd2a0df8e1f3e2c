"""This server as a member of a cluster: makes the routes of a configuration, and tells clients, leaves and reports
which servers are connected.

    a server joins or goes --on_told--> INFO of clients (connect_urls), INFO of leaves (leafnode_urls)
    the cluster's name is another one --on_renamed--> INFO of clients, leaf links, reports

Only a configuration with a cluster imports this. What does not live here: the routes (links/), which accounts have some
of their own (config/schema/server.py).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.config.schema.cluster import Cluster as Block, pinned_accounts
from leafd.config.schema.gateway import cluster_name
from leafd.config.schema.tls import LINK_TIMEOUT, login_timeout
from leafd.daemon.about import VERSION
from leafd.host.listeners import address_of, advertised, leaf_place, reachable
from leafd.links.addresses import host_port
from leafd.links.compression import Compression
from leafd.links.peers import Peers
from leafd.links.route import Cluster
from leafd.links.route_info import DEFAULT_PORT, place_of, places_of
from leafd.links.routes import Routes, Terms
from leafd.logins.handshakes import ROUTES, ROUTES_DIALLED
from leafd.logins.info_lines import template

if TYPE_CHECKING:
    from leafd.config.schema.permissions import Permissions, Subjects
    from leafd.daemon.server import Server

SECOND: Final = 1_000_000_000
ROUTE_LISTENER: Final = 4


class Clustered:
    """Owner of what a cluster adds to a server."""

    def __init__(self, server: Server, block: Block) -> None:
        self._server = server
        self._block = block
        self._told = False
        self._leaving = False
        self.routes = self._make_routes(block)
        self.routes.on_told.append(self.tell)
        self.routes.on_renamed.append(self._renamed)
        self.routes.on_joined.append(self._joined)

    # ---- making

    def _make_routes(self, block: Block) -> Routes:
        server, config = self._server, self._server.config
        own = block.authorization
        user, password = (own.user, own.password) if own is not None else ("", "")
        cluster = Cluster(
            server_id=server.about.server_id,
            server_name=server.about.name,
            version=VERSION,
            name=cluster_name(config) or secrets.token_hex(11),
            dynamic=not cluster_name(config),
            user=user,
            password=password,
            tls=block.tls is not None,
            headers=not config.no_header_support,
            max_payload=config.max_payload,
            compression=Compression(*block.compression),
            connect_urls=() if block.no_advertise else self._own_urls(),
            ws_connect_urls=() if block.no_advertise else self._web_urls(),
            leafnode_url=self._leaf_url(),
        )
        rules = block.rules
        if rules is not None:
            cluster.imported, cluster.exported = _told(rules.publish), _told(rules.subscribe)
        if block.advertise:
            place = place_of(block.advertise if ":" in block.advertise else f"{block.advertise}:{DEFAULT_PORT}")
            cluster.host, cluster.port, cluster.advertised = place.host, place.port, True
        secure = t.Secure(ROUTES, int(t.SecureFlag.FIRST)) if block.tls is not None else None
        return Routes(
            server.plane,
            cluster,
            Peers(block.pool_size, pinned_accounts(block, server.compiled.graph.system_name)),
            Terms(
                places=places_of(block.routes, user, password),
                retries=block.connect_retries,
                backoff=block.connect_backoff,
                advertises=not block.no_advertise,
                login_s=login_timeout(own, block.tls, LINK_TIMEOUT) / SECOND,
                ping_interval_ns=block.ping_ns,
                permissions=_permissions(rules),
                accepts=secure,
                dials=t.Secure(ROUTES_DIALLED, int(t.SecureFlag.FIRST)) if secure is not None else None,
                reports=(config.connect_error_reports, config.reconnect_error_reports),
            ),
            server.log,
            account_id=self._account_id,
            own_places=self._own_places,
            guard=server.guard,
        )

    def _account_id(self, name: str) -> int:
        found = self._server.compiled.graph.account(name)
        return found.id if found is not None else 0

    def _own_urls(self) -> tuple[str, ...]:
        """The URLs at which clients reach this server."""
        about, config = self._server.about, self._server.config
        if config.client_advertise:
            _, colon, port = config.client_advertise.rpartition(":")
            return (config.client_advertise if colon and port.isdigit() else f"{config.client_advertise}:{about.port}",)
        return tuple(host_port(one, about.port) for one in reachable(about.host))

    def _leaf_url(self) -> str:
        leafnodes, leaf = self._server.config.leafnodes, self._server.about.leaf
        if leaf is None or leafnodes is None or leafnodes.no_advertise:
            return ""
        return host_port(*leaf_place(leafnodes, *leaf))

    def _web_urls(self) -> tuple[str, ...]:
        """The URLs at which clients and leaves reach this server over WebSocket."""
        sock, web = self._server.sockets.web, self._server.config.websocket
        if sock is None or web is None:
            return ()
        host, port = address_of(sock)
        if web.advertise:
            return (host_port(*advertised(web.advertise, port)),)
        return tuple(host_port(one, port) for one in reachable(host))

    def _own_places(self) -> list[tuple[str, int]]:
        port = self.routes.cluster.port
        return [(one, port) for one in ("127.0.0.1", "::1", *reachable("0.0.0.0"))]

    # ---- serving

    def listen(self) -> None:
        """Other servers may come."""
        sock = self._server.sockets.route
        assert sock is not None
        host, port = address_of(sock)
        cluster = self.routes.cluster
        if not cluster.advertised:
            cluster.host, cluster.port = host, port
        secure = self._block.tls is not None
        self._server.plane.listen(ROUTE_LISTENER, sock.detach(), t.ConnKind.ROUTE, secure=secure)
        log = self._server.log
        log.info(f"Cluster name is {cluster.name}")
        if cluster.dynamic:
            log.warning("Cluster name was dynamically generated, consider setting one")
        log.info(f"Listening for route connections on {host}:{port}")
        if self._block.tls is not None and self._block.tls.insecure:
            log.warning("TLS of routes: whoever answers is taken for a server of the cluster; use this for tests only")

    # ---- what is told

    def info(self) -> dict[str, Any]:
        """The members that a cluster adds to clients' INFO."""
        found: dict[str, Any] = {"cluster": self.routes.cluster.name}
        urls = self.routes.urls("connect_urls")
        if self._leaving:
            return found | ({"connect_urls": list(urls), "ldm": True} if urls else {"ldm": True})
        if urls or self._told:
            found["connect_urls"] = list(dict.fromkeys((*self._own_urls(), *urls)))
        return found

    def tell(self) -> None:
        """Clients and leaves hear of the servers that there are now."""
        server = self._server
        self._told = True
        server.plane.forget_logins()
        server.clients.known.forget()
        server.clients.say_welcome()
        server.plane.broadcast(template(server.info()), plain=True)
        server.leafs.tell_urls(self.routes.urls("leafnode_urls"), self.routes.urls("ws_connect_urls"))

    def _renamed(self) -> None:
        server = self._server
        server.facts.cluster = self.routes.cluster.name
        server.leafs.belong_to(self.routes.cluster.name)
        self.tell()

    def _joined(self) -> None:
        self._server.events.cluster_grew()

    def unlisten(self) -> None:
        """No other server may come any more, and none is dialled."""
        self.routes.end()
        self._server.plane.unlisten(ROUTE_LISTENER)

    def leave(self) -> None:
        """Lame duck mode."""
        self._leaving = True
        self.routes.leave()


def _told(subjects: Subjects | None) -> dict[str, list[str]] | None:
    if subjects is None:
        return None
    lists = {"allow": list(subjects.allow or ()), "deny": list(subjects.deny)}
    return {name: value for name, value in lists.items() if value} or None


def _permissions(rules: Permissions | None) -> t.Permissions:
    """Import: what is told. Export: what is taken."""
    if rules is None:
        return t.Permissions()
    publish, subscribe = rules.publish, rules.subscribe
    return t.Permissions(
        publish_allow=(publish.allow or ()) if publish is not None else (),
        publish_deny=publish.deny if publish is not None else (),
        subscribe_allow=(subscribe.allow or ()) if subscribe is not None else (),
        subscribe_deny=subscribe.deny if subscribe is not None else (),
    )
