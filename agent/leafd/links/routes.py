"""The routes of this server: who is connected, whom it dials, who is told of whom.

    routes of the configuration --dial--> adopt(fd) --+
    another server told of it   --dial--> adopt(fd) --+--> Machine --Join--> admit_route --> one of the cluster
    listener --Opened---------------------------------+        --Closed--> dialled again, where this server dialled it

A place of the configuration is dialled for ever; one that was learned of as often as connect_retries says. The next
connection of a pool is dialled when the peer has answered on the one before (its PONG), since only then the login was
good. Of the servers that others tell of, and of logins at a time, there is a bounded number. Not here:
the handshake's lines (route.py), which connection stays (peers.py), interest and messages (native/plane).
"""

from __future__ import annotations

import contextlib
import random
import secrets
from collections.abc import Awaitable, Callable, Iterable, Set
from functools import partial
from typing import Final

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.links import route as routing
from leafd.links.leaf import Compress, Send
from leafd.links.leaf_info import frame
from leafd.links.link import age
from leafd.links.namesakes import Namesakes
from leafd.links.origin import peer_number
from leafd.links.peers import PEERS_MAX, Gone, Peer, Peers, Route
from leafd.links.route import Cluster, Machine
from leafd.links.route_info import DUPLICATE_NAME, LETTERS, SERVER_TRACES, Place, certificate_name
from leafd.links.route_links import Link, RouteStatus, Terms
from leafd.links.servers import (
    AGAIN_S,
    HEADERS_MAX,
    Pauses,
    Servers,
    addresses_of,
    apart_s,
    dial_s,
    failed,
)
from leafd.native_commands import Commands
from leafd.native_types import PlaneError
from leafd.operator_log import Log
from leafd.quoting import quoted

PREPARED_S: Final = 2.0
"""How long others may take to be ready for an account's own connections, as in nats-server, .."""
PREPARED_TRIPS: Final = 4
""".. or for so many round trips of the farthest, .."""
PREPARED_MAX_S: Final = 30.0
""".. and no longer than that."""
RENEWED_S: Final = 5.0
"""How long connections may take to end that are made again."""


async def _refuse(account: str) -> bool:
    return False


