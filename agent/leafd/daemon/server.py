"""One running server: opens the plane, wires the rooms together, serves until told to stop.

    open: store -> plane -> rooms -> stored definitions
    start: pump -> accounts -> streams -> links -> listeners -> ready
    an event of the plane --dispatch.py--> room      stop: listeners -> plane (all durable) -> end

Each room gets what it needs when it is made, in an order in which most of that is there already. What comes later is
handed over as a method of this class. Every task lives in one nursery; what fails travels up and ends the process. Not
here: decisions of any room; the plane's opening (opening.py), who takes which event (dispatch.py), listeners
(listening.py), how a reload takes effect (takeover.py).
"""

from __future__ import annotations

import secrets
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from leafd import native_types as t
from leafd.accounts.graph import Numbers
from leafd.auth.nkeys import PREFIX_SERVER, new_seed, new_server_id, sign
from leafd.config.schema.cluster import pinned_accounts
from leafd.config.schema.gateway import cluster_name
from leafd.config.schema.server import ServerConfig
from leafd.daemon import on_demand, records
from leafd.daemon.about import VERSION, about
from leafd.daemon.alarms import Alarms
from leafd.daemon.authors import AuthorRights, Authors
from leafd.daemon.compiled import SECOND, compile_config, jetstream_settings
from leafd.daemon.dispatch import Dispatch, Take
from leafd.daemon.farewell import Farewell
from leafd.daemon.listening import Listeners
from leafd.daemon.measurements import Descriptions, Measurements, reached
from leafd.daemon.opening import open_plane
from leafd.daemon.stalled import Stalled
from leafd.daemon.store import connections_max, enrol_directory, explain
from leafd.daemon.takeover import Takeover
from leafd.daemon.tenants import Tenants
from leafd.errors import StartError
from leafd.guard import Guard
from leafd.host.listeners import Sockets
from leafd.host.log import Log
from leafd.links.leaf import Identity, Later, Login, Refused
from leafd.links.leafs import Leafs
from leafd.links.link import Link
from leafd.links.origin import hash8
from leafd.links.replicas import Replicas
from leafd.links.sending import Sending
from leafd.logins.arrivals import Arrivals
from leafd.logins.clients import Clients
from leafd.logins.handshakes import Handshakes
from leafd.logins.leaf_logins import LeafLogins
from leafd.monitor.closed import ClosedConnections
from leafd.monitor.events import Events
from leafd.monitor.facts import Facts
from leafd.versions import own_version

if TYPE_CHECKING:
    from leafd.daemon.account_book import AccountBook
    from leafd.daemon.box_desk import BoxDesk
    from leafd.daemon.boxes import Boxes
    from leafd.daemon.declarations import Declarations
    from leafd.daemon.together import Together
    from leafd.declared.assets import Declared
    from leafd.enrol.journal import Journal
    from leafd.jetstream.service import JetStream
    from leafd.logins.callouts import Callouts
    from leafd.logins.client_ports import CallOut
    from leafd.logins.web import Webs


