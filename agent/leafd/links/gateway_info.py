"""The fields of INFO and CONNECT on a gateway, in which servers of different clusters describe themselves. Pure text.

    INFO     server_id, server_name, host, port, gateway (the cluster's name), gateway_url, gateway_urls, gateway_nrp,
             gateway_iom, leafd_letters?
    INFO     gateway, gateway_urls, gateway_cmd 1: there is another cluster, at these addresses
    INFO     gateway, gateway_cmd 2 and 3, gateway_cmd_payload (an account): the interest of that account begins, ends
    CONNECT  name (the server's id), gateway, user?, pass?, tls_required

Not here: who says what when (gateway.py), who is dialled (gateways.py), commands 2 and 3, which stand
between lines of interest and are the plane's.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

from leafd.gojson import FLAG, INT, INT32, TEXT, ListOf, Struct, wire
from leafd.links.addresses import host_port
from leafd.links.route_info import URLS_MAX, Place, kept_urls
from leafd.records import dataclass

GATEWAY_PROTOCOL: Final = 3
"""As on routes."""
INTEREST_BEGINS: Final = 2
"""gateway_cmd, as GATEWAY_GOSSIP: an account's interest begins, .."""
INTEREST_ENDS: Final = 3
""".. and is complete."""


@dataclass(frozen=True, slots=True)
class GatewayInfo(Struct):
    """The fields of a peer's INFO that are looked at."""

    go_name: ClassVar[str] = "Info"

    server_id: str = wire(TEXT, "server_id")
    server_name: str = wire(TEXT, "server_name")
    version: str = wire(TEXT, "version")
    proto: int = wire(INT, "proto")
    host: str = wire(TEXT, "host")
    port: int = wire(INT, "port")
    headers: bool = wire(FLAG, "headers")
    max_payload: int = wire(INT32, "max_payload")
    gateway: str = wire(TEXT, "gateway")
    gateway_url: str = wire(TEXT, "gateway_url")
    gateway_urls: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "gateway_urls")
    gateway_cmd: int = wire(INT, "gateway_cmd")
    gateway_nrp: bool = wire(FLAG, "gateway_nrp")
    gateway_iom: bool = wire(FLAG, "gateway_iom")
    leafd_letters: int = wire(INT, "leafd_letters")


@dataclass(frozen=True, slots=True)
class GatewayConnect(Struct):
    """The fields of a peer's CONNECT that are looked at."""

    go_name: ClassVar[str] = "connectInfo"

    user: str = wire(TEXT, "user")
    password: str = wire(TEXT, "pass")
    name: str = wire(TEXT, "name")
    gateway: str = wire(TEXT, "gateway")


def gateway_place(url: str) -> Place:
    """nats://user:password@host:port. Raises ValueError."""
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    if not parts.hostname or not parts.port:
        raise ValueError("it names no host and port")
    return Place(parts.hostname, parts.port, unquote(parts.username or ""), unquote(parts.password or ""))


def places_in(urls: Any) -> tuple[Place, ...]:
    """The addresses in a list from another server: each is host:port, of a bounded number."""
    found = []
    for url in kept_urls(urls):
        try:
            found.append(gateway_place(url))
        except ValueError:
            continue
    return tuple(dict.fromkeys(found))[:URLS_MAX]


def texts(places: tuple[Place, ...]) -> list[str]:
    """As an INFO has them: without logins."""
    return list(dict.fromkeys(host_port(place.host, place.port) for place in places))
