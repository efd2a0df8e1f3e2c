"""The only importer of the C extension: Plane, its commands as methods, its events as frozen dataclasses.

    handler(event) <-- Plane.run() <-- plane_poll <-- [ring] <-- plane thread
    plane.send(...), await plane.stream_put(...) --> plane_submit --> [ring] --> plane thread

One trio task (Plane.run, the pump) polls; everything else only submits. Methods that are plain functions are orders without an
answer; methods that are async wait for the plane's completion, and for a change of the store that means: it is on disk.
Orders take effect in the order of the calls. What does not live here: any decision.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, Final

import trio

from leafd import native_types as t
from leafd._native import ffi as _ffi
from leafd._native import lib as _lib

# cffi's module is untyped by nature; these two names are the whole untyped surface.
ffi: Any = _ffi
lib: Any = _lib

PLANE_ABI: Final = 1
_EVENTS_AT_ONCE: Final = 256
_UNSENT_MAX: Final = 1 << 16
_RECORD_VALUE_MAX: Final = 1 << 20

STATUS_NAMES: Final = {
    -1: "not found",
    -2: "full",
    -3: "out of memory",
    -4: "input/output error",
    -5: "corrupt",
    -6: "written by a newer version",
    -7: "in use",
    -8: "invalid",
    -9: "exists already",
    -10: "no space left",
    -11: "closed",
    -12: "nothing now",
}
NOT_FOUND: Final = -1
NO_SPACE: Final = -10


class PlaneError(Exception):
    """A command was refused, or the plane could not be opened. status is a status_t of base/status.h."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def pack_strings(strings: Iterable[bytes]) -> bytes:
    """Packed strings of abi.h: 4-byte little-endian length, bytes, and so on."""
    return b"".join(len(s).to_bytes(4, "little") + s for s in strings)


def pack_lists(*lists: Iterable[str]) -> bytes:
    """Several lists of strings, each ended by an empty string."""
    return b"".join(pack_strings([*(s.encode() for s in entries), b""]) for entries in lists)


def _struct_bytes(type_name: str, value: Any) -> bytes:
    cell = ffi.new(f"{type_name} *")
    for one in fields(value):
        setattr(cell, one.name, getattr(value, one.name))
    return bytes(ffi.buffer(cell))


def _struct_fields(type_name: str, payload: bytes, names: Iterable[str]) -> dict[str, int]:
    size = ffi.sizeof(type_name)
    if len(payload) < size:
        raise PlaneError(-8, f"the plane answered {len(payload)} bytes where a {type_name} has {size}")
    cell = ffi.cast(f"{type_name} *", ffi.from_buffer(payload))
    return {name: int(getattr(cell, name)) for name in names}


def _slice(pointer: Any, size: int) -> bytes:
    return bytes(ffi.buffer(pointer, size)) if size else b""


def _text(pointer: Any, size: int) -> str:
    return _slice(pointer, size).decode("utf-8", "surrogateescape")


