"""A store as files, by way of the C plane's functions for it (the end of native/abi.h): no daemon, no plane.

    with Look(directory, keys, used=False) as look:
        look.facts, look.records(), look.audit(...), look.rescue(...)

Not here: who may look at a store at all, and what is made of it (cli/).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Self

from leafd.native import abi as lib, ffi, layout
from leafd.native_packing import PackedKeys, StoreKeys
from leafd.native_types import PlaneError, Status
from leafd.records import dataclass

Watch = Callable[[int], None]
"""Hears, now and then, how many bytes are done."""
STATE: Final = int(lib.LOOK_STATE)
"""The kind of a stream's state among the records, beside those of native_types.Record."""
_FINDINGS_SIZE: Final = 1 << 18
_OF_SUBJECT: Final = "subject "
"""The beginning of a finding about a subject (plane_look_audit of abi.h)."""
_LOOK_S: Final = 0.1
_ROOM: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of the store's newest checkpoint: store_facts_t."""

    commit: int
    pages: int
    position: int
    number: int
    id_high: int
    id_low: int
    page_size: int
    format: int
    sealed: int
    opened: int
    closed: int
    noted: int

    @property
    def id(self) -> str:
        """The store's identity, as text."""
        return f"{self.id_high:016x}{self.id_low:016x}"


@dataclass(frozen=True, slots=True)
class StreamState:
    """The store's state of a stream: stored_stream_t."""

    first_seq: int
    last_seq: int
    messages: int
    bytes: int
    subjects: int
    last_ts: int


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome of a look at everything, with a line for each damage; `untold` found no room."""

    entries: int
    messages: int
    damaged_pages: int
    damaged_entries: int
    findings: tuple[str, ...]
    subjects: tuple[str, ...]
    """A line for each message whose subject is not valid; nothing else is wrong with it."""
    untold: int

    @property
    def sound(self) -> bool:
        """True if nothing is damaged."""
        return not self.findings and not self.damaged_pages and not self.damaged_entries


class Look:
    """A store whose newest checkpoint stays readable until this is closed. used: a daemon has it open, and goes on."""

    def __init__(self, directory: Path, keys: StoreKeys | None, *, used: bool) -> None:
        """Raises PlaneError."""
        self._reason = ffi.new("char[]", lib.PLANE_REASON_SIZE)
        self._facts = ffi.new("store_facts_t *")
        status = ffi.new("int32_t *")
        held = PackedKeys(keys) if keys is not None else None
        try:
            given = held.cell if held is not None else ffi.NULL
            self._look = lib.plane_look_open(bytes(directory), given, used, self._facts, self._reason, status)
        finally:
            if held is not None:
                held.cleanse()
        if self._look == ffi.NULL:
            raise PlaneError(int(status[0]), _text(self._reason))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        lib.plane_look_close(self._look)

    @property
    def facts(self) -> Facts:
        """The facts of the checkpoint that is looked at."""
        return Facts(**{name: int(getattr(self._facts, name)) for name in layout("store_facts_t").names})

    def again(self) -> None:
        """Looks at the newest checkpoint from now on. Raises PlaneError."""
        _check(lib.plane_look_again(self._look, self._facts, self._reason), self._reason)

    def first_pages(self) -> bytes:
        """The first pages for a copy of data.mdb, in place of the file's own."""
        size = self.facts.page_size
        return b"".join(bytes(ffi.buffer(lib.plane_look_page(self._look, number), size)) for number in (0, 1))

    def records(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Kind (RECORD_*), key and value of each definition and each stream's state. Raises PlaneError."""
        room = _ROOM
        while True:
            out = ffi.new("uint8_t[]", room)
            size = int(lib.plane_look_records(self._look, out, room, self._reason))
            if size < 0:
                raise PlaneError(size, _text(self._reason))
            if size <= room:
                break
            room = size
        rows, at = bytes(ffi.buffer(out, size)), 0
        while at < size:
            kind, key, value = (int.from_bytes(rows[at + i : at + i + 4]) for i in (0, 4, 8))
            at += 12
            yield kind, rows[at : at + key], rows[at + key : at + key + value]
            at += key + value

    def audit(self, watch: Watch) -> Audit:
        """Reads every page and entry. Raises PlaneError."""
        return self._through(watch, lambda *rest: lib.plane_look_audit(self._look, *rest))

    def rescue(self, to: Path, watch: Watch, *, all: bool) -> Audit:
        """Makes data.mdb in the empty directory of what can be read; not all: only what a start looks at. Raises
        PlaneError."""
        return self._through(watch, lambda *rest: lib.plane_look_rescue(self._look, bytes(to), all, *rest))

    def _through(self, watch: Watch, call: Callable[..., Any]) -> Audit:
        cell, findings = ffi.new("store_audit_t *"), ffi.new("char[]", _FINDINGS_SIZE)
        status = _aside(lambda: call(cell, findings, _FINDINGS_SIZE, self._reason), lambda: watch(int(cell.done)))
        _check(status, self._reason)
        lines = _text(findings).splitlines()
        found = int(cell.damaged_pages) + int(cell.damaged_entries) + int(cell.bad_subjects)
        return Audit(
            entries=int(cell.entries),
            messages=int(cell.messages),
            damaged_pages=int(cell.damaged_pages),
            damaged_entries=int(cell.damaged_entries),
            findings=tuple(line for line in lines if not line.startswith(_OF_SUBJECT)),
            subjects=tuple(line for line in lines if line.startswith(_OF_SUBJECT)),
            untold=max(found - len(lines), 0),
        )


def stream_state(value: bytes) -> StreamState:
    """The state that a record of the kind LOOK_STATE holds."""
    return StreamState(**layout("stored_stream_t").unpack(value))


def settle(directory: Path, keys: StoreKeys | None, *, lossy: bool) -> tuple[str, ...]:
    """Opens the store as a daemon would and closes it: the journal's messages are in data.mdb then. What it had to say.
    lossy: a rescue() without some messages made it, so what the journal has counted does not hold. Raises
    PlaneError."""
    reason, findings = ffi.new("char[]", lib.PLANE_REASON_SIZE), ffi.new("char[]", _FINDINGS_SIZE)
    held = PackedKeys(keys) if keys is not None else None
    given = held.cell if held is not None else ffi.NULL
    try:
        rest = (findings, _FINDINGS_SIZE, reason)
        _check(_aside(lambda: lib.plane_store_settle(bytes(directory), given, lossy, *rest), lambda: None), reason)
    finally:
        if held is not None:
            held.cleanse()
    return tuple(_text(findings).splitlines())


def _aside(call: Callable[[], Any], look: Callable[[], None]) -> int:
    """On a thread, so that somebody may look, also at its end, and stop waiting."""
    result: list[int] = []
    thread = threading.Thread(target=lambda: result.append(int(call())), daemon=True)
    thread.start()
    ended = False
    while not ended:
        thread.join(_LOOK_S)
        ended = not thread.is_alive()
        look()
    return result[0]


def _text(cell: Any) -> str:
    return str(ffi.string(cell).decode("utf-8", "backslashreplace"))


def _check(status: int, reason: Any) -> None:
    if status != Status.OK:
        raise PlaneError(status, _text(reason) or f"status {status}")
