"""One running server: opens the plane, wires the rooms together, serves until told to stop.

    open: store -> plane -> stored definitions        start: pump -> accounts -> streams -> links -> listeners -> ready
    an event of the plane -> clients | leafs | jetstream | replicas | log        stop: listeners -> plane (all
    durable) -> end

Every task lives in one nursery; what fails travels up and ends the process. What does not live here: decisions of any
room; logins (clients.py, leaf_logins.py); how a reload takes effect (takeover.py); what the server tells of itself
(about.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import trio

from leafd import native_types as t
from leafd.accounts.graph import Numbers
from leafd.auth.nkeys import PREFIX_SERVER, new_seed, new_server_id, sign
from leafd.config.schema.cluster import pinned_accounts
from leafd.config.schema.gateway import cluster_name
from leafd.config.schema.server import ServerConfig
from leafd.daemon import declarations, records
from leafd.daemon.about import VERSION, about
from leafd.daemon.authors import Authors
from leafd.daemon.compiled import SECOND, Compiled, compile_config, jetstream_settings
from leafd.daemon.remotes import sending
from leafd.daemon.store import (
    MemoryDirectory,
    check_members,
    enrol_directory,
    explain,
    make_directory,
    plane_limits,
    store_directory,
    store_keys,
    traced_bytes,
)
from leafd.daemon.tenants import Tenants
from leafd.errors import StartError
from leafd.guard import Guard
from leafd.host import memory, start_signals
from leafd.host.anew import begin_again
from leafd.host.listeners import Sockets, address_of, leaf_place
from leafd.host.log import Log, traced, traced_message
from leafd.links.compression import Compression
from leafd.links.leaf import Bind, Identity
from leafd.links.leafs import Leafs
from leafd.links.link import Link
from leafd.links.origin import hash8
from leafd.links.replicas import Replicas
from leafd.logins.arrivals import Arrivals, Event as Arriving
from leafd.logins.clients import Clients
from leafd.logins.handshakes import Handshakes, info_of
from leafd.logins.leaf_logins import LeafLogins
from leafd.monitor.closed import ClosedConnections
from leafd.monitor.events import Events
from leafd.monitor.facts import Facts
from leafd.native_plane import Plane

if TYPE_CHECKING:
    from leafd.daemon.account_book import AccountBook
    from leafd.daemon.boxes import Boxes
    from leafd.daemon.together import Together
    from leafd.declared.assets import Declared
    from leafd.jetstream.service import JetStream
    from leafd.logins.callouts import Callouts
    from leafd.logins.client import Client
    from leafd.logins.web import Webs
    from leafd.monitor.latency import Latencies

CLIENT_LISTENER: Final = 1
LEAF_LISTENER: Final = 2
WEB_LISTENER: Final = 3
MQTT_LISTENER: Final = 6
_NO_STORE: Final[dict[int, str]] = {
    t.AlarmCode.SLOW: "slow_consumer",
    t.AlarmCode.COMMAND: "command_failed",
    t.AlarmCode.INTEREST: "subscriptions_refused",
    t.AlarmCode.DROPPED: "messages_dropped",
}


class Server:
    """One server from open to stop."""

    def __init__(self, config: ServerConfig, log: Log, sockets: Sockets) -> None:
        self.log = log
        self.guard = Guard(log)
        self.begins_again = False
        self.sockets = sockets
        self.numbers = Numbers()
        self.boxes = self._open_boxes(config)
        self.compiled = compile_config(config, self.numbers, roll=self.boxes.roll if self.boxes else None)
        for warning in self.compiled.operated.warnings if self.compiled.operated else ():
            log.warning(warning)
        self._key = new_seed(PREFIX_SERVER) if self.compiled.judges_elsewhere else ""
        self.about = about(
            sign(self._key, "")[0] if self._key else new_server_id(), config, sockets, self.compiled.domain
        )
        self._loop_subjects: dict[int, str] = {}
        self._memory: MemoryDirectory | None = None
        self.store: Path | None = None
        self.limits = t.Limits()
        self.plane = self._open_plane()
        self.handshakes = Handshakes(self.plane)
        self.webs: Webs | None = None
        terms = self.compiled.client_terms
        self.clients = Clients(self.plane, log, self.info, terms, self.guard)
        self.together = self._make_together()
        self.leaf_logins = LeafLogins(
            self.plane, self.compiled.leaf_terms, self.clients.guesses, self.guard, self.clients.proofs
        )
        self.leaf_logins.boxes = self.boxes
        self.leafs = self.leaf_logins.links = self._make_leafs()
        self.arrivals = Arrivals(self._leaf_event, self.plane.settled, self.leafs.turn_away)
        self.leaf_logins.waits = self.arrivals.waits
        self.leafs.web_ping_interval_ns = self.compiled.web_ping_ns
        self.replicas = Replicas(self.plane, log, self.guard)
        self.leafs.on_up.append(self.replicas.link_up)
        self.leafs.on_down.append(self.replicas.link_down)
        self.fill: Callable[[], Awaitable[None]] | None = None
        """Fetches again what damage took of mirrors."""
        self.authors = Authors(self)
        self.jetstream = self._make_jetstream() if self.compiled.serves_jetstream else None
        mark = f".{hash8(self.about.name)}.T" if self.compiled.graph.system_name else ""
        self.tenants = Tenants(self.plane, self.jetstream, self.about.domain, self.guard, mark)
        self.tenants.linked = self.config.leafnodes is not None
        self.tenants.on_measured = self._measure
        self.tenants.pinned.update(pinned_accounts(config.cluster, self.compiled.graph.system_name))
        self.clients.describe, self.leafs.describe = self._describe, self._describe_link
        self.latencies: Latencies | None = None
        self.facts = self._make_facts()
        self.events = self._make_events()
        self._tell_of_operators()
        self.callouts: Callouts | None = None
        self.on_reload: list[Callable[[], Awaitable[None]]] = []
        self.declared: Declared | None = None
        self.changing = trio.Lock()
        """Held by whoever changes accounts: a reload, or an account's new JWT."""
        self.book = self._make_book() if self.compiled.operated is not None else None

    @property
    def config(self) -> ServerConfig:
        """The configuration of today."""
        return self.compiled.config

    @property
    def leaf_cluster(self) -> str:
        """A server that dials hubs and is in no cluster is, to them, a cluster of its own name."""
        if self.together is not None:
            return self.together.cluster
        return cluster_name(self.config) or (self.about.name if self.compiled.dials_hubs else "")

    def info(self) -> dict[str, Any]:
        """The part of INFO that is the same for every client."""
        info = self.about.info(self.config)
        if self.together is not None:
            info |= self.together.info()
        if self.callouts is not None:
            info["xkey"] = self.callouts.public_xkey
        return info

    # ---- opening

    def _open_boxes(self, config: ServerConfig) -> Boxes | None:
        directory = enrol_directory(config)
        if directory is None:
            return None
        from leafd.daemon.boxes import Boxes

        return Boxes(self, directory)

    def _open_plane(self) -> Plane:
        Plane.hide()  # passwords, keys and seeds are in memory from here on
        temporary = False
        keys = None
        if self.compiled.serves_jetstream:
            keys = store_keys(self.config)
            self.store, temporary = store_directory(self.config)
            make_directory(self.store)
            check_members(self.store)
            self._memory = MemoryDirectory()
        self.limits = plane_limits(self.config, self.store)
        if text := memory.warning(self.limits):
            self.log.warning(text)
        if temporary:
            self.log.warning(f"Temporary storage directory used, data could be lost on system reboot: {self.store}")
        memory_path = self._memory.path if self._memory else None
        try:
            with start_signals.watched():
                return Plane.open(self.limits, self.store, memory_path, self.guard, keys)
        except t.PlaneError as error:
            self._remove_memory()
            raise explain(error, self.store or Path()) from error

    def _make_together(self) -> Together | None:
        if self.sockets.route is None and self.sockets.gateway is None:
            return None
        from leafd.daemon.together import Together

        return Together(self)

    def _make_leafs(self) -> Leafs:
        about, config = self.about, self.config
        reconnect_ns = config.leafnodes.reconnect if config.leafnodes else SECOND
        leafs = Leafs(
            self.plane,
            Identity(
                about.server_id,
                about.name,
                VERSION,
                about.domain,
                about.jetstream,
                self.leaf_cluster,
                config.max_payload,
            ),
            self.log,
            authenticate=self.leaf_logins.authenticate,
            loop_subject=self._loop_subject,
            nonce=lambda: secrets.token_urlsafe(11),
            reconnect_s=reconnect_ns / SECOND,
            guard=self.guard,
            need_default_tls=self.handshakes.need_default,
        )
        leafs.told_each = config.connect_error_reports, config.reconnect_error_reports
        leafs.serves = lambda account: account in self.compiled.graph.by_id
        return leafs

    def _make_jetstream(self) -> JetStream:
        # Here and not above: a server without JetStream starts sooner and stays smaller without its hundred models.
        from leafd.daemon.neighbours import JetStreamNeighbours
        from leafd.jetstream.service import JetStream

        name, domain = self.about.name, self.about.domain
        neighbours = JetStreamNeighbours(
            self.clients, self.leafs, self.authors, self.replicas, self._account_name, name, domain
        )
        settings = jetstream_settings(self.config, self.limits, name, domain)
        return JetStream(self.plane, settings, self.log, neighbours, self.guard)

    def _make_book(self) -> AccountBook:
        from leafd.auth.resolver import ResolverError
        from leafd.daemon.account_book import AccountBook

        try:
            book = AccountBook(self)
        except ResolverError as error:
            raise StartError(f"resolver: {error}") from error
        self.clients.look_up = self.leaf_logins.look_up = book.look_up
        return book

    def _make_facts(self) -> Facts:
        about = self.about
        return Facts(
            server_id=about.server_id,
            name=about.name,
            version=VERSION,
            domain=about.domain,
            host=about.host,
            port=about.port,
            cluster=self.leaf_cluster,
            config=self.config,
            graph=self.compiled.graph,
            store=str(self.store) if self.store else "",
            limits=self.limits,
            plane=self.plane,
            clients=self.clients,
            leafs=self.leafs,
            jetstream=self.jetstream,
            monitor=about.monitor,
            leaf=about.leaf,
            guard=self.guard,
            reports=self.plane.reports,
            closed=ClosedConnections(max(self.config.max_closed_clients, 0)),
            boxes=self.boxes,
            routes=self.together.routes if self.together is not None else None,
            gateways=self.together.gateways if self.together is not None else None,
        )

    def _make_events(self) -> Events:
        events = Events(self.facts)
        self.clients.on_admitted.append(events.client_came)
        self.clients.on_closed.append(events.client_went)
        self.leafs.on_up.append(lambda link: events.link_came(link.status(), link.opened_ns))
        self.leafs.on_down.append(
            lambda link: events.link_went(
                link.status(), link.closed or t.Closed(link.connection, 0, ""), link.opened_ns
            )
        )
        return events

    def read_records(self) -> None:
        """Takes over what is stored; only before start(). A definition that cannot be read now may be there: without
        it the name of its stream would be free."""
        self.leafs.sending.memory_limit = self.limits.memory_limit
        if self.jetstream is None:
            return
        self.leafs.sending.put = self.plane.record_put
        try:
            records.read(self, self.jetstream)
        except t.PlaneError as error:
            raise explain(error, self.store or Path()) from error

    # ---- serving

    async def start(self, nursery: trio.Nursery) -> None:
        """Brings everything up; returns when clients may come."""
        self.plane.start()
        nursery.start_soon(self.plane.run, self._event)
        await self._start_callouts(nursery)
        self.on_reload.append(partial(self._start_callouts, nursery))
        await nursery.start(self.clients.run)
        await nursery.start(self.leaf_logins.run)
        nursery.start_soon(self.arrivals.run)
        if self.book is not None:
            self.book.preload()
        await self.tenants.make_known(tuple(self.compiled.graph.by_id.values()))
        if self.jetstream is not None:
            await nursery.start(self.jetstream.run)
            await self.jetstream.load()
            nursery.start_soon(self.replicas.run)
            if self.fill is not None:
                nursery.start_soon(self.fill)
            await declarations.bring_about(self, self.declared, starting=True)
        if self.compiled.has_tls:
            await self.handshakes.put(await trio.to_thread.run_sync(self.handshakes.make, self.compiled))
        if self.sockets.web is not None:
            from leafd.daemon.on_demand import make_webs

            self.webs = make_webs(self)
            nursery.start_soon(self.webs.run)
        if self.boxes is not None:
            await nursery.start(self.boxes.run)
        self._listen()
        for one in self.compiled.remotes:
            self.leafs.sending.change(one.remote, *one.sending)
        nursery.start_soon(self.leafs.run, [one.remote for one in self.compiled.remotes])
        if self.together is not None:
            self.together.start(nursery)

    async def _start_callouts(self, nursery: trio.Nursery) -> None:
        """From the first configuration on that has logins judged by a service."""
        if self.callouts is not None or not self.compiled.judges_elsewhere:
            return
        from leafd.daemon.on_demand import make_callouts

        self.callouts = make_callouts(self, self._key)
        self.callouts.look_up = lambda: self.clients.look_up
        self.clients.call_out = self.leaf_logins.call_out = self.callouts.judged
        await nursery.start(self.callouts.run)
        self.clients.say_welcome()  # with its public key

    def _listen(self) -> None:
        sockets = self.sockets
        if sockets.leaf is not None:
            host, port = address_of(sockets.leaf)
            leafnodes = self.config.leafnodes
            told = not (leafnodes and leafnodes.no_advertise)
            self.leafs.listening(*leaf_place(leafnodes, host, port), told=told)
            self.plane.listen(LEAF_LISTENER, sockets.leaf.detach(), t.ConnKind.LEAF, secure=self._hold_leafs())
            self.log.info(f"Listening for leafnode connections on {host}:{port}")
        secure = self.compiled.client_terms.secure
        self.plane.listen(
            CLIENT_LISTENER,
            sockets.client.detach(),
            t.ConnKind.CLIENT,
            secure=secure is not None,
            proxied=self.config.proxy_protocol,
        )
        self.clients.listening(CLIENT_LISTENER)
        if self.config.proxy_protocol:
            self.log.info("PROXY protocol enabled for client connections")
        self.log.info(f"Listening for client connections on {self.about.host}:{self.about.port}")
        if secure is not None:
            available = "available" if secure.flags & t.SecureFlag.OPTIONAL else "required"
            self.log.info(f"TLS {available} for client connections")
            if secure.flags & t.SecureFlag.FIRST and not secure.wait_ns:
                self.log.warning('Clients that are not using "TLS Handshake First" option will fail to connect')

        if sockets.web is not None:
            from leafd.daemon.on_demand import listen_web

            listen_web(self, sockets.web)
        if sockets.mqtt is not None:
            from leafd.daemon.mqtt import listen_mqtt

            listen_mqtt(self, sockets.mqtt)

    def _hold_leafs(self) -> bool:
        """Says how leaf nodes are compressed and get TLS from now on; whether they get it."""
        secure = self.compiled.leaf_secure
        leafnodes = self.config.leafnodes
        self.leafs.secured_by(secure, info_of(leafnodes.tls if leafnodes else None))
        if leafnodes is not None:
            self.leafs.min_version = leafnodes.min_version
            self.leafs.isolates = leafnodes.isolate_leafnode_interest
            wanted = Compression(*leafnodes.compression)
            if wanted != self.leafs.compression:
                self.leafs.compress_anew(wanted)
            self.leafs.sending.change(None, *sending(leafnodes.priority, leafnodes.limits))
        return secure is not None

    def listen_again(self) -> None:
        """After a reload: who comes from now on gets TLS, or not, as the configuration of today says."""
        if self.sockets.leaf is not None:
            self.plane.listen(LEAF_LISTENER, 0, t.ConnKind.LEAF, secure=self._hold_leafs())
        web = self.config.websocket
        if self.webs is not None and web is not None:
            self.plane.listen(WEB_LISTENER, 0, t.ConnKind.CLIENT, secure=web.tls is not None, web=True)
        if self.sockets.mqtt is not None:
            from leafd.daemon.mqtt import listen_mqtt

            listen_mqtt(self)
        secure = self.compiled.client_terms.secure
        proxied = self.config.proxy_protocol
        self.plane.listen(CLIENT_LISTENER, 0, t.ConnKind.CLIENT, secure=secure is not None, proxied=proxied)

    def _event(self, event: t.Event) -> None:
        if self.together is not None and self.together.handle(event):
            return
        match event:
            case t.Opened(listener=listener) if listener == WEB_LISTENER and self.webs is not None:
                self.webs.handle(event)
            case t.Opened() | t.Proxied() | t.Secured() | t.Line() | t.Closed() | t.Refused():
                if self.webs is not None and not isinstance(event, t.Opened) and self.webs.handle(event):
                    return
                if not (self._arrives(event) and self.arrivals.put(event)) and not self.clients.handle(event):
                    self._leaf_event(event)
            case t.LeafError() | t.LeafInfo() | t.Carried() | t.Doubted():
                self.leafs.handle(event)
            case t.Ingest():
                self.replicas.ingest_event(event)
            case t.Reached():
                self.replicas.reached(event)
            case t.ConsumerGone() if self.jetstream is not None:
                self.jetstream.consumer_gone(event)
            case t.Advisory() if self.jetstream is not None:
                self.jetstream.advisory(event)
            case t.Alarm():
                self._tell_alarm(event)
            case t.Allowance() if self.jetstream is not None:
                self.jetstream.allowance(event)
            case t.Author():
                self.authors.handle(event)
            case t.MessageTrace():
                self._tell_trace(event)
            case t.Latency() if self.latencies is not None:
                self.latencies.tell(event)
            case t.FarLatency():
                self._tell_far(event)
            case t.Trace():
                self._trace(event)

    def _arrives(self, event: t.Opened | t.Proxied | t.Secured | t.Line | t.Closed | t.Refused) -> TypeGuard[Arriving]:
        """Whether it is of a leaf node that logs in here, and can wait for its turn."""
        if isinstance(event, t.Opened):
            return event.listener == LEAF_LISTENER
        if self.arrivals.waits(event.connection):
            return isinstance(event, t.Secured | t.Line | t.Closed)
        return isinstance(event, t.Line) and self.leafs.logging_in(event.connection, accepted=True)

    def _leaf_event(self, event: t.Event) -> None:
        if isinstance(event, t.Opened) and event.listener == LEAF_LISTENER and not self.leafs.secure:
            self.leaf_logins.opened(event.connection)
        if isinstance(event, t.Secured) and self.leafs.accepted(event.connection):
            self.leaf_logins.opened(event.connection)
        self.leafs.handle(event)

    def _trace(self, event: t.Trace) -> None:
        client = self.clients.get(event.connection)
        other = self.together.log_name(event.connection) if self.together is not None else None
        who = client.log_name if client is not None else other or self.leafs.log_name(event.connection)
        if event.text:
            self.log.trace(f"{who} - {traced(event)}")
            return
        size_max, headers_only = traced_bytes(self.config), self.config.trace_headers
        if said := traced_message(event, size_max, headers_only=headers_only):
            self.log.trace(f"{who} - {said}")

    def _tell_alarm(self, event: t.Alarm) -> None:
        say = self.log.info if event.code == t.AlarmCode.KEY else self.log.warning
        if event.code == t.AlarmCode.MEND and begin_again(self.log):
            self.begins_again = True
        if event.code in _NO_STORE:  # whose number is no stream's
            say(event.text, event=_NO_STORE[event.code])
            return
        named = self.jetstream.named(event.stream) if self.jetstream is not None else {}
        say(event.text, event=f"store_{t.AlarmCode(event.code).name.lower()}", **named)
        if self.jetstream is not None:
            self.jetstream.alarm(event)

    def _tell_trace(self, event: t.MessageTrace) -> None:
        from leafd.monitor.traces import Traces

        Traces(self.facts).tell(event)

    def _measure(self) -> None:
        """From the first account on that imports a measured service."""
        if self.latencies is not None:
            return
        from leafd.monitor.latency import FAR, Latencies

        self.latencies = Latencies(self.facts)
        system = self.compiled.graph.system
        if system is not None:
            self.plane.subscribe(system.id, FAR + hash8(self.about.name), self.latencies.far)

    def _tell_far(self, event: t.FarLatency) -> None:
        """To the server that measures it, over a link of the system account."""
        from leafd.logins.description import whole
        from leafd.monitor.latency import far_event

        system, client = self.compiled.graph.system, self.clients.get(event.connection)
        if system is None or client is None:
            return
        responder = whole(client, self.about.name, self.leaf_cluster, event.round_trip_ns)
        subject, payload = far_event(event, self._account_name(event.account), responder)
        self.plane.publish(system.id, subject, payload)

    def _describe(self, client: Client) -> None:
        from leafd.logins.description import description

        self.plane.describe(client.connection, description(client, self.about.name, self.leaf_cluster))

    def _describe_link(self, link: Link, bind: Bind) -> None:
        account = self.compiled.graph.by_id.get(bind.account)
        if account is None or not account.described:
            return
        from leafd.logins.description import link_description

        self.plane.describe(link.connection, link_description(link, bind, self.leaf_cluster))

    def adopt(self, compiled: Compiled, limits: t.Limits) -> None:
        """From here on the server is what a reload has made of it."""
        self.compiled, self.limits = compiled, limits
        self.leafs.web_ping_interval_ns = compiled.web_ping_ns
        self.facts.config, self.facts.graph, self.facts.limits = compiled.config, compiled.graph, limits
        self.facts.cluster = self.leaf_cluster
        self._tell_of_operators()

    def _tell_of_operators(self) -> None:
        operated = self.compiled.operated
        if operated is not None:
            self.facts.accounts, self.facts.operators = operated.accounts, operated.operators.tokens

    # ---- what the rooms ask for

    def _account_name(self, account: int) -> str:
        found = self.compiled.graph.by_id.get(account)
        return found.name if found else ""

    def _loop_subject(self, account: int) -> str:
        if account not in self._loop_subjects:
            self._loop_subjects[account] = f"$LDS.{secrets.token_hex(11)}"
        return self._loop_subjects[account]

    # ---- the end

    def unlisten(self) -> None:
        """No new connections."""
        self.plane.unlisten(CLIENT_LISTENER)
        if self.together is not None:
            self.together.unlisten()
        if self.sockets.leaf is not None:
            self.plane.unlisten(LEAF_LISTENER)
        if self.sockets.web is not None:
            self.plane.unlisten(WEB_LISTENER)
        if self.sockets.mqtt is not None:
            self.plane.unlisten(MQTT_LISTENER)

    async def stop(self) -> None:
        """Stops the server; all that was acknowledged is on disk when this returns."""
        self.events.shutdown()
        await self.leafs.sending.stop(self.plane.connections)
        await self.plane.stop()

    def close(self) -> None:
        """Frees the plane and what lay in memory."""
        self.plane.close()
        self._remove_memory()
        if self.boxes is not None:
            self.boxes.close()

    def _remove_memory(self) -> None:
        if self._memory is not None:
            self._memory.remove()
            self._memory = None
