"""How a TCP connection to a hub comes about: directly, or through a tunnel of an HTTP proxy.

    hub                         connect(hub)
    proxy, then hub             connect(proxy), CONNECT hub:port, 200: bytes from here on are the hub's

The tunnel is that of RFC 9110, 9.3.6. The hub may speak first, so nothing behind the proxy's answer may be read here.
What does not live here: the loop that dials (leafs.py), what is said to the hub.
"""

from __future__ import annotations

import base64
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import trio

from leafd.config.schema.base import SECOND
from leafd.links.addresses import dial_error, host_port
from leafd.quoting import quoted
from leafd.records import dataclass
from leafd.web_head import NoHttp, read_head

if TYPE_CHECKING:
    from leafd.config.schema.leafnodes import LeafRemote

DIAL_S: Final = (5.0, 10.0, 20.0)
"""How long the connection to a hub may take where the configuration says nothing, one attempt after the other: the
first finds out soon that a hub is not there, the last gets through at a round trip of seconds."""
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


def patience_s(configured_s: float, attempt: int) -> float:
    """How long the attempt of that number, from 1 on, may take."""
    return configured_s or DIAL_S[(attempt - 1) % len(DIAL_S)]


async def connect(host: str, port: int, proxy: Proxy | None, seconds: float) -> trio.SocketStream:
    """A connection to a hub. Raises OSError, NoTunnel, and trio.TooSlowError after that time."""
    with trio.fail_after(seconds if proxy is None else proxy.seconds or seconds):
        if proxy is None:
            return await trio.open_tcp_stream(host, port)
        try:
            stream = await trio.open_tcp_stream(proxy.host, proxy.port)
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


def request(host: str, port: int, proxy: Proxy) -> bytes:
    """What the proxy is asked for."""
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


def watch_over(sock: trio.socket.SocketType) -> None:
    """Small messages go at once, and a peer that has gone without a word is found out."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
