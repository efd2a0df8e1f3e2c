"""Routes as values: how they are made, one of them, and its row in /routez. Not here: who makes them and ends them
(routes.py), what is said on one (route.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import trio

from leafd import native_types as t
from leafd.links.peers import Route
from leafd.links.route import Machine
from leafd.links.route_info import Place
from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class Terms:
    """How routes are made."""

    places: tuple[Place, ...] = ()
    """The addresses of the configuration."""
    retries: int = 0
    backoff: bool = False
    advertises: bool = True
    login_s: float = 2.0
    ping_interval_ns: int = 0
    permissions: t.Permissions = t.Permissions()
    accepts: t.Secure | None = None
    """TLS with servers that dial this one, .."""
    dials: t.Secure | None = None
    """.. and with servers that it dials."""
    reports: tuple[int, int] = (600, 600)
    """The failed attempts to dial that are logged besides the first one, before a first connection and after it."""


@dataclass(slots=True)
class Link:
    """One connection with another server, in either direction."""

    route: Route
    machine: Machine
    opened_ns: int = field(default_factory=time.time_ns)
    more: bool = False
    """The next one of the pool is dialled when this one is up."""
    up: bool = False
    """The peer has answered behind the handshake."""
    why: str = ""
    """The reason that ends the connection."""
    anew: bool = False
    """The connection ends because its terms have changed; the end that ends it makes it again."""
    regrants: bool = False
    """Other permissions are being carried out for it."""
    gone: trio.Event = field(default_factory=trio.Event)
    done: trio.Event = field(default_factory=trio.Event)
    """Set when the connection has joined, or is gone."""

    @property
    def connection(self) -> int:
        return self.route.connection

    @property
    def dialled(self) -> bool:
        return self.route.dialled

    @property
    def log_name(self) -> str:
        """The beginning of log lines about the route."""
        return f"{self.route.peer} - rid:{self.connection}"


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """One row of /routez."""

    connection: int
    remote_id: str
    remote_name: str
    dialled: bool
    explicit: bool
    peer: str
    account: str
    compression: str
    opened_ns: int
    told: Mapping[str, Any]
    """The subjects that the peer lets through, as its INFO says: import, export."""
