"""How a TCP connection to a hub comes about: directly, or through a tunnel of an HTTP proxy.

    hub                         connect(hub)
    proxy, then hub             connect(proxy), CONNECT hub:port, 200: bytes from here on are the hub's

A hub without an answer is asked again by the kernel, which sends the first packet (60 bytes) once more:

    attempt    1      2       3       4 .. 6    7        8        9, 10      11 ..
    lasts      5 s    10 s    20 s    60 s      300 s    600 s    1200 s     1200 s
    asks       at 0, 1, 2, 3, 4 s, then further apart, up to each ..
               8 s    8 s     8 s     4 s       8 s      14 s     23 s       12 s

That is some 18 KB in the first hour, and up to 2 more of what the lost link sent again; 19 in each other one. A contact
may begin at any time; the longer none has, the longer is the outage likely to last, so in the first hour the time
between two packets grows about as the root of what has passed. A hub of several servers has four short
attempts, since the next one may answer. Then none does, and a long attempt goes to two of them at once, or to two
addresses of one name. Their packets come by turns, half as far apart as those to one again: an hour costs no more.
When the machine has another address or route, ways.py dials anew, since these packets keep the address
that they began with.

Where the hub's machine has answered to an echo request while there was a link (echo.py), a request of 28 bytes finds a
contact as well, and in attempts 4 and on most packets are requests:

    attempt    4        5, 6      7 ..
    lasts      300 s    1800 s    1800 s
    request    each     each      each
               6 s      8 s       6.2 s
    dial       at 0, 1, 2, 3, 4 s, then further apart, up to each 100 s: what answered once may answer no longer

A name may not be resolved while nothing gets through. Then the hub is dialled where it was last.

The tunnel is that of RFC 9110, 9.3.6. The hub may speak first, so nothing behind the proxy's answer may be read here.
Not here: the loop that dials (leafs.py), what is said to the hub.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import trio

from leafd.config.schema.base import SECOND
from leafd.hostnames import for_resolver
from leafd.links.addresses import dial_error, host_port
from leafd.links.echo import Address, Place
from leafd.quoting import quoted
from leafd.records import dataclass
from leafd.web_head import NoHttp, read_head

if TYPE_CHECKING:
    from leafd.config.schema.leafnodes import LeafRemote

DIAL_S: Final = (5.0, 10.0, 20.0)
"""How long the connection to a hub may take where the configuration says nothing, one attempt after the other: the
first finds out soon that a hub is not there, the last gets through at a round trip of seconds."""
AGAIN_S: Final = 8.0
SOON_S: Final = 1.0
"""In a short attempt at several addresses in small packets: about so far apart, the first packets of two."""
STEADY: Final = ((60.0, 4.0),) * 3 + ((300.0, 8.0), (600.0, 14.0)) + ((1200.0, 23.0),) * 2 + ((1200.0, 12.0),)
"""After these, where nothing else is to be tried: how long, and how far apart its packets are at most; the last for
ever. A contact after minutes is used within seconds; a night without a signal costs little."""
ECHOING: Final = ((300.0, 6.0), *((1800.0, 8.0),) * 2, (1800.0, 6.2))
"""The same where echo requests find a contact: how long, and how far apart these are."""
TOGETHER_MAX: Final = 2
"""Servers that are dialled at once, .."""
SHORT: Final = len(DIAL_S) + 1
""".. after so many short attempts."""
BESIDE_ECHO_S: Final = 100.0
"""So far apart are the packets of the dial itself, then."""
ASKED_MAX: Final = 127
"""First packets of one attempt, at most: its time ends it."""
TCP_RTO_MAX_MS: Final = 44
"""An option of the kernel, since 6.15. An older one doubles the time between two packets without end: there no attempt
is longer than 20 s."""
HANDSHAKE_AGAIN_MS: Final = 8_000
"""Until a link is up either end sends what was lost again after that time. The kernel would wait for three round trips
at first, and then twice as long each time: at 5 s two losses are 45 s. Afterwards native/plane/window.c says when."""
TCPI_RTT_AT: Final = 68
"""The offset of the round trip in struct tcp_info, in microseconds."""
HEAD_MAX: Final = 16 << 10
# A dead peer is found by the kernel after this long even when nothing is sent (half-open links after a power cut); once
# the link is up, native/plane/window.c says how long.
USER_TIMEOUT_MS: Final = 60_000
KEEPALIVE_IDLE_S: Final = 20
KEEPALIVE_INTERVAL_S: Final = 10


@dataclass(frozen=True, slots=True)
class Proxy:
    """The HTTP proxy that a hub is dialled through."""

    host: str
    port: int
    user: str = ""
    password: str = ""
    seconds: float = 0.0
    """How long the connection and the tunnel may take; 0: as long as a dial."""


def proxy_of(remote: LeafRemote) -> Proxy | None:
    """The one that the configuration names."""
    block = remote.proxy
    if block is None:
        return None
    parts = urlsplit(block.url)
    return Proxy(parts.hostname or "", parts.port or 0, block.username, block.password, block.timeout / SECOND)


class NoTunnel(Exception):
    """The proxy lets nobody through; the text says why."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an attempt may take, and how it goes on meanwhile."""

    seconds: float
    several_s: float
    """The same where the hub has several addresses."""
    again_s: float = AGAIN_S
    """The hub is asked again at least so often."""
    echo_s: float = 0.0
    """Its machine is asked so often whether anything reaches it. 0: it is not."""
    together: int = 1
    """So many servers are dialled at once, their packets by turns."""
    packet: int = 0
    """Bytes in a full packet of the connection, both ways, at most. 0: as many as the kernel has."""


