"""The gateways of this server: which other clusters it reaches, whom it dials, who is told of whom.

    gateways of the configuration ----dial---> adopt(fd) --+
    a cluster that others told of ----dial---> adopt(fd) --+--> Machine --Join--> admit_gateway --> interest, messages
    listener --Opened--------------------------------------+        --Closed--> dialled again, where this server dialled

This server has one connection that it dialled with each other cluster, to whichever server of it, and lets in as many
as come. A server that comes is dialled back. A cluster of the configuration is dialled for ever; one that was learned
of as often as connect_retries says. Of the clusters and addresses that others tell of, and of logins at a time, there
is a bounded number. Not here: the handshake's lines (gateway.py), what other servers of this cluster are told and tell
(daemon/supercluster.py), interest and messages (native/plane).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Final

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.links import gateway as routing
from leafd.links.gateway import Machine, Supercluster, Told
from leafd.links.gateway_info import places_in, texts
from leafd.links.handshake import Close
from leafd.links.leaf_info import frame
from leafd.links.namesakes import Namesakes
from leafd.links.origin import peer_number
from leafd.links.route_info import (
    DUPLICATE_NAME,
    GATEWAY_GOSSIP,
    LETTERS,
    NO_LETTERS,
    SERVER_TRACES,
    URLS_MAX,
    Place,
    certificate_name,
)
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
from leafd.operator_log import Log
from leafd.quoting import quoted
from leafd.records import dataclass

FIRST_S: Final = 1.0
"""After the start, so that the own cluster is there and its addresses are told."""
CLUSTERS_MAX: Final = 256
"""Other clusters that are known at a time."""
PING_NS: Final = 15_000_000_000
"""At the most: gateways are asked for a PONG also when there is traffic, since the round trip orders them."""


@dataclass(slots=True)
class Remote:
    """Another cluster that this server is connected with, or dials."""

    name: str
    configured: tuple[Place, ...] = ()
    explicit: bool = False
    """The cluster stands in the configuration."""
    secure: t.Secure | None = None
    learned: tuple[Place, ...] = ()
    """Addresses that other servers told of."""
    dialling: bool = False
    attempts: int = 0

    @property
    def places(self) -> tuple[Place, ...]:
        """Every address, the configuration's first, each once."""
        found = {(one.host.lower(), one.port): one for one in reversed((*self.configured, *self.learned))}
        return tuple(reversed(found.values()))

    def learn(self, places: tuple[Place, ...], *, anew: bool = False) -> None:
        """Adds addresses of the cluster that its servers told of. anew: these replace those known so far."""
        known = places if anew else tuple(dict.fromkeys((*self.learned, *places)))
        self.learned = known[:URLS_MAX]


@dataclass(frozen=True, slots=True)
class Terms:
    """How gateways are made."""

    remotes: tuple[Remote, ...] = ()
    """The clusters of the configuration."""
    retries: int = 0
    backoff: bool = False
    login_s: float = 2.0
    ping_interval_ns: int = PING_NS
    accepts: t.Secure | None = None
    """TLS with servers that dial this one, .."""
    dials: t.Secure | None = None
    """.. and with clusters that others told of."""
    reports: tuple[int, int] = (600, 600)
    """The failed attempts to dial that are logged besides the first one, before a first connection and after it."""


@dataclass(slots=True)
class Link:
    """One connection with a server of another cluster, in either direction."""

    connection: int
    peer: str
    machine: Machine
    remote: Remote | None = None
    """The cluster that was dialled; None: an inbound connection."""
    opened_ns: int = field(default_factory=time.time_ns)
    why: str = ""
    """The reason that ends the connection."""
    done: trio.Event = field(default_factory=trio.Event)
    """Set when the connection has joined, or is gone."""
    gone: trio.Event = field(default_factory=trio.Event)

    @property
    def dialled(self) -> bool:
        return self.remote is not None

    @property
    def name(self) -> str:
        """The name of the other cluster."""
        return str(self.machine.info.get("gateway") or (self.remote.name if self.remote is not None else ""))

    @property
    def remote_name(self) -> str:
        """The name of the server at the other end, once it has said it."""
        return str(self.machine.info.get("server_name") or "")

    @property
    def remote_id(self) -> str:
        """The id of the server at the other end, once it has said it."""
        return str(self.machine.info.get("server_id") or "")

    @property
    def has_letters(self) -> bool:
        """Whether that server takes part in a group of servers."""
        return self.machine.info.get("leafd_letters") == LETTERS

    @property
    def log_name(self) -> str:
        """The beginning of log lines about the gateway."""
        return f"{self.peer} - gid:{self.connection}"


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """One connection as reports show it."""

    connection: int
    name: str
    """The name of the other cluster."""
    outbound: bool
    explicit: bool
    remote_id: str
    remote_name: str
    peer: str
    opened_ns: int


