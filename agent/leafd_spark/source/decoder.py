"""Received bytes to rows: in C where the module is there, with numpy and pyarrow where it isn't.

Here: the choice, and the memory of Arrow's columns that the C side (native/arrow) writes to. Not here:
the same without machine code (`batches`), the schema (`columns`).

A decoder is fed what has arrived and was not taken yet, and takes whole messages that are rows: answers of direct
gets, or, where `deliveries` says so, a consumer's deliveries. It stops when it needs more, when it is full (at
`rows_max` rows; in front of a message that would make it more than its bytes, but the first always fits; at a
delivery with nothing pending, or of the sequence `last`), and in front of whatever is no row. `take` hands the rows
out and empties it.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from leafd_spark.machine import native as _native
from leafd_spark.wire import Verdict, WireError

from .batches import NO_LAST, MissedDelivery, OtherStream, PlainDecoder
from .columns import Parts, Place, Rows, assemble, headers_of, no_headers

# Places in the numbers that C keeps from call to call; native/spark_module.c has the same list.
ROWS_MAX, ROWS, FIELDS_MAX, FIELDS, BYTES_MAX, BYTES = range(6)
CONSUMER_SEQUENCE, PENDING, LAST, DELIVERIES, WITH_HEADERS, SOURCED, STATE_COUNT = range(6, 13)

# The verdicts of C beyond those of `Verdict`.
BAD, OTHER, MISSED, ROOM = range(4, 8)

TEXTS = ("subject", "data", "origin_stream", "origin_api", "key", "value")
BYTES_FIRST = {"subject": 1 << 19, "data": 1 << 21, "key": 1 << 18, "value": 1 << 19}  # of room, before it grows
BYTES_LEAST = 1 << 14
FIELDS_A_ROW = 2
ROOM_MAX = (1 << 31) - 64  # where Arrow's offsets end


class Decoder(Protocol):
    rows_max: int

    @property
    def rows(self) -> int: ...

    @property
    def pending(self) -> int: ...

    @property
    def deliveries(self) -> bool: ...

    @deliveries.setter
    def deliveries(self, value: bool) -> None: ...

    @property
    def last(self) -> int: ...

    @last.setter
    def last(self, value: int) -> None: ...

    def feed(self, buffer: bytearray, start: int, end: int) -> tuple[int, int]: ...

    def take(self) -> Rows: ...


def make_decoder(place: Place, with_headers: bool, rows_max: int, bytes_max: int) -> Decoder:
    if _native is None:
        return PlainDecoder(place, with_headers, rows_max, bytes_max)
    return NativeDecoder(place, with_headers, rows_max, bytes_max)


def is_native() -> bool:
    """Whether there is machine code, without which a consumer's deliveries take the most time."""
    return _native is not None


