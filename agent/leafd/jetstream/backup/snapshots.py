"""Snapshots: a stream with its consumers, sent to clients that asked, at the pace of their acknowledgements.

    request --> reply (configuration, state) --> chunk, chunk, ... --> the rest, without reply subject --> empty message
                            <-- empty message to $JS.SNAPSHOT.ACK.<stream>.<id>.<size>.<index>, one for each full chunk

A client that asked by a leaf link may be behind a slow line. The client subscribes when it has the reply, a round trip
after we sent that, and a chunk's acknowledgement takes the line's queue and a round trip. So such a one is waited for
longer, as long as its interest is there. Its chunks are small at first, so that other messages of the line go between
them, and as large as the acknowledgements show that the line carries in a moment.

What is in it: the state as it was at the request, consumers, and messages up to that state's last sequence; a message
deleted meanwhile is a gap. The plane reads some 256 KiB at a time, and only when the window has room for a chunk.
Not here: restoring (restore.py), the archive's entries (archive.py), S2 (s2.py). Reference:
tests/wire/jetstream.md, "Backup".
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Final

import trio

from leafd import native_types as t
from leafd.config.transforms import valid_subject
from leafd.gojson import dump, written
from leafd.gotime import format_time, now_ns
from leafd.jetstream import errors
from leafd.jetstream.advisories import unique
from leafd.jetstream.backup import archive, s2
from leafd.jetstream.catalogue import Stream
from leafd.jetstream.context import Context
from leafd.jetstream.endpoints.infos import stream_state
from leafd.jetstream.models.requests import SnapshotRequest
from leafd.jetstream.registry import Body, Call, Check, endpoint
from leafd.jetstream.subjects import literal
from leafd.turns import ITEM_WEIGHT, aside

CHUNK_DEFAULT: Final = 128 << 10
CHUNK_MIN: Final = 1 << 10
CHUNK_MAX: Final = 1 << 20
WINDOW_DEFAULT: Final = 8 << 20
WINDOW_MAX: Final = 32 << 20
INTEREST_SECONDS: Final = 2.0
ACK_SECONDS: Final = 5.0
FAR_INTEREST_SECONDS: Final = 15.0
FAR_ACK_STEPS: Final = 60
"""So many times ACK_SECONDS without an acknowledgement: a chunk at 2 kbit/s takes a minute."""
FAR_CHUNK_MIN: Final = 4 << 10
"""The nats command line gives up when no chunk came for 5 s."""
FAR_CHUNK_MAX: Final = 64 << 10
FAR_CHUNK_SECONDS: Final = 0.1
FAR_WINDOW_MAX: Final = 256 << 10
"""A slow link drops what waits beyond LANE_MAX (native/plane/lanes.h), of all backups together."""
_INTEREST_STEP: Final = 0.01
_DURABLE_SECONDS: Final = 5.0
_DURABLE_STEP: Final = 0.005


class SnapshotError(Exception):
    """The snapshot ends early; code and text are the last message's status."""

    def __init__(self, code: int, status: str, text: str) -> None:
        super().__init__(text)
        self.header = f"NATS/1.0 {code} {status}\r\n\r\n".encode("utf-8", "replace")


def _failed(text: str) -> SnapshotError:
    return SnapshotError(500, " ".join(text.split()), text)


