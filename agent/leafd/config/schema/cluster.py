"""The cluster block: where other servers of the cluster connect to, which of them this one dials, what goes over the
routes. The routes are links/routes.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import SplitResult, urlsplit

from leafd.config.schema.base import SECOND, Duration, Flag, Listen, Number, Strings, Text, zero_means_default
from leafd.config.schema.compression import RouteCompression
from leafd.config.schema.permissions import Permissions
from leafd.config.schema.section import Reader, Section, Takes, later, option
from leafd.config.schema.servers import SharedLogin, address_reader, one_or_more
from leafd.config.schema.tls import Tls

if TYPE_CHECKING:
    from leafd.config.schema.server import ServerConfig

POOL_DEFAULT: Final = 3
POOL_MAX: Final = 256
PING_MAX_NS: Final = 30 * SECOND
ROUTE_PORT: Final = 6222
"""The port of an address that has none."""
GROUP_MAX: Final = 9
"""Members of the group of servers with JetStream (RAFT_MEMBERS_MAX)."""


class ClusterAuthorization(SharedLogin):
    """The login that servers of a cluster share."""

    users: Any = later("Cluster authorization does not allow multiple users", refuse=True)
    token: Any = later("Cluster authorization does not support tokens", refuse=True)
    auth_callout: Any = later("Cluster authorization does not support callouts", refuse=True, aliases=("auth_hook",))
    default_permissions: Permissions | None = option(
        None, "As permissions of the cluster, where that says nothing.", aliases=("default_permission", "permissions")
    )


_place = address_reader(
    ("nats-route", "nats", "tls"), of="a server", example="nats-route://host:6222", needs_port=False
)


class Cluster(Section):
    """The cluster block."""

    name: Text = option(
        "",
        "The cluster's name, the same on all of its servers. Empty: one is made up, or taken over from a server that"
        " has one.",
        example='"east"',
    )
    listen: Listen | None = option(None, "Where other servers of the cluster connect to.", example='"0.0.0.0:6222"')
    host: Text = option("", "The address alone. Empty: every address of the machine.", aliases=("net",))
    port: Number = option(0, "The port alone. 0: there is no cluster. -1: any free port.", ge=-1, le=65535)
    authorization: ClusterAuthorization | None = option(
        None, "The login that all servers of the cluster share.", takes=Takes.LIVE
    )
    routes: Annotated[tuple[Annotated[str, Reader(_place)], ...], Reader(one_or_more)] = option(
        (),
        "Servers that are dialled; each tells of the others, so some are enough, and the own address does no harm:"
        " nats-route://user:password@host:6222.",
        takes=Takes.LIVE,
        example='[ "nats-route://nats-1:6222", "nats-route://nats-2:6222" ]',
    )
    advertise: Text = option(
        "",
        "The address that other servers are told to dial, where they cannot reach the one that is listened on.",
        aliases=("cluster_advertise",),
        takes=Takes.LIVE,
    )
    no_advertise: Flag = option(
        False,
        "Do not tell clients of the addresses of other servers, nor other servers of those for clients here.",
        takes=Takes.LIVE,
    )
    connect_retries: Number = option(
        0,
        "How often is a server dialled again that others told of? Those in routes are dialled for ever.",
        takes=Takes.LIVE,
        ge=0,
    )
    connect_backoff: Flag = option(
        False,
        "Wait twice as long before each further attempt to dial, up to 30s. Else it is 1s each time.",
        takes=Takes.LIVE,
    )
    permissions: Permissions | None = option(
        None,
        "import: the subjects whose interest here other servers are told. export: those whose interest elsewhere is"
        " taken. Both as of users.",
        takes=Takes.LIVE,
    )
    pool_size: Annotated[Number, zero_means_default(POOL_DEFAULT)] = option(
        POOL_DEFAULT,
        "How many connections are there with each other server, over which accounts are spread? -1: one for all.",
        takes=Takes.LIVE,
        ge=-1,
        le=POOL_MAX,
    )
    accounts: Strings = option(
        (),
        "Accounts that have a connection of their own with each server. The system account always has, with pools.",
        takes=Takes.LIVE,
    )
    compression: RouteCompression = option(
        ("accept", ()),
        "Compression of routes: accept (as the other server), off, s2_fast, s2_better, s2_best, s2_auto; as in"
        " leafnodes.",
        takes=Takes.LIVE,
        example="s2_fast",
    )
    tls: Tls | None = option(
        None, "TLS with other servers, in both directions; all of the cluster have it, or none. A ca_file checks them."
    )
    ping_interval: Duration = option(
        0, "How often is a server asked for a PONG? At most, and with 0, every 30s.", takes=Takes.LIVE, ge=0
    )
    ping_max: Any = later("that of the server counts", refuse=False)
    write_deadline: Any = later("that of the server counts", refuse=False)
    write_timeout: Any = later(
        "a blocked route is closed, as by default, and not tried again", refuse=True, harmless=("default", "close")
    )

    def address(self) -> tuple[str, int] | None:
        """Host and port of the listener, None when there is no cluster."""
        found = self.listen if self.listen is not None else (self.host, self.port)
        return found if found[1] else None

    @property
    def ping_ns(self) -> int:
        """How often routes are asked for a PONG."""
        return min(self.ping_interval or PING_MAX_NS, PING_MAX_NS)

    @property
    def rules(self) -> Permissions | None:
        """The permissions for interest that is told and taken."""
        if self.permissions is not None or self.authorization is None:
            return self.permissions
        return self.authorization.default_permissions

    def check(self) -> None:
        if " " in self.name:
            raise ValueError("name: cluster name cannot contain spaces")
        if self.routes and self.address() is None:
            raise ValueError("routes: solicited routes require cluster capabilities: add listen or port")
        if self.accounts and self.pool_size < 0:
            raise ValueError("pool_size cannot be negative if pinned accounts are specified")
        for name in self.accounts:
            if self.accounts.count(name) > 1:
                raise ValueError(f'accounts: found duplicate account name "{name}" in pinned accounts list')
        if self.rules is not None and self.rules.allow_responses is not None:
            raise ValueError("permissions: Cluster permissions do not support dynamic responses")
        if self.tls is not None and not self.tls.material.pairs:
            raise ValueError("tls has no certificate: all servers of a cluster show one: add cert_file and key_file")


def group_size(server: ServerConfig) -> int:
    """How many servers found the group of all with JetStream; 0: this one is in none, or it cannot be said."""
    jetstream, block = server.jetstream, server.cluster
    if jetstream is None or not jetstream.enabled or block is None or block.address() is None:
        return 0
    if jetstream.meta_size:
        return jetstream.meta_size
    count, gateway = _members(block), server.gateway
    if gateway is not None and count:
        count += sum(len(set(one.urls)) for one in gateway.remotes if one.name != gateway.name)
    return count if 1 < count <= GROUP_MAX else 0


def _members(block: Cluster) -> int:
    """The servers of the cluster, by its routes. Most people give each server the same list, others leave out its own
    address. Where this server is not seen in it, an odd number is taken for all of them."""
    address = block.address()
    assert address is not None
    places = {(parts.hostname or "", parts.port or ROUTE_PORT) for parts in map(_parts, block.routes)}
    local = {address[0].lower(), "127.0.0.1", "localhost", "0.0.0.0", "::", "::1", os.uname().nodename.lower()}
    if any(host in local and port == address[1] for host, port in places):
        return len(places)
    if len(places) < 2:
        return 0
    return len(places) if len(places) % 2 else len(places) + 1


def _parts(url: str) -> SplitResult:
    return urlsplit(url if "://" in url else f"nats-route://{url}")


def check_cluster(server: ServerConfig) -> None:
    """How the block fits the others. Raises ValueError."""
    block = server.cluster
    if block is None or block.address() is None:
        return
    if server.jetstream is not None and server.jetstream.enabled and not group_size(server):
        raise ValueError(
            "cluster and jetstream need meta_size in the jetstream block: how many servers found the group that knows "
            "all streams does not follow from routes and gateways here"
        )
    for name in () if server.operated else block.accounts:
        if name not in (*server.accounts, "$G", server.system_account or "$SYS"):
            raise ValueError(f"cluster: accounts names {name!r}, which is not defined: define it")


def pinned_accounts(block: Cluster | None, system: str) -> tuple[str, ...]:
    """The accounts that have routes of their own. system: the system account, which an operator's JWT may name."""
    if block is None or block.address() is None or block.pool_size < 0:
        return ()
    return tuple(dict.fromkeys(name for name in (*block.accounts, system) if name))
