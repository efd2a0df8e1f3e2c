"""One leaf link as control knows it, in either direction, and a hub that is dialled. What becomes of them: leafs.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.auth.connect import claimed_user
from leafd.links import leaf
from leafd.links.addresses import is_foreign, is_refused, is_taken
from leafd.links.compression import UNCOMPRESSED
from leafd.links.hub_servers import HubServers, listed
from leafd.links.origin import peer_number
from leafd.links.packets import Packets
from leafd.records import dataclass
from leafd.versions import version_of

if TYPE_CHECKING:
    from leafd.links.echo import Place
    from leafd.links.web import Asked

FIRST_WORD_S: Final = 20.0
"""A server of several that takes the connection and says nothing hangs."""
PROGRAM_MAX: Final = 64
"""Characters of a version that another program tells."""
REASONS_MAX: Final = 16
"""Reasons that are told at once between two links: some have words of the other side's choosing."""


@dataclass(slots=True)
class Link:
    """One leaf connection, in either direction."""

    connection: int
    peer: str
    machine: leaf.Acceptor | leaf.Solicitor
    remote: leaf.Remote | None = None
    bind: leaf.Bind | None = None
    round_trip_s: float = 0.0
    """As it began, as the kernel saw it, or was measured since (trips.py); 0: not known."""
    delay_s: float = 0.0
    last_error: str = ""
    host: str = ""
    url: str = ""
    """The address that we dialled."""
    asked: Asked | None = None
    """The request that a link over WebSocket began with."""
    web: bool = False
    """Over WebSocket."""
    tls: t.Secured | None = None
    """Its handshake, if it has TLS."""
    box: str = ""
    """The key of the enrolled box that it has proven to be, or to be the doctor of."""
    held: str = ""
    """The messages that the other end's budget lets go (limits.py), as it says; empty: it says nothing."""
    servers: HubServers | None = None
    """The servers of the hub that we dialled. .."""
    packets: Packets = field(default_factory=Packets)
    """.. How large they may be."""
    listed: frozenset[str] = frozenset()
    """The addresses of its servers, as it told them last."""
    on_grown: list[Callable[[Link], None]] = field(default_factory=list)
    """Told that it has listed another one."""
    opened_ns: int = field(default_factory=time.time_ns)
    closed: t.Closed | None = None
    """How it ended."""
    heard: trio.Event = field(default_factory=trio.Event)
    """The hub has said something."""
    up: trio.Event = field(default_factory=trio.Event)
    doubted: trio.Event = field(default_factory=trio.Event)
    """Set when nothing that is sent arrives any more, .."""
    stands: bool = False
    """.., a first full packet among it, .."""
    settled: trio.Event = field(default_factory=trio.Event)
    """.. and then something does."""
    gone: trio.Event = field(default_factory=trio.Event)

    def doubt(self, doubt: int) -> None:
        """Marks the link as in doubt, or not, by the plane's view of its sent bytes (t.Doubt)."""
        self.stands = doubt == t.Doubt.FIRST
        if doubt == t.Doubt.LARGE:
            self.packets.stuck(trio.current_time())
        if doubt and not self.doubted.is_set():
            self.settled = trio.Event()
            self.doubted.set()
        elif not doubt:
            self.doubted = trio.Event()
            self.settled.set()

    @property
    def first_word_s(self) -> float:
        """How long the hub may be silent where another server of it is to be tried; 0: there is no other."""
        return 0.0 if self.servers is None or self.servers.alone else FIRST_WORD_S

    def bound(self, bind: leaf.Bind) -> None:
        """The handshake is over."""
        self.bind = bind
        if isinstance(self.machine, leaf.Solicitor):
            self.told(self.machine.hub_info)

    def told(self, info: Mapping[str, Any]) -> None:
        """An INFO of the other end, once the link is up: other servers of the hub."""
        if self.servers is not None:
            self.servers.told(self.url, info, tls=self.tls is not None)
        before, self.listed = self.listed, listed(info)
        for callback in self.on_grown if self.listed - before else ():
            callback(self)

    @property
    def to_cluster(self) -> bool:
        """Whether the link leads to a cluster with JetStream. A leaf that is no cluster calls itself by its name, and a
        leafd has none of its streams in a cluster."""
        bind = self.bind
        return bind is not None and bind.cluster not in ("", bind.remote_name) and not bind.orderly

    @property
    def version(self) -> str:
        """The version of the server that dialled us, as its CONNECT says; empty for a server that we dialled."""
        accepted = self.machine.accepted if isinstance(self.machine, leaf.Acceptor) else None
        return str(accepted[0].get("version") or "") if accepted is not None else ""

    @property
    def program(self) -> str:
        """The version of the leafd that dialled us, as it says; empty for other programs and what is no version."""
        accepted = self.machine.accepted if isinstance(self.machine, leaf.Acceptor) else None
        said = str(accepted[0].get("leafd_version") or "")[:PROGRAM_MAX] if accepted is not None else ""
        return said if version_of(said) is not None else ""

    @property
    def user(self) -> str:
        """With whom the server that dialled us has logged in."""
        accepted = self.machine.accepted if isinstance(self.machine, leaf.Acceptor) else None
        return claimed_user(accepted[0]) if accepted is not None else ""

    @property
    def turned_out(self) -> bool:
        """Whether the hub refused the login, or ended the link for another one of the same name."""
        return is_refused(self.last_error) if self.bind is None else is_taken(self.last_error)

    @property
    def astray(self) -> bool:
        """Whether no hub has answered, but something else (a proxy, a portal), or one with which there is no TLS."""
        if self.bind is not None or self.closed is None or not isinstance(self.machine, leaf.Solicitor):
            return False
        return is_foreign(self.last_error) or (self.closed.reason == t.CloseReason.PROTOCOL and not self.machine.met)

    @property
    def ended_by(self) -> str:
        """The reason of its end, with advice where its owner can mend it."""
        if self.bind is not None and is_taken(self.last_error):
            return f"{self.last_error}: another machine has this server_name: was the disk of one of them copied?"
        return self.last_error

    def status(self) -> LinkStatus:
        """The status of a link that is up, or was."""
        bind = self.bind
        assert bind is not None
        return LinkStatus(
            self.connection,
            bind.remote_name,
            bind.account_name,
            self.peer,
            bind.spoke,
            bind.remote_domain,
            self.machine.compression,
            self.version,
            self.program,
            self.user,
            bind.isolated,
            self.box,
            self.servers.others if self.servers is not None else (),
        )

    @property
    def log_name(self) -> str:
        """The beginning of log lines about the link."""
        return f"{self.peer} - lid{'_ws' if self.web else ''}:{self.connection}"


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """One row of /leafz and of the status page."""

    connection: int
    name: str
    account: str
    peer: str
    spoke: bool
    remote_domain: str
    compression: str
    """As it was agreed upon; the level may be another by now."""
    version: str = ""
    """The version of the server that dialled us, as it says."""
    program: str = ""
    """The program's version, where a leafd dialled us."""
    user: str = ""
    """With whom it has logged in here, without what proves it."""
    isolated: bool = False
    """The link is not told what other links want."""
    box: str = ""
    """The key of the enrolled box that it is."""
    others: tuple[str, ...] = ()
    """The addresses at which the hub that we dialled is tried next."""