def patience(configured_s: float, attempt: int, *, servers: int = 1, echoes: bool = False) -> Patience:
    """The patience for the attempt of that number, from 1 on. servers: how many the hub has. echoes: the hub's machine
    is known to answer to echo requests."""
    if configured_s:
        return Patience(configured_s, configured_s)
    several_s = DIAL_S[(attempt - 1) % len(DIAL_S)]
    together = min(servers, TOGETHER_MAX)
    short = len(DIAL_S) if servers == 1 else SHORT
    if attempt <= short:
        return Patience(several_s, several_s)
    number = attempt - short - 1
    if echoes:
        seconds, echo_s = ECHOING[min(number, len(ECHOING) - 1)]
        return Patience(seconds, several_s, BESIDE_ECHO_S, echo_s)
    seconds, again_s = STEADY[min(number, len(STEADY) - 1)]
    return Patience(seconds, several_s, again_s, together=together)


async def connect(
    host: str, port: int, proxy: Proxy | None, patience: Patience, last: Place | None = None
) -> trio.SocketStream:
    """A connection to a hub. last: where the last one went to. Raises OSError, NoTunnel, and trio.TooSlowError after
    that time."""
    if proxy is not None and proxy.seconds:
        patience = Patience(proxy.seconds, proxy.seconds, packet=patience.packet)
    with trio.fail_after(patience.seconds) as limit:
        if proxy is None:
            return await _reached(host, port, patience, limit, last)
        try:
            stream = await _reached(proxy.host, proxy.port, patience, limit, last)
        except OSError as error:
            raise NoTunnel(f"the proxy {proxy.host}:{proxy.port} is not reached: {dial_error(error)}") from error
        try:
            await stream.send_all(request(host, port, proxy))
            judge(await _head(stream))
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, trio.BrokenResourceError):
                raise NoTunnel("the proxy closed the connection") from error
            raise
        return stream


async def _places(host: str, port: int, patience: Patience, last: Place | None) -> list[Place]:
    """The addresses of the host; the last one used, if the name is not resolved within half of the time of a short
    attempt."""
    with trio.move_on_after(patience.several_s / 2 if last is not None else patience.seconds):
        try:
            found = await trio.socket.getaddrinfo(for_resolver(host), port, type=socket.SOCK_STREAM)
            return _both_families([(one[0], cast(Address, one[4])) for one in found])
        except socket.gaierror as error:
            if last is None or error.errno != socket.EAI_AGAIN:
                raise
    return [last] if last is not None else []


def _both_families(places: list[Place]) -> list[Place]:
    """The same, the first of the other family moved up to the second: where IPv6 leads nowhere, two addresses that are
    dialled together must not be both of it."""
    other = next((place for place in places if place[0] != places[0][0]), None)
    return places if other is None else [places[0], other, *(one for one in places[1:] if one != other)]


async def _reached(
    host: str, port: int, patience: Patience, limit: trio.CancelScope, last: Place | None
) -> trio.SocketStream:
    soon_s = min(limit.deadline, trio.current_time() + patience.several_s)
    places = await _places(host, port, patience, last)
    if len(places) > 1 and patience.seconds > patience.several_s:
        return (await _race(places, patience, limit))[0]
    if len(places) > 1 and patience.packet:
        limit.deadline = soon_s
        return (await _race(places, replace(patience, again_s=SOON_S), limit))[0]
    if len(places) != 1:
        limit.deadline = soon_s
        stream = await trio.open_tcp_stream(host, port)
        hurry(stream.socket)
        return stream
    return await _asked(places[0], patience, limit, soon_s)


