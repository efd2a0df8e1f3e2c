"""Received bytes to columns, without machine code: what numpy and pyarrow can do a column at a time.

Here: `PlainDecoder`, and how fields are cut out of header blocks. Not here: the same in C
(`decoder`, which chooses between the two), the schema (`columns`), where the bytes came from (`wire`, `fetch`).

The way of a direct get's answers. Between N answers lie protocol lines:

    HMSG ...  NATS/1.0 <stored headers> Nats-Stream: .. Nats-Last-Sequence: ..  payload  HMSG ...
              ^ header start                                                    ^ payload start
                                                                                       ^ end

Cut at those offsets the bytes are, without a copy, one Arrow binary array of 3 N elements: gap, headers,
payload, gap, ... `take` picks every third of them. The header blocks are then split at their line ends
by Arrow too. What the server appends stands last, in one order, so a field is "the n-th line from the
end"; a check over the whole column says whether all is as expected, and where it isn't the slow way
reads the block header by header. Slow is correct for every input; fast is for the ones servers send.

A publisher may have stored any bytes as a header block, also such that look like a server's own. What counts is
where they stand: what the server appends is behind all that was stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from leafd.wire_client import STATUS_LINE

from leafd_spark.wire import LINE_MAX, Verdict, WireError

from .columns import SOURCE_HEADER, Parts, Place, Rows, assemble, headers_of, no_headers, source_of

# What a batch of direct gets appends to the stored headers, as lines from the end of the block.
# The block ends with two line ends, so the last two pieces of the split are empty.
APPENDED = (
    (b"Nats-Stream: ", 8),
    (b"Nats-Subject: ", 7),
    (b"Nats-Sequence: ", 6),
    (b"Nats-Time-Stamp: ", 5),
    (b"Nats-Num-Pending: ", 4),
    (b"Nats-Last-Sequence: ", 3),
)
APPENDED_NAMES = tuple(prefix for prefix, _ in APPENDED)
PIECES_WITHOUT_STORED = len(APPENDED) + 3  # the version line before, two empty pieces behind

LINES_KNOWN_MAX = 4096  # remembered message lines; they differ only in their two sizes
MSG_WORDS = 4  # MSG <subject> <sid> [<reply>] <size>; HMSG has one size more
SIZE_DIGITS = 9
LINE_END = 1 << 20  # behind any header line's end; without a stop pyarrow 26 computes a negative length
ACK_PARTS = 9  # $JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.<consumer sequence>.<time>.<pending>
ACK_PARTS_LONG = 11  # the same with <domain>.<account> behind ACK, and perhaps more at the end

NO_LAST = (1 << 63) - 1  # of a range without an end

Field = tuple[bytes, bytes]


class Unexpected(Exception):
    """A column is not as the fast way needs it."""


class OtherStream(Exception):
    """A direct get was answered by another stream, a mirror, of which this one's leader knows nothing."""


class MissedDelivery(WireError):
    """A consumer's deliveries jumped: one was lost on its way."""


@dataclass(slots=True)
class LineSizes:
    """Message lines seen already. Within a batch they repeat: only two sizes differ between them."""

    known: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def learn(self, line: bytes) -> tuple[int, int] | None:
        """Header length and total length that a message line announces; None if it is another line."""
        parts = line.split()
        if not parts or parts[0] not in (b"HMSG", b"MSG"):
            return None
        if len(self.known) >= LINES_KNOWN_MAX:
            self.known.clear()
        least = MSG_WORDS + (parts[0] == b"HMSG")
        numbers = parts[3 + (len(parts) > least) :]
        if not least <= len(parts) <= least + 1 or not all(p.isdigit() and len(p) <= SIZE_DIGITS for p in numbers):
            raise WireError(f"not a message line: {line[:80]!r}")
        sizes = (int(parts[-2]) if parts[0] == b"HMSG" else 0, int(parts[-1]))
        if sizes[0] > sizes[1] or (parts[0] == b"HMSG" and sizes[0] == 0):
            raise WireError(f"sizes that cannot be: {line[:80]!r}")
        self.known[line] = sizes
        return sizes


# --- header blocks -------------------------------------------------------------------------------


