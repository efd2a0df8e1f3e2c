"""The plane's measurements of services, and its descriptions of connections for them. Not here: the
words of events (monitor/latency.py), which connections are described (daemon/)."""

from __future__ import annotations

from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class Description:
    """The description of a connection for a service or its owner: parts of a JSON object's members, as DESCRIBE has
    them."""

    before: bytes
    between: bytes
    place: bytes
    behind: bytes


@dataclass(frozen=True, slots=True)
class Latency:
    """A request over an import that is measured has ended. account: the exporter; responder: the kind of connection
    that answered, 0: none did; measured: latency_t, and requestor and responder as JSON."""

    account: int
    status: int
    responder: int
    subject: str
    reply: str
    header: bytes
    measured: bytes


@dataclass(frozen=True, slots=True)
class FarLatency:
    """A client has answered a request over a link, which the server there measures."""

    connection: int
    account: int
    reply: str
    took_ns: int
    round_trip_ns: int
