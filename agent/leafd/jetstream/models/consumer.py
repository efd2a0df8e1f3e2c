"""A consumer as the API speaks of it: its configuration and its info.

Not here: defaults that depend on the stream or on limits (consumer_rules.py).
"""

from __future__ import annotations

from typing import Any, Final

from leafd.gojson import (
    DURATION,
    FLAG,
    INT,
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

DELIVER_ALL: Final = "all"
DELIVER_LAST: Final = "last"
DELIVER_NEW: Final = "new"
DELIVER_BY_START_SEQUENCE: Final = "by_start_sequence"
DELIVER_BY_START_TIME: Final = "by_start_time"
DELIVER_LAST_PER_SUBJECT: Final = "last_per_subject"
DELIVER_POLICIES: Final = (
    DELIVER_ALL,
    DELIVER_LAST,
    DELIVER_NEW,
    DELIVER_BY_START_SEQUENCE,
    DELIVER_BY_START_TIME,
    DELIVER_LAST_PER_SUBJECT,
)
ACK_NONE: Final = "none"
ACK_ALL: Final = "all"
ACK_EXPLICIT: Final = "explicit"
ACK_FLOW_CONTROL: Final = "flow_control"
ACK_POLICIES: Final = (ACK_NONE, ACK_ALL, ACK_EXPLICIT, ACK_FLOW_CONTROL)
PRIORITY_NONE: Final = "none"
PRIORITY_PINNED: Final = "pinned_client"
PRIORITY_POLICIES: Final = (PRIORITY_NONE, "overflow", PRIORITY_PINNED, "prioritized")

_DELIVER: Final = Choice(DELIVER_ALL, DELIVER_POLICIES, also={"undefined": DELIVER_ALL})
_ACK: Final = Choice(ACK_NONE, ACK_POLICIES)
_REPLAY: Final = Choice("instant", ("instant", "original"))
_PRIORITY: Final = Choice(
    PRIORITY_NONE,
    PRIORITY_POLICIES,
    refusal=lambda raw: f"unknown priority policy: {raw}",
    hidden=PRIORITY_NONE,
)
_TEXTS: Final = ListOf(TEXT, "[]string")


@dataclass(frozen=True, slots=True)
class ConsumerConfig(Struct):
    """A consumer's configuration; times in ns."""

    durable_name: str = wire(TEXT, "durable_name", omit=True)
    name: str = wire(TEXT, "name", omit=True)
    description: str = wire(TEXT, "description", omit=True)
    deliver_policy: str = wire(_DELIVER, "deliver_policy")
    opt_start_seq: int = wire(UINT64, "opt_start_seq", omit=True)
    opt_start_time: int | None = wire(Time(), "opt_start_time", omit=True)
    ack_policy: str = wire(_ACK, "ack_policy")
    ack_wait: int = wire(DURATION, "ack_wait", omit=True)
    max_deliver: int = wire(INT, "max_deliver", omit=True)
    backoff: tuple[int, ...] = wire(ListOf(DURATION, "[]time.Duration"), "backoff", omit=True)
    filter_subject: str = wire(TEXT, "filter_subject", omit=True)
    filter_subjects: tuple[str, ...] = wire(_TEXTS, "filter_subjects", omit=True)
    replay_policy: str = wire(_REPLAY, "replay_policy")
    rate_limit_bps: int = wire(UINT64, "rate_limit_bps", omit=True)
    sample_freq: str = wire(TEXT, "sample_freq", omit=True)
    max_waiting: int = wire(INT, "max_waiting", omit=True)
    max_ack_pending: int = wire(INT, "max_ack_pending", omit=True)
    flow_control: bool = wire(FLAG, "flow_control", omit=True)
    headers_only: bool = wire(FLAG, "headers_only", omit=True)
    max_batch: int = wire(INT, "max_batch", omit=True)
    max_expires: int = wire(DURATION, "max_expires", omit=True)
    max_bytes: int = wire(INT, "max_bytes", omit=True)
    deliver_subject: str = wire(TEXT, "deliver_subject", omit=True)
    deliver_group: str = wire(TEXT, "deliver_group", omit=True)
    idle_heartbeat: int = wire(DURATION, "idle_heartbeat", omit=True)
    inactive_threshold: int = wire(DURATION, "inactive_threshold", omit=True)
    num_replicas: int = wire(INT, "num_replicas")
    mem_storage: bool = wire(FLAG, "mem_storage", omit=True)
    direct: bool = wire(FLAG, "direct", omit=True)
    sourcing: bool = wire(FLAG, "sourcing", omit=True)
    metadata: dict[str, str] | None = wire(TEXT_MAP, "metadata", omit=True)
    pause_until: int | None = wire(Time(), "pause_until", omit=True)
    priority_groups: tuple[str, ...] = wire(_TEXTS, "priority_groups", omit=True)
    priority_policy: str = wire(_PRIORITY, "priority_policy", omit=True)
    priority_timeout: int = wire(DURATION, "priority_timeout", omit=True)

    @property
    def filters(self) -> tuple[str, ...]:
        """All subject filters, wherever they were written."""
        return (*self.filter_subjects, self.filter_subject) if self.filter_subject else self.filter_subjects


@dataclass(frozen=True, slots=True)
class SequenceInfo(Struct):
    """A position: the consumer's own count and the stream's sequence."""

    consumer_seq: int = wire(UINT64, "consumer_seq")
    stream_seq: int = wire(UINT64, "stream_seq")
    last_active: int | None = wire(Time(), "last_active", omit=True)


@dataclass(frozen=True, slots=True)
class ConsumerInfo(Struct):
    """A consumer in the answers to CREATE, INFO and LIST."""

    stream_name: str = wire(TEXT, "stream_name")
    name: str = wire(TEXT, "name")
    created: int = wire(Time(pointer=False), "created")
    config: ConsumerConfig | None = wire(Nested(ConsumerConfig), "config", omit=True)
    delivered: SequenceInfo = wire(Nested(SequenceInfo), "delivered")
    ack_floor: SequenceInfo = wire(Nested(SequenceInfo), "ack_floor")
    num_ack_pending: int = wire(INT, "num_ack_pending")
    num_redelivered: int = wire(INT, "num_redelivered")
    num_waiting: int = wire(INT, "num_waiting")
    num_pending: int = wire(UINT64, "num_pending")
    cluster: dict[str, Any] | None = wire(Raw(), "cluster", omit=True)
    push_bound: bool = wire(FLAG, "push_bound", omit=True)
    paused: bool = wire(FLAG, "paused", omit=True)
    pause_remaining: int = wire(DURATION, "pause_remaining", omit=True)
    timestamp: int = wire(Time(pointer=False), "ts")
    priority_groups: list[dict[str, Any]] | None = wire(Raw(), "priority_groups", omit=True)
