"""The steps that the connections of routes and of gateways have in common: how they begin, how long they may take to
log in, how they are dialled.

    listener --Opened----------------------------> accepted --+
    address  --dialled---> adopt(fd) --Opened----> adopted  --+--> Machine --its actions--> plane, until it has joined
                                                              +--> deadline: Authentication Timeout

The plane tells of a connection that this server dialled before adopt() returns its number: events wait until then.
Logins at a time, attempts to dial and reasons kept for the log are bounded in number. Not here: the
handshakes (route.py, gateway.py), who is dialled, what follows joining (routes.py, gateways.py).
"""

from __future__ import annotations

import random
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.hostnames import for_resolver
from leafd.links.addresses import dial_error
from leafd.links.dialling import DIAL_S, hurry, watch_over
from leafd.links.handshake import Close
from leafd.links.leaf import Resume, Send
from leafd.native_commands import Commands
from leafd.operator_log import Log
from leafd.quoting import quoted

AGAIN_S: Final = 1.0
AGAIN_MAX_S: Final = 30.0
APART_S: Final = 0.1
"""Both ends dial: they do not dial again at the same moment, which could cost both connections once more, .."""
APART_TRIPS: Final = 2.0
""".. nor within as many round trips: what one has dialled the other hears of a round trip and a half later."""
LOGINS_MAX: Final = 128
"""Handshakes at a time of servers that dial this one; one more, and the oldest that has not logged in ends."""
DIALS_MAX: Final = 16
"""Connections that are being made at a time to servers that others told of."""
REASONS_MAX: Final = 64
"""Reasons that are kept; some have words of the other side's choosing."""
AUTHENTICATION_TIMEOUT: Final = "Authentication Timeout"
HEADERS_MAX: Final = 64 << 10
"""Bytes that servers on the way may add to a message."""
Addressed = t.Line | t.Closed | t.LeafError | t.LeafInfo | t.Secured
"""Events of one connection."""


class Terms(Protocol):
    """How connections of one kind are made."""

    @property
    def login_s(self) -> float: ...
    @property
    def accepts(self) -> t.Secure | None: ...
    @property
    def reports(self) -> tuple[int, int]: ...


class Machine(Protocol):
    """This server's end of a handshake."""

    @property
    def joined(self) -> bool: ...
    @property
    def connected(self) -> bool: ...
    def opened(self) -> Sequence[object]: ...
    def line(self, kind: int, payload: bytes) -> Sequence[object]: ...


class Link(Protocol):
    """One connection with another server."""

    why: str
    """The reason that ends the connection."""

    @property
    def connection(self) -> int: ...
    @property
    def machine(self) -> Machine: ...
    @property
    def done(self) -> trio.Event: ...
    @property
    def dialled(self) -> bool: ...
    @property
    def log_name(self) -> str: ...


LinkT = TypeVar("LinkT", bound=Link)
TermsT = TypeVar("TermsT", bound=Terms)