def _name(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class _Completion:
    """The answer to one command, waited for by exactly one task."""

    __slots__ = ("arg", "arg2", "done", "header", "payload", "status", "subject")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.status = 0
        self.arg = 0
        self.arg2 = 0
        self.subject = b""
        self.header = b""
        self.payload = b""


class Plane:
    """The C plane as one object. Open it, start it, run the pump, submit; stop and close at the end."""

    def __init__(self, handle: Any) -> None:
        self._plane = handle
        self._next_token = 1
        self._next_subscription = 1
        self._completions: dict[int, _Completion] = {}
        self._handlers: dict[int, Callable[[t.Message], None]] = {}
        self._unsent: deque[tuple[Any, ...]] = deque()
        self._stopped = False

    # ---- life

    @classmethod
    def open(cls, limits: t.Limits, directory: Path | None, memory_directory: Path | None) -> Plane:
        """Opens the store and makes the rings. Raises PlaneError with a text for the operator."""
        if lib.plane_abi() != PLANE_ABI:
            raise PlaneError(
                -6, f"the C extension speaks ABI {lib.plane_abi()}, this Python code {PLANE_ABI}: reinstall"
            )
        reason = ffi.new("char[]", lib.PLANE_REASON_SIZE)
        status = ffi.new("int32_t *")
        cell = ffi.new("plane_limits_t *")
        for one in fields(limits):
            setattr(cell, one.name, getattr(limits, one.name))
        where = ffi.NULL if directory is None else ffi.new("char[]", bytes(directory))
        memory = ffi.NULL if memory_directory is None else ffi.new("char[]", bytes(memory_directory))
        handle = lib.plane_open(cell, where, memory, reason, status)
        if handle == ffi.NULL:
            raise PlaneError(int(status[0]), ffi.string(reason).decode("utf-8", "replace"))
        return cls(handle)

    def start(self) -> None:
        """Starts the plane's thread."""
        status = int(lib.plane_start(self._plane))
        if status != 0:
            raise PlaneError(status, f"the plane did not start: {STATUS_NAMES.get(status, status)}")

    async def stop(self) -> None:
        """Closes connections, makes everything durable, ends the plane's threads. Shielded: a half stop helps nobody."""
        if self._stopped:
            return
        self._stopped = True
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(lib.plane_stop, self._plane)
        for completion in self._completions.values():
            completion.status = -11
            completion.done.set()
        self._completions.clear()

    def close(self) -> None:
        """Frees the plane. Only after stop()."""
        if self._plane is not None:
            lib.plane_close(self._plane)
            self._plane = None

    def records(self, kind: int) -> Iterator[tuple[bytes, bytes]]:
        """Stored records (RECORD_*) in key order; only between open() and start()."""
        key = ffi.new("uint8_t[]", 1024)
        key_size = ffi.new("uint32_t *")
        value_max = _RECORD_VALUE_MAX
        value = ffi.new("uint8_t[]", value_max)
        after = b""
        while True:
            key_size[0] = 1024
            size = int(lib.plane_record_next(self._plane, kind, after, len(after), key, key_size, value, value_max))
            if size < 0:
                return
            if size > value_max:
                value_max = size
                value = ffi.new("uint8_t[]", value_max)
                continue
            after = bytes(ffi.buffer(key, key_size[0]))
            yield after, bytes(ffi.buffer(value, size))

    def stats(self) -> t.Stats:
        """The plane's counters, now."""
        cell = ffi.new("plane_stats_t *")
        lib.plane_stats(self._plane, cell)
        return t.Stats(*(int(getattr(cell, one.name)) for one in fields(t.Stats)))

    # ---- the pump

    async def run(self, handler: Callable[[t.Event], None]) -> None:
        """Takes events for ever and hands each to `handler` (or to its subscription's handler). Cancel to end it."""
        wake_fd = int(lib.plane_wake_fd(self._plane))
        events = ffi.new("plane_event_t[]", _EVENTS_AT_ONCE)
        while True:
            self._submit_unsent()
            count = int(lib.plane_poll(self._plane, events, _EVENTS_AT_ONCE))
            if count == 0:
                if self._unsent:
                    await trio.sleep(0.001)
                else:
                    await trio.lowlevel.wait_readable(wake_fd)
                continue
            decoded = [self._decode(events[i]) for i in range(count)]
            lib.plane_release(self._plane, count)
            for event in decoded:
                if event is None:
                    continue
                if isinstance(event, t.Message):
                    target = self._handlers.get(event.subscription)
                    if target is not None:
                        target(event)
                    continue
                handler(event)
            await trio.lowlevel.checkpoint()

    def _decode(self, event: Any) -> t.Event | None:
        kind = event.kind
        if kind == lib.EVENT_MESSAGE:
            return t.Message(
                int(event.target),
                int(event.account),
                int(event.arg),
                int(event.arg2),
                _text(event.subject, event.subject_size),
                _text(event.reply, event.reply_size),
                _slice(event.header, event.header_size),
                _slice(event.payload, event.payload_size),
            )
        if kind == lib.EVENT_DONE:
            self._complete(event)
            return None
        return self._decode_rare(kind, event)

    def _decode_rare(self, kind: int, event: Any) -> t.Event | None:
        target, code, arg = int(event.target), int(event.code), int(event.arg)
        payload = _slice(event.payload, event.payload_size)
        text = payload.decode("utf-8", "replace")
        if kind == lib.EVENT_OPENED:
            return t.Opened(target, code, arg, _text(event.subject, event.subject_size))
        if kind == lib.EVENT_LINE:
            return t.Line(target, code, payload)
        if kind == lib.EVENT_CLOSED:
            return t.Closed(target, code, text)
        if kind == lib.EVENT_ADVISORY:
            numbers = _struct_fields("advisory_t", payload, ("stream_seq", "consumer_seq", "deliveries", "ack_time_ns"))
            return t.Advisory(code, target, arg, text=_text(event.subject, event.subject_size), **numbers)
        if kind == lib.EVENT_INGEST:
            return t.Ingest(target, arg, code, int(event.status), int(event.arg2))
        if kind == lib.EVENT_ALARM:
            return t.Alarm(code, target, arg, text)
        if kind == lib.EVENT_LEAF_ERR:
            return t.LeafError(target, text)
        if kind == lib.EVENT_LEAF_INFO:
            return t.LeafInfo(target, payload)
        if kind == lib.EVENT_TRACE:
            return t.Trace(target, text)
        if kind == lib.EVENT_CONSUMER_GONE:
            return t.ConsumerGone(target, arg)
        raise PlaneError(-8, f"the plane sent an event of unknown kind {kind}")

    def _complete(self, event: Any) -> None:
        completion = self._completions.pop(int(event.token), None)
        if completion is None:
            return
        completion.status = int(event.status)
        completion.arg = int(event.arg)
        completion.arg2 = int(event.arg2)
        completion.subject = _slice(event.subject, event.subject_size)
        completion.header = _slice(event.header, event.header_size)
        completion.payload = _slice(event.payload, event.payload_size)
        completion.done.set()

    # ---- submitting

    def _submit(
        self,
        op: int,
        *,
        account: int = 0,
        target: int = 0,
        token: int = 0,
        arg: int = 0,
        arg2: int = 0,
        body: bytes = b"",
        extra: bytes = b"",
    ) -> None:
        if self._stopped:
            return
        if len(self._unsent) >= _UNSENT_MAX:
            raise PlaneError(-2, f"{_UNSENT_MAX} commands wait for the plane: it does not keep up")
        self._unsent.append((op, account, target, token, arg, arg2, body, extra))
        self._submit_unsent()

    def _submit_unsent(self) -> None:
        command = ffi.new("plane_command_t *") if self._unsent else None
        while self._unsent:
            op, account, target, token, arg, arg2, body, extra = self._unsent[0]
            command.op, command.account, command.target, command.token = op, account, target, token
            command.arg, command.arg2 = arg, arg2
            body_cell, extra_cell = ffi.from_buffer(body), ffi.from_buffer(extra)
            command.body, command.body_size = ffi.cast("uint8_t *", body_cell), len(body)
            command.extra, command.extra_size = ffi.cast("uint8_t *", extra_cell), len(extra)
            if lib.plane_submit(self._plane, command, 1) != 1:
                return
            self._unsent.popleft()

    async def _request(self, op: int, what: str, **parts: Any) -> _Completion:
        """Submits and waits for the completion; raises PlaneError when its status is not OK."""
        token = self._next_token
        self._next_token += 1
        completion = self._completions[token] = _Completion()
        try:
            self._submit(op, token=token, **parts)
            if self._stopped:
                raise PlaneError(-11, f"{what}: the plane is stopping")
            await completion.done.wait()
        finally:
            self._completions.pop(token, None)
        if completion.status != 0:
            why = STATUS_NAMES.get(completion.status, str(completion.status))
            detail = completion.payload.decode("utf-8", "replace") if completion.payload else ""
            raise PlaneError(completion.status, detail or f"{what}: {why}")
        return completion

    # ---- connections

    def listen(self, listener: int, fd: int, kind: t.ConnKind) -> None:
        """Hands a listening socket over; the plane owns the fd from here on."""
        self._submit(lib.COMMAND_LISTEN, target=listener, arg=fd, arg2=int(kind))

    def unlisten(self, listener: int) -> None:
        """Stops accepting and closes the listening socket."""
        self._submit(lib.COMMAND_UNLISTEN, target=listener)

    async def adopt(self, fd: int, kind: t.ConnKind) -> int:
        """Hands a connected socket over (the plane owns the fd); returns the connection id. EVENT_OPENED comes too."""
        done = await self._request(lib.COMMAND_ADOPT, "adopting a connection", arg=fd, arg2=int(kind))
        return done.arg

    def send(self, connection: int, frame: bytes) -> None:
        """Queues a control frame (a whole line with CRLF)."""
        self._submit(lib.COMMAND_SEND, target=connection, body=frame)

    def resume(self, connection: int) -> None:
        """Goes on reading after a Line event that needs no verdict."""
        self._submit(lib.COMMAND_RESUME, target=connection)

    def close_connection(self, connection: int, text: str = "", reason: int = t.CloseReason.CLIENT) -> None:
        """Sends -ERR 'text' (unless empty) and closes."""
        self._submit(lib.COMMAND_CLOSE, target=connection, arg=int(reason), body=_name(text))

    def admit(
        self, connection: int, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> None:
        """Admits a client; after_pong is sent behind its first PONG (the second INFO), empty = nothing."""
        extra = pack_strings([after_pong]) + _pack_permissions(permissions)
        body = _struct_bytes("conn_verdict_t", verdict)
        self._submit(lib.COMMAND_ADMIT, target=connection, account=account, body=body, extra=extra)

    def admit_leaf(
        self,
        connection: int,
        account: int,
        verdict: t.ConnVerdict,
        permissions: t.Permissions,
        *,
        cluster: str,
        loop_subject: str,
        remote_domain: str,
    ) -> None:
        """Binds a leaf link to an account: interest is exchanged from here on."""
        extra = pack_strings([_name(cluster), _name(loop_subject), _name(remote_domain)])
        body = _struct_bytes("conn_verdict_t", verdict)
        self._submit(
            lib.COMMAND_ADMIT_LEAF,
            target=connection,
            account=account,
            body=body,
            extra=extra + _pack_permissions(permissions),
        )

    def broadcast(self, frame: bytes) -> None:
        """A control frame to every admitted client that speaks protocol 1."""
        self._submit(lib.COMMAND_BROADCAST, body=frame)

    async def connections(self) -> list[t.ConnectionRow]:
        """Counters of every connection."""
        done = await self._request(lib.COMMAND_CONNECTIONS, "listing connections")
        size = ffi.sizeof("connection_row_t")
        names = [one.name for one in fields(t.ConnectionRow)]
        rows = range(0, len(done.payload) - size + 1, size)
        return [
            t.ConnectionRow(**_struct_fields("connection_row_t", done.payload[at : at + size], names)) for at in rows
        ]

    def set_limits(self, limits: t.Limits) -> None:
        """The live ones of the limits take effect."""
        self._submit(lib.COMMAND_LIMITS, body=_struct_bytes("plane_limits_t", limits))

    # ---- accounts

    def account(self, account: int, name: str, domain: str, flags: int) -> None:
        """Makes or changes an account."""
        self._submit(
            lib.COMMAND_ACCOUNT, account=account, arg=int(flags), extra=pack_strings([_name(name), _name(domain)])
        )

    def subscribe(
        self,
        account: int,
        subject: str,
        handler: Callable[[t.Message], None],
        *,
        queue: str = "",
        flags: int = 0,
    ) -> int:
        """Control subscription: `handler` is called by the pump with each message. Returns the subscription id."""
        subscription = self._next_subscription
        self._next_subscription += 1
        self._handlers[subscription] = handler
        extra = pack_strings([_name(subject), _name(queue)])
        self._submit(lib.COMMAND_SUBSCRIBE, account=account, target=subscription, arg=int(flags), extra=extra)
        return subscription

    def unsubscribe(self, account: int, subscription: int) -> None:
        """Ends a control subscription; its handler is not called again."""
        self._handlers.pop(subscription, None)
        self._submit(lib.COMMAND_UNSUBSCRIBE, account=account, target=subscription)

    def publish(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> None:
        """Publishes from inside into an account."""
        extra = pack_strings([_name(subject), _name(reply), header])
        self._submit(lib.COMMAND_PUBLISH, account=account, arg=int(flags), body=payload, extra=extra)

    async def publish_counted(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> int:
        """As publish(); returns how many targets took it (a leaf link counts as one)."""
        extra = pack_strings([_name(subject), _name(reply), header])
        done = await self._request(
            lib.COMMAND_PUBLISH, "publishing", account=account, arg=int(flags), body=payload, extra=extra
        )
        return done.arg

    # ---- streams

    async def stream_put(
        self,
        stream: int,
        config: t.FlatStream,
        *,
        name: str,
        definition: bytes,
        domain: str,
        subjects: Iterable[str],
        loading: bool = False,
    ) -> t.StreamState:
        """Creates, updates or (loading) takes up a stored stream. definition is kept verbatim as the durable record."""
        extra = pack_strings([_name(name), definition, _name(domain), *(_name(s) for s in subjects)])
        done = await self._request(
            lib.COMMAND_STREAM_PUT,
            f"stream {name}",
            account=config.account,
            target=stream,
            arg=int(loading),
            body=_struct_bytes("stream_config_t", config),
            extra=extra,
        )
        return _stream_state(done.payload)

    async def stream_remove(self, stream: int) -> None:
        """Removes a stream with its consumers, messages and records."""
        await self._request(lib.COMMAND_STREAM_REMOVE, "removing a stream", target=stream)

    async def stream_state(
        self, stream: int, *, subjects_filter: str = "", deleted: bool = False, offset: int = 0
    ) -> t.StreamState:
        """Counters, and on request the deleted sequences and the count per subject."""
        done = await self._request(
            lib.COMMAND_STREAM_STATE,
            "reading a stream's state",
            target=stream,
            arg=int(deleted),
            arg2=offset,
            extra=pack_strings([_name(subjects_filter)]),
        )
        return _stream_state(done.payload, lists=True, deleted=deleted)

    async def stream_purge(self, stream: int, *, subject: str = "", sequence: int = 0, keep: int = 0) -> int:
        """Purges; returns how many messages went."""
        done = await self._request(
            lib.COMMAND_STREAM_PURGE,
            "purging a stream",
            target=stream,
            arg=sequence,
            arg2=keep,
            extra=pack_strings([_name(subject)]),
        )
        return done.arg

    async def message_get(
        self, stream: int, mode: int, *, sequence: int = 0, start_ts: int = 0, subject: str = ""
    ) -> t.StoredMessage | None:
        """One stored message by QUERY_* mode, or None."""
        query = ffi.new("message_query_t *", {"sequence": sequence, "start_ts": start_ts, "mode": mode})
        try:
            done = await self._request(
                lib.COMMAND_MESSAGE_GET,
                "reading a message",
                target=stream,
                body=bytes(ffi.buffer(query)),
                extra=pack_strings([_name(subject)]),
            )
        except PlaneError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return t.StoredMessage(done.arg, done.arg2, done.subject, done.header, done.payload)

    async def message_delete(self, stream: int, sequence: int, *, erase: bool = True) -> bool:
        """Deletes one message; False when it was not there."""
        try:
            await self._request(
                lib.COMMAND_MESSAGE_DELETE, "deleting a message", target=stream, arg=sequence, arg2=int(erase)
            )
        except PlaneError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    # ---- consumers

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
        filters: Iterable[str] = (),
        loading: bool = False,
    ) -> t.ConsumerState:
        """Creates, updates or (loading) takes up a consumer; the answer is its state before any delivery."""
        backoff = b"".join(struct.pack("<q", ns) for ns in backoff_ns)
        extra = pack_strings(
            [
                _name(name),
                definition,
                _name(deliver_subject),
                _name(deliver_group),
                backoff,
                *(_name(one) for one in filters),
            ]
        )
        done = await self._request(
            lib.COMMAND_CONSUMER_PUT,
            f"consumer {name}",
            account=config.account,
            target=stream,
            arg=consumer,
            arg2=int(loading),
            body=_struct_bytes("consumer_config_t", config),
            extra=extra,
        )
        return _consumer_state(done.payload)

    async def consumer_remove(self, stream: int, consumer: int) -> None:
        """Removes a consumer and its records."""
        await self._request(lib.COMMAND_CONSUMER_REMOVE, "removing a consumer", target=stream, arg=consumer)

    async def consumer_state(self, stream: int, consumer: int) -> t.ConsumerState:
        """Positions and counts, now."""
        done = await self._request(
            lib.COMMAND_CONSUMER_STATE, "reading a consumer's state", target=stream, arg=consumer
        )
        return _consumer_state(done.payload)

    async def consumer_pause(self, stream: int, consumer: int, until_wall_ns: int) -> None:
        """Pauses until a wall time; 0 resumes."""
        await self._request(
            lib.COMMAND_CONSUMER_PAUSE, "pausing a consumer", target=stream, arg=consumer, arg2=until_wall_ns
        )

    async def consumer_reset(self, stream: int, consumer: int, sequence: int) -> tuple[int, t.ConsumerState]:
        """Moves a consumer back; 0 = ack floor + 1. Returns the sequence and the state."""
        done = await self._request(
            lib.COMMAND_CONSUMER_RESET, "resetting a consumer", target=stream, arg=consumer, arg2=sequence
        )
        return done.arg, _consumer_state(done.payload)

    # ---- ingest of mirrors and sources

    async def ingest_start(
        self,
        stream: int,
        slot: int,
        *,
        mirror: bool,
        last_sequence: int,
        silence_ns: int,
        deliver_subject: str,
        consumer: str,
        source_key: tuple[str, str, str, str] = ("", "", "", ""),
    ) -> None:
        """Takes up what arrives on deliver_subject. source_key: the constant parts of Nats-Stream-Source (name, filter,
        destination, identity)."""
        config = ffi.new(
            "ingest_config_t *", {"mirror": int(mirror), "last_sequence": last_sequence, "silence_ns": silence_ns}
        )
        extra = pack_strings([_name(deliver_subject), _name(consumer), *(_name(part) for part in source_key)])
        await self._request(
            lib.COMMAND_INGEST_START,
            "starting an ingest",
            target=stream,
            arg=slot,
            body=bytes(ffi.buffer(config)),
            extra=extra,
        )

    async def ingest_stop(self, stream: int, slot: int) -> None:
        """Takes nothing more; stored progress stays."""
        await self._request(lib.COMMAND_INGEST_STOP, "stopping an ingest", target=stream, arg=slot)

    async def ingest_state(self, stream: int, slot: int) -> t.IngestState:
        """Progress and lag of one slot."""
        done = await self._request(lib.COMMAND_INGEST_STATE, "reading an ingest's state", target=stream, arg=slot)
        names = [one.name for one in fields(t.IngestState)]
        return t.IngestState(**_struct_fields("ingest_state_t", done.payload, names))

    async def ingest_forget(self, stream: int, key: str) -> None:
        """Drops the stored progress of a source key."""
        await self._request(
            lib.COMMAND_INGEST_FORGET, "forgetting a source", target=stream, extra=pack_strings([_name(key)])
        )

    # ---- records of the control side

    async def record_put(self, key: bytes, value: bytes) -> None:
        """Stores a small record; returns when it is on disk."""
        await self._request(lib.COMMAND_RECORD_PUT, "writing a record", extra=pack_strings([key, value]))

    async def record_delete(self, key: bytes) -> None:
        """Removes a small record."""
        await self._request(lib.COMMAND_RECORD_DELETE, "removing a record", extra=pack_strings([key]))


def _pack_permissions(permissions: t.Permissions) -> bytes:
    return pack_lists(*astuple(permissions))


def _stream_state(payload: bytes, *, lists: bool = False, deleted: bool = False) -> t.StreamState:
    names = [one.name for one in fields(t.StreamState) if one.name not in ("deleted", "subject_counts")]
    counters = _struct_fields("stream_state_t", payload, names)
    at = ffi.sizeof("stream_state_t")
    gaps: tuple[int, ...] = ()
    if deleted:
        count = counters["deleted_count"]
        gaps = struct.unpack_from(f"<{count}Q", payload, at)
        at += 8 * count
    subjects: dict[str, int] = {}
    while lists and at + 4 <= len(payload):
        size = int.from_bytes(payload[at : at + 4], "little")
        subject = payload[at + 4 : at + 4 + size].decode("utf-8", "surrogateescape")
        subjects[subject] = int.from_bytes(payload[at + 4 + size : at + 12 + size], "little")
        at += 12 + size
    return t.StreamState(**counters, deleted=gaps, subject_counts=subjects)


def _consumer_state(payload: bytes) -> t.ConsumerState:
    names = [one.name for one in fields(t.ConsumerState)]
    return t.ConsumerState(**_struct_fields("consumer_state_t", payload, names))


RECORD_STREAM: Final = 1
RECORD_CONSUMER: Final = 2
RECORD_CONTROL: Final = 3
RECORD_SOURCE: Final = 4
QUERY_SEQUENCE: Final = 0
QUERY_LAST_BY_SUBJECT: Final = 1
QUERY_NEXT_BY_SUBJECT: Final = 2
QUERY_START_TIME: Final = 3