class Gateways(Servers[Link, Terms]):
    """Owner of all gateways. `run` dials; `handle` takes the plane's events of gateway connections."""

    KIND = t.ConnKind.GATEWAY
    NAME = "gateway"

    def __init__(
        self, plane: Commands, own: Supercluster, terms: Terms, log: Log, *, guard: Guard | None = None
    ) -> None:
        super().__init__(plane, terms, log, guard)
        self.own = own
        self.remotes: dict[str, Remote] = {one.name: one for one in terms.remotes}
        self._out: dict[str, Link] = {}
        self.on_joined: list[Callable[[], None]] = []
        """There is a connection to another cluster."""
        self.on_reached: list[Callable[[bytes], None]] = []
        """Another cluster, or another address of it: what the other servers of this one are to hear."""
        own.knows = self.remotes.__contains__
        own.namesake = lambda server_id, name: bool(self._others_named(name, server_id))
        self._namesakes = Namesakes(plane, log, self._guard)

    # ---- what is there

    def rows(self) -> list[GatewayStatus]:
        """Every connection that has joined."""
        return [
            GatewayStatus(
                link.connection,
                link.name,
                link.remote is not None,
                link.remote is not None and link.remote.explicit,
                link.remote_id,
                link.remote_name,
                link.peer,
                link.opened_ns,
            )
            for link in self._links.values()
            if link.machine.joined
        ]

    def remote_name(self, connection: int) -> str:
        """The name of the server at the other end of a connection that has joined; of any other one, nothing."""
        link = self._links.get(connection)
        return link.remote_name if link is not None and link.machine.joined else ""

    def servers(self, *, outbound: bool) -> dict[str, str]:
        """The servers with letters to which gateways lead that were dialled, or that dialled, with their clusters."""
        return {
            link.remote_name: link.name
            for link in self._links.values()
            if link.machine.joined and link.has_letters and link.dialled == outbound and link.remote_name
        }

    def without_letters(self) -> frozenset[str]:
        """The servers of leafd to which gateways lead and that say that they have no JetStream."""
        joined = (link for link in self._links.values() if link.machine.joined)
        return frozenset(one.remote_name for one in joined if one.machine.info.get("leafd_letters") == NO_LETTERS)

    def named(self, name: str) -> bool:
        """Does a gateway lead to a server of that name that takes part in a group of servers?"""
        return bool(self._others_named(name))

    def _others_named(self, name: str, server_id: str = "") -> list[Link]:
        """The gateways to servers of that name with letters that have another id."""
        joined = (link for link in self._links.values() if link.machine.joined and link.has_letters)
        return [link for link in joined if name and link.remote_name == name and link.remote_id != server_id]

    @property
    def sent_to(self) -> tuple[str, ...]:
        """The clusters that this server sends to, in the order in which it came to them."""
        return tuple(self._out)

    @property
    def joined(self) -> bool:
        """Is there another cluster?"""
        return any(link.machine.joined for link in self._links.values())

    def clusters(self) -> dict[str, tuple[str, ...]]:
        """The other clusters of the configuration, and where each of them is dialled."""
        return {one.name: tuple(texts(one.places)) for one in self.remotes.values() if one.explicit}

    # ---- events of the plane

    def _welcomed(self, event: t.Opened) -> Link:
        return Link(event.connection, event.peer, Machine(self.own))

    def _told(self, link: Link, payload: bytes) -> None:
        if not payload:
            self._refused.clear()
            if link.remote is not None:
                self._namesakes.welcome(link.remote.name)
            return
        for update in link.machine.update(payload):
            self._take(link, update)

    # ---- carrying out

    def _do(self, link: Link, action: object) -> None:
        match action:
            case routing.Join(info):
                self._join(link, info)
            case routing.Namesake(server_id, name):
                self._refuse_namesake(link, server_id, name)
            case routing.Misnamed(name, wanted):
                self._refuse_misnamed(link, name, wanted)

    def _refuse_misnamed(self, link: Link, name: str, wanted: str) -> None:
        """A cluster with a name that it cannot have here, as a site that is a copy of another one."""
        if not self._is_news(f"{name} {wanted} {link.peer.rpartition(':')[0]}"):
            return
        if name == self.own.name:
            self._log.error(
                f"{link.log_name} - the cluster there calls itself {quoted(name)}, as this one does: each cluster "
                "needs a name of its own",
                event="gateway_error",
            )
        else:
            self._log.error(
                f"{link.log_name} - the cluster there calls itself {quoted(name)}, and the configuration here calls it "
                f"{quoted(wanted)}",
                event="gateway_error",
            )

    def _refuse_namesake(self, link: Link, server_id: str, name: str) -> None:
        """A second server with the name of one. Where two had it already, the one that was there first is asked."""
        there = self._others_named(name, server_id)
        first = there[0]
        if self._nursery is not None:
            links = [one for one in there if one.remote_id == first.remote_id]
            self._nursery.start_soon(self._namesakes.ask, first.remote_id, links)
        if self._is_news(f"{name} {server_id}"):
            who = f"the server at {first.peer} of cluster {quoted(first.name)} has it"
            self._namesakes.tell(link.log_name, name, who, "gateway_error")

    def _join(self, link: Link, info: dict[str, Any]) -> None:
        name, remote = link.name, link.remote
        flags = t.GatewayFlag.HEADERS if link.machine.headers else t.GatewayFlag(0)
        if remote is not None:
            flags |= t.GatewayFlag.OUTBOUND
        if int(info.get("proto") or 0) >= SERVER_TRACES:
            flags |= t.GatewayFlag.TRACES
        payload = max(self.own.max_payload, int(info.get("max_payload") or 0))
        terms = t.GatewayTerms(
            flags=int(flags),
            max_payload=min(payload + HEADERS_MAX, (1 << 31) - 1),
            ping_interval_ns=self._terms.ping_interval_ns,
            peer=peer_number(link.remote_name) if link.has_letters else 0,
        )
        self._plane.admit_gateway(link.connection, terms, name)
        link.done.set()
        way = "Outbound gateway connection to" if remote is not None else "Inbound gateway connection from"
        self._log.info(f"{link.log_name} - {way} {quoted(name)} registered", event="gateway_up")
        places = places_in(info.get("gateway_urls"))
        if remote is None:
            self.learn(name, places)
            for other in self.remotes.values():
                if other.name != name and other.places:
                    self._plane.send(link.connection, gossip(self.own.server_id, other.name, other.places))
            return
        self._out[name] = link
        remote.attempts = 0
        for callback in self.on_joined:
            with self._guard.around("what follows reaching another cluster"):
                callback()
        if places:
            remote.learn(places, anew=True)
        self._tell_reached(remote)

    def _take(self, link: Link, update: Told | Close) -> None:
        match update:
            case Close():
                self._act(link, [update])
            case Told(anew=True):
                remote = link.remote
                if remote is not None and set(remote.learned) != set(update.places):
                    remote.learn(update.places, anew=True)
                    self._tell_reached(remote)
            case Told():
                self.learn(update.name, update.places)

    def _tell_reached(self, remote: Remote) -> None:
        said = gossip(f"GW{self.own.server_id}", remote.name, remote.places, self.own.server_name)
        for callback in self.on_reached:
            with self._guard.around("telling of another cluster"):
                callback(said)

    def reached(self) -> list[bytes]:
        """The lines about other clusters for a server that has joined this cluster."""
        id_, name = f"GW{self.own.server_id}", self.own.server_name
        every = [(one, link.remote) for one, link in self._out.items()]
        return [gossip(id_, one, remote.places, name) for one, remote in every if remote is not None]

    def learn(self, name: str, places: tuple[Place, ...]) -> None:
        """There is a cluster of that name at these addresses: it is dialled, unless it is known."""
        if name == self.own.name:
            return
        known = self.remotes.get(name)
        if known is not None:
            known.learn(places)
            return
        if not places:
            return
        if len(self.remotes) >= CLUSTERS_MAX:
            self._log.debug(f"there are more clusters than are known at a time: {quoted(name)}")
            return
        remote = self.remotes[name] = Remote(name, secure=self._terms.dials, learned=places[:URLS_MAX])
        self._dial(remote)

    def told_urls(self, urls: Iterable[str]) -> None:
        """Sets the addresses at which other clusters reach this one, this server's own among them."""
        told = tuple(dict.fromkeys(urls))
        if set(told) == set(self.own.urls):
            return
        self.own.urls = told
        said = frame("INFO", self.own.info())
        for link in self._links.values():
            if link.remote is None and link.machine.joined:
                self._plane.send(link.connection, said)

    # ---- the end of a connection

    def _complain(self, link: Link) -> None:
        if link.why == quoted(DUPLICATE_NAME) and link.remote is not None:
            self._namesakes.refused(link.remote.name)
        if self._is_news(f"{link.name} {link.why}"):
            self._log.error(f"{link.log_name} - Gateway Error {link.why}", event="gateway_error")

    def _closed(self, link: Link, event: t.Closed) -> None:
        joined, remote = link.machine.joined, link.remote
        link.gone.set()
        why = link.why or event.text or t.CloseReason(event.reason).name.lower()
        way = "Outbound" if remote is not None else "Inbound"
        line = f"{link.log_name} - {way} gateway connection closed: {why}"
        if joined or self._is_news(why):
            self._log.info(line, event="gateway_down")
        else:
            self._log.debug(line)
        if remote is None:
            return
        if self._out.get(remote.name) is link:
            del self._out[remote.name]
        wait_s = apart_s(0.0) + (AGAIN_S if remote.explicit or not joined else 0)
        wait_s += self._namesakes.pause_s(remote.name)
        self._dial(remote, wait_s, again=joined)

    # ---- dialling

    async def run(self) -> None:
        """Dials, for ever. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await trio.sleep(FIRST_S)
            for remote in list(self.remotes.values()):
                self._dial(remote)
            await trio.sleep_forever()

    def end(self) -> None:
        """Ends dialling and new gateways."""
        self._leaving = True
        self.told_urls(one for one in self.own.urls if one != self.own.url)

    def _dial(self, remote: Remote, wait_s: float = 0.0, *, again: bool = False) -> None:
        if self._nursery is None or self._leaving or remote.dialling or remote.name in self._out:
            return
        if self.remotes.get(remote.name) is not remote:
            return
        remote.dialling = True
        self._nursery.start_soon(self._reach, remote, wait_s, again)

    async def _reach(self, remote: Remote, wait_s: float, again: bool) -> None:
        """Until there is a connection, or nobody wants it any more."""
        made = False
        try:
            with self._guard.around("dialling another cluster"):
                await trio.sleep(wait_s)
                found = await self._attempts(remote, again)
                made = found is None
                if found is not None:
                    link = await self._adopt(remote, *found)
                    made = True
                    await self._hurry(link, dial_s(1) + self._terms.login_s)
        finally:
            if not made:
                remote.dialling = False
        if not made:
            self._dial(remote, AGAIN_S, again=again)

    async def _attempts(self, remote: Remote, again: bool) -> tuple[trio.SocketStream, Place] | None:
        """The stream to a server of the remote cluster; None: the gateway is not wanted any more."""
        pauses = Pauses(doubling=self._terms.backoff)
        while not self._leaving:
            remote.attempts += 1
            if not remote.explicit and self._given_up(remote):
                del self.remotes[remote.name]
                break
            for place in random.sample(remote.places, len(remote.places)):
                try:
                    if remote.explicit:
                        return await self._connected(place, remote.attempts), place
                    async with self._slots:
                        return await self._connected(place, remote.attempts), place
                except (OSError, trio.TooSlowError) as error:
                    self._tell_failed(remote, place, failed(error), again)
            await pauses.rest()
        remote.dialling = False
        return None

    def _given_up(self, remote: Remote) -> bool:
        """True if a cluster that others told of is given up. As long as it has connections to this one it is there."""
        if remote.attempts <= 1 + self._terms.retries:
            return False
        return not any(link.name == remote.name and link.machine.joined for link in self._links.values())

    def _tell_failed(self, remote: Remote, place: Place, why: str, again: bool) -> None:
        loud = remote.attempts == 1 or remote.attempts % self._terms.reports[again] == 0
        kind = "explicit" if remote.explicit else "implicit"
        (self._log.error if loud else self._log.debug)(
            f"Error connecting to {kind} gateway {quoted(remote.name)} at {place.shown}"
            f" (attempt {remote.attempts}): {why}"
        )

    async def _connected(self, place: Place, attempt: int) -> trio.SocketStream:
        with trio.fail_after(dial_s(attempt)):
            addresses = await addresses_of(place.host, place.port)
            return await trio.open_tcp_stream(random.choice(addresses), place.port)

    async def _adopt(self, remote: Remote, stream: trio.SocketStream, place: Place) -> Link:
        secure = remote.secure
        connection, _ = await self._adopted(stream, secure)
        machine = Machine(self.own, remote.name, place, tls=secure is not None)
        link = Link(connection, place.shown, machine, remote)
        remote.dialling = False
        self._dialled(link, secure, certificate_name(place, remote.places))
        return link


def gossip(server_id: str, name: str, places: tuple[Place, ...], server_name: str = "") -> bytes:
    """The INFO that tells of another cluster."""
    named = {"server_name": server_name} if server_name else {}
    about = {"gateway": name, "gateway_urls": texts(places), "gateway_cmd": GATEWAY_GOSSIP}
    return frame("INFO", {"server_id": server_id, **named, **about})
