"""The parts that a cluster and a supercluster add to a server.

    server --handle, info, listen, run, leave--> Together --> Clustered (routes), Supercluster (gateways)
    a server joins or goes --> Introductions --> INFO of clients and of leaves, reports

Only a configuration with one of the two imports this. Not here: what either does (clustered.py,
supercluster.py); links to hubs and of leaves, which are other servers too (links/leafs.py).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.cluster.neighbours import Links, Neighbours
from leafd.config.schema.cluster import group_size
from leafd.daemon.clustered import Clustered
from leafd.daemon.supercluster import Supercluster
from leafd.links.origin import peer_number
from leafd.links.route_info import LETTERS, NO_LETTERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leafd.daemon.about import About
    from leafd.daemon.current import Current
    from leafd.daemon.guests import Guests
    from leafd.daemon.handing import Refusals
    from leafd.daemon.meta_group import MetaGroup
    from leafd.daemon.placed import Placed
    from leafd.daemon.placing import Placing
    from leafd.daemon.rescue_request import RescueRequest
    from leafd.guard import Guard
    from leafd.host.listeners import Sockets
    from leafd.host.log import Log
    from leafd.jetstream.service import JetStream
    from leafd.links.gateways import Gateways
    from leafd.links.leafs import Leafs
    from leafd.links.routes import Routes
    from leafd.logins.clients import Clients
    from leafd.monitor.facts import Facts
    from leafd.native_plane import Plane

JOINED_S: Final = 1.0
"""How long clients may have to wait at a start until the servers of the configuration have answered."""


class Together:
    """Owner of both."""

    def __init__(self, plane: Plane, current: Current, about: About, sockets: Sockets, log: Log, guard: Guard) -> None:
        config, self._guard = current.config, guard
        self.clustered: Clustered | None = None
        self.supercluster: Supercluster | None = None
        if config.cluster is not None and sockets.route is not None:
            self.clustered = Clustered(plane, current, about, sockets, config.cluster, log, guard)
        if config.gateway is not None and sockets.gateway is not None:
            self.supercluster = Supercluster(plane, current, about, sockets, config.gateway, self.clustered, log, guard)
        self.placing: Placing | None = None
        self._placed: Placed | None = None
        self._rescue: RescueRequest | None = None
        self._guests: Guests | None = None
        self._hand_over: Callable[[], Awaitable[None]] | None = None
        self._refusals: Refusals | None = None
        self.meta = self._make_meta(plane, current, about, log, guard)
        if self.meta is not None and self.clustered is not None:
            self.clustered.routes.cluster.letters = LETTERS
            if self.supercluster is not None:
                self.supercluster.gateways.own.letters = LETTERS
        elif self.supercluster is not None and (config.jetstream is None or not config.jetstream.enabled):
            self.supercluster.gateways.own.letters = NO_LETTERS

    def _make_meta(self, plane: Plane, current: Current, about: About, log: Log, guard: Guard) -> MetaGroup | None:
        expected = group_size(current.config)
        if self.clustered is None or not expected:
            return None
        if current.config.jetstream is not None and not current.config.jetstream.meta_size:
            log.info(f"JetStream cluster: {expected} servers are expected, by routes and gateways")
        from leafd.daemon.meta_group import MetaGroup

        neighbours = Neighbours(
            about.name, lambda: self.cluster, self._links, plane.meta_send, peer_number, plane.meta_ways
        )
        return MetaGroup(plane, current, about, neighbours, expected, log, guard)

    def _links(self) -> Links:
        """The servers to which routes and gateways lead, and whose letters are believed."""
        routes, gateways = self.routes, self.gateways
        peers = routes.peers.all.values() if routes is not None else ()
        mates = frozenset(peer.name for peer in peers if peer.info.get("leafd_letters") == LETTERS)
        idle = frozenset(peer.name for peer in peers if peer.name not in mates and not peer.info.get("jetstream"))
        if gateways is None:
            return Links(mates, idle=idle)
        out, into = gateways.servers(outbound=True), gateways.servers(outbound=False)
        return Links(mates, out, into, idle | gateways.without_letters())

    def _has_jetstream(self, connection: int) -> bool:
        """Whether a route or a gateway leads to a server of the group."""
        links = self._links()
        mate = self.routes.remote_name(connection) if self.routes is not None else ""
        name = mate or (self.gateways.remote_name(connection) if self.gateways is not None else "")
        return name in links.mates or name in links.gateways

    def place(
        self,
        facts: Facts,
        plane: Plane,
        current: Current,
        jetstream: JetStream | None,
        look_up: Callable[[str], Awaitable[bool]],
        log: Log,
        guard: Guard,
    ) -> None:
        """If there is a group of servers, streams are those of all of them, and reports know of it. look_up: has an
        account be known whose streams others have asked for."""
        facts.meta = self.meta
        if self.meta is not None and jetstream is not None:
            from leafd.daemon.authors import AuthorRights
            from leafd.daemon.guests import Guests
            from leafd.daemon.handing import Refusals, hand_over
            from leafd.daemon.meta_events import MetaEvents
            from leafd.daemon.placing import Placing
            from leafd.daemon.rescue_request import RescueRequest

            MetaEvents(plane, self.meta, current, facts)
            self._rescue = RescueRequest(plane, self.meta, current, facts)
            jetstream.catalogue.look_up = look_up
            self.placing = Placing(plane, self.meta, current, jetstream, log, guard)
            facts.groups, facts.placed = self.placing.replicas, self.placing
            self._hand_over = partial(hand_over, plane, self.meta, self.placing.replicas)
            self._refusals = Refusals(plane, self.meta, self.placing.replicas)
            self._guests = Guests(plane, jetstream, current, AuthorRights(current), self._has_jetstream)
            if current.config.mqtt is not None:
                from leafd.daemon.placed import Placed

                self._placed = Placed(plane, self.meta, self.placing, current)

    @property
    def routes(self) -> Routes | None:
        """The routes to other servers of the cluster."""
        return self.clustered.routes if self.clustered is not None else None

    @property
    def gateways(self) -> Gateways | None:
        """The gateways to other clusters."""
        return self.supercluster.gateways if self.supercluster is not None else None

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        if self.clustered is not None:
            return self.clustered.routes.cluster.name
        return self.supercluster.gateways.own.name if self.supercluster is not None else ""

    @property
    def joined(self) -> bool:
        """Is there another server, of this cluster or of another?"""
        routes, gateways = self.routes, self.gateways
        return (routes is not None and routes.joined) or (gateways is not None and gateways.joined)

    def info(self) -> dict[str, Any]:
        """The members that a cluster adds to clients' INFO."""
        return self.clustered.info() if self.clustered is not None else {"cluster": self.cluster}

    def handle(self, event: t.Event) -> bool:
        """Takes an event if it is of a route or a gateway."""
        if isinstance(event, t.Letter):
            if self.meta is not None:
                self.meta.handle(event)
            return True
        taken = self.clustered is not None and self.clustered.routes.handle(event)
        taken = taken or (self.supercluster is not None and self.supercluster.gateways.handle(event))
        if taken and self.meta is not None:
            self.meta.heard()
        return taken

    def log_name(self, connection: int) -> str | None:
        """The beginning of log lines about a connection; None: it is neither a route nor a gateway."""
        found = self.clustered.routes.log_name(connection) if self.clustered is not None else None
        if found is None and self.supercluster is not None:
            found = self.supercluster.gateways.log_name(connection)
        return found

    async def start(self, nursery: trio.Nursery) -> None:
        """Others may come, and are dialled; returns when this server has joined, or soon. Gateways first: routes tell
        of their address."""
        if self.supercluster is not None:
            self.supercluster.listen()
            nursery.start_soon(self.supercluster.gateways.run)
        if self.meta is not None:
            if self.placing is not None:
                await nursery.start(self.placing.run)
            if self._rescue is not None:
                self._rescue.begin()
            if self._guests is not None:
                self._guests.begin()
            await nursery.start(self.meta.run)
            if self._refusals is not None:
                nursery.start_soon(self._refusals.run)
            if self._placed is not None:
                nursery.start_soon(self._placed.run, self._guard)
        if self.clustered is not None:
            self.clustered.listen()
            nursery.start_soon(self.clustered.routes.run)
            with trio.move_on_after(JOINED_S):
                await self.clustered.routes.tried.wait()

    def unlisten(self) -> None:
        """No other server may come any more, and none is dialled."""
        if self.clustered is not None:
            self.clustered.unlisten()
        if self.supercluster is not None:
            self.supercluster.unlisten()

    async def hand_over(self) -> None:
        """Others lead what this server leads, which is about to end."""
        if self._hand_over is not None:
            await self._hand_over()

    def refuses(self) -> None:
        """Publishers are refused: the disk is full, or cannot be written to."""
        if self._refusals is not None:
            self._refusals.begin()

    def leave(self) -> None:
        """Lame duck mode."""
        if self.clustered is not None:
            self.clustered.leave()


