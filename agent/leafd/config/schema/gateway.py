"""The gateway block: where servers of other clusters connect to, and which other clusters this one reaches. What it
makes is links/gateways.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from leafd.config.schema.base import Flag, Listen, Number, Text
from leafd.config.schema.cluster import group_size
from leafd.config.schema.section import Reader, Section, later, option
from leafd.config.schema.servers import SharedLogin, address_reader, one_or_more
from leafd.config.schema.tls import Tls

if TYPE_CHECKING:
    from leafd.config.schema.server import ServerConfig


class GatewayAuthorization(SharedLogin):
    """The login that the servers of all clusters share."""

    users: Any = later("Gateway authorization does not allow multiple users", refuse=True)
    token: Any = later("Gateway authorization does not support tokens", refuse=True)
    auth_callout: Any = later("Gateway authorization does not support callouts", refuse=True, aliases=("auth_hook",))
    default_permissions: Any = later(
        "gateways have none, as with nats-server", refuse=False, aliases=("default_permission", "permissions")
    )


_SCHEMES = ("nats", "tls", "nats-gateway", "nats-route")  # a nats-server takes any
_place = address_reader(_SCHEMES, of="a gateway", example="nats://host:7222", needs_port=True)


class RemoteGateway(Section):
    """Another cluster that is dialled."""

    name: Text = option("", "The name of the other cluster.", example='"west"')
    urls: Annotated[tuple[Annotated[str, Reader(_place)], ...], Reader(one_or_more)] = option(
        (),
        "Some of its servers, which tell of the others: nats://user:password@host:7222.",
        aliases=("url",),
        example='[ "nats://west-1:7222", "nats://west-2:7222" ]',
    )
    tls: Tls | None = option(None, "TLS with that cluster. Absent: as the gateway block says.")


class Gateway(Section):
    """The gateway block."""

    name: Text = option(
        "", "The name of the cluster that this server is of, the same as that of the cluster block.", example='"east"'
    )
    listen: Listen | None = option(
        None, "Where servers of other clusters connect to, which every cluster has to offer.", example='"0.0.0.0:7222"'
    )
    host: Text = option("", "The address alone. Empty: every address of the machine.", aliases=("net",))
    port: Number = option(0, "The port alone. -1: any free port.", ge=-1, le=65535)
    authorization: GatewayAuthorization | None = option(None, "The login that servers of all clusters share.")
    tls: Tls | None = option(
        None, "TLS with other clusters, in both directions; all of them have it, or none. A ca_file checks them."
    )
    advertise: Text = option(
        "", "The address that other clusters are told to dial, where they cannot reach the one that is listened on."
    )
    connect_retries: Number = option(
        0,
        "How often is a cluster dialled again that others told of? Those in gateways are dialled for ever.",
        ge=0,
    )
    connect_backoff: Flag = option(
        False, "Wait twice as long before each further attempt to dial, up to 30s. Else it is 1s each time."
    )
    reject_unknown_cluster: Flag = option(
        False,
        "Let in the clusters in gateways only, and dial no others that they tell of.",
        aliases=("reject_unknown",),
    )
    gateways: tuple[RemoteGateway, ...] = option(
        (),
        "The other clusters, each a block. Each tells of the others that it knows. One of the own name is passed over,"
        " so the list can be the same everywhere.",
    )
    write_deadline: Any = later("that of the server counts", refuse=False)
    write_timeout: Any = later(
        "a blocked gateway is closed, as by default, and not tried again", refuse=True, harmless=("default", "close")
    )

    def address(self) -> tuple[str, int] | None:
        """Host and port of the listener, None when there is no gateway."""
        found = self.listen if self.listen is not None else (self.host, self.port)
        return found if found[1] else None

    @property
    def remotes(self) -> tuple[RemoteGateway, ...]:
        """The clusters that are dialled."""
        return tuple(one for one in self.gateways if one.name != self.name)

    def tls_blocks(self) -> tuple[Tls, ...]:
        """Every tls block there is."""
        return tuple(one for one in (self.tls, *(remote.tls for remote in self.remotes)) if one is not None)

    def tls_of(self, remote: RemoteGateway) -> Tls | None:
        """With which TLS another cluster is dialled."""
        return remote.tls if remote.tls is not None else self.tls

    def check(self) -> None:
        if " " in self.name:
            raise ValueError("name: gateway name cannot contain spaces")
        if not self.name and self.address() is None:
            return
        if not self.name:
            raise ValueError("gateway has no name")
        if self.address() is None:
            raise ValueError(f'gateway "{self.name}" has no port specified (select -1 for random port)')
        for number, one in enumerate(self.gateways):
            if not one.name:
                raise ValueError(f"gateway in the list {number} has no name")
            if not one.urls:
                raise ValueError(f'gateway "{one.name}" has no URL')
        for tls in (self.tls, *(one.tls for one in self.gateways)):
            if tls is not None and not tls.material.pairs:
                raise ValueError("tls has no certificate: servers of all clusters show one: add cert_file and key_file")


def gateway_address(server: ServerConfig) -> tuple[str, int] | None:
    """Host and port of the gateways' listener, None when there is no gateway."""
    return server.gateway.address() if server.gateway is not None else None


def cluster_name(server: ServerConfig) -> str:
    """The name of the cluster, which is that of the gateway, too; "": none is configured."""
    own = server.cluster.name if server.cluster is not None else ""
    return own or (server.gateway.name if server.gateway is not None else "")


def check_gateway(server: ServerConfig) -> None:
    """How the block fits the others. Raises ValueError."""
    block = server.gateway
    if block is None or not block.name:
        return
    if server.cluster is not None and server.cluster.name and server.cluster.name != block.name:
        raise ValueError("gateway: cluster name conflicts between cluster and gateway definitions")
    jetstream = server.jetstream
    if jetstream is not None and jetstream.enabled and not group_size(server):
        raise ValueError(
            "gateway and jetstream need a cluster block, with routes, and meta_size in the jetstream block: the servers"
            " of all clusters found one group that knows all streams"
        )
