"""Configurations as the plane takes them: numbers and flags, nothing to interpret.

One function for each direction of travel and no decision. What the plane does not need (descriptions, metadata,
placement) stays in the definition.
"""

from __future__ import annotations

from typing import Final

from leafd import native_types as t
from leafd.gotime import ZERO_TIME, plane_time
from leafd.jetstream.models.consumer import ACK_POLICIES, DELIVER_POLICIES, PRIORITY_POLICIES, ConsumerConfig
from leafd.jetstream.models.stream import FILE, MEMORY, NO_COMPRESSION, StreamConfig

_RETENTION: Final = ("limits", "interest", "workqueue")
_DISCARD: Final = ("old", "new")
_REPLAY: Final = ("instant", "original")

# The flag that stands for a field.
_STREAM_FLAGS: Final = {
    "no_ack": t.StreamFlag.NO_ACK,
    "discard_new_per_subject": t.StreamFlag.DISCARD_NEW_PER_SUBJECT,
    "sealed": t.StreamFlag.SEALED,
    "deny_purge": t.StreamFlag.DENY_PURGE,
    "allow_rollup_hdrs": t.StreamFlag.ALLOW_ROLLUP,
    "allow_direct": t.StreamFlag.ALLOW_DIRECT,
    "allow_msg_ttl": t.StreamFlag.ALLOW_TTL,
    "allow_batched": t.StreamFlag.ALLOW_BATCHED,
    "allow_atomic": t.StreamFlag.ALLOW_ATOMIC,
    "allow_msg_counter": t.StreamFlag.COUNTER,
    "allow_msg_schedules": t.StreamFlag.ALLOW_SCHEDULES,
}
_CONSUMER_FLAGS: Final = {
    "deliver_subject": t.ConsumerFlag.PUSH,
    "flow_control": t.ConsumerFlag.FLOW_CONTROL,
    "headers_only": t.ConsumerFlag.HEADERS_ONLY,
    "mem_storage": t.ConsumerFlag.MEMORY,
    "direct": t.ConsumerFlag.DIRECT,
}


SCHEDULES: Final = "leafd.schedules"
"""The key of a stream's metadata by which its owner grants that a schedule's publisher may name any subject of the
stream in it, whatever its permissions say of that subject."""
ANY_SUBJECT: Final = "any"


def flat_stream(account: int, config: StreamConfig) -> t.FlatStream:
    """stream_config_t of a checked configuration."""
    flags = sum(int(flag) for name, flag in _STREAM_FLAGS.items() if getattr(config, name))
    flags |= t.StreamFlag.COMPRESS if config.compression != NO_COMPRESSION and config.storage == FILE else 0
    flags |= t.StreamFlag.GRANTS_SCHEDULES if (config.metadata or {}).get(SCHEDULES) == ANY_SUBJECT else 0
    flags |= t.StreamFlag.MIRROR if config.mirror is not None else 0
    flags |= t.StreamFlag.REPUBLISH_HEADERS if config.republish is not None and config.republish.headers_only else 0
    return t.FlatStream(
        account=account,
        flags=flags,
        storage=int(config.storage == MEMORY),
        retention=_RETENTION.index(config.retention),
        discard=_DISCARD.index(config.discard),
        replicas=config.num_replicas,
        max_msg_size=config.max_msg_size,
        max_msgs=config.max_msgs,
        max_bytes=config.max_bytes,
        max_age_ns=config.max_age,
        max_msgs_per_subject=config.max_msgs_per_subject,
        duplicate_window_ns=config.duplicate_window,
        first_seq=config.first_seq,
        marker_ttl_ns=config.subject_delete_marker_ttl,
    )


def flat_consumer(account: int, config: ConsumerConfig) -> t.FlatConsumer:
    """consumer_config_t of a checked configuration."""
    flags = sum(int(flag) for name, flag in _CONSUMER_FLAGS.items() if getattr(config, name))
    pause = config.pause_until
    return t.FlatConsumer(
        account=account,
        flags=flags,
        deliver_policy=DELIVER_POLICIES.index(config.deliver_policy),
        ack_policy=ACK_POLICIES.index(config.ack_policy),
        replay_policy=_REPLAY.index(config.replay_policy),
        sample_percent=_percent(config.sample_freq),
        max_deliver=_int32(config.max_deliver),
        opt_start_seq=config.opt_start_seq,
        opt_start_ts=0 if config.opt_start_time is None else plane_time(config.opt_start_time),
        ack_wait_ns=config.ack_wait,
        idle_heartbeat_ns=config.idle_heartbeat,
        inactive_threshold_ns=config.inactive_threshold,
        pause_until_ns=0 if pause is None or pause == ZERO_TIME else plane_time(pause),
        max_expires_ns=config.max_expires,
        rate_limit_bps=config.rate_limit_bps,
        max_ack_pending=_int32(config.max_ack_pending),
        max_waiting=_int32(config.max_waiting),
        max_batch=_int32(config.max_batch),
        max_request_bytes=_int32(config.max_bytes),
        priority_policy=PRIORITY_POLICIES.index(config.priority_policy),
        priority_timeout_ns=config.priority_timeout,
    )


def _percent(frequency: str) -> int:
    digits = frequency.removesuffix("%").lstrip("+0")
    return 100 if len(digits) > 2 else int(digits or 0)


def _int32(number: int) -> int:
    """Counts beyond two thousand million mean the same as that."""
    return min(number, (1 << 31) - 1)
