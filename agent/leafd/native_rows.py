"""Rows of a report as JSON, or of metrics, written by C from records of numbers: native/text/rows.h.

Not here: what the rows are about, and how they are set (monitor/encoding.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from leafd.native import abi as lib, ffi


class RowKind(IntEnum):
    """The kind of a row's value (ROW_* of abi.h)."""

    NOTHING = lib.ROW_NOTHING
    NUMBER = lib.ROW_NUMBER
    OPTIONAL = lib.ROW_OPTIONAL
    TIME = lib.ROW_TIME
    STAMP = lib.ROW_STAMP
    TEXT = lib.ROW_TEXT
    SIGNED = lib.ROW_SIGNED
    MOMENT = lib.ROW_MOMENT
    TRUE = lib.ROW_TRUE
    SECONDS = lib.ROW_SECONDS


class RowColumn(NamedTuple):
    """row_column_t: what stands before a value, what it is, and where in the record it lies."""

    literal: bytes
    kind: RowKind
    at: int


_VALUE_MAX: Final = 48
"""More than a number or a time takes as JSON."""
_COLUMN: Final = struct.Struct("=3I")


class RowWriter:
    """Writes rows of one form, from records of `size` bytes."""

    def __init__(self, columns: Sequence[RowColumn], size: int) -> None:
        self._literals = b"".join([one.literal for one in columns])
        packed = b"".join([_COLUMN.pack(len(one.literal), one.kind, one.at) for one in columns])
        self._columns = ffi.new("row_column_t[]", len(columns))
        ffi.memmove(self._columns, packed, len(packed))
        self._held = ffi.from_buffer("uint8_t[]", self._literals)
        self._format = ffi.new("row_format_t *", [self._columns, self._held, len(columns), len(self._literals), size])
        self.size = size
        self._row_max = len(self._literals) + _VALUE_MAX * len(columns)

    def text(self, records: bytes, texts: bytes) -> str:
        """The rows of these records. Raises ValueError when they and the texts do not go together."""
        count, rest = divmod(len(records), self.size)
        room = count * self._row_max + len(texts)
        to = ffi.new("uint8_t[]", room)
        at, named = ffi.from_buffer("uint8_t[]", records), ffi.from_buffer("uint8_t[]", texts)
        size = int(lib.plane_rows_write(self._format, at, count, named, len(texts), to, room))
        if size < 0 or rest:
            raise ValueError("records and texts of rows that do not go together")
        return str(ffi.buffer(to, size)[:], "utf-8")
