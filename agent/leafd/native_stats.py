"""The plane's counters, as native_plane.py reads them: plane_stats_t, histogram_counts_t and stream_state_t of abi.h.

Not here: what reports make of them (monitor/).
"""

from __future__ import annotations

from typing import NamedTuple

from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class Stats:
    """plane_stats_t: counters of the whole plane."""

    connections: int
    total_connections: int
    leafs: int
    subscriptions: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    link_in_msgs: int
    link_out_msgs: int
    link_in_bytes: int
    link_out_bytes: int
    slow_consumers: int
    stale_connections: int
    streams: int
    consumers: int
    store_messages: int
    store_bytes: int
    memory_bytes: int
    disk_bytes: int
    journal_batches: int
    journal_bytes: int
    journal_syncs: int
    checkpoints: int
    overlay_bytes: int
    corrupt_records: int
    events_dropped: int
    replayed_batches: int
    held_back: int
    tick_max_ns: int
    tick_recent_ns: int
    disk_free: int
    disk_reserved: int
    refusing: int
    ticks: int
    journal_rounds: int
    journal_waiting: int
    memory_ring: int
    memory_memory_ring: int
    memory_overlay: int
    memory_keeper: int
    memory_output: int
    memory_input: int
    memory_exchange: int
    memory_held: int
    memory_control: int
    memory_consumers: int
    memory_batches: int
    memory_replies: int
    memory_interest: int
    schedules_refused: int
    mqtt_sessions: int
    mqtt_away: int
    mqtt_expired: int
    mqtt_no_session: int
    mqtt_not_stored: int
    mqtt_passed_over: int

    @property
    def refuses_files(self) -> bool:
        """Whether the store of files refuses publishers."""
        return bool(self.refusing & 1)

    def refused_storage(self) -> list[str]:
        """The stores that refuse publishers, for lack of room or because writing fails."""
        return [name for bit, name in enumerate(("file", "memory")) if self.refusing >> bit & 1]


@dataclass(frozen=True, slots=True)
class Histogram:
    """histogram_counts_t: how often something took how long since the start."""

    spans: tuple[tuple[float, int], ...]
    """For each span the upper bound in seconds, which is part of it (the last: inf), and how often."""
    seconds: float
    """All of them together."""


class StateRow(NamedTuple):
    """stream_state_t, whose members these are in their order: a tuple is made in a fifth of a record's time."""

    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    first_ts: int
    last_ts: int
    subjects: int
    deleted_count: int
    consumers: int
    subjects_matched: int
    corrupt: int
