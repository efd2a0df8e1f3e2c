"""The C plane as one object: Plane, its commands as methods, its events as frozen dataclasses.

    handler(event) <-- Plane.run() <-- plane_poll <-- [ring] <-- plane thread
    plane.send(...), await plane.stream_put(...) --> plane_submit --> [ring] --> plane thread

One trio task (Plane.run, the pump) polls; everything else only submits. The commands themselves are in
native_commands.py, the values in native_types.py. Not here: any decision.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.holding import Contested, Holding
from leafd.native import abi as lib, command_rows, ffi, layout
from leafd.native_commands import Commands, Completion
from leafd.native_packing import (
    NO_STRINGS,
    PackedKeys,
    StoreKeys,
    Strings,
    body_of,
    how_many,
    packed,
    readers,
    slice_of,
)
from leafd.native_types import STATUS_NAMES, PlaneError, Status
from leafd.turns import ITEM_WEIGHT, SLICE_S, aside

PLANE_ABI: Final = 48
"""The abi.h that this code was written for: an extension of another version is refused."""
MEMORY_SHARES: Final = (
    "ring",
    "memory_ring",
    "overlay",
    "keeper",
    "output",
    "input",
    "exchange",
    "held",
    "control",
    "consumers",
    "batches",
    "replies",
    "reports",
    "interest",
    "archives",
)
_EVENTS_AT_ONCE: Final = 256
_UNSENT_MAX: Final = 1 << 16
_RECORD_VALUE_MAX: Final = 1 << 20


class Plane(Commands):
    """The C plane as one object. Open it, start it, run the pump, submit; stop and close at the end."""

    def __init__(self, handle: Any, guard: Guard | None = None, memory_limit: int = 0) -> None:
        super().__init__()
        self._plane = handle
        self._memory_limit = memory_limit
        self.reports = Holding(self.memory_share("reports"))
        self.archives = Contested(self.memory_share("archives"), alone=memory_limit // 8)
        self._guard = guard or Guard()
        self._command = ffi.new("plane_command_t *")
        self._next_token = 1
        self._completions: dict[int, Completion] = {}
        self._unsent: deque[tuple[Any, ...]] = deque()
        self._stopped = False

    # ---- life

    @classmethod
    def open(
        cls,
        limits: t.Limits,
        directory: Path | None,
        memory_directory: Path | None,
        guard: Guard | None = None,
        keys: StoreKeys | None = None,
    ) -> Plane:
        """Opens the store and makes the rings. Raises PlaneError with a text for the operator."""
        if lib.plane_abi() != PLANE_ABI:
            raise PlaneError(
                Status.VERSION, f"the C extension speaks ABI {lib.plane_abi()}, this Python code {PLANE_ABI}: reinstall"
            )
        reason = ffi.new("char[]", lib.PLANE_REASON_SIZE)
        status = ffi.new("int32_t *")
        cell = ffi.new("plane_limits_t *")
        for one in fields(limits):
            setattr(cell, one.name, getattr(limits, one.name))
        held = PackedKeys(keys) if keys is not None else None
        given = held.cell if held is not None else ffi.NULL
        where = ffi.NULL if directory is None else ffi.new("char[]", bytes(directory))
        memory = ffi.NULL if memory_directory is None else ffi.new("char[]", bytes(memory_directory))
        try:
            handle = lib.plane_open(cell, given, where, memory, reason, status)
        finally:
            if held is not None:
                held.cleanse()
        if handle == ffi.NULL:
            raise PlaneError(int(status[0]), ffi.string(reason).decode("utf-8", "replace"))
        return cls(handle, guard, limits.memory_limit)

    @staticmethod
    def hide() -> None:
        """From now on this process leaves no core dump, and programs of its user cannot look into its memory."""
        lib.plane_hide()

    def start(self) -> None:
        """Starts the plane's thread."""
        status = int(lib.plane_start(self._plane))
        if status != 0:
            raise PlaneError(status, f"the plane did not start: {STATUS_NAMES.get(status, status)}")

    async def stop(self) -> None:
        """Closes connections, makes everything durable, ends the plane's threads. Shielded: a half stop helps
        nobody."""
        if self._stopped:
            return
        self._stopped = True
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(lib.plane_stop, self._plane)
        for completion in self._completions.values():
            completion.status = Status.CLOSED
            completion.done.set()
        self._completions.clear()

    def close(self) -> None:
        """Frees the plane. Only after stop()."""
        if self._plane is not None:
            lib.plane_close(self._plane)
            self._plane = None

    def records(self, kind: int, *, whole: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """See Commands."""
        key = ffi.new("uint8_t[]", 1024)
        key_size = ffi.new("uint32_t *")
        value_max = _RECORD_VALUE_MAX
        value = ffi.new("uint8_t[]", value_max)
        after = b""
        while True:
            key_size[0] = 1024
            size = int(lib.plane_record_next(self._plane, kind, after, len(after), key, key_size, value, value_max))
            if size == -2:
                raise t.PlaneError(t.Status.IO, "stored definitions cannot be read")
            if size == -3 and whole:
                raise t.PlaneError(t.Status.CORRUPT, "some stored records are damaged in both places that have them")
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
        return t.Stats(**layout("plane_stats_t").unpack(ffi.buffer(cell)))

    def disk_took(self) -> dict[str, t.Histogram]:
        """How long syncs of the journal ("sync") and commits of LMDB ("commit") took."""
        cell, found = ffi.new("histogram_counts_t *"), {}
        bounds = [lib.histogram_bound_ns(span) / 1e9 for span in range(lib.HISTOGRAM_SPANS - 1)]
        for name, which in (("sync", lib.HISTOGRAM_SYNC), ("commit", lib.HISTOGRAM_COMMIT)):
            lib.plane_histogram(self._plane, which, cell)
            spans = zip([*bounds, math.inf], map(int, cell.counts), strict=True)
            found[name] = t.Histogram(tuple(spans), cell.sum_ns / 1e9)
        return found

    def memory_share(self, name: str) -> int:
        """Bytes of a share (MEMORY_*) of the limit of memory."""
        return int(lib.plane_memory_share(self._memory_limit, getattr(lib, f"MEMORY_{name.upper()}")))

    def memory(self) -> dict[str, Any]:
        """The limit of memory, and by share its bound and what is taken of it, in bytes."""
        stats, ours = self.stats(), {"reports": self.reports.used, "archives": self.archives.used}
        return {"limit": self._memory_limit} | {
            name: {
                "share": self.memory_share(name),
                "used": ours[name] if name in ours else getattr(stats, f"memory_{name}"),
            }
            for name in MEMORY_SHARES
        }

    # ---- the pump

    async def run(self, handler: Callable[[t.Event], None]) -> None:
        """Takes events for ever and hands each to `handler` (or to its subscription's handler). Cancel to end it.

        What goes wrong with one event is that event's: the others of its batch and all later ones are still handled.
        """
        wake_fd = int(lib.plane_wake_fd(self._plane))
        events = ffi.new("plane_event_t[]", _EVENTS_AT_ONCE)
        while True:
            self._submit_unsent()
            count = int(lib.plane_poll(self._plane, events, _EVENTS_AT_ONCE))
            decoded = [self._decoded(events[i]) for i in range(count)]
            lib.plane_release(self._plane, count)
            began = time.perf_counter()
            for event in decoded:
                if isinstance(event, Completion):
                    event.done.set()  # in its place: its waiter finds what came before it handled
                elif event is not None:
                    self._handle(event, handler)
                if time.perf_counter() - began > SLICE_S:
                    # A batch of logins takes longer than anybody may: the others of this thread go on meanwhile.
                    await trio.lowlevel.checkpoint()
                    began = time.perf_counter()
            if self._unsent:
                await trio.sleep(0 if count else 0.001)
            else:
                await trio.lowlevel.wait_readable(wake_fd)  # at once where there is more

    def _handle(self, event: t.Event, handler: Callable[[t.Event], None]) -> None:
        kept: bool | None = False
        try:
            if isinstance(event, t.Message):
                target = self._handlers.get(event.subscription)
                kept = target is not None and target(event)
            else:
                handler(event)
        except Exception as error:
            self._guard.caught(f"an event of the plane ({type(event).__name__})", error)
        if isinstance(event, t.Message) and not kept:
            self.repay(event)

    def advised(self) -> bool:
        """See Accounts."""
        return bool(lib.plane_advised(self._plane))

    def repay(self, message: t.Message) -> None:
        """See Accounts."""
        lib.plane_repay(self._plane, message.credit)

    def _decoded(self, event: Any) -> t.Event | Completion | None:
        try:
            return self._decode(event)
        except Exception as error:
            self._guard.caught(f"reading an event of the plane (kind {int(event.kind)})", error)
            if event.kind == lib.EVENT_MESSAGE:
                lib.plane_repay(self._plane, event.token)
            return None

    def _decode(self, event: Any) -> t.Event | Completion | None:
        kind = int(event.kind)
        if kind == lib.EVENT_DONE:
            return self._completed(event)
        read = readers().get(kind)
        if read is None:
            raise PlaneError(Status.INVALID, f"the plane sent an event of unknown kind {kind}")
        return read(event)

    def _completed(self, event: Any) -> Completion | None:
        completion = self._completions.get(int(event.token))
        if completion is None:
            return None
        completion.status = int(event.status)
        completion.arg = int(event.arg)
        completion.arg2 = int(event.arg2)
        completion.subject = slice_of(event, "subject")
        completion.header = slice_of(event, "header")
        completion.payload = slice_of(event, "payload")
        return completion

    # ---- submitting

    def _submit(
        self,
        op: str,
        *,
        account: int = 0,
        target: int = 0,
        token: int = 0,
        arg: int = 0,
        arg2: int = 0,
        body: Any = b"",
        strings: Strings = NO_STRINGS,
        extra: bytes | None = None,
    ) -> None:
        if self._stopped:
            return
        body, extra = body_of(op, body), packed(op, strings) if extra is None else extra
        if len(self._unsent) >= _UNSENT_MAX:
            raise PlaneError(Status.FULL, f"{_UNSENT_MAX} commands wait for the plane: it does not keep up")
        parts = (command_rows()[op].op, account, target, token, arg, arg2, body, extra)
        # Written into the struct at once even if it has to wait: what does not fit is refused to its caller.
        taken = self._offer(parts, wait=bool(self._unsent))
        if not taken:
            self._unsent.append(parts)
            self._submit_unsent()

    def _submit_unsent(self) -> None:
        while self._unsent and self._offer(self._unsent[0]):
            self._unsent.popleft()

    def _offer(self, parts: tuple[Any, ...], *, wait: bool = False) -> bool:
        """Whether the plane took the command. wait: it is only looked at, since others are before it."""
        command = self._command
        op, account, target, token, arg, arg2, body, extra = parts
        try:
            command.op, command.account, command.target, command.token = op, account, target, token
            command.arg, command.arg2 = arg, arg2
            body_cell, extra_cell = ffi.from_buffer(body), ffi.from_buffer(extra)
            command.body, command.body_size = ffi.cast("uint8_t *", body_cell), len(body)
            command.extra, command.extra_size = ffi.cast("uint8_t *", extra_cell), len(extra)
        except (OverflowError, TypeError) as error:
            raise PlaneError(Status.INVALID, f"a number that the plane cannot take: {error}") from error
        return not wait and bool(lib.plane_submit(self._plane, command, 1) == 1)

    async def _request(self, op: str, what: str, *, strings: Strings = NO_STRINGS, **parts: Any) -> Completion:
        """Submits and waits for the completion; raises PlaneError when its status is not OK."""
        extra = await aside(ITEM_WEIGHT * how_many(strings), packed, op, strings)
        return await self._raw(op, parts.pop("body", b""), extra, what=what, **parts)

    async def _each(self, op: str, what: str, targets: Sequence[int], args: Iterable[int]) -> list[Completion]:
        tokens, found = range(self._next_token, self._next_token + len(targets)), [Completion() for _ in targets]
        self._next_token = tokens.stop
        self._completions.update(zip(tokens, found, strict=True))
        try:
            for token, target, arg in zip(tokens, targets, args, strict=True):
                self._submit(op, token=token, target=target, arg=arg)
            if self._stopped:
                raise PlaneError(Status.CLOSED, f"{what}: the plane is stopping")
            for one in found:
                if not one.done.is_set():
                    await one.done.wait()
        finally:
            for token in tokens:
                self._completions.pop(token, None)
        return found

    async def _raw(self, op: str, body: Any, extra: bytes, *, what: str = "a command", **parts: Any) -> Completion:
        """As _request(), with the strings packed."""
        token = self._next_token
        self._next_token += 1
        completion = self._completions[token] = Completion()
        try:
            self._submit(op, token=token, body=body, extra=extra, **parts)
            if self._stopped:
                raise PlaneError(Status.CLOSED, f"{what}: the plane is stopping")
            await completion.done.wait()
        finally:
            self._completions.pop(token, None)
        if completion.status != 0:
            why = STATUS_NAMES.get(completion.status, str(completion.status))
            detail = completion.payload.decode("utf-8", "replace") if completion.payload else ""
            raise PlaneError(completion.status, detail or f"{what}: {why}")
        return completion
