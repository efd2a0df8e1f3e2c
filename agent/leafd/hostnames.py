"""Names of machines, as a resolver takes them.

Python puts a text into the alphabet of DNS first, by tables that take 0.1 MB and stay. Nearly every name is in that
alphabet already, and is handed over as bytes, which need no table.
Not here: the lookup itself (links/dialling.py, host/listeners.py).
"""

from __future__ import annotations

from typing import Final

LABEL_MAX: Final = 63
"""The most characters between two dots, by RFC 1035."""


def for_resolver(host: str) -> bytes | str:
    """The host as getaddrinfo() takes it: text only where it has letters that DNS has not."""
    return host.encode() if host.isascii() else host


def resolvable(host: str) -> bool:
    """Whether a resolver takes the host at all: no label is empty or too long. A dot may be at the end."""
    if not host.isascii():
        try:
            return bool(host.encode("idna"))
        except UnicodeError:
            return False
    labels = host.removesuffix(".").split(".")
    return all(0 < len(label) <= LABEL_MAX for label in labels)
