"""A stream as the API speaks of it: its configuration, its state, its info.

Not here: defaults that depend on anything (stream_rules.py), the catalogue entry (catalogue.py).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from leafd.gojson import (
    DURATION,
    FLAG,
    INT,
    INT32,
    INT64,
    TEXT,
    TEXT_MAP,
    UINT64,
    Choice,
    ListOf,
    Nested,
    Raw,
    Struct,
    Time,
    wire,
)
from leafd.records import dataclass

LIMITS: Final = "limits"
INTEREST: Final = "interest"
WORKQUEUE: Final = "workqueue"
FILE: Final = "file"
MEMORY: Final = "memory"
NO_COMPRESSION: Final = "none"

_RETENTION: Final = Choice(LIMITS, (LIMITS, INTEREST, WORKQUEUE))
_DISCARD: Final = Choice("old", ("old", "new"), fold=True)
_STORAGE: Final = Choice(FILE, (FILE, MEMORY))
_COMPRESSION: Final = Choice(
    NO_COMPRESSION, (NO_COMPRESSION, "s2"), refusal=lambda _raw: "unknown compression algorithm"
)
_PERSIST: Final = Choice("default", ("default", "async"), also={"": "default"}, hidden="default")


@dataclass(frozen=True, slots=True)
class Placement(Struct):
    """The part of a cluster in which a stream asks to live: kept, of no effect here."""

    cluster: str = wire(TEXT, "cluster", omit=True)
    tags: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "tags", omit=True)
    preferred: str = wire(TEXT, "preferred", omit=True)


@dataclass(frozen=True, slots=True)
class SubjectTransform(Struct):
    """Rewrites subjects that match source."""

    go_name: ClassVar[str] = "SubjectTransformConfig"

    source: str = wire(TEXT, "src")
    destination: str = wire(TEXT, "dest")


@dataclass(frozen=True, slots=True)
class External(Struct):
    """How to reach a stream of another account or domain."""

    go_name: ClassVar[str] = "ExternalStream"

    api: str = wire(TEXT, "api")
    deliver: str = wire(TEXT, "deliver")


@dataclass(frozen=True, slots=True)
class SourceConsumer(Struct):
    """A durable consumer at the origin that a mirror or source is to use."""

    go_name: ClassVar[str] = "StreamConsumerSource"

    name: str = wire(TEXT, "name", omit=True)
    deliver_subject: str = wire(TEXT, "deliver_subject", omit=True)


_TRANSFORMS: Final = ListOf(Nested(SubjectTransform, pointer=False), "[]server.SubjectTransformConfig")


@dataclass(frozen=True, slots=True)
class StreamSource(Struct):
    """The origin of a mirror or a source."""

    name: str = wire(TEXT, "name")
    opt_start_seq: int = wire(UINT64, "opt_start_seq", omit=True)
    opt_start_time: int | None = wire(Time(), "opt_start_time", omit=True)
    filter_subject: str = wire(TEXT, "filter_subject", omit=True)
    subject_transforms: tuple[SubjectTransform, ...] = wire(_TRANSFORMS, "subject_transforms", omit=True)
    external: External | None = wire(Nested(External), "external", omit=True)
    consumer: SourceConsumer | None = wire(Nested(SourceConsumer), "consumer", omit=True)


@dataclass(frozen=True, slots=True)
class Republish(Struct):
    """Publishes again what was stored."""

    go_name: ClassVar[str] = "RePublish"

    source: str = wire(TEXT, "src", omit=True)
    destination: str = wire(TEXT, "dest")
    headers_only: bool = wire(FLAG, "headers_only", omit=True)


@dataclass(frozen=True, slots=True)
class ConsumerLimits(Struct):
    """Defaults and upper bounds for the stream's consumers."""

    go_name: ClassVar[str] = "StreamConsumerLimits"

    inactive_threshold: int = wire(DURATION, "inactive_threshold", omit=True)
    max_ack_pending: int = wire(INT, "max_ack_pending", omit=True)


class _NullableNested(Nested):
    """A list's element that may be null: an empty source name, refused by the rules and not by the reader."""

    def null(self, path: tuple[str, ...]) -> Any:
        return self.struct()


