"""One running server: opens the plane, wires the rooms together, serves until told to stop.

    open: store -> plane -> stored definitions        start: pump -> accounts -> streams -> links -> listeners -> ready
    an event of the plane -> clients | leafs | jetstream | replicas | log        stop: listeners -> plane (all
    durable) -> end

Every task lives in one nursery; what fails travels up and ends the process. What does not live here: decisions of any
room.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.accounts.graph import Account, Change, Graph, Numbers, common, compare, compile_graph
from leafd.auth.nkeys import new_server_id
from leafd.auth.policy import Policy, compile_leaf_policy, compile_policy
from leafd.auth.verdict import (
    AUTHORIZATION_VIOLATION,
    LEAF_TYPE,
    Refusal,
    Verdict,
    identify,
    judge_again,
    takes_time,
)
from leafd.config.schema.server import Server as Config
from leafd.daemon.clients import AUTHENTICATION_TIMEOUT, Clients, Terms, frame
from leafd.daemon.deadlines import Deadlines
from leafd.daemon.listeners import Sockets, address_of, reachable
from leafd.daemon.log import Log, traced
from leafd.daemon.remotes import Dialled, remotes_of
from leafd.daemon.store import MemoryDirectory, explain, make_directory, plane_limits, store_directory
from leafd.daemon.tenants import Tenants
from leafd.guard import Guard
from leafd.links.leaf import Identity, Later, Login
from leafd.links.leafs import Leafs, Link
from leafd.links.replicas import Replicas
from leafd.monitor.facts import Facts
from leafd.native import Plane
from leafd.records import dataclass
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.jetstream.catalogue import Settings
    from leafd.jetstream.service import JetStream

VERSION: Final = "2.15.1"
"""The protocol level clients gate their features on; the version of this program is another matter."""
API_LEVEL: Final = 5
CLIENT_LISTENER: Final = 1
LEAF_LISTENER: Final = 2
SECOND: Final = 1_000_000_000
ORDERS_AT_ONCE: Final = 256
"""Accounts that are made known before the plane is waited for."""
_RECORD_CONTROL: Final = 3
_RECORD_SOURCE: Final = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reload does: first less, then more. config: with the fields of the old one that only a restart changes."""

    config: Config
    graph: Graph
    policy: Policy
    leaf_policy: Policy
    limits: t.Limits
    remotes: tuple[Dialled, ...]
    less: Change
    more: Change


