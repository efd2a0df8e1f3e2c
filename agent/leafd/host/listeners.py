"""Listening sockets: made here with errors an operator can act upon, then handed to the plane (or to monitoring).

Not here: sockets that systemd has made (socket_activation.py)."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from typing import Any, Final
from urllib.parse import urlsplit

from leafd.config.schema.gateway import gateway_address
from leafd.config.schema.leafnodes import LeafNodes
from leafd.config.schema.mqtt import mqtt_address
from leafd.config.schema.server import ServerConfig
from leafd.errors import StartError
from leafd.hostnames import for_resolver
from leafd.records import dataclass

BACKLOG: Final = 65535
"""As many as the kernel allows (net.core.somaxconn, 4,096 by default), as the reference has it. Where 10,000 boxes come
back at once and the queue is full, the kernel answers with cookies, and forgets whom it answered: such a box believes
that it is connected, and waits for an INFO until its patience ends."""
_KIND: Final = socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
ANYWHERE: Final = "0.0.0.0"
_ANYWHERE_6: Final = "::"
_SIOCGIFADDR: Final = 0x8915


CLIENT_LISTENER: Final = 1
LEAF_LISTENER: Final = 2
WEB_LISTENER: Final = 3
ROUTE_LISTENER: Final = 4
GATEWAY_LISTENER: Final = 5
MQTT_LISTENER: Final = 6
"""Their numbers in the plane."""


@dataclass(slots=True)
class Sockets:
    """The sockets that this server listens on. The plane owns the first two once they are handed over."""

    client: socket.socket
    leaf: socket.socket | None
    monitor: socket.socket | None
    web: socket.socket | None = None
    route: socket.socket | None = None
    gateway: socket.socket | None = None
    mqtt: socket.socket | None = None


_FOR: Final = {
    "client": "client connections",
    "leaf": "leaf connections",
    "monitor": "monitoring",
    "websocket": "WebSocket connections",
    "route": "route connections",
    "gateway": "gateway connections",
    "mqtt": "MQTT connections",
}


def bind_all(config: ServerConfig) -> Sockets:
    """Binds every listener, before anything else is touched: a second server on the same ports ends here. A listener
    that systemd has bound already is taken as it is. The clients' one of a member of a cluster does not listen yet:
    a client that finds it open takes the server for one that has joined (listen() opens it, and tells of the program
    that was first)."""
    every = {
        "client": config.client_address(),
        "leaf": config.leaf_address(),
        "monitor": config.monitor_address(),
        "websocket": config.web_address(),
        "route": config.cluster_address(),
        "gateway": gateway_address(config),
        "mqtt": mqtt_address(config),
    }
    wanted = {name: address for name, address in every.items() if address is not None}
    made: dict[str, socket.socket] = {}
    if "LISTEN_FDS" in os.environ:
        from leafd.host.socket_activation import assign, take

        made = assign(take(), wanted)
    try:
        for name, address in wanted.items():
            if name not in made:
                held = name == "client" and config.cluster is not None
                made[name] = bind(*address, _FOR[name], listens=not held)
    except Exception:
        for sock in made.values():
            sock.close()
        raise
    names = ("leaf", "monitor", "websocket", "route", "gateway", "mqtt")
    return Sockets(made["client"], *(made.get(name) for name in names))


def bind(host: str, port: int, what: str, *, listens: bool = True) -> socket.socket:
    """A listening socket, or one that is bound only. Port 0 and -1: any free port. what: for whom, in errors."""
    address = host or ANYWHERE
    if address in (ANYWHERE, _ANYWHERE_6) and (sock := _bind_both(max(port, 0), what, listens)) is not None:
        return sock
    try:
        named = for_resolver(address)
        found = socket.getaddrinfo(named, max(port, 0), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise StartError(f"{what}: {address!r} is no address: use a name or address of this machine") from error
    # A name that has both kinds of address is listened on at its IPv4 one, as the reference does.
    family, _, _, _, target = min(found, key=lambda one: one[0] != socket.AF_INET)
    return _bound(socket.socket(family, _KIND), target, f"{what}: cannot listen on {address}:{port}", listens)


def listen(sock: socket.socket) -> None:
    """Opens the clients' port that bind_all() has only bound. One that listens already goes on as it is."""
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        host, port = address_of(sock)
        try:
            sock.listen(BACKLOG)
        except OSError as error:
            raise StartError(f"{_FOR['client']}: cannot listen on {host}:{port}: {_advice(error)}") from error


def _bind_both(port: int, what: str, listens: bool) -> socket.socket | None:
    """All addresses of both kinds, as with the reference: what resolves localhost may try ::1 alone. None where this
    machine has no IPv6."""
    try:
        sock = socket.socket(socket.AF_INET6, _KIND)
    except OSError:
        return None
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return _bound(sock, (_ANYWHERE_6, port), f"{what}: cannot listen on {ANYWHERE}:{port}", listens)


def _bound(sock: socket.socket, target: tuple[Any, ...], what: str, listens: bool) -> socket.socket:
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Its connections inherit these, so the plane does without two system calls for each (native/net/listen.c).
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind(target)
        if listens:
            sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise StartError(f"{what}: {_advice(error)}") from error
    return sock


def _advice(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use: stop the other process or choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "the address does not belong to this machine: check the host"
    if error.errno == errno.EACCES:
        return "not permitted: ports below 1024 need CAP_NET_BIND_SERVICE"
    return error.strerror or str(error)


def reachable(host: str) -> list[str]:
    """The addresses under which others reach a listener: of a wildcard, those of every interface but loopback."""
    if host not in (ANYWHERE, _ANYWHERE_6):
        return [host]
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Not if_nameindex(): it needs a netlink socket, which the unit's sandbox does not allow.
        for name in _interfaces():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # An interface without an IPv4 address.
            address = socket.inet_ntoa(answer[20:24])
            if not address.startswith("127."):
                found.append(address)
    return found or ["127.0.0.1"]


def advertised(text: str, port: int) -> tuple[str, int]:
    """host or host:port as the configuration advertises it; port: of the listener."""
    parts = urlsplit(f"//{text}")
    return parts.hostname or "", parts.port or port


def leaf_place(leafnodes: LeafNodes | None, host: str, port: int) -> tuple[str, int]:
    """The address at which leaves are told to reach a leaf listener on that address."""
    if leafnodes is not None and leafnodes.advertise:
        return advertised(leafnodes.advertise, port)
    return reachable(host)[0], port


def _interfaces() -> list[str]:
    try:
        return sorted(os.listdir("/sys/class/net"))
    except OSError:
        return []


def address_of(sock: socket.socket) -> tuple[str, int]:
    """Host and port that a socket is bound to; all addresses are 0.0.0.0, of whichever kind."""
    name = sock.getsockname()
    return (ANYWHERE if name[0] == _ANYWHERE_6 else str(name[0])), int(name[1])