def split_block(block: bytes) -> tuple[list[Field], dict[bytes, bytes], bytes]:
    """The stored headers of a block in their order, what the server appended, which stands last, and what is before it.

    A line without a name and a colon is no header.
    """
    lines = block.split(b"\r\n")
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    appended: dict[bytes, bytes] = {}
    while len(lines) > 1:
        name = next((name for name in APPENDED_NAMES if lines[-1].startswith(name)), b"")
        if not name or name in appended:
            break
        appended[name] = lines.pop()[len(name) :]
    stored = []
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if colon and name:
            stored.append((name, value.strip(b" \t")))
    return stored, appended, lines[-1]


def appended_row(block: bytes, stream: bytes) -> tuple[int, bytes, bytes, list[Field]]:
    """Sequence, subject, time and stored headers that a direct get's answer says in its header block."""
    stored, appended, rest = split_block(block)
    # Where stored bytes did not end as headers do, the first appended line goes on where they end.
    named = appended.get(b"Nats-Stream: ")
    if named is None and rest.endswith(b"Nats-Stream: %b" % stream):
        named = stream
    if named != stream:
        raise OtherStream(f"direct gets of {stream.decode()} are answered by another stream: {block[-200:]!r}")
    sequence = appended.get(b"Nats-Sequence: ", b"")
    if not sequence.isdigit() or int(sequence) >= 2**63:
        raise WireError(f"an answer without a sequence: {block[-200:]!r}")
    return int(sequence), appended.get(b"Nats-Subject: ", b""), appended.get(b"Nats-Time-Stamp: ", b""), stored


def is_status(block: bytes, payload_size: int) -> bool:
    """Whether a header block is a server's word about the batch, not a message (which may have begun alike)."""
    return payload_size == 0 and block.startswith(STATUS_LINE) and b"\r\nNats-Sequence: " not in block


def nanoseconds_of(stamps: Any) -> Any:
    """Times such as 2026-11-22T17:30:49.5Z as nanoseconds since 1970."""
    try:
        return stamps.cast(pa.string()).cast(pa.timestamp("ns", tz="UTC")).view(pa.int64())
    except pa.ArrowInvalid as error:
        raise WireError(f"an answer without a time: {error}") from None


# --- the decoder ---------------------------------------------------------------------------------


