"""The file of the enrolled boxes: a line a sync, added at its end, before anybody is told.

    1d0f3c8a [{"token":"R2K4ZQXA","digest":"...","pattern":"box-0001","uses":1,"expires":1790000000}]
    9b01e6d2 [{"box":"box-0001","nkey":"U...","token":"R2K4ZQXA","at":1789990000}]
    ^ CRC-32 of what is behind the blank, up to the end of the line

- A last line that is not whole was never told to anybody: it is cut off, and since a line is a sync, so is all that was
  being written. Damage of a line that was told looks the same, so the log says what was cut off.
- Any other line that does not fit its sum is damage, and the file is not used: what stood there may have been a box's
  retirement.
- Records that come while others are synced share the next sync: a thousand boxes at once are some dozens of them.
- What could not be written is taken back, so that the file ends where the last whole record does. A disk that is full
  enrols nobody, and keeps no box out that is known.
- A file that holds much more than is worth keeping is made anew at a start: written beside it, synced, renamed.

Not here: what a record means (register.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Final

import trio

from leafd.enrol.register import Record, Register
from leafd.errors import LeafdError, StartError
from leafd.files import open_file, sync_directory
from leafd.records import dataclass

FILE: Final = "boxes"
LOCK: Final = "lock"
LINE_MAX: Final = 4 << 20
BATCH_MAX: Final = 256
"""Records that share a sync."""
WASTE: Final = 1_000
"""Lines that are worth nothing, beyond as many as are worth something, make it anew."""


class NotWritten(LeafdError):
    """The record is not on the disk, and does not hold."""


@dataclass(slots=True, eq=False)
class _Waiting:
    record: Record
    done: trio.Event = field(default_factory=trio.Event)
    error: str = ""


def encoded(records: Iterable[Record]) -> bytes:
    """Records as their line."""
    body = json.dumps(list(records), separators=(",", ":"), sort_keys=True).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decoded(line: bytes) -> list[Record] | None:
    """The records of a line without its end; None: it is damaged."""
    total, _, body = line.partition(b" ")
    try:
        if int(total, 16) != zlib.crc32(body):
            return None
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(one, dict) for one in found) else None


def read(path: Path, register: Register) -> tuple[int, int]:
    """Takes over what the file has; the length of what is whole, and how many lines that is. Raises StartError."""
    try:
        with open_file(path) as file:
            whole = lines = 0
            for number, line in enumerate(iter(partial(file.readline, LINE_MAX + 1), b""), 1):
                records = decoded(line[:-1]) if line.endswith(b"\n") else None
                if records is None and not file.read(1) and len(line) <= LINE_MAX:
                    break  # the last one: its writing was cut short
                try:
                    if records is None:
                        raise ValueError("it is damaged")
                    for record in records:
                        register.apply(record)
                except (KeyError, TypeError, ValueError) as error:
                    raise StartError(
                        f"{path}, line {number}: {error}: put the file back from a backup, or take the line out and "
                        "enrol or retire again whom it was about"
                    ) from None
                whole, lines = whole + len(line), lines + 1
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise StartError(f"{path} cannot be read: {error.strerror}") from error
    return whole, lines


class Journal:
    """The file, and the register that follows from it."""

    def __init__(self, directory: Path, now_s: float) -> None:
        """Blocks. Raises StartError."""
        self.path = directory / FILE
        self.register = Register()
        self._waiting: list[_Waiting] = []
        self._writing = False
        self._size = 0
        self.cut_off = 0
        """Bytes of a last line that was not whole, when this was opened."""
        self._descriptor = self._lock = -1
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StartError(
                    f"{directory} is in use by another leafd: give one of them another store_dir"
                ) from None
            self._open(now_s)
        except StartError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise StartError(f"{directory} cannot be used for enrolment: {error.strerror}") from error

    def _open(self, now_s: float) -> None:
        self._size, lines = read(self.path, self.register)
        new = not self.path.exists()
        self.cut_off = 0 if new else self.path.stat().st_size - self._size
        kept = list(self.register.records(now_s)) if lines > WASTE else []
        if kept and lines > 2 * len(kept) + WASTE:
            self._make_anew(kept)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.fstat(self._descriptor).st_size != self._size:
            os.ftruncate(self._descriptor, self._size)
            os.fsync(self._descriptor)
        if new:
            sync_directory(self.path.parent)

    def _make_anew(self, kept: Iterable[Record]) -> None:
        """Writes the file anew with these records; where that fails, the old file stays and serves as well."""
        data = b"".join(encoded((one,)) for one in kept)
        try:
            put_anew(self.path, data)
        except OSError:
            return
        self._size = len(data)
        sync_directory(self.path.parent)

    def close(self) -> None:
        """At the end; nothing is being written any more."""
        for descriptor in (self._descriptor, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._lock = -1

    async def keep(self, record: Record) -> None:
        """Returns when the record is on the disk, and holds. The first one writes for all that come meanwhile.
        Raises NotWritten."""
        mine = _Waiting(record)
        self._waiting.append(mine)
        if self._writing:
            with trio.CancelScope(shield=True):  # a record that is written has to be known as such
                await mine.done.wait()
        else:
            self._writing = True
            try:
                with trio.CancelScope(shield=True):
                    while self._waiting:
                        await self._write(self._take())
            finally:
                self._writing = False
        if mine.error:
            raise NotWritten(mine.error)

    def _take(self) -> list[_Waiting]:
        batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
        return batch

    async def _write(self, batch: list[_Waiting]) -> None:
        data = encoded(one.record for one in batch)
        error = ""
        try:
            await trio.to_thread.run_sync(self._append, data)
            self._size += len(data)
        except OSError as failed:
            error = f"{self.path} cannot be written: {failed.strerror}"
        for one in batch:
            if error:
                one.error = error
                if "box" in one.record:
                    self.register.give_up(one.record)
            else:
                self.register.apply(one.record)
            one.done.set()

    def _append(self, data: bytes) -> None:
        """Blocks. Raises OSError; then the file is as before, or what it has beyond its size is cut off next time."""
        try:
            if os.fstat(self._descriptor).st_size != self._size:
                os.ftruncate(self._descriptor, self._size)
            at, view = self._size, memoryview(data)
            while view:
                written = os.pwrite(self._descriptor, view, at)
                at, view = at + written, view[written:]
            os.fdatasync(self._descriptor)
        except OSError:
            try:
                os.ftruncate(self._descriptor, self._size)
            except OSError:
                pass  # the next record finds it so, or the next start
            raise


def put_anew(path: Path, data: bytes) -> None:
    """Writes a file beside it, synced, which takes its name: it is as before, or all of it is new. Blocks. Raises
    OSError."""
    partial_path = path.with_name(f"{path.name}.new")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(partial_path, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial_path.replace(path)
    except OSError:
        partial_path.unlink(missing_ok=True)
        raise


def whole_lines(directory: Path) -> bytes:
    """The file as far as it is written, while the daemon may be writing on; nothing where there is none. Raises
    OSError."""
    try:
        with open_file(directory / FILE) as file:
            data: bytes = file.read()
    except FileNotFoundError:
        return b""
    return data[: data.rfind(b"\n") + 1]


def names_of(directory: Path) -> Register:
    """The enrolled boxes, for a command that runs beside the daemon. Raises StartError."""
    register = Register()
    read(directory / FILE, register)
    return register