class Introductions:
    """The addresses of other servers, as clients, leaves and reports hear of them."""

    def __init__(self, plane: Plane, routes: Routes, clients: Clients, leafs: Leafs, facts: Facts) -> None:
        self._plane, self._routes = plane, routes
        self._clients, self._leafs, self._facts = clients, leafs, facts
        self._said: tuple[tuple[str, ...], ...] = ((), ())

    def heard(self) -> None:
        """Others have told of themselves: leaves hear of it, and clients if the addresses for them are others."""
        if self._said != self._urls():
            self.tell()
        else:
            self._tell_leafs()

    def tell(self) -> None:
        """Clients and leaves hear of the servers that there are now."""
        self._said = self._urls()
        self._plane.forget_logins()
        self._clients.known.forget()
        self._clients.say_greeting()
        self._clients.announce()
        self._tell_leafs()

    def _urls(self) -> tuple[tuple[str, ...], ...]:
        return self._routes.urls("connect_urls"), self._routes.urls("ws_connect_urls")

    def _tell_leafs(self) -> None:
        self._leafs.tell_urls(self._routes.urls("leafnode_urls"), self._routes.urls("ws_connect_urls"))

    def renamed(self) -> None:
        """The cluster's name is another one."""
        self._facts.cluster = self._routes.cluster.name
        self._leafs.belong_to(self._routes.cluster.name)
        self.tell()
