"""Listening sockets that systemd has opened for us (socket activation), and which of our listeners each of them is.

    LISTEN_FDS, LISTEN_FDNAMES --take()--> [Handed] --assign()--> {"client": socket, ...}

A socket is the listener whose configured address it is bound to; else the one that it is named after
(FileDescriptorName=). Loaded only where there are such sockets. Not here: listeners that we open
ourselves (listeners.py).
"""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final

from leafd.errors import ConfigError
from leafd.quoting import printable
from leafd.records import dataclass

FIRST: Final = 3
MOST: Final = 64
Address = tuple[str, int]
_VARIABLES: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


@dataclass(frozen=True, slots=True)
class Handed:
    """One of them."""

    number: int
    name: str
    socket: socket.socket

    def __str__(self) -> str:
        host, port = self.socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        return f"descriptor {self.number} ({printable(self.name, 40)}, {shown}:{port})"


def take(environment: MutableMapping[str, str] | None = None) -> list[Handed]:
    """The sockets that were handed to this process, once. Raises ConfigError for one that is no listening TCP
    socket."""
    env = os.environ if environment is None else environment
    pid, count, names = (env.pop(name, "") for name in _VARIABLES)
    if pid != str(os.getpid()) or not count.isdigit():
        return []
    if int(count) > MOST:
        raise ConfigError(f"systemd handed over {count} sockets: at most {MOST} are looked at")
    called = names.split(":") if names else []
    return [
        Handed(FIRST + number, called[number] if number < len(called) else "unknown", _listening(FIRST + number))
        for number in range(int(count))
    ]


def _listening(number: int) -> socket.socket:
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            raise ConfigError(f"descriptor {number} of systemd is no socket: use ListenStream= with a port")
        found = socket.socket(fileno=number)
    except OSError as error:
        raise ConfigError(f"descriptor {number} of systemd cannot be used: {error.strerror or error}") from error
    listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type != socket.SOCK_STREAM or not listens:
        raise ConfigError(
            f"descriptor {number} of systemd is no listening TCP socket: use ListenStream=ADDRESS:PORT and Accept=no"
        )
    found.setblocking(False)
    found.set_inheritable(False)
    return found


def assign(handed: Iterable[Handed], wanted: Mapping[str, Address]) -> dict[str, socket.socket]:
    """For each listener that has one its socket. wanted: the listeners of the configuration. Raises ConfigError."""
    found: dict[str, Handed] = {}
    for one in handed:
        name = next((name for name, address in wanted.items() if _is_bound_to(one.socket, address)), one.name)
        if name not in wanted:
            listeners = ", ".join(f"{known} ({host or '0.0.0.0'}:{port})" for known, (host, port) in wanted.items())
            raise ConfigError(
                f"{one} of systemd is none of the configuration's listeners: {listeners}; correct ListenStream= or "
                "FileDescriptorName= in the .socket unit, or the configuration"
            )
        if name in found:
            raise ConfigError(
                f"{found[name]} and {one} of systemd are both for {name}: a listener has one socket "
                "(ListenStream=PORT takes IPv4 and IPv6)"
            )
        found[name] = one
    return {name: one.socket for name, one in found.items()}


def _is_bound_to(sock: socket.socket, address: Address) -> bool:
    host, port = sock.getsockname()[:2]
    if port != address[1]:
        return False
    bound = _plain(host)
    try:
        found = socket.getaddrinfo(address[0] or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        return False
    meant = {_plain(str(one[4][0])) for one in found}
    return bound in meant or (bound.is_unspecified and any(one.is_unspecified for one in meant))


def _plain(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(host)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
