"""API levels, the `_nats.*` metadata that tells of them, and the identity of a stream.

A stored asset carries the level that it needs; the server's own version and level are only added to replies, and
dropped from requests that send a reply's configuration back. Values are those of nats-server 2.15.1, because clients
gate features on them.
"""

from __future__ import annotations

import hashlib
import re
import string
from dataclasses import replace
from itertools import takewhile
from typing import Final

from leafd.gotime import ZERO_TIME, format_time
from leafd.jetstream.errors import REQUIRED_API_LEVEL
from leafd.jetstream.models.consumer import ACK_FLOW_CONTROL, PRIORITY_NONE, ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig

API_LEVEL: Final = 5
SERVER_VERSION: Final = "2.15.1"
REQUIRED_LEVEL_KEY: Final = "_nats.req.level"
VERSION_KEY: Final = "_nats.ver"
LEVEL_KEY: Final = "_nats.level"
REQUIRED_LEVEL_HEADER: Final = b"Nats-Required-Api-Level"
IDENTITY_HEADER: Final = b"Nats-Stream-Identity"
TAKEN_HEADER: Final = b"Leafd-Last-Taken"
"""In a puller's request: the sequence that it took last. .."""
POSITION_HEADER: Final = b"Leafd-Stream-Position"
""".. In the answer: where the stream ends, and the stamp of that message (0: there is none). .."""
NEW_HEADER: Final = b"Leafd-New-Behind"
""".. Behind which sequence all is new to a puller that asks by time."""
EPOCH_HEADER: Final = b"Leafd-Epoch"
"""In a puller's request: the sequence that it took last, and the epoch of that. .."""
EPOCHS_HEADER: Final = b"Leafd-Epochs"
""".. In the answer: the stream's epochs from that one on (lineage.py); all of them, if it has not that one."""
HEARTBEAT_HEADER: Final = b"Leafd-Heartbeat"
"""In the request of a puller that notices by itself when its link dies: how many seconds apart idle heartbeats may be.
In the answer: they are, and the consumer's end is told."""
_LEVEL: Final = re.compile(rb"[+-]?[0-9]{1,18}")
_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase


def hash8(text: str) -> str:
    """The reference's short hash of names."""
    return "".join(_ALPHABET[byte % 62] for byte in hashlib.sha256(text.encode()).digest()[:8])


def stream_identity(created: int) -> str:
    """Tells a stream from another one of the same name: where it was made anew, sources start from scratch."""
    return hash8(format_time(created))


def header_values(header: bytes, name: bytes) -> list[bytes]:
    """All values of a header. A block that does not begin as one has none, nor are there any behind its empty line."""
    first, *lines = header.split(b"\r\n")
    if not first.startswith(b"NATS/1.0"):
        return []
    fields = (line.partition(b":") for line in takewhile(bool, lines))
    return [value.strip() for key, colon, value in fields if colon and key == name]


def header_value(header: bytes, name: bytes) -> bytes:
    """The first value of a header, or nothing."""
    return next(iter(header_values(header, name)), b"")


def has_header(header: bytes, name: bytes) -> bool:
    """Whether a header is there, if only with an empty value."""
    return bool(header_values(header, name))


def fits_level(header: bytes) -> bool:
    """Whether the request needs no more than this server can do."""
    wanted = header_value(header, REQUIRED_LEVEL_HEADER) if header else b""
    return not wanted or (_LEVEL.fullmatch(wanted) is not None and int(wanted) <= API_LEVEL)


def check_level(header: bytes) -> None:
    """Refuses a request that needs more."""
    if not fits_level(header):
        raise REQUIRED_API_LEVEL.error()


def _static(metadata: dict[str, str] | None, level: int) -> dict[str, str]:
    kept = {key: value for key, value in (metadata or {}).items() if key not in (VERSION_KEY, LEVEL_KEY)}
    return kept | {REQUIRED_LEVEL_KEY: str(level)}


def static_stream(config: StreamConfig) -> StreamConfig:
    """The configuration as it is stored: with the level that its features need."""
    level = 0
    if config.allow_msg_ttl or config.subject_delete_marker_ttl > 0:
        level = 1
    if config.allow_msg_counter or config.allow_atomic or config.allow_msg_schedules or config.persist_mode == "async":
        level = 2
    if config.allow_batched:
        level = 4
    return replace(config, metadata=_static(config.metadata, level))


def static_consumer(config: ConsumerConfig) -> ConsumerConfig:
    """The configuration as it is stored: with the level that its features need."""
    level = 0
    if config.pause_until is not None and config.pause_until != ZERO_TIME:
        level = 1
    if config.priority_policy != PRIORITY_NONE or config.priority_timeout or config.priority_groups:
        level = 1
    if config.ack_policy == ACK_FLOW_CONTROL:
        level = 4
    return replace(config, metadata=_static(config.metadata, level))


def dynamic(metadata: dict[str, str] | None) -> dict[str, str]:
    """Metadata for a reply: with this server's version and level."""
    return (metadata or {}) | {VERSION_KEY: SERVER_VERSION, LEVEL_KEY: str(API_LEVEL)}


def comparable(metadata: dict[str, str] | None, stored: dict[str, str] | None) -> dict[str, str] | None:
    """A request's metadata with the level of what is stored, so that versions alone make no difference."""
    kept = {key: value for key, value in (metadata or {}).items() if key not in (VERSION_KEY, LEVEL_KEY)}
    kept.pop(REQUIRED_LEVEL_KEY, None)
    if stored and REQUIRED_LEVEL_KEY in stored:
        kept[REQUIRED_LEVEL_KEY] = stored[REQUIRED_LEVEL_KEY]
    return kept or None