async def _asked(place: Place, patience: Patience, limit: trio.CancelScope, soon_s: float) -> trio.SocketStream:
    family, address = place
    sock = trio.socket.socket(family, socket.SOCK_STREAM)
    try:
        if patience.packet:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, patience.packet)
        if not _ask_again_each(sock, round(patience.again_s * 1000)) and not patience.echo_s:
            limit.deadline = soon_s
        await sock.connect(address)
    except BaseException:
        sock.close()
        raise
    hurry(sock)
    return trio.SocketStream(sock)


async def connect_first(
    hosts: Sequence[tuple[str, int]], patience: Patience, last: Place | None = None
) -> tuple[trio.SocketStream, int]:
    """A connection to the first of several servers that answers, and which one. last: where the last one went to, if
    that was the first of them. Raises as connect() does."""
    error: OSError | None = None
    with trio.fail_after(patience.seconds) as limit:
        places: list[Place] = []
        which: list[int] = []
        for number, host in enumerate(hosts):
            try:
                found = await _places(*host, patience, None if number else last)
            except OSError as unknown:
                error = unknown
            else:
                places += found
                which += [number] * len(found)
        if error is not None and not places:
            raise error
        stream, turn = await _race(places, patience, limit)
        return stream, which[turn]


async def _race(places: Sequence[Place], patience: Patience, limit: trio.CancelScope) -> tuple[trio.SocketStream, int]:
    """The first of several places that answers, and its number. Raises OSError when none will."""
    found: list[tuple[trio.SocketStream, int]] = []
    errors: list[OSError] = []
    together = min(len(places), TOGETHER_MAX)
    # The first packets of each, a second apart, have to be made up for.
    each = replace(patience, again_s=patience.again_s * together * (1 + together) / 2)

    async def dial(number: int) -> None:
        await trio.sleep(number * each.again_s / together)
        soon_s = min(limit.deadline, trio.current_time() + patience.several_s)
        try:
            stream = await _asked(places[number], each, limit, soon_s)
        except OSError as error:
            errors.append(error)
            limit.deadline = min(limit.deadline, soon_s)  # something answers: so would another one that is there
        else:
            found.append((stream, number))
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for number in range(together):
            nursery.start_soon(dial, number)
    for stream, _ in found[1:]:
        await trio.aclose_forcefully(stream)
    if found:
        return found[0]
    raise errors[0] if errors else OSError(errno.ETIMEDOUT, "no answer")


def hurry(sock: socket.socket | trio.socket.SocketType) -> None:
    """A handshake over this connection, or over those that this listener takes, goes on soon after a loss, where the
    kernel can be told so."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, HANDSHAKE_AGAIN_MS)


def _ask_again_each(sock: trio.socket.SocketType, most_ms: int) -> bool:
    """The kernel sends what had no answer again after that time at the latest. False: it cannot be told."""
    try:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, most_ms)
    except OSError:
        return False
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, ASKED_MAX)
    return True


def request(host: str, port: int, proxy: Proxy) -> bytes:
    """The request to the proxy."""
    place = host_port(host, port)
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.user:
        login = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {login}")
    return "\r\n".join((*lines, "", "")).encode()


def judge(head: bytes) -> None:
    """Is this an answer that opens the tunnel? Raises NoTunnel."""
    try:
        version, status, reason = read_head(head).first
    except NoHttp:
        version, status, reason = "", "", ""
    if not version.startswith("HTTP/"):
        raise NoTunnel(f"the proxy does not answer as an HTTP proxy does: {quoted(head[:64].decode('latin-1'))}")
    if status == "407":
        raise NoTunnel("the proxy wants a login (407): set username and password in the remote's proxy block")
    if not status.startswith("2"):
        raise NoTunnel(f"the proxy refuses the connection to the hub: {quoted(f'{status} {reason}'.strip())}")


async def _head(stream: trio.SocketStream) -> bytes:
    head = bytearray()
    while not head.endswith(b"\r\n\r\n"):
        some = await stream.receive_some(1)
        head += some
        if not some:
            raise NoTunnel("the proxy closed the connection")
        if len(head) > HEAD_MAX:
            raise NoTunnel("the head of the proxy's answer has no end")
    return bytes(head)


def watch_over(sock: trio.socket.SocketType) -> float:
    """Small messages go at once, and a peer that has gone without a word is found out. Returns the round trip in
    seconds, as the connection came about; 0: not known."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    return round_trip_s(sock)


def round_trip_s(sock: trio.socket.SocketType) -> float:
    """The round trip of a connection, in seconds; 0: not known."""
    seen = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCPI_RTT_AT + 4)
    return int.from_bytes(seen[TCPI_RTT_AT:], sys.byteorder) / 1e6