class NativeDecoder:
    """The one in C."""

    def __init__(self, place: Place, with_headers: bool, rows_max: int, bytes_max: int) -> None:
        self._place = place
        self._stream = place.stream.encode()
        self._state = np.zeros(STATE_COUNT, np.int64)
        self._state[BYTES_MAX] = bytes_max
        self._state[WITH_HEADERS] = with_headers
        self._state[LAST] = NO_LAST
        self._room = {name: BYTES_FIRST.get(name, BYTES_LEAST) for name in TEXTS}
        self._fields_a_row = FIELDS_A_ROW
        self.rows_max = rows_max
        self._columns: tuple[Any, ...] = ()

    @property
    def rows(self) -> int:
        return int(self._state[ROWS])

    @property
    def pending(self) -> int:
        return int(self._state[PENDING])

    @property
    def deliveries(self) -> bool:
        return bool(self._state[DELIVERIES])

    @deliveries.setter
    def deliveries(self, value: bool) -> None:
        self._state[DELIVERIES] = value

    @property
    def last(self) -> int:
        return int(self._state[LAST])

    @last.setter
    def last(self, value: int) -> None:
        self._state[LAST] = value

    def feed(self, buffer: bytearray, start: int, end: int) -> tuple[int, int]:
        """Take rows from buffer[start:end]; a Verdict, and the first byte that was not taken."""
        while True:
            if not self._columns:
                self._make_room()
            found = _native.decode(buffer, start, end, self._stream, self._columns, self._state)
            verdict, position = int(found[0]), int(found[1])
            if verdict <= Verdict.CONTROL:
                return verdict, position
            if verdict == ROOM:
                self._grow()
                start = position
            else:
                raise _failure(verdict, bytes(buffer[position : min(end, position + 200)]), self._place.stream)

    def _make_room(self) -> None:
        """Columns of an empty table."""
        rows, fields = self.rows_max, self.rows_max * self._fields_a_row
        texts: list[Any] = []
        for name in TEXTS:
            count = fields if name in ("key", "value") else rows
            ends = pa.allocate_buffer(4 * (count + 1))
            _first_end(ends)
            texts += [ends, pa.allocate_buffer(self._room[name])]
        valid = np.zeros((rows + 7) // 8, np.uint8)
        field_ends = pa.allocate_buffer(4 * (rows + 1))
        _first_end(field_ends)
        numbers = [pa.allocate_buffer(8 * rows) for _ in range(3)]
        self._state[[ROWS_MAX, FIELDS_MAX]] = rows, fields
        self._state[[ROWS, FIELDS, BYTES, SOURCED]] = 0
        self._columns = (*numbers, valid, field_ends, *texts)

    def _grow(self) -> None:
        """More room for the next tables: a single message did not fit into one."""
        if max(self._room.values()) >= ROOM_MAX:
            raise WireError("a message larger than a column may become")
        self._room = {name: min(2 * size, ROOM_MAX) for name, size in self._room.items()}
        self._fields_a_row *= 2
        self._columns = ()

    def take(self) -> Rows:
        """The rows gathered, of which there is at least one; the decoder is empty afterwards."""
        parts = self._parts()
        self._learn()
        self._columns = ()
        self._state[[ROWS, FIELDS, BYTES]] = 0
        return assemble(self._place, parts)

    def _parts(self) -> Parts:
        rows, fields = self.rows, int(self._state[FIELDS])
        sequence, nanoseconds, origin_sequence, valid, field_ends = self._columns[:5]
        int64 = pa.int64()
        parts = Parts(
            pa.Array.from_buffers(int64, rows, [None, sequence.slice(0, 8 * rows)]),
            pa.Array.from_buffers(int64, rows, [None, nanoseconds.slice(0, 8 * rows)]),
            self._text("subject", rows),
            no_headers(rows),
            self._text("data", rows),
        )
        if fields:
            offsets = pa.Array.from_buffers(pa.int32(), rows + 1, [None, field_ends.slice(0, 4 * (rows + 1))])
            parts.headers = headers_of(offsets, self._text("key", fields), self._text("value", fields))
        if self._state[SOURCED]:
            valid = pa.py_buffer(valid)
            parts.origin_stream = self._text("origin_stream", rows, valid)
            parts.origin_api = self._text("origin_api", rows, valid)
            parts.origin_sequence = pa.Array.from_buffers(int64, rows, [valid, origin_sequence.slice(0, 8 * rows)])
        return parts

    def _text(self, name: str, count: int, valid: Any = None) -> Any:
        place = 5 + 2 * TEXTS.index(name)
        ends, data = self._columns[place], self._columns[place + 1]
        used = self._used(name, count)
        return pa.Array.from_buffers(pa.binary(), count, [valid, ends.slice(0, 4 * (count + 1)), data.slice(0, used)])

    def _used(self, name: str, count: int) -> int:
        ends = self._columns[5 + 2 * TEXTS.index(name)]
        return int.from_bytes(memoryview(ends)[4 * count : 4 * count + 4], sys.byteorder)

    def _learn(self) -> None:
        """Room for the next table, by what this one took: one that was full before its rows were gets more."""
        rows, fields = self.rows, int(self._state[FIELDS])
        if fields > self._state[FIELDS_MAX] * 3 // 4:
            self._fields_a_row *= 2
        for name in TEXTS:
            used = self._used(name, fields if name in ("key", "value") else rows)
            if used > self._room[name] * 3 // 4:
                self._room[name] = min(2 * self._room[name], ROOM_MAX)


def _first_end(ends: Any) -> None:
    """The first element begins at the beginning."""
    memoryview(ends).cast("B")[:4] = bytes(4)


def _failure(verdict: int, where: bytes, stream: str) -> Exception:
    if verdict == OTHER:
        return OtherStream(f"direct gets of {stream} are answered by another stream: {where!r}")
    if verdict == MISSED:
        return MissedDelivery(f"a delivery was lost before {where!r}")
    return WireError(f"not what a server sends: {where!r}")
