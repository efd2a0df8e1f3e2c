"""Listeners that take anybody: others can reach them, and no user is configured who would have to log in; of routes
and gateways, that neither a login nor a certificate is asked for.

Not here: who is let in at the end (auth/policy.py), where it is said: a check and the log (load.py), the
reports (monitor/reports.py).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from leafd.config.schema.cluster import Cluster
from leafd.config.schema.gateway import Gateway
from leafd.config.schema.server import ServerConfig
from leafd.records import dataclass

_EVERYWHERE: Final = ("", "0.0.0.0", "::", "[::]")


@dataclass(frozen=True, slots=True)
class OpenListener:
    """One of them. key: its place in the configuration."""

    key: tuple[str, ...]
    text: str


def open_listeners(server: ServerConfig) -> tuple[OpenListener, ...]:
    """The listeners of a configuration that admit anybody."""
    return (*(_found(server) if _knows_nobody(server) else ()), *_routes(server), *_gateways(server))


def _knows_nobody(server: ServerConfig) -> bool:
    """Whether there is no user, no token, and nobody else who judges a login."""
    own = server.authorization
    judged = own is not None and bool(own.users or own.user or own.token or own.auth_callout)
    return not server.operated and not judged and not any(one.users for one in server.accounts.values())


def _found(server: ServerConfig) -> Iterator[OpenListener]:
    host, port = server.client_address()
    if port and not _is_own(host):
        yield OpenListener(
            ("listen" if server.listen is not None else "port",),
            f"clients at {_shown(host, port)} need no login: add users (authorization), or listen: 127.0.0.1:{port}",
        )
    for key, who, block in (("websocket", "WebSocket", server.websocket), ("mqtt", "MQTT", server.mqtt)):
        place = block.address() if block is not None else None
        if block is None or place is None or _is_own(place[0]):
            continue
        own = block.authorization
        if not block.no_auth_user and (own is None or not (own.user or own.token)):
            yield OpenListener((key,), f"{who} clients at {_shown(*place)} need no login: add users (authorization)")
    leaf = server.leaf_address()
    if leaf is not None and server.leafnodes is not None and not _is_own(leaf[0]) and server.enrol is None:
        logins = server.leafnodes.authorization
        if logins is None or not (logins.users or logins.user or logins.nkey):
            yield OpenListener(
                ("leafnodes",),
                f"leaf nodes at {_shown(*leaf)} need no login: add users to an account, or an enrol block for boxes",
            )


def _routes(server: ServerConfig) -> Iterator[OpenListener]:
    return _of_servers("cluster", "servers of a cluster", server.cluster)


def _gateways(server: ServerConfig) -> Iterator[OpenListener]:
    return _of_servers("gateway", "servers of other clusters", server.gateway)


def _of_servers(key: str, which: str, block: Cluster | Gateway | None) -> Iterator[OpenListener]:
    place = block.address() if block is not None else None
    if block is None or place is None or _is_own(place[0]):
        return
    login = block.authorization is not None and bool(block.authorization.user)
    if not login and block.tls is None:  # with TLS both ends show a certificate
        yield OpenListener(
            (key,),
            f"{which} at {_shown(*place)} need no login, and reach every account: add authorization or tls to {key}",
        )


def _is_own(host: str) -> bool:
    """Whether only programs of this machine reach it."""
    if host in _EVERYWHERE:
        return False
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _shown(host: str, port: int) -> str:
    where = "0.0.0.0" if host in _EVERYWHERE else host
    return f"{where}:{port}" if port > 0 else f"{where} (any free port)"
