"""Addresses of hubs: an URL's parts, whose certificate a hub has to show, why it is not reached or refuses. Pure."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote, urlsplit

from leafd.quoting import quoted

DEFAULT_PORT: Final = 7422
HOST_MAX: Final = 253
"""The most characters of a name, by RFC 1035."""
UNREADABLE: Final = "INFO cannot be read"
"""The error of this end about a hub whose INFO is of another form."""
_CERTIFICATES: Final = "the peer's certificate is refused", "the peer says: "
"""How a handshake of TLS ends that will end so again."""


def split_url(url: str) -> tuple[str, int, str, str]:
    """nats-leaf://user:pass@host:port -> (host, port, user, password); a missing port is the leaf port."""
    parts = urlsplit(url if "://" in url else f"nats-leaf://{url}")
    return (
        parts.hostname or "localhost",
        parts.port or DEFAULT_PORT,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


def place_of(url: str) -> str:
    """Host and port alone, without the login, as an address is written."""
    host, port, _, _ = split_url(url)
    return host_port(host, port)


def host_port(host: str, port: int) -> str:
    """Both as an address is written."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def judged_place(text: str) -> str | None:
    """host:port of a list that another server tells, as an address is written. None: it is none that can be dialled."""
    host, colon, digits = text.strip().rpartition(":") if len(text) <= 2 * HOST_MAX else ("", "", "")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and 0 < int(digits) < 1 << 16):
        return None
    fits = _packed(bare, socket.AF_INET6) if bare != host else _packed(host, socket.AF_INET) or _is_name(host)
    return None if not fits or _nowhere(bare) else host_port(bare.lower(), int(digits))


def _is_name(host: str) -> bool:
    labels = host.split(".")
    return len(host) <= HOST_MAX and all(
        0 < len(one) <= 63 and one.isascii() and one.replace("-", "").replace("_", "").isalnum() for one in labels
    )


def _nowhere(host: str) -> bool:
    """Is it the address of everything, or of a group?"""
    four, six = _packed(host, socket.AF_INET), _packed(host, socket.AF_INET6)
    return bool(four and (four[0] == 0 or four[0] >= 224)) or bool(six and (not any(six) or six[0] == 0xFF))


def is_loopback(host: str) -> bool:
    """Does it mean the machine that says it?"""
    four, six = _packed(host, socket.AF_INET), _packed(host, socket.AF_INET6)
    if six[:12] == bytes(10) + b"\xff\xff":
        four = six[12:]
    return host.rstrip(".").lower() == "localhost" or four[:1] == b"\x7f" or six == bytes(15) + b"\1"


def dial_error(error: OSError) -> str:
    """Why there is no connection to a hub. Where several addresses were tried, what became of the first one."""
    found: BaseException = error
    while not (isinstance(found, OSError) and found.errno):
        inner = found.exceptions[0] if isinstance(found, BaseExceptionGroup) else found.__cause__
        if inner is None:
            return str(error)
        found = inner
    return str(found.strerror) if isinstance(found, socket.gaierror) else os.strerror(found.errno)


def is_refused(why: str) -> bool:
    """Whether a hub said by that text that it refuses a login."""
    return "authorization violation" in why.lower()


def is_taken(why: str) -> bool:
    """Whether a hub said by that text that another link of the same name has ended this one."""
    return "Duplicate Remote LeafNode Connection" in why


def is_foreign(why: str) -> bool:
    """Whether TLS ended by that text because one end does not accept the other."""
    return why.startswith(_CERTIFICATES)


def refusal_advice(why: str, *, astray: bool = False) -> str:
    """Advice about a hub's refusal, for the operator who can mend it. astray: it may be no hub that answers."""
    if is_refused(why):
        return (
            f"the hub refuses the login ({quoted(why)}): "
            "check user and password, or credentials, of this remote at both ends"
        )
    if why.startswith(UNREADABLE):
        return f"the hub's {quoted(why)}: is it a leaf listener of a NATS server?"
    if why.startswith("Server is busy"):
        return f"many log in at the hub at once ({quoted(why)})"
    if "authentication timeout" in why.lower():
        return f"{quoted(why)}: the hub waited in vain for our login"
    if is_foreign(why):
        return f"there is no TLS with the hub: {quoted(why)}"
    if astray:
        return f"no hub answers there, but something else or a proxy before it: {quoted(why)}"
    return f"the hub closed the connection: {quoted(why)}"


def certificate_name(host: str, urls: Iterable[str]) -> str:
    """Whose certificate a hub has to show: the host that was dialled; for an address the first name among the remote's
    hosts, if it has one, since certificates are rarely made out to addresses."""
    if not _is_address(host):
        return host
    return next((name for name in (split_url(url)[0] for url in urls) if not _is_address(name)), host)


def _is_address(host: str) -> bool:
    return bool(_packed(host, socket.AF_INET) or _packed(host, socket.AF_INET6))


def _packed(host: str, family: socket.AddressFamily) -> bytes:
    """The bytes of an address; none of what is no address of that family."""
    try:
        return socket.inet_pton(family, host)
    except (OSError, ValueError):
        return b""
