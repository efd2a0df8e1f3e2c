"""The fields of INFO and CONNECT on a route, in which servers of a cluster describe themselves. Pure text.

    INFO     server_id, server_name, cluster, host, port, ip?, connect_urls?, leafnode_urls?, route_pool_size?,
             route_pool_idx?, route_account?, compression?, gossip_mode?, import?, export?, ldm?, leafd_letters?,
             leafd_dials
    CONNECT  name (the server's id), cluster, user?, pass?, tls_required

An INFO of one server is also sent on to others, with the address it is reached at (ip): that is the gossip.
Not here: who says what when (route.py), who is dialled (routes.py). Reference: tests/wire/route.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final
from urllib.parse import quote, unquote, urlsplit

from leafd.gojson import FLAG, INT, INT32, TEXT, ListOf, Nested, Struct, wire
from leafd.links.addresses import certificate_name as named, host_port
from leafd.links.leaf_info import InfoPermission
from leafd.records import dataclass

ROUTE_PROTOCOL: Final = 3
"""From 2 on lines name accounts, .."""
SERVER_TRACES: Final = 3
""".. and from this on a server knows traces of messages, on routes and gateways alike."""
SCHEME: Final = "nats-route"
DEFAULT_PORT: Final = 6222
GOSSIP: Final = 0
"""gossip_mode: a server that dials an address that an INFO names may tell others of it as usual, .."""
NO_GOSSIP: Final = 1
""".. must not, .."""
GOSSIP_ANYWAY: Final = 2
""".. or does although it was told of it itself."""
LETTERS: Final = 1
"""leafd_letters: the server takes part in a group, and what comes from it as `$LR.` are its own letters, nobody else's:
nats-server, which does not say it, lets clients of its system account publish there."""
NO_LETTERS: Final = -1
"""The server is a leafd that has no JetStream, and so takes part in none."""
LOWER_DIALS: Final = 1
"""leafd_dials: of two connections for one place of a pool, each dialled by one end, the server keeps the one that was
dialled by that of the lower server id."""
DUPLICATE_NAME: Final = "Duplicate Server Name"
"""So a second server with the name of a first one is told, on routes and gateways alike."""
GATEWAY_GOSSIP: Final = 1
"""gateway_cmd: there is another cluster."""
URLS_MAX: Final = 64
"""Addresses that are kept of one server: it has one for each address of its machine."""
URL_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class RouteInfo(Struct):
    """The fields of a peer's INFO that are looked at or sent on."""

    go_name: ClassVar[str] = "Info"

    server_id: str = wire(TEXT, "server_id")
    server_name: str = wire(TEXT, "server_name")
    version: str = wire(TEXT, "version")
    proto: int = wire(INT, "proto")
    go: str = wire(TEXT, "go")
    host: str = wire(TEXT, "host")
    port: int = wire(INT, "port")
    headers: bool = wire(FLAG, "headers")
    auth_required: bool = wire(FLAG, "auth_required")
    tls_required: bool = wire(FLAG, "tls_required")
    tls_verify: bool = wire(FLAG, "tls_verify")
    max_payload: int = wire(INT32, "max_payload")
    jetstream: bool = wire(FLAG, "jetstream")
    ip: str = wire(TEXT, "ip")
    cluster: str = wire(TEXT, "cluster")
    cluster_dynamic: bool = wire(FLAG, "cluster_dynamic")
    domain: str = wire(TEXT, "domain")
    connect_urls: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "connect_urls")
    ws_connect_urls: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "ws_connect_urls")
    ldm: bool = wire(FLAG, "ldm")
    compression: str = wire(TEXT, "compression")
    imported: InfoPermission | None = wire(Nested(InfoPermission), "import")
    exported: InfoPermission | None = wire(Nested(InfoPermission), "export")
    lnoc: bool = wire(FLAG, "lnoc")
    lnocu: bool = wire(FLAG, "lnocu")
    route_pool_size: int = wire(INT, "route_pool_size")
    route_pool_idx: int = wire(INT, "route_pool_idx")
    route_account: str = wire(TEXT, "route_account")
    route_acc_add_reqid: str = wire(TEXT, "route_acc_add_reqid")
    gossip_mode: int = wire(INT, "gossip_mode")
    gateway: str = wire(TEXT, "gateway")
    gateway_url: str = wire(TEXT, "gateway_url")
    gateway_urls: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "gateway_urls")
    gateway_cmd: int = wire(INT, "gateway_cmd")
    leafnode_urls: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "leafnode_urls")
    leafd_letters: int = wire(INT, "leafd_letters")
    leafd_dials: int = wire(INT, "leafd_dials")


@dataclass(frozen=True, slots=True)
class RouteConnect(Struct):
    """The fields of a peer's CONNECT that are looked at."""

    go_name: ClassVar[str] = "connectInfo"

    lang: str = wire(TEXT, "lang")
    gateway: str = wire(TEXT, "gateway")
    user: str = wire(TEXT, "user")
    password: str = wire(TEXT, "pass")
    name: str = wire(TEXT, "name")
    cluster: str = wire(TEXT, "cluster")
    cluster_dynamic: bool = wire(FLAG, "cluster_dynamic")
    headers: bool = wire(FLAG, "headers")
    lnoc: bool = wire(FLAG, "lnoc")
    lnocu: bool = wire(FLAG, "lnocu")


@dataclass(frozen=True, slots=True)
class Place:
    """The address at which a server listens for routes, and the login there."""

    host: str
    port: int
    user: str = ""
    password: str = ""

    @property
    def shown(self) -> str:
        """Without the login."""
        return host_port(self.host, self.port)

    @property
    def url(self) -> str:
        """As an INFO has it: without the login."""
        return f"{SCHEME}://{self.shown}/"

    def with_login(self, user: str, password: str) -> Place:
        return Place(self.host, self.port, user, password)


def place_of(url: str) -> Place:
    """nats-route://user:password@host:port; without a port the one that clusters have. Raises ValueError."""
    parts = urlsplit(url if "://" in url else f"{SCHEME}://{url}")
    if not parts.hostname or len(url) > 2 * URL_MAX:
        raise ValueError("it names no host")
    return Place(
        parts.hostname,
        DEFAULT_PORT if parts.port is None else parts.port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


def places_of(urls: Iterable[str], user: str, password: str) -> tuple[Place, ...]:
    """The addresses of the configuration's servers; those without a login get the cluster's."""
    found = []
    for url in dict.fromkeys(urls):
        place = place_of(url)
        found.append(place if place.user else place.with_login(user, password))
    return tuple(found)


def certificate_name(place: Place, places: Iterable[Place]) -> str:
    """Whose certificate a server has to show: the host that is dialled; for an address the first name among the
    configured ones, since certificates are rarely made out to addresses."""
    return named(place.host, (one.url for one in places))


def address_text(host: str, port: int) -> str:
    """The text of an address in INFO; a zone of IPv6 is quoted as in any URL."""
    return f"{SCHEME}://{host_port(quote(host, safe=':.'), port)}/"


def kept_urls(urls: Any) -> tuple[str, ...]:
    """The URLs in a list of which clients or leaves may be told: each is host:port, of a bounded number."""
    return tuple(dict.fromkeys(url for url in urls or () if url and len(url) <= URL_MAX and _is_place(url)))[:URLS_MAX]


def _is_place(url: str) -> bool:
    host, colon, port = url.rpartition(":")
    return bool(host and colon and port.isascii() and port.isdigit()) and url.isprintable() and " " not in url