@dataclass(frozen=True, slots=True)
class StreamConfig(Struct):
    """A stream's configuration; times in ns, -1 = no limit."""

    name: str = wire(TEXT, "name")
    description: str = wire(TEXT, "description", omit=True)
    subjects: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "subjects", omit=True)
    retention: str = wire(_RETENTION, "retention")
    max_consumers: int = wire(INT, "max_consumers")
    max_msgs: int = wire(INT64, "max_msgs")
    max_bytes: int = wire(INT64, "max_bytes")
    max_age: int = wire(DURATION, "max_age")
    max_msgs_per_subject: int = wire(INT64, "max_msgs_per_subject")
    max_msg_size: int = wire(INT32, "max_msg_size", omit=True)
    discard: str = wire(_DISCARD, "discard")
    storage: str = wire(_STORAGE, "storage")
    num_replicas: int = wire(INT, "num_replicas")
    no_ack: bool = wire(FLAG, "no_ack", omit=True)
    duplicate_window: int = wire(DURATION, "duplicate_window", omit=True)
    placement: Placement | None = wire(Nested(Placement), "placement", omit=True)
    mirror: StreamSource | None = wire(Nested(StreamSource), "mirror", omit=True)
    sources: tuple[StreamSource, ...] = wire(
        ListOf(_NullableNested(StreamSource), "[]*server.StreamSource"), "sources", omit=True
    )
    compression: str = wire(_COMPRESSION, "compression")
    first_seq: int = wire(UINT64, "first_seq", omit=True)
    subject_transform: SubjectTransform | None = wire(Nested(SubjectTransform), "subject_transform", omit=True)
    republish: Republish | None = wire(Nested(Republish), "republish", omit=True)
    allow_direct: bool = wire(FLAG, "allow_direct")
    mirror_direct: bool = wire(FLAG, "mirror_direct")
    discard_new_per_subject: bool = wire(FLAG, "discard_new_per_subject", omit=True)
    sealed: bool = wire(FLAG, "sealed")
    deny_delete: bool = wire(FLAG, "deny_delete")
    deny_purge: bool = wire(FLAG, "deny_purge")
    allow_rollup_hdrs: bool = wire(FLAG, "allow_rollup_hdrs")
    consumer_limits: ConsumerLimits = wire(Nested(ConsumerLimits, pointer=False), "consumer_limits")
    allow_msg_ttl: bool = wire(FLAG, "allow_msg_ttl")
    subject_delete_marker_ttl: int = wire(DURATION, "subject_delete_marker_ttl", omit=True)
    allow_msg_counter: bool = wire(FLAG, "allow_msg_counter", omit=True)
    allow_atomic: bool = wire(FLAG, "allow_atomic", omit=True)
    allow_msg_schedules: bool = wire(FLAG, "allow_msg_schedules", omit=True)
    persist_mode: str = wire(_PERSIST, "persist_mode", omit=True)
    allow_batched: bool = wire(FLAG, "allow_batched", omit=True)
    metadata: dict[str, str] | None = wire(TEXT_MAP, "metadata", omit=True)


@dataclass(frozen=True, slots=True)
class StreamConfigRequest(StreamConfig):
    """Body of STREAM.CREATE and STREAM.UPDATE: a configuration and how to treat it."""

    pedantic: bool = wire(FLAG, "pedantic", omit=True)


@dataclass(frozen=True, slots=True)
class StreamStateReply(Struct):
    """Counters of a stream as info tells them."""

    messages: int = wire(UINT64, "messages")
    bytes: int = wire(UINT64, "bytes")
    first_seq: int = wire(UINT64, "first_seq")
    first_ts: int = wire(Time(pointer=False), "first_ts")
    last_seq: int = wire(UINT64, "last_seq")
    last_ts: int = wire(Time(pointer=False), "last_ts")
    num_subjects: int = wire(INT, "num_subjects", omit=True)
    subjects: dict[str, int] | None = wire(Raw(), "subjects", omit=True)
    num_deleted: int = wire(INT, "num_deleted", omit=True)
    deleted: tuple[int, ...] = wire(Raw(()), "deleted", omit=True)
    consumer_count: int = wire(INT, "consumer_count")


@dataclass(frozen=True, slots=True)
class StreamInfo(Struct):
    """A stream in the answers to CREATE, UPDATE, INFO and LIST."""

    config: StreamConfig = wire(Nested(StreamConfig), "config")
    created: int = wire(Time(pointer=False), "created")
    state: StreamStateReply = wire(Nested(StreamStateReply), "state")
    domain: str = wire(TEXT, "domain", omit=True)
    cluster: dict[str, Any] | None = wire(Raw(), "cluster", omit=True)
    mirror: dict[str, Any] | None = wire(Raw(), "mirror", omit=True)
    sources: list[dict[str, Any]] | None = wire(Raw(), "sources", omit=True)
    alternates: list[dict[str, Any]] | None = wire(Raw(), "alternates", omit=True)
    timestamp: int = wire(Time(pointer=False), "ts")