@endpoint(
    "STREAM.SNAPSHOT.*",
    "stream_snapshot_response",
    SnapshotRequest,
    body=Body.REQUIRED,
    checks=(Check.LEVEL, Check.ACCOUNT, Check.EMPTY, Check.STREAM, Check.BODY),
)
async def snapshot(call: Call, request: SnapshotRequest) -> dict[str, Any]:
    """Tells what the stream is, then sends its content."""
    context, stream = call.context, call.stream(call.name(2))
    if not (valid_subject(request.deliver_subject) and literal(request.deliver_subject)):
        raise errors.SNAPSHOT_DELIVER_SUBJECT_INVALID.error()
    start = now_ns()
    try:
        state = await context.plane.stream_state(stream.id)
    except t.PlaneError as error:
        raise errors.STREAM_SNAPSHOT.error(err=error) from None
    shown = written(stream_state(stream.visible, state))

    async def send() -> None:
        client = call.asker.info()
        context.advisories.backup(stream.account, stream.name, "SNAPSHOT_CREATE", {"state": shown, "client": client})
        ended: dict[str, Any] = {"start": format_time(start)}
        error = await Sending(context, stream, request, far=call.asker.far).run(state)
        ended |= {"end": format_time(now_ns()), "client": client}
        if error:
            ended["error"] = error
        context.advisories.backup(stream.account, stream.name, "SNAPSHOT_COMPLETE", ended)

    call.after = send
    return {"config": written(stream.config), "state": shown}


