"""The facts that reports are made of, and the parts that several reports share: names, times, sizes of the process.

Field names and units of every report are those of nats-server. Not here: transport (http.py,
services.py), the reports (reports.py, jetstream_report.py), what is read of other rooms (rooms.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.accounts.graph import Graph
from leafd.config.schema.server import ServerConfig
from leafd.guard import Guard
from leafd.holding import Holding
from leafd.monitor.closed import ClosedConnections
from leafd.monitor.elsewhere import Elsewhere
from leafd.native_plane import Plane
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.accounts.claims import ClaimedAccounts
    from leafd.monitor.rooms import (
        BoxesFacts,
        ClientsFacts,
        GatewaysFacts,
        GroupsFacts,
        JetStreamFacts,
        LeafsFacts,
        MetaFacts,
        PlacedFacts,
        RoutesFacts,
    )
    from leafd.monitor.shapes import Shapes

FEATURE_FLAGS: Final = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": True,
    "js_snapshot_sources": False,
}
_FLAGS_JETSTREAM: Final = 7
"""nats-server's flags of a server with JetStream: that, and two forms that matter between servers of a cluster."""
SECONDS_KEPT: Final = 64
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

Login = Callable[[str, str, str, Callable[[], bool]], Awaitable[bool]]
"""User, password, address, and whether somebody still waits for the answer."""


@dataclass(slots=True)
class Facts:
    """The facts that a report may look at. A reload replaces config, digest, graph, limits, cluster, accounts and
    operators."""

    server_id: str
    name: str
    version: str
    domain: str
    host: str
    port: int
    cluster: str
    config: ServerConfig
    graph: Graph
    store: str
    limits: t.Limits
    plane: Plane
    clients: ClientsFacts
    leafs: LeafsFacts
    jetstream: JetStreamFacts | None
    monitor: tuple[str, int] | None = None
    leaf: tuple[str, int] | None = None
    start_ns: int = field(default_factory=time.time_ns)
    start_monotonic: float = field(default_factory=time.monotonic)
    loaded_ns: int = field(default_factory=time.time_ns)
    digest: str = ""
    """The digest of the configuration's file."""
    accounts: ClaimedAccounts | None = None
    """In operator mode: the JWTs behind the graph."""
    operators: tuple[str, ...] = ()
    """In operator mode: the operators' JWTs."""
    guard: Guard = field(default_factory=Guard)
    http_requests: dict[str, int] = field(default_factory=dict)
    turns: Callable[[], dict[str, Any]] = dict
    warnings: Callable[[], Iterable[tuple[float, str, str]]] = tuple
    """The latest of the log: when (Unix time), level, text."""
    closed: ClosedConnections = field(default_factory=lambda: ClosedConnections(0))
    """The latest connections that have gone."""
    reports: Holding = field(default_factory=Holding)
    """The memory of reports while they are made and sent."""
    boxes: BoxesFacts | None = None
    """The boxes that enrolled themselves, where they may."""
    routes: RoutesFacts | None = None
    """The routes to other servers, where this one is in a cluster."""
    gateways: GatewaysFacts | None = None
    """The gateways to other clusters, where this one is in a supercluster."""
    meta: MetaFacts | None = None
    """The group of all servers with JetStream, where there is one."""
    groups: GroupsFacts | None = None
    """The groups of streams that several servers keep, where there may be some."""
    placed: PlacedFacts | None = None
    """The streams of each server, where there is a group of servers."""
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    """Servers of those."""
    login: Login | None = None
    """Whether a user of the system account has this password: for the status page."""
    stalled: Callable[[], Awaitable[dict[str, str]]] | None = None
    """The mirrors and sources that get nothing and will not by themselves, with the reason."""
    configured: tuple[ServerConfig, dict[str, Any]] | None = None
    """A configuration, and what it says by itself."""
    sequence: int = 0
    _shapes: Shapes | None = None
    _cpu_seen: tuple[float, float] = field(default_factory=lambda: (sum(os.times()[:2]), time.monotonic()))
    _cpu_last: float = 0.0

    @property
    def shapes(self) -> Shapes:
        """The shapes that configurations of streams and consumers have in common."""
        if self._shapes is None:
            from leafd.monitor.shapes import Shapes  # here: most boxes are asked for no report

            self._shapes = Shapes()
        return self._shapes

    def server_info(self) -> dict[str, Any]:
        """The "server" block of everything on $SYS."""
        self.sequence += 1
        info: dict[str, Any] = {"name": self.name, "host": self.host, "id": self.server_id}
        if self.cluster:
            info["cluster"] = self.cluster
        if self.domain:
            info["domain"] = self.domain
        info["ver"] = self.version
        if self.config.server_tags:
            info["tags"] = list(self.config.server_tags)
        if self.config.server_metadata:
            info["metadata"] = dict(self.config.server_metadata)
        info["feature_flags"] = FEATURE_FLAGS
        info["jetstream"] = self.jetstream is not None
        info["flags"] = _FLAGS_JETSTREAM if self.jetstream is not None else 0
        info |= {"seq": self.sequence, "time": stamp(time.time_ns())}
        return info

    def head(self) -> dict[str, Any]:
        """The first fields of every HTTP report."""
        return {"server_id": self.server_id, "now": stamp(time.time_ns())}

    def cpu_percent(self) -> float:
        """CPU of this process since the last look, in percent of one core."""
        times = os.times()
        used, now = times.user + times.system, time.monotonic()
        before_used, before = self._cpu_seen
        if now - before < 0.5:
            return self._cpu_last
        self._cpu_seen = (used, now)
        self._cpu_last = round(100 * (used - before_used) / (now - before), 1)
        return self._cpu_last


def memory_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * _PAGE


def stamp(ns: int) -> str:
    """A wall time as Go writes it: RFC 3339 in UTC, fraction without trailing zeros."""
    seconds, fraction = divmod(ns, 1_000_000_000)
    text = _to_the_second(seconds)
    return f"{text}.{fraction:09d}".rstrip("0") + "Z" if fraction else f"{text}Z"


@lru_cache(SECONDS_KEPT)
def _to_the_second(seconds: int) -> str:
    """Kept, since the rows of a report share many: a fleet is linked within some seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def elapsed(ns: int) -> str:
    """Time gone by as the reference shows it: 1d2h3m4s."""
    seconds = max(ns, 0) // 1_000_000_000
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    if days >= 365:
        return f"{days // 365}y{days % 365}d{hours}h{minutes}m{seconds}s"
    if days:
        return f"{days}d{hours}h{minutes}m{seconds}s"
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def round_trip(ns: int) -> str:
    """A round trip as Go prints a duration of that size."""
    if ns <= 0:
        return ""
    if ns < 1_000_000:
        return f"{ns / 1000:g}µs"
    return f"{ns / 1_000_000:g}ms" if ns < 1_000_000_000 else f"{ns / 1_000_000_000:g}s"
