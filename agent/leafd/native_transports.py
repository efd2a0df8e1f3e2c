"""What stands between a socket and a connection's protocol, as values. TLS is in native_types.py."""

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