class Server:
    """One server from open to stop."""

    def __init__(self, config: ServerConfig, log: Log, sockets: Sockets) -> None:
        self.log = log
        self.guard = Guard(log)
        self.sockets = sockets
        numbers = Numbers()
        self._enrolled = self._open_journal(config)
        register = self._enrolled.register if self._enrolled is not None else None
        compiled = compile_config(config, numbers, register=register)
        for warning in compiled.operated.warnings if compiled.operated else ():
            log.warning(warning)
        self._key = new_seed(PREFIX_SERVER) if compiled.judges_elsewhere else ""
        server_id = sign(self._key, "")[0] if self._key else new_server_id()
        self.about = about(server_id, config, sockets, compiled.domain)
        self._opened = open_plane(compiled, log, self.guard)
        self.plane, self.current = self._opened.plane, self._opened.current
        # Logins and links
        self.callouts: Callouts | None = None
        self.book: AccountBook | None = None
        self.handshakes = Handshakes(self.plane)
        self.together = self._make_together()
        self._descriptions = Descriptions(
            self.plane, self.current, self.about.name, self._leaf_cluster, partial(reached, self.together)
        )
        self.clients = self._make_clients()
        self.leafs = self._make_leafs()
        self.arrivals = Arrivals(self._arrived, self.plane.settled, self.leafs.turn_away)
        self.boxes = self._make_boxes()
        self.leaf_logins = self._make_leaf_logins()
        self.webs = self._make_webs()
        # Streams and their copies
        self.replicas = Replicas(self.plane, log, self.guard)
        self.jetstream = self._make_jetstream() if compiled.serves_jetstream else None
        self.declarations = self._make_declarations(self.jetstream) if self.jetstream is not None else None
        self.fetching = self._make_fetching(self.jetstream) if self.jetstream is not None else None
        # What is told, and what changes
        self.desk = self._make_desk()
        self.facts = self._make_facts()
        self.events = Events(self.facts)
        self.alarms = Alarms(log, self.jetstream, self.current, self._log_name)
        self.listeners = Listeners(self.plane, sockets, self.current, self.clients, self.leafs, log)
        self._measurements = Measurements(self.plane, self.current, self.facts, self.clients)
        self.tenants = self._make_tenants()
        self.takeover = self._make_takeover(numbers)
        self.book = self._make_book() if compiled.operated is not None else None
        self.farewell = Farewell(self.plane, self.clients, self.leafs, self.current, self._leave)
        self._dispatch = self._make_dispatch()
        self._join()

    def info(self) -> dict[str, Any]:
        """The part of INFO that is the same for every client."""
        info = self.about.info(self.current.config)
        if self.together is not None:
            info |= self.together.info()
        if self.callouts is not None:
            info["xkey"] = self.callouts.public_xkey
        return info

    def _leaf_cluster(self) -> str:
        """A server that dials hubs and is in no cluster is, to them, a cluster of its own name."""
        if self.together is not None:
            return self.together.cluster
        compiled = self.current.compiled
        return cluster_name(compiled.config) or (self.about.name if compiled.dials_hubs else "")

    # ---- opening

    def _open_journal(self, config: ServerConfig) -> Journal | None:
        directory = enrol_directory(config)
        if directory is None:
            return None
        from leafd.daemon.boxes import open_journal

        return open_journal(directory, self.log)

    def _make_together(self) -> Together | None:
        if self.sockets.route is None and self.sockets.gateway is None:
            return None
        from leafd.daemon.together import Together

        return Together(self.plane, self.current, self.about, self.sockets, self.log, self.guard)

    def _make_clients(self) -> Clients:
        return Clients(
            self.plane,
            self.log,
            self.info,
            self.current.compiled.client_terms,
            self.guard,
            look_up=self._look_up if self.current.compiled.operated is not None else None,
            callout=self._callout,
            describe=self._descriptions.client,
            devices=on_demand.make_devices(self.sockets),
            memory_limit=self.current.limits.memory_limit,
        )

    def _make_leafs(self) -> Leafs:
        about, config, current = self.about, self.current.config, self.current
        reconnect_ns = config.leafnodes.reconnect if config.leafnodes else SECOND
        put = self.plane.record_put if current.compiled.serves_jetstream else None
        limit = current.limits.memory_limit
        leafs = Leafs(
            self.plane,
            Identity(
                about.server_id,
                about.name,
                VERSION,
                about.domain,
                about.jetstream,
                self._leaf_cluster(),
                config.max_payload,
                own_version(),
            ),
            self.log,
            authenticate=self._authenticate,
            loop_subject=cache(lambda _account: f"$LDS.{secrets.token_hex(11)}"),
            nonce=lambda: secrets.token_urlsafe(11),
            reconnect_s=reconnect_ns / SECOND,
            guard=self.guard,
            need_default_tls=self.handshakes.need_default,
            describe=self._descriptions.link,
            serves=lambda account: account in current.compiled.graph.by_id,
            sending=partial(Sending, self.plane, self.log, self.guard, put=put, memory_limit=limit),
        )
        leafs.told_each = config.connect_error_reports, config.reconnect_error_reports
        leafs.web_ping_interval_ns = current.compiled.web_ping_ns
        return leafs

    def _make_boxes(self) -> Boxes | None:
        if self._enrolled is None:
            return None
        from leafd.daemon.boxes import Boxes

        guesses, proofs = self.clients.guesses, self.clients.proofs
        return Boxes(self.plane, self._enrolled, self.current, guesses, proofs, self.log, self.guard)

    def _make_leaf_logins(self) -> LeafLogins:
        return LeafLogins(
            self.plane,
            self.current.compiled.leaf_terms,
            self.clients.guesses,
            self.guard,
            self.clients.proofs,
            links=self.leafs,
            waits=self.arrivals.waits,
            boxes=self.boxes,
            look_up=self._look_up if self.current.compiled.operated is not None else None,
            callout=self._callout,
            connections_max=connections_max(self.current.config),
        )

    def _make_webs(self) -> Webs | None:
        if self.sockets.web is None:
            return None
        return on_demand.make_webs(
            self.plane, self.current, self.clients, self.leafs, self.leaf_logins, self.guard, self.log
        )

    def _make_jetstream(self) -> JetStream:
        # Here and not above: a server without JetStream starts sooner and stays smaller without its hundred models.
        from leafd.daemon.neighbours import JetStreamNeighbours
        from leafd.jetstream.service import JetStream

        name, domain, current = self.about.name, self.about.domain, self.current
        neighbours = JetStreamNeighbours(
            self.clients, self.leafs, AuthorRights(current), self.replicas, current.account_name, name, domain
        )
        self._statuses = neighbours.source_statuses
        settings = jetstream_settings(current.config, current.limits, name, domain)
        return JetStream(self.plane, settings, self.log, neighbours, self.guard)

    def _make_declarations(self, jetstream: JetStream) -> Declarations:
        from leafd.daemon.declarations import Declarations

        register = self._enrolled.register if self._enrolled is not None else None
        return Declarations(jetstream, register, self.log, self.guard)

    def _make_fetching(self, jetstream: JetStream) -> records.Fetching:
        about = self.about
        return records.Fetching(
            self.plane, jetstream, self.replicas, domain=about.domain, log=self.log, guard=self.guard
        )

    def _make_desk(self) -> BoxDesk | None:
        if self.boxes is None:
            return None
        from leafd.daemon.box_desk import BoxDesk

        collect = self.declarations.collect if self.declarations is not None else trio.lowlevel.checkpoint
        return BoxDesk(self.plane, self.boxes, self.leafs, self.replicas, self.current, collect, self.log, self.guard)

    def _make_facts(self) -> Facts:
        about, current = self.about, self.current
        operated = current.compiled.operated
        return Facts(
            server_id=about.server_id,
            name=about.name,
            version=VERSION,
            domain=about.domain,
            host=about.host,
            port=about.port,
            cluster=self._leaf_cluster(),
            config=current.config,
            graph=current.compiled.graph,
            store=str(current.store) if current.store else "",
            limits=current.limits,
            plane=self.plane,
            clients=self.clients,
            leafs=self.leafs,
            jetstream=self.jetstream,
            monitor=about.monitor,
            leaf=about.leaf,
            guard=self.guard,
            reports=self.plane.reports,
            stalled=Stalled(self.jetstream, self._statuses) if self.jetstream is not None else None,
            closed=ClosedConnections(max(current.config.max_closed_clients, 0)),
            boxes=self.desk,
            routes=self.together.routes if self.together is not None else None,
            gateways=self.together.gateways if self.together is not None else None,
            accounts=operated.accounts if operated is not None else None,
            operators=operated.operators.tokens if operated is not None else (),
        )

    def _make_tenants(self) -> Tenants:
        compiled = self.current.compiled
        return Tenants(
            self.plane,
            self.jetstream,
            self.about.domain,
            self.guard,
            f".{hash8(self.about.name)}.T" if compiled.graph.system_name else "",
            linked=compiled.config.leafnodes is not None,
            pinned=pinned_accounts(compiled.config.cluster, compiled.graph.system_name),
            on_measured=self._measurements.begin,
        )

    def _make_takeover(self, numbers: Numbers) -> Takeover:
        return Takeover(
            plane=self.plane,
            current=self.current,
            numbers=numbers,
            register=self._enrolled.register if self._enrolled is not None else None,
            about=self.about,
            facts=self.facts,
            guard=self.guard,
            clients=self.clients,
            leaf_logins=self.leaf_logins,
            leafs=self.leafs,
            tenants=self.tenants,
            handshakes=self.handshakes,
            listeners=self.listeners,
            jetstream=self.jetstream,
            cluster=self._leaf_cluster,
        )

    def _make_book(self) -> AccountBook:
        from leafd.auth.resolver import ResolverError
        from leafd.daemon.account_book import AccountBook

        try:
            return AccountBook(
                self.current,
                self.log,
                self.guard,
                linked=self._has_servers,
                waiting=self.jetstream.waiting_accounts if self.jetstream is not None else tuple,
                make_known=self.tenants.make_known,
                take_over=self.takeover.apply,
            )
        except ResolverError as error:
            raise StartError(f"resolver: {error}") from error

    def _preload(self, book: AccountBook) -> None:
        from leafd.auth.resolver import ResolverError

        try:
            book.preload()
        except ResolverError as error:
            raise StartError(f"resolver: {error}") from error

    def read_records(self) -> None:
        """Takes over what is stored; only before start(). A definition that cannot be read now may be there: without
        it the name of its stream would be free."""
        if self.jetstream is None or self.fetching is None:
            return
        try:
            records.read(self.plane, self.jetstream, self.replicas, self.leafs.sending, self.fetching, guard=self.guard)
        except t.PlaneError as error:
            raise explain(error, self.current.store or Path()) from error

    # ---- who hears of what

    def _make_dispatch(self) -> Dispatch:
        jetstream, measurements = self.jetstream, self._measurements
        named = jetstream.named if jetstream is not None else lambda stream: {}
        authors = Authors(self.plane, self.current, AuthorRights(self.current), self.log, named)
        rows: dict[type[t.Event], Take] = {
            t.Came: self.clients.handle,
            t.LeafError: self.leafs.handle,
            t.LeafInfo: self.leafs.handle,
            t.Carried: self.leafs.handle,
            t.Doubted: self.leafs.handle,
            t.Ingest: self.replicas.ingest_event,
            t.Reached: self.replicas.reached,
            t.Author: authors.handle,
            t.Alarm: self.alarms.tell,
            t.Trace: self.alarms.trace,
            t.MessageTrace: measurements.tell_trace,
            t.Latency: measurements.tell,
            t.FarLatency: measurements.tell_far,
        }
        if jetstream is not None:
            rows |= {t.ConsumerGone: jetstream.consumer_gone, t.Advisory: jetstream.advisory}
            rows |= {t.Allowance: jetstream.allowance, t.Led: jetstream.led}
        return Dispatch(rows, self.together, self.webs, self.arrivals, self.clients, self.leafs, self.leaf_logins)

    def _join(self) -> None:
        """Joins the rooms: the calls by which they tell each other of changes, in this order."""
        events, replicas = self.events, self.replicas
        self.clients.on_admitted += [events.client_came]
        self.clients.followed = events.heard
        self.clients.on_closed += [events.client_went]
        self.clients.on_left = events.client_left
        self.alarms.on_room += [replicas.room]
        self.alarms.on_hole = self.fetching.tell if self.fetching is not None else None
        self.leafs.on_up += [replicas.link_up, self._link_came]
        self.leafs.on_down += [replicas.link_down, self._link_went]
        if self.boxes is not None and self.desk is not None:
            self.leafs.on_down += [self.boxes.went]
            self.boxes.on_change += [self.desk.changed]
            self.boxes.on_doubled += [events.box_doubled]
        if self.together is None:
            return
        self._join_twins()
        self.together.place(self.facts, self.plane, self.current, self.jetstream, self._look_up, self.log, self.guard)
        self.alarms.on_refusal += [self.together.refuses]
        if (clustered := self.together.clustered) is not None:
            from leafd.daemon.cluster_changes import ClusterChanges
            from leafd.daemon.together import Introductions

            routes = clustered.routes
            self.clients.info.web_urls = clustered.web_urls
            told = Introductions(self.plane, routes, self.clients, self.leafs, self.facts)
            routes.on_told += [clustered.told, told.heard]
            routes.on_renamed += [clustered.told, told.renamed]
            routes.on_joined += [events.cluster_grew]
            changes = ClusterChanges(clustered, self.current, self.tenants, self.log, told.tell)
            routes.pin = changes.pin
            self.current.followers += [changes.follow]
        if self.together.gateways is not None:
            self.together.gateways.on_joined += [events.cluster_grew, self._descriptions.others_changed]

    def _join_twins(self) -> None:
        from leafd.links.far_twins import FarTwins

        far = self.leafs.twins.far = FarTwins(self.plane, self.log, self.guard, self.events.boxes_here)
        self.leafs.on_up += [far.came]
        self.leafs.on_down += [far.went]

    def _link_came(self, link: Link) -> None:
        self.events.link_came(link.status(), link.opened_ns)

    def _link_went(self, link: Link) -> None:
        closed = link.closed or t.Closed(link.connection, 0, "")
        self.events.link_went(link.status(), closed, link.opened_ns)

    # ---- what rooms ask of others that are made later

    def _arrived(self, event: t.Event) -> None:
        self._dispatch.leaf(event)

    def _authenticate(self, link: Link, connect: dict[str, Any], nonce: str) -> Login | Refused | Later | None:
        return self.leaf_logins.authenticate(link, connect, nonce)

    async def _look_up(self, name: str) -> bool:
        return self.book is not None and await self.book.look_up(name)

    def _has_servers(self) -> bool:
        """Whether there are other servers in the system account."""
        joined = self.together is not None and self.together.joined
        return joined or self.leafs.linked(self.current.compiled.graph.system_name) > 0

    def _callout(self) -> CallOut | None:
        return self.callouts.judged if self.callouts is not None else None

    def _log_name(self, connection: int) -> str:
        client = self.clients.get(connection)
        other = self.together.log_name(connection) if self.together is not None else None
        return client.log_name if client is not None else other or self.leafs.log_name(connection)

    # ---- serving

    async def start(self, nursery: trio.Nursery, declared: Declared | None) -> None:
        """Brings everything up but the clients' port, which may be opened then. declared: by the configuration."""
        compiled = self.current.compiled
        self.plane.start()
        nursery.start_soon(self.plane.run, self._dispatch.take)
        await self._start_callouts(nursery)
        self.current.followers.append(partial(self._start_callouts, nursery))
        await nursery.start(self.clients.run)
        await nursery.start(self.leaf_logins.run)
        nursery.start_soon(self.arrivals.run)
        if (far := self.leafs.twins.far) is not None:
            nursery.start_soon(far.run)
        if self.together is not None and self.together.gateways is not None:
            nursery.start_soon(self._descriptions.follow, self.clients, self.leafs)
        if self.book is not None:
            self._preload(self.book)
        await self.tenants.make_known(tuple(compiled.graph.by_id.values()))
        if self.jetstream is not None:
            await nursery.start(self.jetstream.run)
            await self.jetstream.load()
            nursery.start_soon(self.replicas.run)
        if self.fetching is not None:
            nursery.start_soon(self.fetching.run)
        if self.declarations is not None:
            await self.declarations.start(declared, nursery, self.together, self.current)
        if compiled.has_tls:
            await self.handshakes.put(await trio.to_thread.run_sync(self.handshakes.make, compiled))
        if self.webs is not None:
            nursery.start_soon(self.webs.run)
        if self.desk is not None:
            await nursery.start(self.desk.run)
        self.listeners.begin(nursery)
        for one in compiled.remotes:
            self.leafs.sending.change(one.remote, *one.sending)
        nursery.start_soon(self.leafs.run, [one.remote for one in compiled.remotes])
        if self.together is not None:
            await self.together.start(nursery)

    async def _start_callouts(self, nursery: trio.Nursery) -> None:
        """From the first configuration on that has logins judged by a service."""
        compiled = self.current.compiled
        if self.callouts is not None or not compiled.judges_elsewhere:
            return
        look_up = self._look_up if compiled.operated is not None else None
        self.callouts = on_demand.make_callouts(
            self.plane, self.about, self.current, self._key, look_up, self.guard, self.log
        )
        await nursery.start(self.callouts.run)
        self.clients.say_greeting()  # with its public key

    # ---- the end

    def _leave(self) -> None:
        """Lame duck mode begins."""
        self.events.lame_duck()
        self.unlisten()
        if self.together is not None:
            self.together.leave()

    def unlisten(self) -> None:
        """No new connections."""
        self.listeners.close()
        if self.together is not None:
            self.together.unlisten()

    async def hand_over(self) -> None:
        """Others lead what this server leads of streams and servers."""
        if self.together is not None:
            with self.guard.around("handing over what this server leads"):
                await self.together.hand_over()

    async def stop(self) -> None:
        """Stops the server; all that was acknowledged is on disk when this returns."""
        self.events.shutdown()
        await self.leafs.sending.stop(self.plane.connections)
        await self.plane.stop()

    def close(self) -> None:
        """Frees the plane and what lay in memory."""
        self._opened.close()
        if self.boxes is not None:
            self.boxes.close()
