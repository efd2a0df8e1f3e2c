"""The parts of its neighbours that this room needs, as protocols: the plane below, mirrors and sources beside it, the
daemon above. native.Plane fits JetStreamPlane as it is; the unit tests put a small plane in memory in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from leafd import native_types as t
from leafd.holding import Contested, Holding

if TYPE_CHECKING:
    from leafd.jetstream.catalogue import Stream


class JetStreamPlane(Protocol):
    """Streams and consumers of the plane. What changes the store returns when the change is on disk."""

    @property
    def reports(self) -> Holding: ...
    @property
    def archives(self) -> Contested: ...
    def records(self, kind: int) -> Iterator[tuple[bytes, bytes]]: ...
    def publish(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> None: ...
    async def stream_put(
        self,
        stream: int,
        config: t.FlatStream,
        *,
        name: str,
        definition: bytes,
        domain: str,
        subjects: Iterable[str],
        transform: tuple[str, str] = ...,
        republish: tuple[str, str] = ...,
        loading: bool = False,
    ) -> t.StreamState: ...
    async def record_put(self, key: bytes, value: bytes) -> None: ...
    async def stream_remove(self, stream: int) -> None: ...
    async def stream_state(
        self, stream: int, *, subjects_filter: str = "", deleted: bool = False, offset: int = 0
    ) -> t.StreamState: ...
    async def streams_bytes(self, streams: Sequence[int]) -> int: ...
    async def streams_states(self, streams: Sequence[int]) -> list[bytes | None]: ...
    async def stream_purge(self, stream: int, *, subject: str = "", sequence: int = 0, keep: int = 0) -> int: ...
    async def message_get(
        self, stream: int, mode: int, *, sequence: int = 0, start_ts: int = 0, subject: str = ""
    ) -> t.StoredMessage | None: ...
    async def message_delete(self, stream: int, sequence: int) -> bool: ...
    async def consumer_put(
        self,
        stream: int,
        consumer: int,
        config: t.FlatConsumer,
        *,
        name: str,
        definition: bytes,
        deliver_subject: str = "",
        deliver_group: str = "",
        backoff_ns: Iterable[int] = (),
        priority_groups: Iterable[str] = (),
        filters: Iterable[str] = (),
        loading: bool = False,
    ) -> t.ConsumerState: ...
    async def consumer_remove(self, stream: int, consumer: int) -> None: ...
    async def consumer_pause(self, stream: int, consumer: int, until_wall_ns: int) -> None: ...
    async def consumer_state(self, stream: int, consumer: int) -> t.ConsumerState: ...
    async def consumer_unpin(self, stream: int, consumer: int) -> None: ...
    async def consumer_begin(self, stream: int, consumer: int) -> None: ...
    async def consumer_spare(self, stream: int, consumer: int, interval_ns: int) -> None: ...
    async def consumer_reset(self, stream: int, consumer: int, sequence: int) -> tuple[int, t.ConsumerState]: ...
    def subscribe(self, account: int, subject: str, handler: t.Handler, *, queue: str = "", flags: int = 0) -> int: ...
    def unsubscribe(self, account: int, subscription: int) -> None: ...
    def repay(self, message: t.Message) -> None: ...
    async def publish_counted(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> int: ...
    async def interest(self, account: int, subject: str) -> int: ...
    def crc32c(self, data: bytes | bytearray | memoryview) -> int: ...
    def s2_block(self, block: bytes | memoryview, size_max: int) -> bytearray | None: ...
    def s2_packed(self, data: memoryview, size_max: int) -> bytes | memoryview | None: ...
    async def stream_export(self, stream: int, first: int, last: int) -> tuple[bytes, int]: ...
    async def stream_import(self, stream: int, entries: bytes) -> t.Imported: ...
    async def stream_pad(self, stream: int, last: int) -> None: ...
    async def consumer_export(self, stream: int, consumer: int) -> t.Position: ...
    async def consumer_import(
        self,
        stream: int,
        consumer: int,
        config: t.FlatConsumer,
        position: t.Position,
        *,
        name: str,
        definition: bytes,
        deliver_subject: str = "",
        deliver_group: str = "",
        backoff_ns: Iterable[int] = (),
        priority_groups: Iterable[str] = (),
        filters: Iterable[str] = (),
    ) -> None: ...


class SourceStatus(Protocol):
    """How a mirror or source is doing. Times are ns that have passed, -1 = it never was."""

    @property
    def lag(self) -> int: ...
    @property
    def told_ns(self) -> int: ...
    @property
    def known(self) -> bool: ...
    @property
    def level_ns(self) -> int: ...
    @property
    def pace(self) -> float | None: ...
    @property
    def newest_ts(self) -> int: ...
    @property
    def mean_size(self) -> float | None: ...
    @property
    def active_ns(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def error(self) -> dict[str, Any] | None: ...
    @property
    def held(self) -> str: ...


class Asker(Protocol):
    """The sender of a request, with the rights of its login."""

    @property
    def author(self) -> str:
        """The author that a stream keeps, to look up rights later; empty: the author may do everything."""

    def info(self) -> dict[str, Any]:
        """For advisories."""

    async def denied(self, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """The subjects among these, which may have wildcards, to which the asker may not publish."""


class Neighbours(Protocol):
    """The daemon's knowledge that this room lacks; daemon/neighbours.py wires it to links/ and accounts/."""

    def stream_changed(self, stream: Stream, last_sequence: int) -> None:
        """A stream was loaded, made or updated: its mirror or sources may be new. last_sequence: of the store, now."""

    def stream_removed(self, stream: Stream) -> None:
        """A stream is gone with everything in it."""

    async def source_status(self, stream: int, slot: int) -> SourceStatus:
        """Slot 0 is the mirror, 1.. are the sources in the order of the configuration."""

    def asker(self, message: t.Message) -> Asker:
        """The sender of a request."""

    async def denied(self, stream: Stream, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """The subjects among these to which the stream's author may not publish today, or about which that is not
        known."""

    def has_leafs(self, account: int) -> bool:
        """Whether leaf links are bound to the account: then another JetStream may answer in our place."""

    def lets_go(self, account: int, domain: str) -> str:
        """The traffic that the budget of the link to that domain allows: "all"; "normal", "high" or "none": bulk waits,
        or more; "": there is no budget."""


class Alone:
    """Neighbours of a server that has none: no links, unknown clients."""

    def stream_changed(self, stream: Stream, last_sequence: int) -> None:
        """Tells nobody."""

    def stream_removed(self, stream: Stream) -> None:
        """Tells nobody."""

    async def source_status(self, stream: int, slot: int) -> SourceStatus:
        """Never heard of anything."""
        return NEVER

    def asker(self, message: t.Message) -> Asker:
        """The server itself, as logins do not exist here."""
        return SERVER

    async def denied(self, stream: Stream, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """No subject is denied."""
        return ()

    def has_leafs(self, account: int) -> bool:
        """There are no leaves."""
        return False

    def lets_go(self, account: int, domain: str) -> str:
        """There is no link."""
        return ""


class _Server:
    """The server itself, for its configuration: everything is allowed."""

    author = ""

    def info(self) -> dict[str, Any]:
        return {}

    async def denied(self, subjects: tuple[str, ...]) -> tuple[str, ...]:
        return ()


class _Never:
    lag = newest_ts = sequence = 0
    told_ns = level_ns = active_ns = -1
    known = False
    pace: float | None = None
    mean_size: float | None = None
    error: dict[str, Any] | None = None
    held = ""


NEVER = _Never()
SERVER: Asker = _Server()
