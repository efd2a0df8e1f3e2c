"""This server as a member of a cluster: makes the routes of a configuration, and tells clients, leaves and reports
which servers are connected.

    a server joins or goes --on_told--> INFO of clients (connect_urls), INFO of leaves (leafnode_urls)
    the cluster's name is another one --on_renamed--> INFO of clients, leaf links, reports (server.py has both tables)

Only a configuration with a cluster imports this. Not here: the routes (links/), which accounts have some
of their own (config/schema/server.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.config.schema.cluster import Cluster as Block, pinned_accounts
from leafd.config.schema.gateway import cluster_name
from leafd.config.schema.tls import LINK_TIMEOUT, login_timeout
from leafd.daemon.about import VERSION
from leafd.host.listeners import ROUTE_LISTENER, Sockets, address_of, advertised, leaf_place, reachable
from leafd.links.addresses import host_port
from leafd.links.compression import Compression
from leafd.links.dialling import hurry
from leafd.links.peers import Peers
from leafd.links.route import Cluster
from leafd.links.route_info import DEFAULT_PORT, place_of, places_of
from leafd.links.route_links import Terms
from leafd.links.routes import Routes
from leafd.logins.handshakes import ROUTES, ROUTES_DIALLED

if TYPE_CHECKING:
    from leafd.config.schema.permissions import Permissions, Subjects
    from leafd.daemon.about import About
    from leafd.daemon.current import Current
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.native_plane import Plane

SECOND: Final = 1_000_000_000


class Clustered:
    """Owner of what a cluster adds to a server."""

    def __init__(
        self, plane: Plane, current: Current, about: About, sockets: Sockets, block: Block, log: Log, guard: Guard
    ) -> None:
        self._plane, self._current, self._about, self._sockets = plane, current, about, sockets
        self._log, self._guard = log, guard
        self._block = block
        self._told = False
        self._leaving = False
        self._listens: tuple[str, int] = "", 0
        self.routes = self._make_routes(block)

    # ---- making

    def _make_routes(self, block: Block) -> Routes:
        about, config = self._about, self._current.config
        cluster = Cluster(
            server_id=about.server_id,
            server_name=about.name,
            version=VERSION,
            name=cluster_name(config) or secrets.token_hex(11),
            dynamic=not cluster_name(config),
            tls=block.tls is not None,
            headers=not config.no_header_support,
            max_payload=config.max_payload,
            leafnode_url=self._leaf_url(),
        )
        self._describe(cluster, block)
        return Routes(
            self._plane,
            cluster,
            Peers(block.pool_size, self.pinned(block)),
            self._terms(block),
            self._log,
            account_id=self._account_id,
            own_places=self._own_places,
            guard=self._guard,
        )

    def _describe(self, cluster: Cluster, block: Block) -> None:
        """Fills in the block's descriptions of this server."""
        own = block.authorization
        cluster.user, cluster.password = (own.user, own.password) if own is not None else ("", "")
        cluster.compression = Compression(*block.compression)
        cluster.connect_urls = () if block.no_advertise else self._own_urls()
        cluster.ws_connect_urls = () if block.no_advertise else self._web_urls()
        rules = block.rules
        cluster.imported = _told(rules.publish) if rules is not None else None
        cluster.exported = _told(rules.subscribe) if rules is not None else None
        cluster.advertised = bool(block.advertise)
        cluster.host, cluster.port = self._listens
        if block.advertise:
            place = place_of(block.advertise if ":" in block.advertise else f"{block.advertise}:{DEFAULT_PORT}")
            cluster.host, cluster.port = place.host, place.port

    def _terms(self, block: Block) -> Terms:
        config, own = self._current.config, block.authorization
        user, password = (own.user, own.password) if own is not None else ("", "")
        secure = t.Secure(ROUTES, int(t.SecureFlag.FIRST)) if block.tls is not None else None
        return Terms(
            places=places_of(block.routes, user, password),
            retries=block.connect_retries,
            backoff=block.connect_backoff,
            advertises=not block.no_advertise,
            login_s=login_timeout(own, block.tls, LINK_TIMEOUT) / SECOND,
            ping_interval_ns=block.ping_ns,
            permissions=_permissions(block.rules),
            accepts=secure,
            dials=t.Secure(ROUTES_DIALLED, int(t.SecureFlag.FIRST)) if secure is not None else None,
            reports=(config.connect_error_reports, config.reconnect_error_reports),
        )

    def pinned(self, block: Block) -> tuple[str, ...]:
        """The accounts with routes of their own."""
        return pinned_accounts(block, self._current.compiled.graph.system_name)

    def _account_id(self, name: str) -> int:
        found = self._current.account(name)
        return found.id if found is not None else 0

    def _own_urls(self) -> tuple[str, ...]:
        """The URLs at which clients reach this server."""
        about, config = self._about, self._current.config
        if config.client_advertise:
            _, colon, port = config.client_advertise.rpartition(":")
            return (config.client_advertise if colon and port.isdigit() else f"{config.client_advertise}:{about.port}",)
        return tuple(host_port(one, about.port) for one in reachable(about.host))

    def _leaf_url(self) -> str:
        leafnodes, leaf = self._current.config.leafnodes, self._about.leaf
        if leaf is None or leafnodes is None or leafnodes.no_advertise:
            return ""
        return host_port(*leaf_place(leafnodes, *leaf))

    def _web_urls(self) -> tuple[str, ...]:
        """The URLs at which clients and leaves reach this server over WebSocket."""
        address, web = self._about.web, self._current.config.websocket
        if address is None or web is None:
            return ()
        host, port = address
        if web.advertise:
            return (host_port(*advertised(web.advertise, port)),)
        return tuple(host_port(one, port) for one in reachable(host))

    def _own_places(self) -> list[tuple[str, int]]:
        port = self.routes.cluster.port
        return [(one, port) for one in ("127.0.0.1", "::1", *reachable("0.0.0.0"))]

    # ---- serving

    def listen(self) -> None:
        """Other servers may come."""
        sock = self._sockets.route
        assert sock is not None
        host, port = address_of(sock)
        self._listens = host, port
        cluster = self.routes.cluster
        if not cluster.advertised:
            cluster.host, cluster.port = host, port
        secure = self._block.tls is not None
        hurry(sock)
        self._plane.listen(ROUTE_LISTENER, sock.detach(), t.ConnKind.ROUTE, secure=secure)
        log = self._log
        log.info(f"Cluster name is {cluster.name}")
        if cluster.dynamic:
            log.warning("Cluster name was dynamically generated, consider setting one")
        log.info(f"Listening for route connections on {host_port(host, port)}")
        if self._block.tls is not None and self._block.tls.insecure:
            log.warning("TLS of routes: whoever answers is taken for a server of the cluster; use this for tests only")

    # ---- changes

    @property
    def block(self) -> Block:
        """The configuration that the routes follow."""
        return self._block

    def change(self, block: Block, accounts: set[str], *, anew: bool) -> None:
        """Another one. accounts: those with routes of their own; anew: what two servers agree upon is not the same."""
        self._block = block
        self._describe(self.routes.cluster, block)
        self.routes.change(self._terms(block), block.pool_size, accounts, anew=anew)

    # ---- what is told

    def info(self) -> dict[str, Any]:
        """The members that a cluster adds to clients' INFO."""
        found: dict[str, Any] = {"cluster": self.routes.cluster.name}
        if self._leaving:
            found["ldm"] = True
        if urls := self._urls_of(self.routes.urls("connect_urls"), self._own_urls):
            found["connect_urls"] = urls
        return found

    def web_urls(self) -> list[str]:
        """The URLs at which WebSocket clients reach the servers of the cluster, as clients' INFO has theirs."""
        return self._urls_of(self.routes.urls("ws_connect_urls"), self._web_urls)

    def _urls_of(self, others: tuple[str, ...], own: Callable[[], tuple[str, ...]]) -> list[str]:
        """This server's, once others have been heard of, and theirs; without its own where it is about to end."""
        if self._block.no_advertise:
            return []
        if self._leaving:
            return list(others)
        return list(dict.fromkeys((*own(), *others))) if others or self._told else []

    def told(self) -> None:
        """Clients hear of the other servers from now on."""
        self._told = True

    def unlisten(self) -> None:
        """No other server may come any more, and none is dialled."""
        self.routes.end()
        self._plane.unlisten(ROUTE_LISTENER)

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