@dataclass(slots=True)
class RemoteStatus:
    """The status of a dialled hub, connected or not."""

    remote: leaf.Remote
    connected: bool = False
    attempts: int = 0
    """To dial it, since the last link. .."""
    hinted: int = 0
    """.. So many of them before there was news of the machine's ways."""
    ever: bool = False
    """The remote was connected before."""
    servers: HubServers = field(default_factory=lambda: HubServers(()))
    packets: Packets = field(default_factory=Packets)
    place: Place | None = None
    """The address that the last connection went to. .."""
    place_of: str = ""
    """.. By this address. .."""
    source: str = ""
    """.. The address of this machine that it began at. .."""
    echoes: bool = False
    """.. Its machine answers to echo requests."""
    last_error: str = ""
    told: set[str] = field(default_factory=set)
    """Why it could not be dialled, as far as the log has it since the last link."""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    """The scope of the task that keeps the link."""

    def linked(self, link: Link) -> None:
        """There is this link."""
        self.servers.linked(link.url)
        self.packets.logged_in(trio.current_time())
        self.connected = self.ever = True
        self.attempts = self.hinted = 0
        self.last_error = ""
        self.told.clear()

    def failed(self, why: str, told_each: int) -> bool:
        """An attempt has. Is it to be said? The first one is news, another reason is, and then one in a while; the rest
        would only wear out the disk."""
        self.last_error = why
        news = why not in self.told and len(self.told) < REASONS_MAX
        if news:
            self.told.add(why)
        return news or self.attempts == 1 or self.attempts % told_each == 0

    @property
    def account_name(self) -> str:
        """The account of the link at this end."""
        return self.remote.account_name

    @property
    def server(self) -> str:
        """The hub's server that the link goes to, as it was dialled; empty: there is no link."""
        return self.servers.linked_to if self.connected else ""

    @property
    def learned(self) -> tuple[str, ...]:
        """The servers that the hub tells of and the configuration does not name."""
        return self.servers.learned

    @property
    def urls(self) -> tuple[str, ...]:
        """The hub's addresses in the configuration; with its login."""
        return self.remote.urls


