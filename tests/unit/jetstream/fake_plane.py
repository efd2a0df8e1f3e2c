"""A plane in memory, to try decisions on: it does what jetstream/ commands, at once and simply.

It keeps messages in a list, knows limits of no kind and delivers nothing. What it says about states follows the
reference's accounting, so that replies can be compared with the real server's. test_plane_contract.py plays the same
cases on this and on the real plane.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from leafd import native_types as t
from leafd.holding import Contested, Holding
from leafd.jetstream.subjects import subset
from leafd.native import layout
from leafd.native_packing import encoded, vars_of

from tests.rig.planes import Unwilling


@dataclass
class FakeMessage:
    """One stored message."""

    sequence: int
    ts: int
    subject: str
    header: bytes
    payload: bytes


@dataclass
class FakeStream:
    """What stream_put was told last, and the messages."""

    config: t.FlatStream
    name: str
    definition: bytes
    subjects: tuple[str, ...]
    transform: tuple[str, str]
    republish: tuple[str, str]
    messages: list[FakeMessage] = field(default_factory=list)
    last_seq: int = 0
    last_ts: int = 0


@dataclass
class FakeConsumer:
    """What consumer_put was told last."""

    config: t.FlatConsumer
    name: str
    definition: bytes
    filters: tuple[str, ...]
    start: int
    newest: frozenset[int] | None = None  # deliver last per subject: what it has of the messages before `since`
    since: int = 0


class FakePlane(Unwilling):
    """The commands of JetStream, but for those of backups (fake_backup.py). `calls` and `published` remember;
    `fail` refuses the next command."""

    def __init__(self) -> None:
        super().__init__()
        self.streams: dict[int, FakeStream] = {}
        self.consumers: dict[tuple[int, int], FakeConsumer] = {}
        self.controls: dict[bytes, bytes] = {}
        self.published: list[tuple[int, str, bytes, bytes]] = []
        self.calls: list[str] = []
        self.reports = Holding()
        self.archives = Contested()
        self.repaid: list[int] = []
        self.bound: set[str] = set()
        self.fail: t.PlaneError | None = None
        self.listened = True
        self.clock = 1_700_000_000_000_000_000

    def _stream(self, stream: int) -> FakeStream:
        if stream not in self.streams:
            raise t.PlaneError(-1, "not found")
        return self.streams[stream]

    def _consumer(self, stream: int, consumer: int) -> FakeConsumer:
        if (stream, consumer) not in self.consumers:
            raise t.PlaneError(-1, "not found")
        return self.consumers[stream, consumer]

    def repay(self, message: t.Message) -> None:
        """Remembered by the credit."""
        self.repaid.append(message.credit)

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error

    def advised(self) -> bool:
        """As if somebody listened to all advisories, unless a test says otherwise."""
        return self.listened

    def records(self, kind: int, *, whole: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The definitions, as a restart would find them."""
        if kind == 1:
            for stream_id, stream in sorted(self.streams.items()):
                yield struct.pack(">I", stream_id), stream.definition
        if kind == 3:
            yield from sorted(self.controls.items())
        if kind == 2:
            for (stream_id, consumer_id), consumer in sorted(self.consumers.items()):
                yield struct.pack(">II", stream_id, consumer_id), consumer.definition

    async def record_put(self, key: bytes, value: bytes) -> None:
        """No value removes it."""
        self._call("record_put")
        self.controls[key] = value
        if not value:
            del self.controls[key]

    def publish(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> None:
        """Remembered."""
        self.published.append((account, subject, header, payload))

    def store(self, name: str, subject: str, payload: bytes = b"", header: bytes = b"") -> None:
        """What a client's publish would do."""
        stream = next(one for one in self.streams.values() if one.name == name)
        stream.last_seq = max(stream.last_seq + 1, stream.config.first_seq)
        self.clock += 1_000_000
        stream.last_ts = self.clock
        stream.messages.append(FakeMessage(stream.last_seq, self.clock, subject, header, payload))

    def _state(
        self, stream_id: int, subjects_filter: str = "", deleted: bool = False, offset: int = 0
    ) -> t.StreamState:
        stream = self._stream(stream_id)
        messages = stream.messages
        fixed = 16 if stream.config.storage else 30
        size = sum(
            fixed
            + len(one.subject)
            + len(one.payload)
            + (len(one.header) + (0 if stream.config.storage else 4)) * bool(one.header)
            for one in messages
        )
        first = messages[0].sequence if messages else (stream.last_seq + 1 if stream.last_seq else 0)
        last = stream.last_seq
        if stream.config.first_seq > 1 and not stream.last_seq:
            first, last = stream.config.first_seq, stream.config.first_seq - 1
        counts: dict[str, int] = {}
        for one in messages:
            counts[one.subject] = counts.get(one.subject, 0) + 1
        matched = sorted(s for s in counts if subjects_filter and subset(s, subjects_filter))
        held = {one.sequence for one in messages}
        gaps = tuple(seq for seq in range(first, last + 1) if seq not in held) if messages else ()
        return t.StreamState(
            messages=len(messages),
            bytes=size,
            first_seq=first,
            last_seq=last,
            first_ts=messages[0].ts if messages else 0,
            last_ts=stream.last_ts,
            subjects=len(counts),
            deleted_count=len(gaps),
            consumers=sum(1 for key in self.consumers if key[0] == stream_id),
            subjects_matched=len(matched),
            corrupt=0,
            deleted=gaps if deleted else (),
            subject_counts={s: counts[s] for s in matched[offset : offset + 100_000]},
        )

    async def stream_put(
        self,
        stream: int,
        config: t.FlatStream,
        *,
        name: str,
        definition: bytes,
        domain: str,
        subjects: Iterable[str],
        transform: tuple[str, str] = ("", ""),
        republish: tuple[str, str] = ("", ""),
        loading: bool = False,
    ) -> t.StreamState:
        """Creates or replaces."""
        self._call("stream_put")
        held = self.streams.get(stream)
        fresh = FakeStream(config, name, definition, tuple(subjects), transform, republish)
        if held is not None:
            fresh.messages, fresh.last_seq, fresh.last_ts = held.messages, held.last_seq, held.last_ts
        self.streams[stream] = fresh
        return self._state(stream)

    async def stream_remove(self, stream: int) -> None:
        """With its consumers."""
        self._call("stream_remove")
        self._stream(stream)
        del self.streams[stream]
        for key in [key for key in self.consumers if key[0] == stream]:
            del self.consumers[key]

    async def stream_state(
        self, stream: int, *, subjects_filter: str = "", deleted: bool = False, offset: int = 0
    ) -> t.StreamState:
        """Counters of the list."""
        self._call("stream_state")
        return self._state(stream, subjects_filter, deleted, offset)

    async def streams_bytes(self, streams: Sequence[int]) -> int:
        """Of those that there are."""
        self._call("streams_bytes")
        return sum(self._state(one).bytes for one in streams if one in self.streams)

    async def streams_states(self, streams: Sequence[int]) -> list[bytes | None]:
        """None for one that there is not."""
        self._call("streams_states")
        found = [self._state(one) if one in self.streams else None for one in streams]
        names = layout("stream_state_t").names
        return [encoded("stream_state_t", vars_of(one, *names)) if one is not None else None for one in found]

    async def stream_purge(self, stream: int, *, subject: str = "", sequence: int = 0, keep: int = 0) -> int:
        """As the reference describes it."""
        self._call("stream_purge")
        held = self._stream(stream)
        wanted = [one for one in held.messages if not subject or subset(one.subject, subject)]
        if sequence:
            wanted = [one for one in wanted if one.sequence < sequence]
        if keep:
            wanted = wanted[: max(len(wanted) - keep, 0)]
        gone = {one.sequence for one in wanted}
        held.messages = [one for one in held.messages if one.sequence not in gone]
        if not subject:
            held.last_seq = max(held.last_seq, sequence - 1)
        return len(gone)

    async def message_get(
        self, stream: int, mode: int, *, sequence: int = 0, start_ts: int = 0, subject: str = ""
    ) -> t.StoredMessage | None:
        """By QUERY_* mode."""
        self._call("message_get")
        if stream not in self.streams:
            return None
        messages = self.streams[stream].messages
        if mode == 0:
            found = [one for one in messages if one.sequence == sequence]
        elif mode == 1:
            found = [one for one in reversed(messages) if subset(one.subject, subject)]
        else:
            found = [one for one in messages if one.sequence >= sequence and one.ts >= start_ts]
            if mode == 2:
                found = [one for one in found if subset(one.subject, subject)]
        if not found:
            return None
        one = found[0]
        return t.StoredMessage(one.sequence, one.ts, one.subject.encode(), one.header, one.payload)

    async def message_delete(self, stream: int, sequence: int) -> bool:
        """False when it is not there."""
        self._call("message_delete")
        if stream not in self.streams:
            return False
        held = self.streams[stream]
        before = len(held.messages)
        held.messages = [one for one in held.messages if one.sequence != sequence]
        return len(held.messages) < before

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
    ) -> t.ConsumerState:
        """Creates or replaces; the start is chosen once."""
        self._call("consumer_put")
        self._stream(stream)
        held = self.consumers.get((stream, consumer))
        wanted = tuple(filters)
        made = FakeConsumer(config, name, definition, wanted, 0)
        if held is None:
            made.start = self._start(stream, config, wanted)
            if config.deliver_policy == 5:
                made.newest, made.since = self._newest(stream, wanted), self.streams[stream].last_seq
        else:
            made.start, made.newest, made.since = held.start, held.newest, held.since
        self.consumers[stream, consumer] = made
        self.bound.discard(name)
        if deliver_subject in self.bound:
            self.bound.add(name)
        return await self.consumer_state(stream, consumer)

    def _start(self, stream: int, config: t.FlatConsumer, filters: tuple[str, ...]) -> int:
        state, messages = self._state(stream), self.streams[stream].messages
        first = max(state.first_seq, 1)
        if config.deliver_policy == 1:
            matching = [one.sequence for one in messages if _wanted(one, filters)]
            return max(([state.last_seq] if not filters else matching) or [first])
        if config.deliver_policy == 2:
            return state.last_seq + 1
        if config.deliver_policy == 3:
            return max(config.opt_start_seq, first)
        if config.deliver_policy == 4:
            later = [one.sequence for one in messages if one.ts >= config.opt_start_ts]
            return later[0] if later else state.last_seq + 1
        if config.deliver_policy == 5:
            return min(self._newest(stream, filters), default=max(state.last_seq, first))
        return first

    def _newest(self, stream: int, filters: tuple[str, ...]) -> frozenset[int]:
        newest = {one.subject: one.sequence for one in self.streams[stream].messages if _wanted(one, filters)}
        return frozenset(newest.values())

    async def consumer_remove(self, stream: int, consumer: int) -> None:
        """Gone."""
        self._call("consumer_remove")
        self._consumer(stream, consumer)
        del self.consumers[stream, consumer]

    async def consumer_pause(self, stream: int, consumer: int, until_wall_ns: int) -> None:
        """Nothing is delivered here anyway."""
        self._call("consumer_pause")
        self._consumer(stream, consumer)

    async def consumer_state(self, stream: int, consumer: int) -> t.ConsumerState:
        """Nothing was ever delivered."""
        held = self._consumer(stream, consumer)
        start = max(held.start, self._state(stream).first_seq)
        matching = [
            one for one in self.streams[stream].messages if one.sequence >= start and _wanted(one, held.filters)
        ]
        if held.newest is not None:
            matching = [one for one in matching if one.sequence > held.since or one.sequence in held.newest]
        pending = len(matching)
        floor = max(start - 1, 0)
        bound = int(held.name in self.bound)
        return t.ConsumerState(0, floor, 0, floor, 0, 0, 0, 0, 0, pending, bound, 0, 0)

    async def consumers_states(self, places: Sequence[tuple[int, int]]) -> list[bytes | None]:
        """None for one that there is not."""
        self._call("consumers_states")
        found = [await self.consumer_state(*place) if place in self.consumers else None for place in places]
        names = layout("consumer_state_t").names
        return [encoded("consumer_state_t", vars_of(one, *names)) if one is not None else None for one in found]

    async def consumer_begin(self, stream: int, consumer: int) -> None:
        """It delivers nothing here anyway."""
        self._call("consumer_begin")
        self._consumer(stream, consumer)

    async def consumer_spare(self, stream: int, consumer: int, interval_ns: int) -> None:
        """It has no heartbeats here."""
        self._call("consumer_spare")
        self._consumer(stream, consumer)

    async def consumer_unpin(self, stream: int, consumer: int) -> None:
        """Nobody pulls here."""
        self._call("consumer_unpin")
        self._consumer(stream, consumer)

    async def consumer_reset(self, stream: int, consumer: int, sequence: int) -> tuple[int, t.ConsumerState]:
        """Moves the start."""
        self._call("consumer_reset")
        held = self._consumer(stream, consumer)
        held.start = sequence or held.start
        return max(held.start, 1), await self.consumer_state(stream, consumer)


def _wanted(message: FakeMessage, filters: tuple[str, ...]) -> bool:
    return not filters or any(subset(message.subject, one) for one in filters)
