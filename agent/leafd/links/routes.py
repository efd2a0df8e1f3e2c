"""The routes of this server: who is connected, whom it dials, who is told of whom.

    routes of the configuration --dial--> adopt(fd) --+
    another server told of it   --dial--> adopt(fd) --+--> Machine --Join--> admit_route --> one of the cluster
    listener --Opened---------------------------------+        --Closed--> dialled again, where this server dialled it

A place of the configuration is dialled for ever; one that was learned of as often as connect_retries says. The next
connection of a pool is dialled when the peer has answered on the one before (its PONG), since only then the login was
good. Of the servers that others tell of, and of logins at a time, there is a bounded number. What does not live here:
the handshake's lines (route.py), which connection stays (peers.py), interest and messages (native/plane).
"""

from __future__ import annotations

import random
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Final, Protocol

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.links import route as routing
from leafd.links.addresses import dial_error
from leafd.links.dialling import watch_over
from leafd.links.leaf import Compress, Resume, Send
from leafd.links.leaf_info import frame
from leafd.links.link import age
from leafd.links.peers import PEERS_MAX, Gone, Peer, Peers, Route
from leafd.links.route import Cluster, Machine
from leafd.links.route_info import Place, certificate_name
from leafd.quoting import quoted
from leafd.records import dataclass

DIAL_S: Final = 5.0
AGAIN_S: Final = 1.0
AGAIN_MAX_S: Final = 30.0
APART_S: Final = 0.1
"""Both ends dial: they do not dial again at the same moment, which could cost both connections once more."""
LOGINS_MAX: Final = 64
"""Handshakes at a time of servers that dial this one."""
DIALS_MAX: Final = 16
"""Connections that are being made at a time to servers that others told of."""
REASONS_MAX: Final = 64
"""That are told; some have words of the other side's choosing."""
HEADERS_MAX: Final = 64 << 10
"""What servers on the way may add to a message."""


class Log(Protocol):
    """Where lines for the operator go."""

    def info(self, text: str, **about: str) -> None: ...
    def warning(self, text: str, **about: str) -> None: ...
    def error(self, text: str, **about: str) -> None: ...
    def debug(self, text: str) -> None: ...


