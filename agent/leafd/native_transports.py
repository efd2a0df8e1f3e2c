"""The layers between a socket and a connection's protocol, and the settlement of a route or gateway, as values. What a
context of TLS is made of is in native_types.py."""

from __future__ import annotations

from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class Proxied:
    """A proxy has said whom it speaks for; fault: why its header is none, and the connection ends."""

    connection: int
    peer: str
    fault: str


@dataclass(frozen=True, slots=True)
class Compress:
    """compression_t: how much is done to compress what a link sends; with bounds, as the round trip says."""

    level: int
    bounds: int = 0
    bound0_ns: int = 0
    bound1_ns: int = 0
    bound2_ns: int = 0
    bound3_ns: int = 0
    terse: bool = False
    """Both ends know terse lines."""


@dataclass(frozen=True, slots=True)
class Secure:
    """secure_t: how a connection gets TLS. context: its number."""

    context: int
    flags: int = 0
    wait_ns: int = 0


@dataclass(frozen=True, slots=True)
class RouteTerms:
    """route_terms_t: a route, as both sides' handshakes have settled it. pool_size 0: all accounts go by it."""

    flags: int = 0
    max_payload: int = 0
    pool_size: int = 0
    pool_index: int = 0
    ping_interval_ns: int = 0
    peer: int = 0
    """The server, as groups name it."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter of another server of the cluster, about the group of all of them."""

    connection: int
    peer: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class GatewayTerms:
    """gateway_terms_t: a gateway, as both sides' handshakes have settled it."""

    flags: int = 0
    max_payload: int = 0
    ping_interval_ns: int = 0
    peer: int = 0
    """The server, as groups name it."""
