"""How many servers keep a consumer of a stream of several, by what it asks for, and what its infos and reports show.

A durable consumer is kept by as many as its stream, and so is any of a stream that keeps messages for its consumers; an
ephemeral one by the leader. That is what nats-server does and infos say. All servers of the stream have each consumer
all the same, be it one in memory, so that it goes on when another server leads.

Pure. Not here: which servers (sharing.py).
"""

from __future__ import annotations

from typing import Any, Final, Protocol

LIMITS: Final = "limits"
"""The retention by which a stream keeps messages for nobody."""


class AsksForReplicas(Protocol):
    """A consumer's configuration."""

    @property
    def num_replicas(self) -> int: ...
    @property
    def durable_name(self) -> str: ...


class HasReplicas(Protocol):
    """Its stream's."""

    @property
    def num_replicas(self) -> int: ...
    @property
    def retention(self) -> str: ...


def kept_by_all(consumer: AsksForReplicas, stream: HasReplicas) -> bool:
    """Whether all servers of its stream are to keep a consumer. Where it says nothing of replicas, that is a durable
    one, and any of a stream that keeps messages for its consumers."""
    return consumer.num_replicas > 1 or (
        consumer.num_replicas == 0 and (bool(consumer.durable_name) or stream.retention != LIMITS)
    )


def replicas_of(consumer: AsksForReplicas, stream: HasReplicas) -> int:
    """How many servers keep a consumer of such a stream, by what it asks for."""
    if consumer.num_replicas > 0:
        return min(consumer.num_replicas, stream.num_replicas)
    return stream.num_replicas if kept_by_all(consumer, stream) else 1


def as_asked(group: dict[str, Any], replicas: int, stream: HasReplicas) -> dict[str, Any]:
    """So many of the servers that its stream's info names, as the reference tells them: with one replica the leader
    alone."""
    if replicas >= stream.num_replicas or "replicas" not in group:
        return group
    shown = {name: value for name, value in group.items() if name != "replicas"}
    others = group["replicas"][: replicas - 1]
    return shown | ({"replicas": others} if others else {})
