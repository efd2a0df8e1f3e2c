"""This server as a member of a supercluster: makes the gateways of a configuration, joins them with the cluster's
routes.

    another server of this cluster  --its gateway_url-------> INFO of gateways (gateway_urls): other clusters dial it
    it tells of another cluster     --OtherCluster----------> dialled, if it is not yet
    a cluster is reached            --on_reached------------> INFO to each other server of this cluster

Only a configuration with a gateway imports this. Not here: the gateways (links/gateways.py), the routes
(clustered.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leafd import native_types as t
from leafd.config.schema.gateway import Gateway
from leafd.config.schema.tls import LINK_TIMEOUT, login_timeout
from leafd.daemon.about import VERSION
from leafd.host.listeners import GATEWAY_LISTENER, Sockets, address_of, reachable
from leafd.links.addresses import host_port
from leafd.links.dialling import hurry
from leafd.links.gateway import Supercluster as Own
from leafd.links.gateway_info import gateway_place, places_in
from leafd.links.gateways import PING_NS, Gateways, Remote, Terms
from leafd.logins.handshakes import GATEWAYS, GATEWAYS_DIALLED, GATEWAYS_REMOTE

if TYPE_CHECKING:
    from leafd.daemon.about import About
    from leafd.daemon.clustered import Clustered
    from leafd.daemon.current import Current
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.links.peers import Peer
    from leafd.native_plane import Plane

SECOND: Final = 1_000_000_000


class Supercluster:
    """Owner of what gateways add to a server."""

    def __init__(
        self,
        plane: Plane,
        current: Current,
        about: About,
        sockets: Sockets,
        block: Gateway,
        clustered: Clustered | None,
        log: Log,
        guard: Guard,
    ) -> None:
        self._plane, self._current, self._about, self._sockets = plane, current, about, sockets
        self._log, self._guard = log, guard
        self._block = block
        self._clustered = clustered
        plane.gateway(block.name, about.server_id)
        self.gateways = self._make_gateways(block)
        if clustered is not None:
            routes = clustered.routes
            self.gateways.own.has_server = routes.peers.named
            routes.peers.elsewhere = self.gateways.named
            self.gateways.on_reached.append(routes.send_each)
            routes.on_peer.append(self._greet)
            routes.on_left.append(self._tell_urls)
            routes.on_cluster.append(lambda name, urls: self.gateways.learn(name, places_in(urls)))

    def _make_gateways(self, block: Gateway) -> Gateways:
        about, config = self._about, self._current.config
        login = block.authorization
        own = Own(
            server_id=about.server_id,
            server_name=about.name,
            version=VERSION,
            name=block.name,
            user=login.user if login is not None else "",
            password=login.password if login is not None else "",
            tls=block.tls is not None,
            headers=not config.no_header_support,
            max_payload=config.max_payload,
            rejects_unknown=block.reject_unknown_cluster,
        )
        remotes = []
        for number, one in enumerate(block.remotes):
            context = GATEWAYS_REMOTE + number if one.tls is not None else GATEWAYS_DIALLED
            places = tuple(gateway_place(url) for url in dict.fromkeys(one.urls))
            secure = _secure(context) if block.tls_of(one) is not None else None
            remotes.append(Remote(one.name, places, explicit=True, secure=secure))
        return Gateways(
            self._plane,
            own,
            Terms(
                remotes=tuple(remotes),
                retries=block.connect_retries,
                backoff=block.connect_backoff,
                login_s=login_timeout(login, block.tls, LINK_TIMEOUT) / SECOND,
                ping_interval_ns=min(config.ping_interval, PING_NS),
                accepts=_secure(GATEWAYS) if block.tls is not None else None,
                dials=_secure(GATEWAYS_DIALLED) if block.tls is not None else None,
                reports=(config.connect_error_reports, config.reconnect_error_reports),
            ),
            self._log,
            guard=self._guard,
        )

    def listen(self) -> None:
        """Servers of other clusters may come."""
        own, block = self.gateways.own, self._block
        sock = self._sockets.gateway
        assert sock is not None
        host, port = address_of(sock)
        own.host, own.port = reachable(host)[0], port
        if block.advertise:
            place = gateway_place(block.advertise if ":" in block.advertise else f"{block.advertise}:{port}")
            own.host, own.port = place.host, place.port
        own.url = host_port(own.host, own.port)
        own.urls = (own.url,)
        if self._clustered is not None:
            self._clustered.routes.cluster.gateway_url = own.url
        hurry(sock)
        self._plane.listen(GATEWAY_LISTENER, sock.detach(), t.ConnKind.GATEWAY, secure=block.tls is not None)
        log = self._log
        log.info(f"Gateway name is {own.name}")
        log.info(f"Listening for gateways connections on {host_port(host, port)}")
        log.info(f"{'Advertise address' if block.advertise else 'Address'} for gateway {own.name!r} is {own.url}")
        if any(tls is not None and tls.insecure for tls in (block.tls, *(one.tls for one in block.remotes))):
            log.warning("TLS of gateways: whoever answers is taken for that cluster; use this for tests only")

    def _greet(self, peer: Peer) -> None:
        """Another server of this cluster."""
        self._tell_urls()
        if peer.first is not None:
            for said in self.gateways.reached():
                self._plane.send(peer.first.connection, said)

    def _tell_urls(self) -> None:
        clustered = self._clustered
        others = clustered.routes.peers.urls("gateway_urls") if clustered is not None else ()
        self.gateways.told_urls((self.gateways.own.url, *others))

    def unlisten(self) -> None:
        """No other server may come any more, and none is dialled."""
        self.gateways.end()
        self._plane.unlisten(GATEWAY_LISTENER)


def _secure(context: int) -> t.Secure:
    return t.Secure(context, int(t.SecureFlag.FIRST))