class RoutePlane(Protocol):
    """What this room needs of native.Plane."""

    async def adopt(self, fd: int, kind: t.ConnKind, *, secure: bool, web: bool) -> int: ...
    def secure(
        self, connection: int, how: t.Secure, *, before: bytes = b"", behind: bytes = b"", name: str = ""
    ) -> None: ...
    def send(self, connection: int, frame: bytes) -> None: ...
    def compress(self, connection: int, how: t.Compress, *, before: bytes = ..., behind: bytes = ...) -> None: ...
    def resume(self, connection: int) -> None: ...
    def close_connection(self, connection: int, text: str = "", reason: int = ...) -> None: ...
    def admit_route(
        self, connection: int, account: int, terms: t.RouteTerms, permissions: t.Permissions, server_id: str
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """How routes are made."""

    places: tuple[Place, ...] = ()
    """Of the configuration."""
    retries: int = 0
    backoff: bool = False
    advertises: bool = True
    login_s: float = 2.0
    ping_interval_ns: int = 0
    permissions: t.Permissions = t.Permissions()
    accepts: t.Secure | None = None
    """TLS with who dials this server, .."""
    dials: t.Secure | None = None
    """.. and with whom it dials."""
    reports: tuple[int, int] = (600, 600)
    """Which failed attempts to dial are logged besides the first one, before a first connection and after it."""


@dataclass(slots=True)
class Link:
    """One connection with another server, in either direction."""

    route: Route
    machine: Machine
    opened_ns: int = field(default_factory=time.time_ns)
    more: bool = False
    """The next one of the pool is dialled when this one is up."""
    up: bool = False
    """The peer has answered behind the handshake."""
    why: str = ""
    """It ends."""
    done: trio.Event = field(default_factory=trio.Event)
    """It has joined, or is gone."""

    @property
    def connection(self) -> int:
        return self.route.connection

    @property
    def log_name(self) -> str:
        """What lines of the log begin with."""
        return f"{self.route.peer} - rid:{self.connection}"


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """One row of /routez."""

    connection: int
    remote_id: str
    remote_name: str
    dialled: bool
    explicit: bool
    peer: str
    account: str
    compression: str
    opened_ns: int
    told: Mapping[str, Any]
    """What the peer's INFO says of what it lets through: import, export."""


class Routes:
    """Owner of all routes. `run` dials; `handle` takes the plane's events of route connections."""

    def __init__(
        self,
        plane: RoutePlane,
        cluster: Cluster,
        peers: Peers,
        terms: Terms,
        log: Log,
        *,
        account_id: Callable[[str], int],
        own_places: Callable[[], Iterable[tuple[str, int]]] = tuple,
        guard: Guard | None = None,
    ) -> None:
        self.cluster = cluster
        self.peers = peers
        self._plane = plane
        self._terms = terms
        self._log = log
        self._account_id = account_id
        self._own_places = own_places
        self._guard = guard or Guard()
        self._links: dict[int, Link] = {}
        self._early: dict[int, list[t.Event]] = {}
        self._learned: set[tuple[str, str]] = set()
        """Servers that are dialled because others told of them, and the account of that connection."""
        self._refused: dict[str, int] = {}
        """Why connections ended before they were of the cluster, and how often, since the last one that was."""
        self._slots = trio.Semaphore(DIALS_MAX)
        self._nursery: trio.Nursery | None = None
        self._leaving = False
        self.on_told: list[Callable[[], None]] = []
        """Clients and leaves have to hear of other addresses."""
        self.on_renamed: list[Callable[[], None]] = []
        self.on_joined: list[Callable[[], None]] = []
        """The first connection with a server is there."""
        self.on_peer: list[Callable[[Peer], None]] = []
        """The same, with the server that it is."""
        self.on_left: list[Callable[[], None]] = []
        """The last one is gone."""
        self.on_cluster: list[Callable[[str, tuple[str, ...]], None]] = []
        """A server tells of another cluster: its name, and where it is reached."""
        self.pin: Callable[[str], bool] = lambda account: False
        """A peer asks for connections of its own for an account; whether there is that account."""

    # ---- what is there

    def rows(self) -> list[RouteStatus]:
        """Every connection that has joined."""
        return [
            RouteStatus(
                link.connection,
                link.route.server_id,
                link.route.name,
                link.route.dialled,
                link.route.explicit,
                link.route.peer,
                link.route.account,
                link.machine.compression,
                link.opened_ns,
                link.machine.rules,
            )
            for link in self._links.values()
            if link.machine.joined
        ]

    @property
    def joined(self) -> bool:
        """Is there another server?"""
        return bool(self.peers.all)

    @property
    def host(self) -> str:
        """Where other servers connect to, .."""
        return self.cluster.host

    @property
    def port(self) -> int:
        """.. as they are told."""
        return self.cluster.port

    @property
    def places(self) -> tuple[str, ...]:
        """Of the configuration, without logins."""
        return tuple(place.shown for place in self._terms.places)

    @property
    def accepts(self) -> t.Secure | None:
        """How who dials this server gets TLS, if so."""
        return self._terms.accepts

    def log_name(self, connection: int) -> str | None:
        link = self._links.get(connection)
        return link.log_name if link is not None else None

    def send_each(self, said: bytes) -> None:
        """To each other server of the cluster."""
        for peer in self.peers.all.values():
            if peer.first is not None:
                self._plane.send(peer.first.connection, said)

    def urls(self, name: str) -> tuple[str, ...]:
        """connect_urls, ws_connect_urls or leafnode_urls of the other servers."""
        return self.peers.urls(name) if self._terms.advertises or name == "leafnode_urls" else ()

    # ---- events of the plane

    def handle(self, event: t.Event) -> bool:
        """Takes an event if it is of a route; False when it is not ours. What goes wrong with it in a way that nobody
        foresaw costs that connection."""
        try:
            return self._handle(event)
        except Exception as error:
            self._guard.caught("a route's conversation", error)
            if isinstance(event, t.Opened | t.Line | t.LeafError | t.LeafInfo):
                self._plane.close_connection(event.connection, "", t.CloseReason.PROTOCOL)
            return True

    def _handle(self, event: t.Event) -> bool:
        match event:
            case t.Opened(kind=t.ConnKind.ROUTE, listener=0):
                self._early.setdefault(event.connection, [])
                return True
            case t.Opened(kind=t.ConnKind.ROUTE):
                self._accepted(event)
                return True
            case t.Line() | t.Closed() | t.LeafError() | t.LeafInfo() | t.Secured():
                link = self._links.get(event.connection)
                if link is not None:
                    self._of(link, event)
                elif event.connection in self._early:
                    self._early[event.connection].append(event)
                else:
                    return False
                return True
        return False

    def _of(self, link: Link, event: t.Line | t.Closed | t.LeafError | t.LeafInfo | t.Secured) -> None:
        match event:
            case t.Line():
                self._act(link, link.machine.line(event.kind, event.payload))
            case t.LeafInfo(payload=b""):
                self._up(link)
            case t.LeafInfo():
                for update in link.machine.update(event.payload):
                    self._take(link, update)
            case t.LeafError():
                link.why = quoted(event.text)
                self._log.error(f"{link.log_name} - Route Error {link.why}", event="route_error")
            case t.Secured():
                self._log.debug(f"{link.log_name} - TLS handshake complete: {event.cipher}, {event.size} bytes")
            case t.Closed():
                self._closed(link, event)

    def _accepted(self, event: t.Opened) -> None:
        waiting = sum(not link.machine.joined and not link.route.dialled for link in self._links.values())
        link = self._made(Route(event.connection, event.peer))
        if waiting >= LOGINS_MAX:
            link.why = "too many servers log in at a time"
            self._plane.close_connection(event.connection, "", t.CloseReason.LIMIT)
            return
        self._begin(link, self._terms.accepts)
        if self._nursery is not None:
            self._nursery.start_soon(self._hurry, link, self._terms.login_s)

    def _made(self, route: Route) -> Link:
        machine = Machine(self.cluster, self.peers, route, secrets.token_urlsafe(11), age())
        link = self._links[route.connection] = Link(route, machine)
        return link

    def _begin(self, link: Link, secure: t.Secure | None, name: str = "") -> None:
        said = link.machine.opened()
        if secure is None:
            self._act(link, said)
            return
        behind = b"".join(one.frame for one in said if isinstance(one, Send))
        self._plane.secure(link.connection, secure, behind=behind, name=name)

    async def _hurry(self, link: Link, seconds: float) -> None:
        """Who does not log in in time is closed."""
        with trio.move_on_after(seconds) as scope:
            await link.done.wait()
        if scope.cancelled_caught and not link.done.is_set():
            link.why = "Authentication Timeout"
            self._plane.close_connection(link.connection, link.why, t.CloseReason.AUTHENTICATION)

    # ---- carrying out

    def _act(self, link: Link, actions: list[routing.Action]) -> None:
        for action in actions:
            match action:
                case Send(said):
                    self._plane.send(link.connection, said)
                case Compress(how, before, behind):
                    self._plane.compress(link.connection, how, before=before, behind=behind)
                case Resume():
                    self._plane.resume(link.connection)
                case routing.Rename():
                    self._renamed(link)
                case routing.Close(why, reason, told):
                    link.why = why
                    self._plane.close_connection(link.connection, why if told else "", reason)
                case routing.Join():
                    self._join(link, action)

    def _renamed(self, link: Link) -> None:
        self._log.info(f"Cluster name updated to {quoted(self.cluster.name)}")
        for other in list(self._links.values()):
            if other is not link and other.route.server_id != link.route.server_id:
                self._plane.close_connection(other.connection, "", t.CloseReason.DUPLICATE)
        for callback in self.on_renamed:
            with self._guard.around("what follows a cluster's new name"):
                callback()

    def _join(self, link: Link, join: routing.Join) -> None:
        route, placed, info = link.route, join.placed, join.info
        link.more = placed.more
        account = self._account_id(route.account) if route.account else 0
        flags = t.RouteFlag.UNSUB_ORIGIN if info.get("lnocu") else t.RouteFlag(0)
        payload = max(self.cluster.max_payload, int(info.get("max_payload") or 0))
        pool = 0 if not route.pooled else placed.pool_size
        self._plane.admit_route(
            link.connection,
            account,
            t.RouteTerms(
                flags=int(flags),
                max_payload=min(payload + HEADERS_MAX, (1 << 31) - 1),
                pool_size=pool,
                pool_index=placed.index if pool else 0,
                ping_interval_ns=self._terms.ping_interval_ns,
            ),
            self._terms.permissions,
            route.server_id,
        )
        link.done.set()
        of = f" for account {quoted(route.account)}" if route.account else ""
        self._log.info(f"{link.log_name} - Route connection created{of}: {quoted(route.name)}", event="route_up")
        self._refused.clear()
        self._learned.discard((route.server_id, route.account))
        if placed.first or route.account:
            for to, mode in self.peers.told_of(route, info):
                self._plane.send(to.connection, frame("INFO", info | {"gossip_mode": mode}))
        if placed.first:
            for callback in (*self.on_joined, *self.on_told):
                with self._guard.around("what follows a server's joining the cluster"):
                    callback()
            for greet in self.on_peer:
                with self._guard.around("greeting a server of the cluster"):
                    greet(self.peers.all[route.server_id])

    def _up(self, link: Link) -> None:
        """The peer has answered: the login was good."""
        link.up = True
        route = link.route
        if link.more and route.place is not None:
            link.more = False
            self._dial(route.place, explicit=route.explicit, gossip_mode=route.gossip_mode, again=True)

    def _take(self, link: Link, update: routing.Update) -> None:
        match update:
            case Send(said):
                self._plane.send(link.connection, said)
            case routing.Leaves():
                peer = self.peers.all.get(link.route.server_id)
                if peer is not None and (peer.connect_urls or peer.ws_connect_urls):
                    peer.connect_urls, peer.ws_connect_urls = (), ()
                    self._tell()
            case routing.Pinned(account, answer):
                if self.pin(account):
                    self.peers.accounts.add(account)
                    self._plane.send(link.connection, answer)
            case routing.Learned():
                self._learn(link, update)
            case routing.OtherCluster(name, urls):
                for callback in self.on_cluster:
                    with self._guard.around("hearing of another cluster"):
                        callback(name, urls)

    def _learn(self, link: Link, update: routing.Learned) -> None:
        """Another server told of one: it is dialled, unless it is known."""
        key, peer = (update.server_id, update.account), self.peers.all.get(update.server_id)
        if key in self._learned or (update.account and update.account not in self.peers.accounts):
            return
        if peer is not None and (update.account in peer.accounts if update.account else peer.routes()):
            return
        bare = Place(update.place.host.lower(), update.place.port)
        if any(bare == Place(one.host.lower(), one.port) for one in self._terms.places):
            return
        if len(self._learned) >= PEERS_MAX or len(self.peers.all) >= PEERS_MAX:
            self._log.debug(f"{link.log_name} - tells of more servers than a cluster has: {update.place.shown}")
            return
        self._learned.add(key)
        self._dial(update.place, gossip_mode=update.gossip_mode, account=update.account, key=key)

    def _tell(self) -> None:
        for callback in self.on_told:
            with self._guard.around("telling of the cluster's addresses"):
                callback()

    # ---- the end of a connection

    def _closed(self, link: Link, event: t.Closed) -> None:
        del self._links[link.connection]
        route = link.route
        why = link.why or event.text or t.CloseReason(event.reason).name.lower()
        loud = link.machine.joined or self._is_news(why)
        quiet = route.stays_away or event.reason == t.CloseReason.DUPLICATE
        line = f"{link.log_name} - Route connection closed: {why}"
        if loud and not quiet:
            self._log.info(line, event="route_down")
        else:
            self._log.debug(line)
        link.done.set()
        gone = self.peers.remove(route) if link.machine.joined else None
        if gone is not None and gone.last:
            self._left(gone)
        self._dial_again(route)

    def _is_news(self, why: str) -> bool:
        """The first refusal is, another reason is, and then one in a while: it may be asked for each second."""
        if why not in self._refused and len(self._refused) >= REASONS_MAX:
            return False
        self._refused[why] = self._refused.get(why, 0) + 1
        return self._refused[why] % self._terms.reports[0] == 1

    def _left(self, gone: Gone) -> None:
        told = gone.peer.connect_urls, gone.peer.ws_connect_urls, gone.peer.leafnode_urls
        gone.peer.connect_urls = gone.peer.ws_connect_urls = gone.peer.leafnode_urls = gone.peer.gateway_urls = ()
        if any(told):
            self._tell()
        for callback in self.on_left:
            with self._guard.around("what follows a server's leaving the cluster"):
                callback()

    def _dial_again(self, route: Route) -> None:
        """As this server dialled it, or its end gave up a connection for it."""
        if self._leaving or route.stays_away or not (route.dialled or route.retry) or route.place is None:
            return
        peer = self.peers.all.get(route.server_id)
        if self.peers.pool_size <= 0 and not route.account and peer is not None and peer.routes():
            for one in peer.routes():
                one.dialled, one.place = True, route.place
                one.explicit = one.explicit or route.explicit
            return
        wait_s = random.uniform(0, APART_S) + (AGAIN_S if route.explicit else 0)
        self._dial(route.place, explicit=route.explicit, account=route.account, wait_s=wait_s, again=True)

    # ---- dialling

    async def run(self) -> None:
        """Dials, for ever. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for place in self._terms.places:
                for account in ("", *sorted(self.peers.accounts)):
                    self._dial(place, explicit=True, account=account)
            await trio.sleep_forever()

    def leave(self) -> None:
        """Lame duck mode: nobody is to come here any more."""
        self.send_each(frame("INFO", self.cluster.info(self.peers.pool_size, ldm=True)))

    def end(self) -> None:
        """Nothing is dialled any more."""
        self._leaving = True

    def _dial(
        self,
        place: Place,
        *,
        explicit: bool = False,
        account: str = "",
        gossip_mode: int = 0,
        wait_s: float = 0.0,
        again: bool = False,
        key: tuple[str, str] | None = None,
    ) -> None:
        if self._nursery is None or self._leaving:
            return
        route = Route(0, place.shown, dialled=True, explicit=explicit, place=place, gossip_mode=gossip_mode)
        route.account = account
        self._nursery.start_soon(self._reach, route, place, wait_s, again, key)

    async def _reach(self, route: Route, place: Place, wait_s: float, again: bool, key: tuple[str, str] | None) -> None:
        """Until there is a connection, or nobody wants it any more."""
        try:
            with self._guard.around("dialling a server of the cluster"):
                await trio.sleep(wait_s)
                await self._attempts(route, place, again)
        finally:
            if key is not None and route.connection == 0:
                self._learned.discard(key)

    async def _attempts(self, route: Route, place: Place, again: bool) -> None:
        attempts, pause_s = 0, AGAIN_S
        while not self._leaving:
            attempts += 1
            try:
                if route.explicit:
                    stream = await self._connected(place)
                else:
                    async with self._slots:
                        stream = await self._connected(place)
                if stream is not None:
                    await self._adopt(stream, route, place)
                return
            except (OSError, trio.TooSlowError) as error:
                why = "no answer in time" if isinstance(error, trio.TooSlowError) else dial_error(error)
                self._tell_failed(route, place, attempts, why, again)
            if not route.explicit and (self._terms.retries <= 0 or attempts > self._terms.retries):
                return
            await trio.sleep(pause_s * random.uniform(0.75, 1.25))
            if self._terms.backoff:
                pause_s = min(2 * pause_s, AGAIN_MAX_S)

    def _tell_failed(self, route: Route, place: Place, attempts: int, why: str, again: bool) -> None:
        loud = not route.account and (attempts == 1 or attempts % self._terms.reports[again] == 0)
        (self._log.error if loud else self._log.debug)(
            f"Error trying to connect to route {place.shown} (attempt {attempts}): {why}"
        )

    async def _connected(self, place: Place) -> trio.SocketStream | None:
        """None: the name means this server alone."""
        with trio.fail_after(DIAL_S):
            found = await trio.socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
            if addresses != [place.host]:  # a name: this server may be behind it, among others
                own = set(self._own_places())
                addresses = [one for one in addresses if (one, place.port) not in own]
            if not addresses:
                return None
            return await trio.open_tcp_stream(random.choice(addresses), place.port)

    async def _adopt(self, stream: trio.SocketStream, route: Route, place: Place) -> None:
        sock = stream.socket
        watch_over(sock)
        secure = self._terms.dials
        with trio.CancelScope(shield=True):  # a connection that nobody waits for would belong to nobody
            route.connection = await self._plane.adopt(
                sock.detach(), t.ConnKind.ROUTE, secure=secure is not None, web=False
            )
        link = self._made(route)
        self._begin(link, secure, certificate_name(place, self._terms.places))
        for event in self._early.pop(route.connection, []):
            self.handle(event)
        await self._hurry(link, DIAL_S + self._terms.login_s)