class PlainDecoder:
    """Gathers the rows of direct gets' answers, or of a consumer's deliveries, from bytes as they arrive.

    The same as the one in C, which `decoder` describes.
    """

    def __init__(self, place: Place, with_headers: bool, rows_max: int, bytes_max: int) -> None:
        self._place = place
        self._with_headers = with_headers
        self.rows_max = rows_max
        self._bytes_max = bytes_max
        self._lines = LineSizes()
        self.deliveries = False
        self.last = NO_LAST
        self.consumer_sequence = 0
        self.pending = 0
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self._bytes = 0
        self._kept = bytearray()
        self._spans: list[int] = []
        self._delivered: list[tuple[int, int, bytes]] = []  # sequence, nanoseconds, subject

    def feed(self, buffer: bytearray, start: int, end: int) -> tuple[int, int]:
        """Take rows from buffer[start:end]; a Verdict, and the first byte that was not taken."""
        position = start
        shift = len(self._kept) - start  # from a place in the buffer to one in what is kept of it
        known = self._lines.known.get
        while True:
            newline = buffer.find(b"\n", position, end)
            if newline < 0:
                if end - position > LINE_MAX:
                    raise WireError("a protocol line without an end")
                verdict = Verdict.MORE
                break
            line = bytes(buffer[position:newline])
            sizes = known(line) or self._lines.learn(line)
            if sizes is None:
                verdict = Verdict.CONTROL
                break
            body, after = newline + 1, newline + 1 + sizes[1] + 2
            if after > end:
                verdict = Verdict.MORE
                break
            if self.rows and self._bytes + after - position > self._bytes_max:
                verdict = Verdict.FULL
                break
            if not (self._delivery(line) if self.deliveries else self._answer(buffer, line, body, sizes)):
                verdict = Verdict.STATUS
                break
            self._spans += (shift + body, shift + body + sizes[0], shift + body + sizes[1])
            self._bytes += after - position
            self.rows += 1
            position = after
            if self.rows >= self.rows_max or (self.deliveries and self._is_last()):
                verdict = Verdict.FULL
                break
        self._kept += buffer[start:position]
        return verdict, position

    def _answer(self, buffer: bytearray, line: bytes, body: int, sizes: tuple[int, int]) -> bool:
        if sizes[0] == sizes[1] and buffer.startswith(STATUS_LINE, body):
            return not is_status(bytes(buffer[body : body + sizes[0]]), 0)
        return line.startswith(b"HMSG")

    def _delivery(self, line: bytes) -> bool:
        words = line.split()
        if len(words) != (5 if words[0] == b"MSG" else 6) or not words[3].startswith(b"$JS.ACK."):
            return False
        parts = words[3].split(b".")
        if len(parts) >= ACK_PARTS_LONG:
            parts = parts[:2] + parts[4:]
        if len(parts) < ACK_PARTS or not all(part.isdigit() for part in parts[5:9]):
            raise WireError(f"not a delivery of a consumer: {words[3]!r}")
        sequence, consumer_sequence, nanoseconds, pending = numbers = tuple(int(part) for part in parts[5:9])
        if max(numbers) > NO_LAST:
            raise WireError(f"not a delivery of a consumer: {words[3]!r}")
        if consumer_sequence != self.consumer_sequence + 1:
            raise MissedDelivery(f"delivery {consumer_sequence} came where {self.consumer_sequence + 1} was due")
        self.consumer_sequence, self.pending = consumer_sequence, pending
        self._delivered.append((sequence, nanoseconds, words[1]))
        return True

    def _is_last(self) -> bool:
        return self.pending == 0 or self._delivered[-1][0] >= self.last

    def take(self) -> Rows:
        """The rows gathered, of which there is at least one; the decoder is empty afterwards."""
        try:
            blocks, data = self._cut()
            parts = self._delivered_parts(blocks, data) if self.deliveries else self._answered_parts(blocks, data)
        finally:
            self._clear()
        return assemble(self._place, parts)

    def _cut(self) -> tuple[Any, Any]:
        """Header blocks and payloads, each as a binary array of its own."""
        offsets = np.empty(3 * self.rows + 1, np.int32)
        # Element 3i is the gap before message i's headers, 3i + 1 its headers, 3i + 2 its payload.
        offsets[0] = 0
        offsets[1:] = self._spans
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._kept)]
        pieces = pa.Array.from_buffers(pa.binary(), 3 * self.rows, buffers)
        first = np.arange(self.rows, dtype=np.int64) * 3
        return pieces.take(pa.array(first + 1)), pieces.take(pa.array(first + 2))

    def _answered_parts(self, blocks: Any, data: Any) -> Parts:
        stream = self._place.stream.encode()
        try:
            lines = pc.split_pattern(blocks, b"\r\n")
            sequence, subject, stamps = _appended_columns(lines, stream)
            parts = Parts(sequence, nanoseconds_of(stamps), subject, None, data)
            _stored_columns(parts, lines, self._with_headers)
        except (Unexpected, pa.ArrowInvalid):
            rows = [appended_row(block, stream) for block in blocks.to_pylist()]
            sequence = pa.array([row[0] for row in rows], pa.int64())
            stamps = nanoseconds_of(pa.array([row[2] for row in rows], pa.binary()))
            parts = Parts(sequence, stamps, pa.array([row[1] for row in rows], pa.binary()), None, data)
            listed_columns(parts, [row[3] for row in rows], self._with_headers)
        return parts

    def _delivered_parts(self, blocks: Any, data: Any) -> Parts:
        parts = Parts(
            pa.array([row[0] for row in self._delivered], pa.int64()),
            pa.array([row[1] for row in self._delivered], pa.int64()),
            pa.array([row[2] for row in self._delivered], pa.binary()),
            None,
            data,
        )
        stored = [split_stored(block) if block else [] for block in blocks.to_pylist()]
        listed_columns(parts, stored, self._with_headers)
        return parts


def split_stored(block: bytes) -> list[Field]:
    """The headers of a block to which nothing was appended."""
    parts = (line.partition(b":") for line in block.split(b"\r\n")[1:])
    return [(name, value.strip(b" \t")) for name, colon, value in parts if colon and name]


# --- columns of header blocks --------------------------------------------------------------------


