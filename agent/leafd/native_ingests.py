"""The plane's commands and events about the intake of a mirror or source. Not here: how it is started
and stopped (native_commands.py), the consumers at the origin (links/)."""

from __future__ import annotations

from typing import Final

from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class IngestSource:
    """The constant parts of a source's Nats-Stream-Source header, and the key of its progress; not of a mirror's."""

    name: str = ""
    filters: str = ""
    destinations: str = ""
    identity: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """The number of messages on their way from a consumer of `stream` before an acknowledgement; size 0: any number,
    by_flow: by flow control."""

    size: int = 0
    by_flow: bool = False
    stream: str = ""


NO_SPAN: Final = Span()
PACE_UNKNOWN: Final = -(1 << 63)
"""The value of IngestState.pace_milli while the pace is not known."""


@dataclass(frozen=True, slots=True)
class IngestState:
    """ingest_state_t: progress of one mirror or source slot."""

    last_sequence: int
    newest_ts: int
    lag: int
    active_ns: int
    messages: int
    bytes: int
    running: int
    span: int = 0
    known_ns: int = -1
    level_ns: int = -1
    pace_milli: int = PACE_UNKNOWN