class Sending:
    """One snapshot on its way."""

    def __init__(self, context: Context, stream: Stream, request: SnapshotRequest, *, far: bool) -> None:
        self._context = context
        self._plane = context.plane
        self._stream = stream
        self._to = request.deliver_subject
        self._consumers = not request.no_consumers
        self._chunk = min(max(request.chunk_size or CHUNK_DEFAULT, CHUNK_MIN), FAR_CHUNK_MAX if far else CHUNK_MAX)
        self._window = min(max(request.window_size or WINDOW_DEFAULT, CHUNK_MIN), FAR_WINDOW_MAX if far else WINDOW_MAX)
        self._least = min(self._chunk, FAR_CHUNK_MIN) if far else self._chunk
        self._interest_s = FAR_INTEREST_SECONDS if far else INTEREST_SECONDS
        self._ack_steps = FAR_ACK_STEPS if far else 1
        self._flying = deque[int]()  # sizes of chunks without acknowledgement
        self._acknowledgement = trio.Event()
        self._acknowledged_bytes = 0
        self._began_s = 0.0
        self._sent = 0
        self._listened = False  # somebody subscribed to the very subject

    async def run(self, state: t.StreamState) -> str:
        """Sends everything and the end; returns what went wrong, if anything."""
        account = self._stream.account.id
        acks = f"$JS.SNAPSHOT.ACK.{self._stream.name}.{unique()}"
        subscription = self._plane.subscribe(account, f"{acks}.>", self._acknowledged)
        header, text = b"", ""
        try:
            await self._send_all(state, acks)
            header = b"NATS/1.0 204\r\n\r\n" if self._sent else b""
        except SnapshotError as error:
            header, text = error.header, str(error)
        finally:
            self._plane.unsubscribe(account, subscription)
        self._plane.publish(account, self._to, b"", header=header, flags=t.PublishFlag.BULK)
        return text

    def _acknowledged(self, _message: t.Message) -> None:
        with suppress(IndexError):  # more acknowledgements than chunks
            self._acknowledged_bytes += self._flying.popleft()
        self._acknowledgement.set()

    def _size(self) -> int:
        """The bytes of the next chunk."""
        took_s = max(trio.current_time() - self._began_s, FAR_CHUNK_SECONDS)
        return min(max(int(self._acknowledged_bytes / took_s * FAR_CHUNK_SECONDS), self._least), self._chunk)

    async def _send_all(self, state: t.StreamState, acks: str) -> None:
        await self._wait_for_interest()
        self._began_s = trio.current_time()
        held, plain = bytearray(s2.IDENTIFIER), bytearray()
        async with aclosing(self._pieces(state)) as pieces:
            async for piece in pieces:
                plain += piece
                if len(plain) < s2.WRITTEN_MAX:
                    continue
                held += s2.chunks(plain)
                plain.clear()
                while len(held) >= (size := self._size()):
                    await self._send_chunk(bytes(held[:size]), acks)
                    del held[:size]
        held += s2.chunks(plain)
        while len(held) > (size := self._size()):
            await self._send_chunk(bytes(held[:size]), acks)
            del held[:size]
        await self._take_room(len(held))
        await self._publish(bytes(held), "")

    async def _take_room(self, size: int) -> None:
        for _ in range(self._ack_steps):
            with trio.move_on_after(ACK_SECONDS) as waiting:
                while self._flying and sum(self._flying) + size > self._window:
                    self._acknowledgement = trio.Event()
                    await self._acknowledgement.wait()
            if not waiting.cancelled_caught:
                return
            await self._check_interest()
        raise SnapshotError(408, "No Flow Response", "no flow response")

    async def _check_interest(self) -> None:
        """Raises SnapshotError where nobody is subscribed any more."""
        try:
            if self._listened and not await self._plane.interest(self._stream.account.id, self._to):
                raise SnapshotError(408, "No Interest", "no interest")
        except t.PlaneError as error:
            raise _failed(str(error)) from None

    async def _send_chunk(self, chunk: bytes, acks: str) -> None:
        await self._take_room(len(chunk))
        self._flying.append(len(chunk))  # before it is sent: its acknowledgement may come at once
        await self._publish(chunk, f"{acks}.{len(chunk)}.{self._sent + 1}")
        self._sent += 1

    async def _publish(self, chunk: bytes, reply: str) -> None:
        account = self._stream.account.id
        await self._check_interest()
        try:
            heard = await self._plane.publish_counted(account, self._to, chunk, reply=reply, flags=t.PublishFlag.BULK)
        except t.PlaneError as error:
            raise _failed(str(error)) from None
        if not heard:
            raise SnapshotError(408, "No Interest", "no interest")

    async def _wait_for_interest(self) -> None:
        """Clients subscribe once they have the reply. A wildcard's subscriber is not seen, and gets the chunks
        later."""
        deadline = trio.current_time() + self._interest_s
        try:
            while not await self._plane.interest(self._stream.account.id, self._to):
                if trio.current_time() >= deadline:
                    return
                await trio.sleep(_INTEREST_STEP)
        except t.PlaneError as error:
            raise _failed(str(error)) from None
        self._listened = True

    async def _pieces(self, state: t.StreamState) -> AsyncGenerator[bytes, None]:
        """The archive, not yet compressed."""
        now = now_ns()
        try:
            entries = await self._consumer_entries(state.last_seq, now)
            shown = written(stream_state(self._stream.visible, state)) | {"consumer_count": len(entries)}
            yield archive.MAGIC + archive.entry(archive.STATE, now, dump(shown))
            for consumer in entries:
                yield consumer
            sequence = state.first_seq
            stuck = trio.current_time() + _DURABLE_SECONDS
            while 0 < sequence <= state.last_seq:
                messages, following = await self._plane.stream_export(self._stream.id, sequence, state.last_seq)
                if messages:
                    yield messages
                    stuck = trio.current_time() + _DURABLE_SECONDS
                elif following == sequence:
                    # What is not on disk yet was counted, and is not shown before it is there.
                    if trio.current_time() > stuck:
                        raise _failed(f"messages after {sequence} do not become durable")
                    await trio.sleep(_DURABLE_STEP)
                sequence = following
        except t.PlaneError as error:
            raise _failed(f"couldn't load messages: {error}") from None
        yield archive.END

    async def _consumer_entries(self, last_seq: int, now: int) -> list[bytes]:
        entries: list[bytes] = []
        for consumer in self._stream.listed() if self._consumers else ():
            try:
                position = await self._plane.consumer_export(self._stream.id, consumer.id)
            except t.PlaneError as error:
                if error.status == t.Status.NOT_FOUND:
                    continue  # it was deleted while we looked
                raise
            weight = len(position.pending) * ITEM_WEIGHT
            entries.append(
                await aside(weight, archive.consumer_entry, consumer.name, consumer.config, position, last_seq, now)
            )
        return entries
