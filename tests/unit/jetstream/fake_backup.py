"""The part of the plane in memory that backups need: a simple model of the C code that reads and writes messages.

It knows the archive's layout from its description, not from the code under test; raw chunks are all the S2 it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from leafd import native_types as t

from tests.unit.jetstream.fake_plane import FakeMessage, FakePlane


@dataclass(frozen=True)
class Row:
    """One message of an archive."""

    sequence: int
    ts: int
    subject: str
    header: bytes
    payload: bytes


def _number(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value % 0x80 + 0x80]) + _number(value // 0x80)


def packed(row: Row) -> bytes:
    """The entry of a message."""
    subject = row.subject.encode()
    numbers = (len(subject), 2 * row.ts, row.sequence, len(row.header), len(row.payload))
    return b"".join(map(_number, numbers)) + subject + row.header + row.payload


def unpacked(data: bytes) -> tuple[list[Row], int, bool]:
    """The whole messages at the start, how many bytes they and an end marker take, and whether it was there."""
    rows: list[Row] = []
    at = 0
    while True:
        numbers: list[int] = []
        end = at
        while len(numbers) < 5 and any(byte < 0x80 for byte in data[end:]):
            start = end
            while data[end] >= 0x80:
                end += 1
            end += 1
            numbers.append(sum((byte % 0x80) << 7 * index for index, byte in enumerate(data[start:end])))
        if len(numbers) < 5:
            return rows, at, False
        name, ts, sequence, header, payload = numbers
        if not any(numbers):
            return rows, end, True
        if len(data) < end + name + header + payload:
            return rows, at, False
        if sequence == 0:
            raise t.PlaneError(-8, "expected message sequence")
        parts = data[end : end + name], data[end + name : end + name + header]
        at = end + name + header + payload
        rows.append(Row(sequence, ts // 2, parts[0].decode(), parts[1], data[at - payload : at]))


class BackupPlane(FakePlane):
    """With the commands of backups. Chunks go to `receive`; `listeners` counts who is there for them."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: dict[str, t.Handler] = {}
        self.positions: dict[str, t.Position] = {}
        self.listeners = 1
        self.chunks: list[tuple[str, bytes]] = []
        self.receive: Callable[[str, bytes], None] = lambda reply, chunk: None
        self.step = 3  # messages of one export

    def subscribe(
        self, account: int, subject: str, handler: t.Handler, *, queue: str = "", flags: int = 0, link: int = 0
    ) -> int:
        """By subject, which is the id's only use here."""
        self.heard[subject] = handler
        return len(self.heard)

    def unsubscribe(self, account: int, subscription: int) -> None:
        """Its handler is not called again."""
        self.heard.pop(list(self.heard)[subscription - 1])

    async def publish_counted(
        self,
        account: int,
        subject: str,
        payload: bytes,
        *,
        reply: str = "",
        header: bytes = b"",
        flags: int = 0,
        link: int = 0,
    ) -> int:
        """A chunk, on its way to whoever listens."""
        if self.listeners:
            self.chunks.append((reply, payload))
            self.receive(reply, payload)
        return self.listeners

    async def interest(self, account: int, subject: str) -> int:
        """As many as the test says."""
        return self.listeners

    async def stream_export(self, stream: int, first: int, last: int) -> tuple[bytes, int]:
        """A few messages at a time."""
        self._call("stream_export")
        rows = [one for one in self.streams[stream].messages if first <= one.sequence <= last]
        part = b"".join(packed(Row(m.sequence, m.ts, m.subject, m.header, m.payload)) for m in rows[: self.step])
        return part, rows[self.step].sequence if len(rows) > self.step else 0

    async def stream_import(self, stream: int, entries: bytes) -> t.Imported:
        """Into the list, if the order is right."""
        self._call("stream_import")
        rows, used, end = unpacked(entries)
        held = self.streams[stream]
        for row in rows:
            if row.sequence <= held.last_seq:
                raise t.PlaneError(-8, f"message sequence {row.sequence} out of order")
            held.messages.append(FakeMessage(row.sequence, row.ts, row.subject, row.header, row.payload))
            held.last_seq, held.last_ts = row.sequence, row.ts
        return t.Imported(used, 0, end)

    async def stream_pad(self, stream: int, last: int) -> None:
        """Sequences without messages."""
        held = self._stream(stream)
        held.last_seq, held.last_ts = max(held.last_seq, last), held.last_ts or self.clock

    async def consumer_export(self, stream: int, consumer: int) -> t.Position:
        """As a test has set it."""
        return self.positions[self.consumers[stream, consumer].name]

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
    ) -> None:
        """Made, and where it stands."""
        await self.consumer_put(
            stream, consumer, config, name=name, definition=definition, deliver_subject=deliver_subject, filters=filters
        )
        self.positions[name] = position