def status_of(remote: leaf.Remote) -> RemoteStatus:
    """The status of a hub that was not dialled yet."""
    servers = HubServers(remote.urls, in_order=remote.in_order, discovers=remote.discovers)
    return RemoteStatus(remote, servers=servers)


def age() -> Callable[[], int]:
    """How long ago this was called, in nanoseconds."""
    since = trio.current_time()
    return lambda: round((trio.current_time() - since) * 1e9)


async def first_of(event: trio.Event, scope: trio.CancelScope) -> None:
    """Ends the scope when that has happened."""
    await event.wait()
    scope.cancel()


async def either(one: trio.Event, other: trio.Event) -> None:
    """Until one of both has happened."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first_of, one, nursery.cancel_scope)
        nursery.start_soon(first_of, other, nursery.cancel_scope)


def who(link: Link, bind: leaf.Bind) -> tuple[object, ...]:
    """The key that no two links of those that dialled us share. A server that calls itself like another user's, or like
    a box, is not that one."""
    accepted = link.machine.accepted if isinstance(link.machine, leaf.Acceptor) else None
    user = accepted[1].user if accepted is not None else ""
    return link.box, user, bind.remote_name, bind.cluster, bind.account, bind.remote_account


def whole_of(box: str, domain: str, server_id: str) -> int:
    """A number for what is at the other end, whose links have one line (native/plane/trunk.h); 0: it is not known.

    What it has proven to be goes before what it says: one that says to be another box has no part of its line."""
    kinds = (("box", box), ("domain", domain), ("server", server_id))
    return next((peer_number(f"{kind} {name}") for kind, name in kinds if name), 0)


def verdict_of(link: Link, bind: leaf.Bind, ping_interval_ns: int) -> t.ConnVerdict:
    """A link that is bound, as the plane has to know it."""
    return t.ConnVerdict(
        flags=int(_flags_of(bind)),
        max_payload=bind.max_payload,
        max_subscriptions=bind.max_subscriptions,
        expires_wall_ns=bind.expires_wall_ns,
        ping_interval_ns=ping_interval_ns,
        domain=peer_number(bind.remote_domain) if bind.remote_domain else 0,
        whole=whole_of(link.box, bind.remote_domain, bind.remote_id),
    )


def _flags_of(bind: leaf.Bind) -> t.VerdictFlag:
    flags = t.VerdictFlag.HEADERS if bind.headers else t.VerdictFlag(0)
    for is_so, flag in (
        (bind.spoke, t.VerdictFlag.SPOKE),
        (bind.traces, t.VerdictFlag.TRACES),
        (bind.isolated, t.VerdictFlag.ISOLATED),
    ):
        if is_so:
            flags |= flag
    return flags


def spoken_with(remote: leaf.Remote, scheme: str) -> leaf.Remote:
    """How, at an address with that scheme. Over WebSocket TLS comes before all else, and what compresses is that."""
    if scheme in ("ws", "wss"):
        return replace(remote, tls_first=True, compression=UNCOMPRESSED)
    return replace(remote, tls=True) if scheme == "tls" else remote
