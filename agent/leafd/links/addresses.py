"""Addresses of hubs: an URL's parts, and whose certificate a hub has to show. Pure."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote, urlsplit

DEFAULT_PORT: Final = 7422


def split_url(url: str) -> tuple[str, int, str, str]:
    """nats-leaf://user:pass@host:port -> (host, port, user, password); a missing port is the leaf port."""
    parts = urlsplit(url if "://" in url else f"nats-leaf://{url}")
    return (
        parts.hostname or "localhost",
        parts.port or DEFAULT_PORT,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


def certificate_name(host: str, urls: Iterable[str]) -> str:
    """Whose certificate a hub has to show: the host that was dialled; for an address the first name among the remote's
    hosts, if it has one, since certificates are rarely made out to addresses."""
    if not _is_address(host):
        return host
    return next((name for name in (split_url(url)[0] for url in urls) if not _is_address(name)), host)


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False
