"""The part of native.Plane that mirrors and sources need. Not here: what they do with it
(replicas.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from leafd import native_types as t

if TYPE_CHECKING:
    from leafd.links.replica import Slot


class ReplicaPlane(Protocol):
    """The part of native.Plane that this room needs."""

    def subscribe(
        self, account: int, subject: str, handler: t.Handler, *, queue: str = "", flags: int = 0, link: int = 0
    ) -> int: ...
    async def reaches(self, account: int, subject: str) -> bool: ...
    def unsubscribe(self, account: int, subscription: int) -> None: ...
    async def publish_counted(
        self,
        account: int,
        subject: str,
        payload: bytes,
        *,
        reply: str = "",
        header: bytes = b"",
        flags: int = 0,
        link: int = ...,
    ) -> int: ...
    def repay(self, message: t.Message) -> None: ...
    def publish(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> None: ...
    async def ingest_start(
        self,
        stream: int,
        slot: int,
        *,
        mirror: bool,
        durable_behind: int | None,
        last_sequence: int,
        silence_ns: int,
        deliver_subject: str,
        consumer: str,
        source: t.IngestSource,
        transforms: Iterable[tuple[str, str]] = ...,
        link: int = ...,
        origin: int = ...,
        alone: bool = ...,
        by_time: bool = ...,
        pending: int | None = ...,
        spared: bool = ...,
        span: t.Span = ...,
    ) -> None: ...
    async def ingest_stop(self, stream: int, slot: int) -> t.IngestState: ...
    async def ingest_state(self, stream: int, slot: int) -> t.IngestState: ...
    async def ingest_forget(self, stream: int, key: str) -> None: ...
    async def record_put(self, key: bytes, value: bytes) -> None: ...


def source_of(slot: Slot, identity: str) -> t.IngestSource:
    """As the plane has to know it; nothing of a mirror's."""
    if slot.mirror:
        return t.IngestSource()
    name, filters, destinations = slot.origin.index
    return t.IngestSource(name, filters, destinations, identity, slot.origin.key)
