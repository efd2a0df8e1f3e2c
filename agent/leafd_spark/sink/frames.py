"""Rows as bytes on the wire, and bytes of acknowledgements as numbers: in C where the module is there, or with pyarrow.

Here: the digest that an id is made of, a publish's frame, and finding plain acknowledgements among received
bytes, each in both ways, which tests/unit/spark hold to each other (native/arrow/publish.h draws a frame). What
doesn't: which rows there are and which ids they get (`outgoing`), what an acknowledgement means (`publish`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leafd_spark.machine import native

DIGEST_BYTES = 16
SUBSCRIPTION = 2  # of the inbox that acknowledgements come to; a connection's own is 1
ACKNOWLEDGED_MAX = 16384  # numbers taken at a time
FIXED_BYTES = len(b"NATS/1.0\r\nNats-Msg-Id: \r\n\r\n")  # of a header block, beside its lines and the id
LINE_END = 10


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a few rows, as binary arrays."""

    subjects: Any
    lines: Any  # of headers, each with its end
    data: Any

    def __len__(self) -> int:
        return len(self.data)


def content_id(scope: str, digest: bytes, count: int) -> str:
    """The id of the count-th (from 0) of equal rows."""
    return f"{scope}-{digest.hex()}" + (f".{count}" if count else "")


@dataclass(frozen=True, slots=True)
class GivenIds:
    """Ids that a column holds."""

    values: Any

    def __getitem__(self, row: int) -> str:
        return str(self.values[row].as_py().decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class MadeIds:
    """Ids made of what rows say."""

    scope: str
    digests: bytes  # of all rows, one behind the other
    counts: list[int]  # how many equal rows came before each; empty: none did

    def digest(self, row: int) -> bytes:
        return self.digests[row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES]

    def __getitem__(self, row: int) -> str:
        return content_id(self.scope, self.digest(row), self.counts[row] if self.counts else 0)


Ids = GivenIds | MadeIds


def digests(texts: Texts) -> bytes:
    """The digest of each row as it is published but for its id; no two different rows give the same bytes."""
    if native is None:
        contents = _joined(texts.subjects, b"\r\n", texts.lines, b"\r\n", texts.data).to_pylist()
        return b"".join(blake2b(content, digest_size=DIGEST_BYTES).digest() for content in contents)
    return bytes(native.digests(len(texts), _buffers(texts.subjects, texts.lines, texts.data)))


def frame(texts: Texts, ids: Ids, inbox: str, first: int) -> tuple[memoryview, Any]:
    """Publishes, numbered from `first` on, and where each begins; the last number is where the last one ends."""
    return _frame_with_arrow(texts, ids, inbox, first) if native is None else _frame_in_c(texts, ids, inbox, first)


def _frame_in_c(texts: Texts, ids: Ids, inbox: str, first: int) -> tuple[memoryview, Any]:
    columns, made = [texts.subjects, texts.lines, texts.data], (b"", b"", b"")
    if isinstance(ids, GivenIds):
        columns.append(ids.values)
    else:
        counts = np.array(ids.counts, np.int64).tobytes()
        made = (ids.scope.encode(), ids.digests, counts)
    data, bounds = native.frames(len(texts), _buffers(*columns), *made, inbox.encode(), first)
    return memoryview(data), np.frombuffer(bounds, np.int64)


def _buffers(*columns: Any) -> tuple[Any, ...]:
    """The ends of the elements, and the bytes; of a slice its own."""
    found: list[Any] = []
    for column in columns:
        _, ends, data = column.buffers()
        found += [b"\0\0\0\0" if ends is None else ends.slice(4 * column.offset), b"" if data is None else data]
    return tuple(found)


def _frame_with_arrow(texts: Texts, ids: Ids, inbox: str, first: int) -> tuple[memoryview, Any]:
    count = len(texts)
    values = ids.values if isinstance(ids, GivenIds) else _made(ids)
    head = pc.binary_length(texts.lines).to_numpy(zero_copy_only=False) + pc.binary_length(values).to_numpy()
    head = head + FIXED_BYTES
    total = head + pc.binary_length(texts.data).to_numpy()
    frames = _joined(
        *(b"HPUB ", texts.subjects, f" {inbox}.".encode(), _decimal(np.arange(first, first + count)), b" "),
        *(_decimal(head), b" ", _decimal(total), b"\r\nNATS/1.0\r\n", texts.lines, b"Nats-Msg-Id: ", values),
        *(b"\r\n\r\n", texts.data, b"\r\n"),
    )
    _, offsets, data = frames.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[frames.offset : frames.offset + count + 1]
    return memoryview(data), bounds.astype(np.int64)


def _made(ids: MadeIds) -> Any:
    text = pa.py_buffer(ids.digests.hex().encode())
    rows = len(ids.digests) // DIGEST_BYTES
    hexes = pa.FixedSizeBinaryArray.from_buffers(pa.binary(2 * DIGEST_BYTES), rows, [None, text])
    suffixes: Any = b""
    if ids.counts:
        suffixes = pa.array([b".%d" % count if count else b"" for count in ids.counts], pa.binary())
    return _joined(f"{ids.scope}-".encode(), hexes.cast(pa.binary()), suffixes)


def _joined(*parts: Any) -> Any:
    """Columns and constants, joined row by row."""
    given = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*given, pa.scalar(b"", pa.binary()))


def _decimal(numbers: Any) -> Any:
    return pa.array(numbers).cast(pa.string()).cast(pa.binary())


class Acknowledgements:
    """Finds the numbers of messages that a stream has newly stored.

    Nearly all that comes to a publisher is that, and then no object is made of an acknowledgement but its number.
    """

    def __init__(self, inbox: str) -> None:
        prefix = f"MSG {inbox}.".encode()
        self._prefix = prefix
        self._line = re.compile(rb"%b(\d+) %d \d+\r\n\{" % (re.escape(prefix), SUBSCRIPTION))
        self._numbers = np.empty(ACKNOWLEDGED_MAX, np.int64)

    def take(self, buffer: bytearray, start: int, end: int) -> tuple[int, Any]:
        """The first byte of buffer[start:end] that is no plain acknowledgement or part of one, and the numbers, which
        are valid until the next call."""
        if native is None:
            position, numbers = self._take_with_re(buffer, start, end)
            return position, np.array(numbers, np.int64)
        position, count = native.acknowledged(buffer, start, end, self._prefix, self._numbers)
        return position, self._numbers[:count]

    def _take_with_re(self, buffer: bytearray, start: int, end: int) -> tuple[int, list[int]]:
        """All of it or nothing, but for the end that has not come yet."""
        end = buffer.rfind(b"}\r\n", start, end) + 3
        numbers = self._line.findall(buffer, start, end) if end > start else []
        # Each has two lines. More would be a line of another kind between them; JSON has no line end within.
        lines = np.count_nonzero(np.frombuffer(buffer, np.uint8, end - start, start) == LINE_END) if numbers else 0
        if not numbers or 2 * len(numbers) != lines:
            return start, []
        if buffer.find(b'"duplicate"', start, end) >= 0 or buffer.find(b'"error"', start, end) >= 0:
            return start, []
        return end, list(map(int, numbers))