def _appended_columns(lines: Any, stream: bytes) -> tuple[Any, Any, Any]:
    """Sequence, subject and time stamp of each block, by their place from the end."""
    ends = lines.offsets.to_numpy()[1:].astype(np.int64)
    if int(np.diff(lines.offsets.to_numpy()).min()) < PIECES_WITHOUT_STORED:
        raise Unexpected
    found: dict[bytes, Any] = {}
    for prefix, place in APPENDED:
        line = lines.values.take(pa.array(ends - place))
        if not pc.all(pc.starts_with(line, prefix)).as_py():
            raise Unexpected
        if place in (5, 6, 7, 8):
            found[prefix] = pc.binary_slice(line, len(prefix), LINE_END)
    if not pc.all(pc.equal(found[b"Nats-Stream: "], stream)).as_py():
        raise Unexpected  # the slow way says whose answer it is
    sequence = found[b"Nats-Sequence: "].cast(pa.string()).cast(pa.int64())
    return sequence, found[b"Nats-Subject: "], found[b"Nats-Time-Stamp: "]


def _stored_columns(parts: Parts, lines: Any, with_headers: bool) -> None:
    """The columns of the headers that the publisher gave, and a source added."""
    count = len(parts.sequence)
    offsets = lines.offsets.to_numpy().astype(np.int64)
    stored = np.diff(offsets) - PIECES_WITHOUT_STORED
    total = int(stored.sum())
    parts.headers = no_headers(count)
    if total == 0:
        return
    # Row i's stored lines are the ones behind its version line; their indices, all rows' in one array:
    bounds = np.concatenate([[0], np.cumsum(stored)])
    places = np.repeat(offsets[:-1] + 1 - bounds[:-1], stored) + np.arange(total)
    pairs = pc.split_pattern(lines.values.take(pa.array(places)), b":", max_splits=1)
    if not (np.diff(pairs.offsets.to_numpy()) == 2).all():
        raise Unexpected
    first = np.arange(total, dtype=np.int64) * 2 + int(pairs.offsets[0].as_py())
    keys = pairs.values.take(pa.array(first))
    if pc.min(pc.binary_length(keys)).as_py() == 0:
        raise Unexpected
    texts = pairs.values.take(pa.array(first + 1)).view(pa.string())  # bytes are trimmed as if they were text
    values = pc.ascii_trim(texts, " \t").view(pa.binary())
    if with_headers:
        parts.headers = headers_of(pa.array(bounds.astype(np.int32)), keys, values)
    sourced = np.flatnonzero(pc.equal(keys, SOURCE_HEADER).to_numpy(zero_copy_only=False))
    if len(sourced):
        of_row = np.searchsorted(bounds, sourced, side="right") - 1
        _origin_columns(parts, dict(zip(of_row.tolist(), values.take(pa.array(sourced)).to_pylist(), strict=True)))


def listed_columns(parts: Parts, stored: list[list[Field]], with_headers: bool) -> None:
    """The same of headers that were split one by one."""
    values = {row: dict(fields) for row, fields in enumerate(stored) if fields}
    _origin_columns(parts, {row: found[SOURCE_HEADER] for row, found in values.items() if SOURCE_HEADER in found})
    if not with_headers or not values:
        parts.headers = no_headers(len(stored))
        return
    offsets = np.concatenate([[0], np.cumsum([len(fields) for fields in stored])]).astype(np.int32)
    keys = pa.array([name for fields in stored for name, _ in fields], pa.binary())
    parts.headers = headers_of(
        pa.array(offsets), keys, pa.array([value for fields in stored for _, value in fields], pa.binary())
    )


def _origin_columns(parts: Parts, values: dict[int, bytes]) -> None:
    """The columns of where messages were sourced from, out of that header's value in the rows that have one."""
    found = {row: source_of(value) for row, value in values.items()}
    if not any(found.values()):
        return
    rows = [found.get(row) for row in range(len(parts.sequence))]
    part: Callable[[int], list[Any]] = lambda index: [row and row[index] for row in rows]  # noqa: E731
    parts.origin_stream = pa.array(part(0), pa.binary())
    parts.origin_api = pa.array(part(1), pa.binary())
    parts.origin_sequence = pa.array(part(2), pa.int64())
