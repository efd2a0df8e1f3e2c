"""Bodies of the requests that are no configuration.

Go's names of these structs appear in the texts of errors, so they are given where ours differ.
"""

from __future__ import annotations

from typing import ClassVar, Final

from leafd.gojson import (
    FLAG,
    INT,
    TEXT,
    UINT64,
    Choice,
    ListOf,
    Nested,
    Raw,
    Struct,
    Time,
    wire,
)
from leafd.gotime import ZERO_TIME
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import Placement, StreamConfig
from leafd.records import dataclass

ACTION_ANY: Final = ""
ACTION_CREATE: Final = "create"
ACTION_UPDATE: Final = "update"

_ACTION: Final = Choice(
    ACTION_ANY,
    (ACTION_ANY, ACTION_CREATE, ACTION_UPDATE),
    refusal=lambda raw: f"unknown consumer action: {raw}",
)


@dataclass(frozen=True, slots=True)
class StepDownRequest(Struct):
    """STREAM.LEADER.STEPDOWN and CONSUMER.LEADER.STEPDOWN."""

    go_name: ClassVar[str] = "JSApiLeaderStepdownRequest"

    placement: Placement | None = wire(Nested(Placement), "placement", omit=True)


@dataclass(frozen=True, slots=True)
class MetaRescueRequest(Struct):
    """META.RESCUE."""

    go_name: ClassVar[str] = "JSApiMetaRescueRequest"

    quorum_needed: int = wire(INT, "quorum_needed")


@dataclass(frozen=True, slots=True)
class PeerRemoveRequest(Struct):
    """STREAM.PEER.REMOVE."""

    go_name: ClassVar[str] = "JSApiStreamRemovePeerRequest"

    peer: str = wire(TEXT, "peer")


@dataclass(frozen=True, slots=True)
class StreamNamesRequest(Struct):
    """STREAM.NAMES."""

    go_name: ClassVar[str] = "JSApiStreamNamesRequest"

    offset: int = wire(INT, "offset")
    subject: str = wire(TEXT, "subject", omit=True)


@dataclass(frozen=True, slots=True)
class StreamListRequest(Struct):
    """STREAM.LIST."""

    go_name: ClassVar[str] = "JSApiStreamListRequest"

    offset: int = wire(INT, "offset")
    subject: str = wire(TEXT, "subject", omit=True)


@dataclass(frozen=True, slots=True)
class StreamInfoRequest(Struct):
    """STREAM.INFO."""

    go_name: ClassVar[str] = "JSApiStreamInfoRequest"

    offset: int = wire(INT, "offset")
    deleted_details: bool = wire(FLAG, "deleted_details", omit=True)
    subjects_filter: str = wire(TEXT, "subjects_filter", omit=True)


@dataclass(frozen=True, slots=True)
class PurgeRequest(Struct):
    """STREAM.PURGE."""

    go_name: ClassVar[str] = "JSApiStreamPurgeRequest"

    sequence: int = wire(UINT64, "seq", omit=True)
    subject: str = wire(TEXT, "filter", omit=True)
    keep: int = wire(UINT64, "keep", omit=True)


@dataclass(frozen=True, slots=True)
class MessageDeleteRequest(Struct):
    """STREAM.MSG.DELETE."""

    go_name: ClassVar[str] = "JSApiMsgDeleteRequest"

    sequence: int = wire(UINT64, "seq")
    no_erase: bool = wire(FLAG, "no_erase", omit=True)


@dataclass(frozen=True, slots=True)
class MessageGetRequest(Struct):
    """STREAM.MSG.GET."""

    go_name: ClassVar[str] = "JSApiMsgGetRequest"

    sequence: int = wire(UINT64, "seq", omit=True)
    last_by_subject: str = wire(TEXT, "last_by_subj", omit=True)
    next_by_subject: str = wire(TEXT, "next_by_subj", omit=True)
    batch: int = wire(INT, "batch", omit=True)
    max_bytes: int = wire(INT, "max_bytes", omit=True)
    start_time: int | None = wire(Time(), "start_time", omit=True)
    multi_last: tuple[str, ...] = wire(ListOf(TEXT, "[]string"), "multi_last", omit=True)
    up_to_seq: int = wire(UINT64, "up_to_seq", omit=True)
    up_to_time: int | None = wire(Time(), "up_to_time", omit=True)
    no_headers: bool = wire(FLAG, "no_hdr", omit=True)


@dataclass(frozen=True, slots=True)
class ConsumerCreateRequest(Struct):
    """CONSUMER.CREATE and CONSUMER.DURABLE.CREATE."""

    go_name: ClassVar[str] = "CreateConsumerRequest"

    stream_name: str = wire(TEXT, "stream_name")
    config: ConsumerConfig = wire(Nested(ConsumerConfig, pointer=False), "config")
    action: str = wire(_ACTION, "action")
    pedantic: bool = wire(FLAG, "pedantic", omit=True)


@dataclass(frozen=True, slots=True)
class ConsumersRequest(Struct):
    """CONSUMER.NAMES and CONSUMER.LIST."""

    go_name: ClassVar[str] = "JSApiConsumersRequest"

    offset: int = wire(INT, "offset")


@dataclass(frozen=True, slots=True)
class PauseRequest(Struct):
    """CONSUMER.PAUSE."""

    go_name: ClassVar[str] = "JSApiConsumerPauseRequest"

    pause_until: int = wire(Time(pointer=False, default=ZERO_TIME), "pause_until", omit=True)


@dataclass(frozen=True, slots=True)
class UnpinRequest(Struct):
    """CONSUMER.UNPIN."""

    go_name: ClassVar[str] = "JSApiConsumerUnpinRequest"

    group: str = wire(TEXT, "group")


@dataclass(frozen=True, slots=True)
class ResetRequest(Struct):
    """CONSUMER.RESET."""

    go_name: ClassVar[str] = "JSApiConsumerResetRequest"

    sequence: int = wire(UINT64, "seq", omit=True)


@dataclass(frozen=True, slots=True)
class SnapshotRequest(Struct):
    """STREAM.SNAPSHOT."""

    go_name: ClassVar[str] = "JSApiStreamSnapshotRequest"

    deliver_subject: str = wire(TEXT, "deliver_subject")
    no_consumers: bool = wire(FLAG, "no_consumers", omit=True)
    chunk_size: int = wire(INT, "chunk_size", omit=True)
    window_size: int = wire(INT, "window_size", omit=True)
    check_messages: bool = wire(FLAG, "jsck", omit=True)


@dataclass(frozen=True, slots=True)
class RestoreRequest(Struct):
    """STREAM.RESTORE."""

    go_name: ClassVar[str] = "JSApiStreamRestoreRequest"

    config: StreamConfig = wire(Nested(StreamConfig, pointer=False), "config")
    state: object = wire(Raw(), "state")
