"""The consumer that a mirror or source asks for at its origin, as a request's body; the source, for the plane.

Not here: when it is asked for, and what the origin hears besides (replica.py).
"""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

from leafd import native_types as t
from leafd.gotime import format_time
from leafd.links.origin import Origin
from leafd.records import dataclass

ACK_WAIT_NS: Final = 22 * 3600 * 1_000_000_000


class Taker(Protocol):
    """The members of a slot (replica.py) that an origin hears of."""

    @property
    def origin(self) -> Origin:
        """The origin."""

    @property
    def mirror(self) -> bool:
        """Whether it is a mirror."""

    @property
    def stream_name(self) -> str:
        """The stream that takes."""

    @property
    def account_name(self) -> str:
        """Its account."""

    @property
    def domain(self) -> str:
        """Its domain."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The members that differ from one request of a slot to the next."""

    level: int
    """The API level that is asked with; 0: a form without levels."""
    name: str
    deliver: str
    heartbeat_ns: int
    inactive_ns: int
    span: int
    """So many messages may come before one is acknowledged; 0: any number, and nothing is."""
    newer_than_ns: int
    """0: it begins at a sequence, .."""
    first: int
    """.. this one; 0: where the slot's own origin says."""


def source_of(slot: Taker, identity: str) -> t.IngestSource:
    """A slot's source as the plane has to know it; nothing of a mirror's."""
    if slot.mirror:
        return t.IngestSource()
    name, filters, destinations = slot.origin.index
    return t.IngestSource(name, filters, destinations, identity, slot.origin.key)


def body_of(slot: Taker, wanted: Wanted) -> bytes:
    """The request."""
    request = {"stream_name": slot.origin.stream, "config": _config(slot, wanted), "action": ""}
    return json.dumps(request, separators=(",", ":")).encode()


def _config(slot: Taker, wanted: Wanted) -> dict[str, Any]:
    origin = slot.origin
    config: dict[str, Any] = {
        "name": wanted.name,
        "deliver_policy": "all",
        "ack_policy": "none",
        "ack_wait": ACK_WAIT_NS,
        "max_deliver": 1,
        "replay_policy": "instant",
        "flow_control": True,
        "deliver_subject": wanted.deliver,
        "idle_heartbeat": wanted.heartbeat_ns,
        "inactive_threshold": wanted.inactive_ns,
        "num_replicas": 0,
        "direct": True,
    }
    if wanted.span:
        config |= {"ack_policy": "all", "max_ack_pending": wanted.span}
    if wanted.level:
        kind = "mirror" if slot.mirror else "src"
        metadata = {f"_nats.{kind}.stream": slot.stream_name, f"_nats.{kind}.acc": slot.account_name}
        if slot.domain:
            metadata[f"_nats.{kind}.domain"] = slot.domain
        config |= {"sourcing": True, "metadata": metadata}
    if len(origin.filters) == 1:
        config["filter_subject"] = origin.filters[0]
    elif origin.filters:
        config["filter_subjects"] = list(origin.filters)
    return config | _start(slot, wanted)


def _start(slot: Taker, wanted: Wanted) -> dict[str, Any]:
    """The fields that say where it begins."""
    origin = slot.origin
    if wanted.newer_than_ns:
        return {"deliver_policy": "by_start_time", "opt_start_time": format_time(wanted.newer_than_ns + 1)}
    if first := wanted.first or origin.start_seq:
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": first}
    if origin.start_time:
        return {"deliver_policy": "by_start_time", "opt_start_time": origin.start_time}
    return {}