class Server:
    """One server from open to stop."""

    def __init__(self, config: Config, log: Log, sockets: Sockets) -> None:
        self.config = config
        self.log = log
        self.guard = Guard(log)
        self.sockets = sockets
        self.id = new_server_id()
        self.name = config.server_name or self.id
        self.domain = config.jetstream.domain if config.jetstream and config.jetstream.enabled else ""
        self.host, self.port = address_of(sockets.client)
        self.leaf_port = address_of(sockets.leaf) if sockets.leaf is not None else None
        self._nursery: trio.Nursery | None = None
        self._numbers = Numbers()
        self.graph = compile_graph(config, self._numbers)
        self.policy = compile_policy(config)
        self.leaf_policy = compile_leaf_policy(config)
        self.remotes = remotes_of(config, self.graph)
        self._loops: dict[int, str] = {}
        self._memory: MemoryDirectory | None = None
        self.store: Path | None = None
        self.limits = t.Limits()
        self.plane = self._open_plane()
        self.clients = Clients(self.plane, log, self.info, self._terms(), self.guard)
        identity = Identity(
            self.id, self.name, VERSION, self.domain, self.serves_jetstream, self.leaf_cluster, config.max_payload
        )
        reconnect_ns = config.leafnodes.reconnect if config.leafnodes else SECOND
        self.leafs = Leafs(
            self.plane,
            identity,
            log,
            authenticate=self._authenticate_leaf,
            loop_subject=self._loop_subject,
            nonce=lambda: secrets.token_urlsafe(11),
            reconnect_s=reconnect_ns / SECOND,
            guard=self.guard,
        )
        self.leafs.serves = lambda account: account in self.graph.by_id
        self.replicas = Replicas(self.plane, log, self.guard)
        self.leafs.on_up.append(self.replicas.link_up)
        self.leafs.on_down.append(self.replicas.link_down)
        self.jetstream = self._make_jetstream() if self.serves_jetstream else None
        self.tenants = Tenants(self.plane, self.jetstream, self.domain)
        self.facts = Facts(
            server_id=self.id,
            name=self.name,
            version=VERSION,
            domain=self.domain,
            host=self.host,
            port=self.port,
            cluster=self.leaf_cluster,
            config=config,
            graph=self.graph,
            store=str(self.store) if self.store else "",
            limits=self.limits,
            plane=self.plane,
            clients=self.clients,
            leafs=self.leafs,
            jetstream=self.jetstream,
            guard=self.guard,
        )
        self.facts.leaf = self.leaf_port
        if sockets.monitor is not None:
            self.facts.monitor = address_of(sockets.monitor)
        self._leaf_deadlines = Deadlines(self._leaf_too_late, self.guard)
        self.on_reload: list[Callable[[], Awaitable[None]]] = []
        self._coming: Plan | None = None
        self._over = trio.Event()
        """Of the reload that is under way."""

    @property
    def serves_jetstream(self) -> bool:
        """Whether there is a store."""
        return self.config.jetstream is not None and self.config.jetstream.enabled

    @property
    def leaf_cluster(self) -> str:
        """A server that dials hubs is, to them, a cluster of its own name."""
        return self.name if self.config.leafnodes and self.config.leafnodes.remotes else ""

    # ---- opening

    def _open_plane(self) -> Plane:
        temporary = False
        if self.serves_jetstream:
            self.store, temporary = store_directory(self.config)
            make_directory(self.store)
            self._memory = MemoryDirectory()
        self.limits = plane_limits(self.config, self.store)
        if temporary:
            self.log.warning(f"Temporary storage directory used, data could be lost on system reboot: {self.store}")
        try:
            return Plane.open(self.limits, self.store, self._memory.path if self._memory else None, self.guard)
        except t.PlaneError as error:
            self._remove_memory()
            raise explain(error, self.store or Path()) from error

    def _make_jetstream(self) -> JetStream:
        # Here and not above: a server without JetStream starts sooner and stays smaller without its hundred models.
        from leafd.daemon.neighbours import JetStreamNeighbours
        from leafd.jetstream.service import JetStream

        neighbours = JetStreamNeighbours(
            self.clients, self.leafs, self.replicas, self._account_name, self.name, self.domain
        )
        return JetStream(self.plane, self._settings(self.config), self.log, neighbours, self.guard)

    def _settings(self, config: Config) -> Settings:
        from leafd.jetstream.catalogue import Settings

        assert config.jetstream is not None
        bounds = config.jetstream.limits
        return Settings(
            server_name=self.name,
            domain=self.domain,
            strict=config.jetstream.strict,
            max_memory=self.limits.max_memory_store,
            max_store=self.limits.max_file_store,
            max_ack_pending=bounds.max_ack_pending,
            max_request_batch=bounds.max_request_batch,
            duplicate_window=bounds.duplicate_window,
        )

    def read_records(self) -> None:
        """Takes over what is stored; only before start()."""
        if self.jetstream is None:
            return
        self.jetstream.read_records()
        for key, value in self.plane.records(_RECORD_SOURCE):
            stream = int.from_bytes(key[:4], "big")
            self.replicas.load_progress(stream, key[4:].decode("utf-8", "replace"), int.from_bytes(value, "big"))
        for key, value in self.plane.records(_RECORD_CONTROL):
            with self.guard.around("reading a stored record"):
                self.replicas.load_record(key, value)

    # ---- serving

    async def start(self, nursery: trio.Nursery) -> None:
        """Brings everything up; returns when clients may come."""
        self._nursery = nursery
        self.plane.start()
        nursery.start_soon(self.plane.run, self._event)
        await nursery.start(self.clients.run)
        nursery.start_soon(self._leaf_deadlines.run)
        await self._make_known(tuple(self.graph.by_id.values()))
        if self.jetstream is not None:
            await nursery.start(self.jetstream.run)
            await self.jetstream.load()
            nursery.start_soon(self.replicas.run)
        self._listen()
        nursery.start_soon(self.leafs.run, [one.remote for one in self.remotes])

    async def _make_known(self, accounts: Sequence[Account]) -> None:
        """New and changed accounts, each guarded: what is wrong with one keeps no other from its part."""
        pause = Pause()
        for work in (self.tenants.announce, self.tenants.share):  # an import needs its exporter
            for number, account in enumerate(accounts):
                with self.guard.around("making an account known"):
                    work(account)
                if number % ORDERS_AT_ONCE == ORDERS_AT_ONCE - 1:
                    await self.plane.settled()
                await pause()
        await self.plane.settled()

    def _listen(self) -> None:
        sockets = self.sockets
        if sockets.leaf is not None:
            host, port = address_of(sockets.leaf)
            leafnodes = self.config.leafnodes
            urls = tuple(f"{one}:{port}" for one in reachable(host))
            if leafnodes and leafnodes.advertise:
                urls = (leafnodes.advertise,)
            if leafnodes and leafnodes.no_advertise:
                urls = ()
            self.leafs.listening(host, port, urls)
            self.plane.listen(LEAF_LISTENER, sockets.leaf.detach(), t.ConnKind.LEAF)
            self.log.info(f"Listening for leafnode connections on {host}:{port}")
        self.plane.listen(CLIENT_LISTENER, sockets.client.detach(), t.ConnKind.CLIENT)
        self.log.info(f"Listening for client connections on {self.host}:{self.port}")

    def _event(self, event: t.Event) -> None:
        match event:
            case t.Opened() | t.Line() | t.Closed() | t.Refused():
                if isinstance(event, t.Opened) and event.listener == LEAF_LISTENER:
                    self._leaf_deadlines.add(event.connection, self._leaf_timeout_s())
                if not self.clients.handle(event):
                    self.leafs.handle(event)
            case t.LeafError() | t.LeafInfo():
                self.leafs.handle(event)
            case t.Ingest():
                self.replicas.ingest_event(event)
            case t.ConsumerGone() if self.jetstream is not None:
                self.jetstream.consumer_gone(event)
            case t.Advisory() if self.jetstream is not None:
                self.jetstream.advisory(event)
            case t.Alarm():
                self.log.warning(event.text)
                if self.jetstream is not None:
                    self.jetstream.alarm(event)
            case t.Trace():
                self.log.trace(traced(event))

    def _leaf_timeout_s(self) -> float:
        authorization = self.config.leafnodes.authorization if self.config.leafnodes else None
        return (authorization.timeout if authorization else 2 * SECOND) / SECOND

    def _leaf_too_late(self, connection: int) -> None:
        if not any(link.connection == connection for link in self.leafs.links()):
            # Of a connection that is gone in the meantime the plane knows nothing, and does nothing.
            self.plane.close_connection(connection, AUTHENTICATION_TIMEOUT, t.CloseReason.AUTHENTICATION)

    # ---- what the rooms ask for

    def info(self) -> dict[str, Any]:
        """The part of INFO that is the same for every client."""
        info: dict[str, Any] = {
            "server_id": self.id,
            "server_name": self.name,
            "version": VERSION,
            "proto": 1,
            "go": "none",
            "host": self.host,
            "port": self.port,
            "headers": True,
            "max_payload": self.config.max_payload,
            "api_lvl": API_LEVEL,
        }
        if self.serves_jetstream:
            info["jetstream"] = True
        if self.domain:
            info["domain"] = self.domain
        if self.config.client_advertise:
            info["connect_urls"] = [self.config.client_advertise]
        return info

    def _terms(self, plan: Plan | None = None) -> Terms:
        """Of today, or of a reload's plan."""
        now = self if plan is None else plan
        authorization = now.config.authorization
        timeout_ns = authorization.timeout if authorization else 2 * SECOND
        return Terms(
            now.policy,
            now.graph,
            now.config.max_payload,
            max(now.config.max_subscriptions, 0),
            timeout_ns / SECOND,
            max(now.config.max_connections, 0),
        )

    def _account_name(self, account: int) -> str:
        found = self.graph.by_id.get(account)
        return found.name if found else ""

    def _loop_subject(self, account: int) -> str:
        if account not in self._loops:
            self._loops[account] = f"$LDS.{secrets.token_hex(11)}"
        return self._loops[account]

    def _authenticate_leaf(self, link: Link, connect: dict[str, Any], nonce: str) -> Login | Later | None:
        if self._nursery is None:
            return None
        if not takes_time(connect, self.leaf_policy):
            login = self._leaf_login(identify(connect, nonce, self.leaf_policy, LEAF_TYPE))
            if self._holds(connect, login):
                return login
        self._nursery.start_soon(self._judge_leaf, link, connect, nonce)
        return Later()

    def _holds(self, connect: dict[str, Any], login: Login | None) -> bool:
        """Whether a leaf's login is the same after the reload that is under way, if one is."""
        if self._coming is None:
            return True
        verdict = judge_again(connect, self.leaf_policy, self._coming.leaf_policy, LEAF_TYPE)
        account = None if isinstance(verdict, Refusal) else self._coming.graph.account(verdict.account)
        if isinstance(verdict, Refusal) or account is None or login is None:
            return False
        return login == _login(account, verdict)

    async def _judge_leaf(self, link: Link, connect: dict[str, Any], nonce: str) -> None:
        address, name = link.peer.rpartition(":")[0], str(connect.get("user") or "")
        login: Login | None = None
        policy, gone = None, link.gone.is_set
        while policy is not self.leaf_policy and not gone():
            # Judged again when a reload has changed who is who meanwhile.
            policy = self.leaf_policy
            judge = partial(identify, connect, nonce, policy, LEAF_TYPE)
            if takes_time(connect, policy):
                verdict = await self.clients.guesses.check("leafs", address, name, judge, lambda: not gone())
                login = self._leaf_login(verdict)
            else:
                login = self._leaf_login(judge())
            if not self._holds(connect, login):
                await self._over.wait()
        with self.guard.around("a leaf's login"):
            self.leafs.judged(link, login)

    def _leaf_login(self, verdict: Verdict | Refusal) -> Login | None:
        if isinstance(verdict, Refusal):
            return None
        account = self.graph.account(verdict.account)
        if account is None:
            return None
        most = account.limits.max_leafnodes
        if 0 <= most <= sum(link.account == account.name for link in self.leafs.links()):
            return None
        return _login(account, verdict)

    async def _judge_leafs_again(self, plan: Plan) -> None:
        places: dict[str, int] = {}
        before = self.leaf_policy

        def judge(connect: dict[str, Any]) -> Login | None:
            verdict = judge_again(connect, before, plan.leaf_policy, LEAF_TYPE)
            account = None if isinstance(verdict, Refusal) else plan.graph.account(verdict.account)
            if isinstance(verdict, Refusal) or account is None:
                return None
            places[account.name] = places.get(account.name, 0) + 1
            if 0 <= account.limits.max_leafnodes < places[account.name]:
                return None
            return _login(account, verdict)

        await self.leafs.judge_again(judge)

    # ---- reload

    def prepare(self, config: Config, remote_place: Callable[[int], str]) -> Plan:
        """What a reload with this configuration does. Changes nothing and takes its time: for a thread of its own.
        Raises ConfigError."""
        graph = compile_graph(config, self._numbers)
        policy, leaf_policy = compile_policy(config), compile_leaf_policy(config)
        limits = replace(
            plane_limits(config, self.store),
            max_file_store=self.limits.max_file_store,
            max_memory_store=self.limits.max_memory_store,
            sync_interval_ns=self.limits.sync_interval_ns,
        )
        both = common(self.graph, graph)
        less, more = compare(self.graph, both), compare(both, graph)
        remotes = remotes_of(config, graph, self.remotes, remote_place)
        return Plan(config, graph, policy, leaf_policy, limits, remotes, less, more)

    async def take_over(self, plan: Plan) -> None:
        """The live part of a new configuration takes effect: first what it takes away, then what it gives. In between
        everybody has what both configurations allow, so that at no time anybody has something of one of them that
        only the other one lets him use."""
        self._coming, self._over = plan, trio.Event()
        with self.guard.around("the first half of a reload"):
            await self.clients.narrow(self._terms(plan))
            await self._judge_leafs_again(plan)
        self.leafs.forget(one.remote for one in self.remotes if one not in plan.remotes)
        await self._make_known(plan.less.changed)
        await self._withdraw(plan.less.removed)
        await self._make_known((*plan.more.added, *plan.more.changed))
        self._coming = None
        self.config, self.graph, self.limits = plan.config, plan.graph, plan.limits
        self.policy, self.leaf_policy = plan.policy, plan.leaf_policy
        self.facts.config, self.facts.graph, self.facts.limits = plan.config, plan.graph, plan.limits
        before, self.remotes = self.remotes, plan.remotes
        self._over.set()
        self.facts.cluster = self.leaf_cluster
        self.leafs.belong_to(self.leaf_cluster)
        self.leafs.dial(one.remote for one in self.remotes if one not in before)
        self.plane.set_limits(self.limits)
        with self.guard.around("the second half of a reload"):
            await self.clients.set_terms(self._terms())
        if self.jetstream is not None and plan.config.jetstream is not None:
            self.jetstream.set_settings(self._settings(plan.config))
        self.facts.loaded_ns = time.time_ns()
        for callback in self.on_reload:
            with self.guard.around("what follows a reload"):
                await callback()

    async def _withdraw(self, accounts: Sequence[Account]) -> None:
        """Accounts that the configuration no longer has: their links end with them."""
        pause, names = Pause(), {account.name for account in accounts}
        for link in self.leafs.links() if names else ():
            if link.account in names:
                self.plane.close_connection(link.connection, AUTHORIZATION_VIOLATION, t.CloseReason.AUTHENTICATION)
        for number, account in enumerate(accounts):
            with self.guard.around("withdrawing an account"):
                self.tenants.withdraw(account)
            if number % ORDERS_AT_ONCE == ORDERS_AT_ONCE - 1:
                await self.plane.settled()
            await pause()

    # ---- the end

    def unlisten(self) -> None:
        """No new connections."""
        self.plane.unlisten(CLIENT_LISTENER)
        if self.leaf_port is not None:
            self.plane.unlisten(LEAF_LISTENER)

    async def lame_duck(self) -> None:
        """Sends the clients away one after the other, over the configured time."""
        self.unlisten()
        self.plane.broadcast(frame(self.info() | {"ldm": True}))
        await trio.sleep(self.config.lame_duck_grace_period / SECOND)
        clients = self.clients.all()
        pause_s = min(1.0, self.config.lame_duck_duration / SECOND / max(len(clients), 1))
        for client in clients:
            self.plane.close_connection(client.connection, "", t.CloseReason.SHUTDOWN)
            await trio.sleep(pause_s)

    async def stop(self) -> None:
        """Everything that was acknowledged is on disk when this returns."""
        await self.plane.stop()

    def close(self) -> None:
        """Frees the plane and what lay in memory."""
        self.plane.close()
        self._remove_memory()

    def _remove_memory(self) -> None:
        if self._memory is not None:
            self._memory.remove()
            self._memory = None

    def ports(self) -> str:
        """The ports file's text, in the reference's form."""
        found = {"nats": [f"nats://{self.host}:{self.port}"]}
        if self.sockets.monitor is not None:
            host, port = address_of(self.sockets.monitor)
            found["monitoring"] = [f"http://{host}:{port}"]
        if self.leaf_port is not None:
            found["leafnodes"] = [f"nats-leaf://{self.leaf_port[0]}:{self.leaf_port[1]}"]
        return json.dumps(found)


def _login(account: Account, verdict: Verdict) -> Login:
    rights = verdict.rights
    permissions = t.Permissions(
        rights.publish_allow, rights.publish_deny, rights.subscribe_allow, rights.subscribe_deny
    )
    return Login(account.id, account.name, permissions, account.system)
