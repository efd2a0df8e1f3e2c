"""Two events: a line or message for the log, and a message that asked what became of it, with its records as
native/plane/trace.c writes them.

Not here: how they are told (host/log.py, monitor/traces.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from leafd.records import dataclass

_HEAD: Final = struct.Struct("<BBBxIQq4I")


@dataclass(frozen=True, slots=True)
class Trace:
    """A protocol line, or the message behind it, when tracing is on."""

    connection: int
    text: str
    header: bytes = b""
    body: bytes = b""
    header_size: int = 0
    """Bytes of the header as it came, which may be longer than what is told."""
    body_size: int = 0


@dataclass(frozen=True, slots=True)
class MessageTrace:
    """The trace of a message that asked for one."""

    connection: int
    account: int
    kind: int
    size: int
    hops: int
    destination: str
    subject: str
    header: bytes
    records: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that happened to a message."""

    type: int
    fault: int
    kind: int
    account: int
    connection: int
    wall_ns: int
    texts: tuple[str, str, str, str]


def records(data: bytes) -> Iterator[Record]:
    """The records of a trace."""
    at = 0
    while at + _HEAD.size <= len(data):
        kind, fault, connection_kind, account, connection, wall_ns, *sizes = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        texts = []
        for size in sizes:
            texts.append(data[at : at + size].decode("utf-8", "replace"))
            at += size
        first, second, third, fourth = texts
        yield Record(kind, fault, connection_kind, account, connection, wall_ns, (first, second, third, fourth))
