"""One leaf link as control knows it, in either direction, and a hub that is dialled. What becomes of them: leafs.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING

import trio

from leafd import native_types as t
from leafd.auth.connect import claimed_user
from leafd.links import leaf
from leafd.links.compression import UNCOMPRESSED
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.links.echo import Place
    from leafd.links.web import Asked


@dataclass(slots=True)
class Link:
    """One leaf connection, in either direction."""

    connection: int
    peer: str
    machine: leaf.Acceptor | leaf.Solicitor
    remote: leaf.Remote | None = None
    bind: leaf.Bind | None = None
    delay_s: float = 0.0
    last_error: str = ""
    host: str = ""
    """That we dialled."""
    asked: Asked | None = None
    """The request that a link over WebSocket began with."""
    web: bool = False
    """Over WebSocket."""
    tls: t.Secured | None = None
    """Its handshake, if it has TLS."""
    box: str = ""
    """The key of the enrolled box that it has proven to be, or to be the doctor of."""
    held: str = ""
    """What the budget of the other end lets go there (limits.py), as it says; empty: it says nothing."""
    opened_ns: int = field(default_factory=time.time_ns)
    closed: t.Closed | None = None
    """How it ended."""
    heard: trio.Event = field(default_factory=trio.Event)
    """The hub has said something."""
    up: trio.Event = field(default_factory=trio.Event)
    doubted: trio.Event = field(default_factory=trio.Event)
    """Nothing that is sent arrives any more, .."""
    settled: trio.Event = field(default_factory=trio.Event)
    """.. and then something does."""
    gone: trio.Event = field(default_factory=trio.Event)

    def doubt(self, *, doubted: bool) -> None:
        """What the plane sees of what is sent."""
        if doubted:
            self.settled = trio.Event()
            self.doubted.set()
        else:
            self.doubted = trio.Event()
            self.settled.set()

    @property
    def version(self) -> str:
        """Of the server that dialled us, as its CONNECT says; nothing of one that we dialled."""
        accepted = self.machine.accepted if isinstance(self.machine, leaf.Acceptor) else None
        return str(accepted[0].get("version") or "") if accepted is not None else ""

    @property
    def user(self) -> str:
        """With whom the server that dialled us has logged in."""
        accepted = self.machine.accepted if isinstance(self.machine, leaf.Acceptor) else None
        return claimed_user(accepted[0]) if accepted is not None else ""

    def status(self) -> LinkStatus:
        """Of a link that is up, or was."""
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
            self.user,
            bind.isolated,
            self.box,
        )

    @property
    def log_name(self) -> str:
        """What lines of the log begin with."""
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
    """Of the server that dialled us, as it says."""
    user: str = ""
    """With whom it has logged in here, without what proves it."""
    isolated: bool = False
    """It is not told what other links want."""
    box: str = ""
    """The key of the enrolled box that it is."""


@dataclass(slots=True)
class RemoteStatus:
    """What is known of a dialled hub, connected or not."""

    remote: leaf.Remote
    connected: bool = False
    attempts: int = 0
    """To dial it, since the last link. .."""
    hinted: int = 0
    """.. So many of them before there was news of the machine's ways."""
    ever: bool = False
    """It was connected before."""
    place: Place | None = None
    """Where the last connection went to. .."""
    echoes: bool = False
    """.. Its machine answers to echo requests."""
    last_error: str = ""
    told: set[str] = field(default_factory=set)
    """Why it could not be dialled, as far as the log has it since the last link."""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    """Of whoever keeps the link."""

    def linked(self) -> None:
        """There is a link."""
        self.connected = self.ever = True
        self.attempts = self.hinted = 0
        self.last_error = ""
        self.told.clear()

    @property
    def account_name(self) -> str:
        """The account of the link at this end."""
        return self.remote.account_name

    @property
    def urls(self) -> tuple[str, ...]:
        """Where it is dialled, in that order; with its login."""
        return self.remote.urls


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
    """What no two links of those that dialled us have in common. Whoever calls himself like a box is not the box."""
    return link.box, bind.remote_name, bind.cluster, bind.account, bind.remote_account


def flags_of(bind: leaf.Bind) -> t.VerdictFlag:
    """What the plane has to know of a link."""
    flags = t.VerdictFlag.HEADERS if bind.headers else t.VerdictFlag(0)
    for is_so, flag in (
        (bind.spoke, t.VerdictFlag.SPOKE),
        (bind.traces, t.VerdictFlag.TRACES),
        (bind.isolated, t.VerdictFlag.ISOLATED),
    ):
        if is_so:
            flags |= flag
    return flags


def over_web(remote: leaf.Remote) -> leaf.Remote:
    """TLS comes before all else there, and what compresses is WebSocket."""
    return replace(remote, tls_first=True, compression=UNCOMPRESSED)