class Routes(Servers[Link, Terms]):
    """Owner of all routes. `run` dials; `handle` takes the plane's events of route connections."""

    KIND = t.ConnKind.ROUTE
    NAME = "route"

    def __init__(
        self,
        plane: Commands,
        cluster: Cluster,
        peers: Peers,
        terms: Terms,
        log: Log,
        *,
        account_id: Callable[[str], int],
        own_places: Callable[[], Iterable[tuple[str, int]]] = tuple,
        guard: Guard | None = None,
    ) -> None:
        super().__init__(plane, terms, log, guard)
        self.cluster = cluster
        self.peers = peers
        self._account_id = account_id
        self._own_places = own_places
        self._namesakes = Namesakes(plane, log, self._guard)
        self._learned: set[tuple[str, str]] = set()
        """Servers that are dialled because others told of them, and the account of that connection."""
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
        self.pin: Callable[[str], Awaitable[bool]] = _refuse
        """A peer asks for connections of its own for an account; whether it goes by those from here on."""
        self._removed: set[str] = set()
        """Places that an earlier configuration had."""
        self._prepared: dict[str, trio.MemorySendChannel[None]] = {}
        self._untried = {place.shown for place in terms.places}
        self.tried = trio.Event()
        """Each server of the configuration has answered, or could not be reached at the first attempt."""

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

    def remote_name(self, connection: int) -> str:
        """The name of the server at the other end of a connection that has joined; of any other one, nothing."""
        link = self._links.get(connection)
        return link.route.name if link is not None and link.machine.joined else ""

    @property
    def joined(self) -> bool:
        """Is there another server?"""
        return bool(self.peers.all)

    @property
    def host(self) -> str:
        """The host that other servers connect to .."""
        return self.cluster.host

    @property
    def port(self) -> int:
        """.. as they are told."""
        return self.cluster.port

    @property
    def places(self) -> tuple[str, ...]:
        """The addresses in the configuration, without logins."""
        return tuple(place.shown for place in self._terms.places)

    @property
    def accepts(self) -> t.Secure | None:
        """How who dials this server gets TLS, if so."""
        return self._terms.accepts

    def send_each(self, said: bytes) -> None:
        """To each other server of the cluster."""
        for peer in self.peers.all.values():
            if peer.first is not None:
                self._plane.send(peer.first.connection, said)

    def urls(self, name: str) -> tuple[str, ...]:
        """connect_urls, ws_connect_urls or leafnode_urls of the other servers."""
        return self.peers.urls(name) if self._terms.advertises or name == "leafnode_urls" else ()

    @property
    def connect_urls(self) -> tuple[str, ...]:
        """The URLs at which clients reach the servers of the cluster, this one first."""
        return tuple(dict.fromkeys((*self.cluster.connect_urls, *self.urls("connect_urls"))))

    # ---- events of the plane

    def _welcomed(self, event: t.Opened) -> Link:
        return self._made(Route(event.connection, event.peer, came=True))

    def _made(self, route: Route) -> Link:
        return Link(route, Machine(self.cluster, self.peers, route, secrets.token_urlsafe(11), age()))

    def _do(self, link: Link, action: object) -> None:
        match action:
            case Compress(how, before, behind):
                self._plane.compress(link.connection, how, before=before, behind=behind)
            case routing.Rename():
                self._renamed(link)
            case routing.Namesake(there, elsewhere):
                self._refuse_namesake(link, there, elsewhere)
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

    def _refuse_namesake(self, link: Link, there: Peer | None, elsewhere: bool) -> None:
        """A second server with the name of one. there: the first; None: that is this one, or one of another cluster."""
        route = link.route
        if there is None:
            who = "a server of another cluster has it" if elsewhere else "this server has it"
        else:
            first = there.first
            who = f"the server at {first.peer if first is not None else 'an unknown address'} has it"
            routes = (*there.routes(), *there.accounts.values())
            links = [self._links[one.connection] for one in routes if one.connection in self._links]
            if self._nursery is not None:
                self._nursery.start_soon(self._namesakes.ask, there.server_id, links)
        if self._is_news(f"{route.name} {route.server_id}"):
            self._namesakes.tell(link.log_name, route.name, who, "route_error")

    def _join(self, link: Link, join: routing.Join) -> None:
        route, placed, info = link.route, join.placed, join.info
        link.more = placed.more
        if placed.instead is not None:
            self._plane.close_connection(placed.instead.connection, "", t.CloseReason.DUPLICATE)
        account = self._account_id(route.account) if route.account else 0
        flags = t.RouteFlag.UNSUB_ORIGIN if info.get("lnocu") else t.RouteFlag(0)
        if int(info.get("proto") or 0) >= SERVER_TRACES:
            flags |= t.RouteFlag.TRACES
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
                peer=peer_number(route.name) if info.get("leafd_letters") == LETTERS else 0,
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

    def _told(self, link: Link, payload: bytes) -> None:
        if payload:
            for update in link.machine.update(payload):
                self._take(link, update)
            return
        # The peer has answered: the login was good.
        link.up = True
        route = link.route
        if route.place is not None:
            self._namesakes.welcome(route.place.shown)
        self._has_tried(route)
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
            case routing.Pinned():
                if self._nursery is not None:
                    self._nursery.start_soon(self._pin, link, update)
            case routing.Relearned(allow, deny):
                if self._nursery is not None:
                    before = t.Permissions(subscribe_allow=allow, subscribe_deny=deny)
                    self._nursery.start_soon(partial(self._regrant, link, before, refused=True))
            case routing.Prepared(request):
                if request in self._prepared:
                    with contextlib.suppress(trio.WouldBlock, trio.BrokenResourceError):
                        self._prepared[request].send_nowait(None)
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

    def _complain(self, link: Link) -> None:
        place = link.route.place
        if link.why == quoted(DUPLICATE_NAME) and place is not None:
            self._namesakes.refused(place.shown)
        if self._is_news(f"{link.route.name} {link.why}"):
            self._log.error(f"{link.log_name} - Route Error {link.why}", event="route_error")

    def _closed(self, link: Link, event: t.Closed) -> None:
        route = link.route
        why = link.why or event.text or t.CloseReason(event.reason).name.lower()
        loud = link.machine.joined or self._is_news(why)
        quiet = route.stays_away or event.reason == t.CloseReason.DUPLICATE
        line = f"{link.log_name} - Route connection closed: {why}"
        if loud and not quiet:
            self._log.info(line, event="route_down")
        else:
            self._log.debug(line)
        gone = self.peers.remove(route) if link.machine.joined else None
        if gone is not None and gone.last:
            self._left(gone)
        link.gone.set()
        self._has_tried(route)
        if not link.anew:
            self._dial_again(route)

    def _left(self, gone: Gone) -> None:
        told = gone.peer.connect_urls, gone.peer.ws_connect_urls, gone.peer.leafnode_urls
        gone.peer.connect_urls = gone.peer.ws_connect_urls = gone.peer.leafnode_urls = gone.peer.gateway_urls = ()
        if any(told):
            self._tell()
        for callback in self.on_left:
            with self._guard.around("what follows a server's leaving the cluster"):
                callback()

    def _dial_again(self, route: Route, *, anew: bool = False) -> None:
        """As this server dialled it, or its end gave up a connection for it, or it was ended to be made again."""
        if self._leaving or route.stays_away or not (route.dialled or route.retry or anew) or route.place is None:
            return
        if route.account and route.account not in self.peers.accounts:
            return
        peer = self.peers.all.get(route.server_id)
        if self.peers.pool_size <= 0 and not route.account and peer is not None and peer.routes():
            for one in peer.routes():
                one.dialled, one.place = True, route.place
                one.explicit = one.explicit or route.explicit
            return
        wait_s = apart_s(route.trip_s) + (AGAIN_S if route.explicit and not anew else 0)
        wait_s += self._namesakes.pause_s(route.place.shown)
        self._dial(self._today(route.place), explicit=route.explicit, account=route.account, wait_s=wait_s, again=True)

    # ---- dialling

    async def run(self) -> None:
        """Dials, for ever. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for place in self._terms.places:
                for account in ("", *sorted(self.peers.accounts)):
                    self._dial(place, explicit=True, account=account)
            if not self._untried:
                self.tried.set()
            await trio.sleep_forever()

    # ---- changes

    def change(self, terms: Terms, pool_size: int, accounts: Iterable[str], *, anew: bool) -> None:
        """Another configuration. anew: what is there was agreed upon by the one before, and is made again. Else routes
        stay, but for those that carry an account that gets connections of its own, or has them no longer."""
        before, self._terms = self._terms, terms
        there, now = ({place.shown for place in one.places} for one in (before, terms))
        self._removed = (self._removed | there) - now
        added, removed = frozenset(accounts) - self.peers.accounts, self.peers.accounts - frozenset(accounts)
        self.peers.pool_size, self.peers.accounts = pool_size, set(accounts)
        for link in list(self._links.values()):
            place = link.route.place
            if link.route.explicit and place is not None and place.shown in self._removed:
                link.route.stays_away = True
                self._log.info(f"Removed route {place.shown}")
                self._plane.close_connection(link.connection)
        for place in terms.places:
            for account in ("", *sorted(self.peers.accounts)) if place.shown not in there else sorted(added):
                self._dial(place, explicit=True, account=account)
        if self._nursery is None:
            return
        if anew or added or removed:
            self._nursery.start_soon(self._change, sorted(added), removed, anew)
        if not anew and terms.permissions != before.permissions:
            for link in self._links.values():
                self._nursery.start_soon(self._regrant, link, terms.permissions)

    async def _change(self, added: list[str], removed: Set[str], anew: bool) -> None:
        with self._guard.around("making routes anew"):
            await self._prepare(added)
            going = {route.connection for account in (*added, *removed) for route in self.peers.carriers(account)}
            await self._renew(
                link
                for link in list(self._links.values())
                if anew or link.connection in going or link.route.account in removed
            )

    async def _prepare(self, accounts: list[str]) -> None:
        """Others are to be ready for connections of these accounts' own, which they refuse until they are told."""
        request, asked, trips = secrets.token_hex(11), 0, [0]
        trip_ns = {row.connection: row.trip_ns for row in await self._plane.connections()} if accounts else {}
        for account in accounts:
            for route in self.peers.carriers(account):
                said = {"route_pool_size": self.peers.pool_size, "route_account": account}
                self._plane.send(route.connection, frame("INFO", said | {"route_acc_add_reqid": request}))
                asked += 1
                trips.append(trip_ns.get(route.connection, 0))
        seconds = min(max(PREPARED_S, PREPARED_TRIPS * max(trips) / 1e9), PREPARED_MAX_S)
        self._prepared[request], ready = trio.open_memory_channel[None](asked)
        try:
            with trio.move_on_after(seconds) as scope:
                for _ in range(asked):
                    await ready.receive()
            if scope.cancelled_caught:
                self._log.warning("Not every server of the cluster is ready for the accounts with routes of their own")
        finally:
            del self._prepared[request]

    async def _pin(self, link: Link, asked: routing.Pinned) -> None:
        """A peer gives an account connections of its own: it no longer goes by those of the pool."""
        with self._guard.around("giving an account routes of its own"):
            known = asked.account in self.peers.accounts
            if not known and not await self.pin(asked.account):
                return
            self.peers.accounts.add(asked.account)
            if link.connection in self._links:
                self._plane.send(link.connection, asked.answer)
            carriers = [] if known else [route.connection for route in self.peers.carriers(asked.account)]
            await self._renew(self._links[connection] for connection in carriers if connection in self._links)
            if link.route.dialled and link.route.place is not None and not known:
                self._dial(self._today(link.route.place), explicit=link.route.explicit, account=asked.account)

    async def _renew(self, links: Iterable[Link]) -> None:
        """Each ends, and is dialled at once, whichever side it was dialled by. All end first: what is new has other
        places in a pool."""
        going = [link for link in links if not link.anew]
        for link in going:
            link.anew = True
            self._plane.close_connection(link.connection)
        with trio.move_on_after(RENEWED_S):
            for link in going:
                await link.gone.wait()
        for link in going:
            self._dial_again(link.route, anew=True)

    async def _regrant(self, link: Link, permissions: t.Permissions, *, refused: bool = False) -> None:
        """Other interest goes over a route that is there; it is made anew where that cannot be."""
        with self._guard.around("changing what goes over a route"):
            if link.regrants or not link.machine.joined:  # then it has told of the permissions before
                await self._renew([link])
                return
            link.regrants = True
            try:
                await self._plane.change_route_rights(link.connection, permissions, refused=refused)
            except PlaneError as error:
                self._log.debug(f"{link.log_name} - is made anew for other permissions: {error}")
                await self._renew([link] if link.connection in self._links else [])
            else:
                if not refused and link.connection in self._links:  # from here on the peer may ask for more
                    self._plane.send(link.connection, frame("INFO", self.cluster.info(self.peers.pool_size)))
            finally:
                link.regrants = False

    def _today(self, place: Place) -> Place:
        """The same server with the login of today."""
        found = next((one for one in self._terms.places if one.shown == place.shown), None)
        if found is None and place.user:
            return place.with_login(self.cluster.user, self.cluster.password)
        return found or place

    # ---- the end

    def leave(self) -> None:
        """Lame duck mode: nobody is to come here any more."""
        self.send_each(frame("INFO", self.cluster.info(self.peers.pool_size, ldm=True)))

    def end(self) -> None:
        """Ends dialling."""
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
        attempts, pauses = 0, Pauses(doubling=self._terms.backoff)
        while not self._leaving:
            if self._is_unwanted(route):
                return
            attempts += 1
            place = self._today(place)
            try:
                if route.explicit:
                    stream = await self._connected(place, attempts)
                else:
                    async with self._slots:
                        stream = await self._connected(place, attempts)
                if stream is None:
                    self._has_tried(route)
                else:
                    await self._adopt(stream, route, place)
                return
            except (OSError, trio.TooSlowError) as error:
                self._tell_failed(route, place, attempts, failed(error), again)
                self._has_tried(route)
            if not route.explicit and (self._terms.retries <= 0 or attempts > self._terms.retries):
                return
            await pauses.rest()

    def _has_tried(self, route: Route) -> None:
        if self._untried and route.place is not None and not route.account:
            self._untried.discard(route.place.shown)
            if not self._untried:
                self.tried.set()

    def _is_unwanted(self, route: Route) -> bool:
        """The configuration no longer has its place, or its account."""
        gone = route.place is not None and route.place.shown in self._removed
        return (route.explicit and gone) or (route.account != "" and route.account not in self.peers.accounts)

    def _tell_failed(self, route: Route, place: Place, attempts: int, why: str, again: bool) -> None:
        loud = not route.account and (attempts == 1 or attempts % self._terms.reports[again] == 0)
        (self._log.error if loud else self._log.debug)(
            f"Error trying to connect to route {place.shown} (attempt {attempts}): {why}"
        )

    async def _connected(self, place: Place, attempt: int) -> trio.SocketStream | None:
        """The stream to a place; None: the name means this server alone."""
        with trio.fail_after(dial_s(attempt)):
            addresses = await addresses_of(place.host, place.port)
            if addresses != [place.host]:  # a name: this server may be behind it, among others
                own = set(self._own_places())
                addresses = [one for one in addresses if (one, place.port) not in own]
            if not addresses:
                return None
            return await trio.open_tcp_stream(random.choice(addresses), place.port)

    async def _adopt(self, stream: trio.SocketStream, route: Route, place: Place) -> None:
        secure = self._terms.dials
        route.connection, route.trip_s = await self._adopted(stream, secure)
        link = self._made(route)
        self._dialled(link, secure, certificate_name(place, self._terms.places))
        await self._hurry(link, dial_s(1) + self._terms.login_s)