class Servers(ABC, Generic[LinkT, TermsT]):
    """Owner of all connections of one kind. `handle` takes the plane's events of them."""

    KIND: t.ConnKind
    NAME: str
    """In the log: "route"."""

    def __init__(self, plane: Commands, terms: TermsT, log: Log, guard: Guard | None) -> None:
        self._plane = plane
        self._terms = terms
        self._log = log
        self._guard = guard or Guard()
        self._links: dict[int, LinkT] = {}
        self._early: dict[int, list[Addressed]] = {}
        self._refused: dict[str, int] = {}
        """Why connections ended before they were of use, and how often, since the last one that was."""
        self._slots = trio.Semaphore(DIALS_MAX)
        self._nursery: trio.Nursery | None = None
        self._leaving = False

    @abstractmethod
    def _welcomed(self, event: t.Opened) -> LinkT:
        """The link of another server that has dialled this one."""

    @abstractmethod
    def _told(self, link: LinkT, payload: bytes) -> None:
        """The peer's INFO after it has joined; b"": its first PONG."""

    @abstractmethod
    def _do(self, link: LinkT, action: object) -> None:
        """An action that only machines of this kind ask for."""

    @abstractmethod
    def _complain(self, link: LinkT) -> None:
        """The plane ends the link, for the reason `why`: the log's line."""

    @abstractmethod
    def _closed(self, link: LinkT, event: t.Closed) -> None:
        """The link is gone, and is no longer among the links."""

    def log_name(self, connection: int) -> str | None:
        """The beginning of log lines about a connection; None: it is not of this kind."""
        link = self._links.get(connection)
        return link.log_name if link is not None else None

    # ---- events of the plane

    def handle(self, event: t.Event) -> bool:
        """Takes an event if it is of this kind; False when it is not. What goes wrong with it in a way that nobody
        foresaw costs that connection."""
        try:
            return self._handle(event)
        except Exception as error:
            self._guard.caught(f"a {self.NAME}'s conversation", error)
            if isinstance(event, t.Opened | t.Line | t.LeafError | t.LeafInfo):
                self._plane.close_connection(event.connection, "", t.CloseReason.PROTOCOL)
            return True

    def _handle(self, event: t.Event) -> bool:
        match event:
            case t.Opened() if event.kind == self.KIND:
                if event.listener == 0:
                    self._early.setdefault(event.connection, [])
                else:
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

    def _of(self, link: LinkT, event: Addressed) -> None:
        match event:
            case t.Line():
                self._act(link, link.machine.line(event.kind, event.payload))
            case t.LeafInfo():
                self._told(link, event.payload)
            case t.LeafError():
                link.why = quoted(event.text)
                self._complain(link)
            case t.Secured():
                self._log.debug(f"{link.log_name} - TLS handshake complete: {event.cipher}, {event.size} bytes")
            case t.Closed():
                del self._links[link.connection]
                link.done.set()
                self._closed(link, event)

    def _accepted(self, event: t.Opened) -> None:
        waiting = [one for one in self._links.values() if not (one.machine.joined or one.dialled or one.why)]
        link = self._links[event.connection] = self._welcomed(event)
        if len(waiting) >= LOGINS_MAX:
            # A peer that says nothing could keep everybody else out, for as long as a login over a slow line may take.
            ends = next((one for one in waiting if not one.machine.connected), link)
            ends.why = "too many servers log in at a time"
            self._plane.close_connection(ends.connection, "", t.CloseReason.LIMIT)
            if ends is link:
                return
        self._begin(link, self._terms.accepts)
        if self._nursery is not None:
            self._nursery.start_soon(self._hurry, link, self._terms.login_s)

    def _begin(self, link: LinkT, secure: t.Secure | None, name: str = "") -> None:
        said = link.machine.opened()
        if secure is None:
            self._act(link, said)
            return
        behind = b"".join(one.frame for one in said if isinstance(one, Send))
        self._plane.secure(link.connection, secure, behind=behind, name=name)

    async def _hurry(self, link: LinkT, seconds: float) -> None:
        """Ends the silence of a connection that does not log in in time. What it has said counts, though nobody has
        looked at it yet: the plane knows, and it is asked again when as much time is over."""
        while not link.done.is_set():
            with trio.move_on_after(seconds):
                await link.done.wait()
                return
            self._plane.end_silence(link.connection, AUTHENTICATION_TIMEOUT)

    def _act(self, link: LinkT, actions: Iterable[object]) -> None:
        for action in actions:
            match action:
                case Send(said):
                    self._plane.send(link.connection, said)
                case Resume():
                    self._plane.resume(link.connection)
                case Close(why, reason, told):
                    link.why = why
                    self._plane.close_connection(link.connection, why if told else "", reason)
                case _:
                    self._do(link, action)

    def _is_news(self, why: str) -> bool:
        """The first refusal is, another reason is, and then one in a while: it may be asked for each second."""
        if why not in self._refused and len(self._refused) >= REASONS_MAX:
            return False
        self._refused[why] = self._refused.get(why, 0) + 1
        return self._refused[why] % self._terms.reports[0] == 1

    # ---- dialling

    async def _adopted(self, stream: trio.SocketStream, secure: t.Secure | None) -> tuple[int, float]:
        """The number of a connection that was made, and its round trip in seconds."""
        sock = stream.socket
        hurry(sock)
        trip_s = watch_over(sock)
        with trio.CancelScope(shield=True):  # a connection that nobody waits for would belong to nobody
            number = await self._plane.adopt(sock.detach(), self.KIND, secure=secure is not None, web=False)
        return number, trip_s

    def _dialled(self, link: LinkT, secure: t.Secure | None, name: str) -> None:
        """Takes up the plane's events about a dialled connection that came meanwhile."""
        self._links[link.connection] = link
        self._begin(link, secure, name)
        for event in self._early.pop(link.connection, []):
            self.handle(event)


class Pauses:
    """Between attempts to dial: about a second, or each twice as long as the one before."""

    def __init__(self, *, doubling: bool) -> None:
        self._doubling = doubling
        self._next_s = AGAIN_S

    async def rest(self) -> None:
        """Sleeps until the next attempt, each time about twice as long where the pause doubles."""
        await trio.sleep(self._next_s * random.uniform(0.75, 1.25))
        if self._doubling:
            self._next_s = min(2 * self._next_s, AGAIN_MAX_S)


async def addresses_of(host: str, port: int) -> list[str]:
    """Each once, in the order of the answer."""
    found = await trio.socket.getaddrinfo(for_resolver(host), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def dial_s(attempt: int) -> float:
    """How long the attempt of that number may take, from 1 on."""
    return DIAL_S[(attempt - 1) % len(DIAL_S)]


def apart_s(trip_s: float) -> float:
    """How long this end waits before it dials again, besides what it waits in any case. trip_s: the round trip."""
    return random.uniform(0, max(APART_S, APART_TRIPS * trip_s))


def failed(error: OSError | trio.TooSlowError) -> str:
    """Why an attempt to dial came to nothing."""
    return "no answer in time" if isinstance(error, trio.TooSlowError) else dial_error(error)
