"""Messages in a receive buffer to Arrow record batches, a column at a time.

What lives here: the columns' schema and how each is cut out of header blocks. What doesn't: where the
bytes came from (`wire`, `fetch`).

The way of a direct get's answer. One buffer holds N answers; between them lie protocol lines:

    HMSG ...  NATS/1.0 <stored headers> Nats-Stream: .. Nats-Last-Sequence: ..  payload  HMSG ...
              ^ header start                                                    ^ payload start
                                                                                       ^ end

Cut at those offsets the buffer is, without a copy, one Arrow binary array of 3 N elements: gap, headers,
payload, gap, ... `take` picks every third of them. The header blocks are then split at their line ends
by Arrow too. What the server appends stands last, in one order, so a field is "the n-th line from the
end"; a check over the whole column says whether all is as expected, and where it isn't the slow way
reads the block header by header. Slow is correct for every input; fast is for the ones servers send.

Subjects and header values need not be UTF-8 on the wire; Spark's strings must. The slow way replaces
what isn't.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = "stream string, sequence bigint, subject string, timestamp timestamp, headers map<string,string>, data binary"
"""The schema in Spark's words; ARROW_SCHEMA says the same in Arrow's."""

HEADERS_TYPE = pa.map_(pa.string(), pa.string())
TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
ARROW_SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("sequence", pa.int64()),
        ("subject", pa.string()),
        ("timestamp", TIMESTAMP_TYPE),
        ("headers", HEADERS_TYPE),
        ("data", pa.binary()),
    ]
)

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
PIECES_WITHOUT_STORED = len(APPENDED) + 3  # the version line before, two empty pieces behind

INT32_MAX = 2**31 - 1
LINE_END = 1 << 20  # behind any header line's end; without a stop pyarrow 26 computes a negative length


class Unexpected(Exception):
    """A column is not as the fast way needs it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A record batch and its sequences again, as numpy, for those who look for gaps."""

    batch: Any  # pyarrow.RecordBatch; pyarrow ships no types
    sequences: Any  # numpy int64


def empty_maps(count: int) -> Any:
    offsets = pa.array(np.zeros(count + 1, np.int32))
    return pa.MapArray.from_arrays(offsets, pa.array([], pa.string()), pa.array([], pa.string()))


def rows_of_direct(buffer: bytearray, spans: list[int], stream: str, last: int, with_headers: bool) -> Rows:
    """The rows of a direct get's answers, those behind sequence `last` left out."""
    count = len(spans) // 3
    blocks, data = _cut(buffer, spans, count)
    try:
        lines = pc.split_pattern(blocks, b"\r\n")
        columns = _appended_fields(lines)
        headers = _stored_headers(lines, count) if with_headers else empty_maps(count)
    except (Unexpected, pa.ArrowInvalid):
        columns, headers = _slowly(blocks, with_headers)
    sequences = columns[0].to_numpy()
    batch = _assemble(stream, columns[0], columns[1], columns[2], headers, data)
    if sequences[-1] > last:
        kept = int(np.searchsorted(sequences, last, side="right"))
        return Rows(batch.slice(0, kept), sequences[:kept])
    return Rows(batch, sequences)


def rows_of_messages(
    stream: str,
    sequences: list[int],
    subjects: list[str],
    nanoseconds: list[int],
    blocks: list[bytes],
    payloads: list[bytes],
    with_headers: bool,
) -> Rows:
    """The rows of messages that came one by one, from a consumer."""
    stamps = pa.array([stamp // 1000 for stamp in nanoseconds], pa.int64()).cast(TIMESTAMP_TYPE)
    headers = pa.array([_stored_fields(block) if with_headers else [] for block in blocks], HEADERS_TYPE)
    sequence = pa.array(sequences, pa.int64())
    data = pa.array(payloads, pa.binary())
    batch = _assemble(stream, sequence, pa.array(subjects, pa.string()), stamps, headers, data)
    return Rows(batch, sequence.to_numpy())


def _assemble(stream: str, sequence: Any, subject: Any, stamp: Any, headers: Any, data: Any) -> Any:
    streams = pa.repeat(pa.scalar(stream, pa.string()), len(sequence))
    return pa.RecordBatch.from_arrays([streams, sequence, subject, stamp, headers, data], schema=ARROW_SCHEMA)


def _cut(buffer: bytearray, spans: list[int], count: int) -> tuple[Any, Any]:
    """Header blocks and payloads, each as a binary array of its own (copied out of the buffer)."""
    ends = np.array(spans, np.int64)
    if ends[-1] > INT32_MAX:
        raise ValueError("a batch of more than 2 GiB")
    offsets = np.empty(3 * count + 1, np.int32)
    # Element 3i is the gap before message i's headers, 3i + 1 its headers, 3i + 2 its payload.
    offsets[0] = 0
    offsets[1:] = ends
    pieces = pa.Array.from_buffers(pa.binary(), 3 * count, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])
    first = np.arange(count, dtype=np.int64) * 3
    return pieces.take(pa.array(first + 1)), pieces.take(pa.array(first + 2))


def _appended_fields(lines: Any) -> tuple[Any, Any, Any]:
    """Sequence, subject and time stamp of each block, by their place from the end."""
    ends = lines.offsets.to_numpy()[1:].astype(np.int64)
    if int(np.diff(lines.offsets.to_numpy()).min()) < PIECES_WITHOUT_STORED:
        raise Unexpected
    found: dict[bytes, Any] = {}
    for prefix, place in APPENDED:
        line = lines.values.take(pa.array(ends - place))
        if not pc.all(pc.starts_with(line, prefix)).as_py():
            raise Unexpected
        if place in (5, 6, 7):
            found[prefix] = pc.binary_slice(line, len(prefix), LINE_END)
    sequence = found[b"Nats-Sequence: "].cast(pa.string()).cast(pa.int64())
    stamp = found[b"Nats-Time-Stamp: "].cast(pa.string()).cast(pa.timestamp("ns", tz="UTC"))
    return sequence, found[b"Nats-Subject: "].cast(pa.string()), stamp.cast(TIMESTAMP_TYPE, safe=False)


def _stored_headers(lines: Any, count: int) -> Any:
    """A map column of the headers that the publisher gave (and a source added)."""
    offsets = lines.offsets.to_numpy().astype(np.int64)
    stored = np.diff(offsets) - PIECES_WITHOUT_STORED
    total = int(stored.sum())
    if total == 0:
        return empty_maps(count)
    # Row i's stored lines are the ones behind its version line; their indices, all rows' in one array:
    bounds = np.concatenate([[0], np.cumsum(stored)])
    places = np.repeat(offsets[:-1] + 1 - bounds[:-1], stored) + np.arange(total)
    parts = pc.split_pattern(lines.values.take(pa.array(places)), b":", max_splits=1)
    if not (np.diff(parts.offsets.to_numpy()) == 2).all():
        raise Unexpected
    pairs = np.arange(total, dtype=np.int64) * 2 + int(parts.offsets[0].as_py())
    keys = parts.values.take(pa.array(pairs)).cast(pa.string())
    values = pc.utf8_trim(parts.values.take(pa.array(pairs + 1)).cast(pa.string()), " \t")
    return pa.MapArray.from_arrays(pa.array(bounds.astype(np.int32)), keys, values)


# --- the slow way: any order, any bytes --------------------------------------


def _fields(block: bytes) -> list[tuple[str, str]]:
    """The headers of a block in their order; a line without a colon is no header."""
    found = []
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found.append((name.decode(errors="replace"), value.strip(b" \t").decode(errors="replace")))
    return found


def _stored_fields(block: bytes) -> list[tuple[str, str]]:
    return _fields(block) if block else []


def _slowly(blocks: Any, with_headers: bool) -> tuple[tuple[Any, Any, Any], Any]:
    names = [prefix[:-2].decode() for prefix, _ in APPENDED]
    sequences, subjects, stamps, maps = [], [], [], []
    for block in blocks.to_pylist():
        fields = _fields(block)
        # A publisher may have stored headers of these names; what the server appended comes last.
        appended = dict(fields)
        place = {name: index for index, (name, _) in enumerate(fields)}
        sequences.append(int(appended["Nats-Sequence"]))
        subjects.append(appended["Nats-Subject"])
        stamps.append(appended["Nats-Time-Stamp"])
        ours = {place[name] for name in names if name in place}
        maps.append([pair for index, pair in enumerate(fields) if index not in ours] if with_headers else [])
    stamp = pa.array(stamps, pa.string()).cast(pa.timestamp("ns", tz="UTC")).cast(TIMESTAMP_TYPE, safe=False)
    columns = (pa.array(sequences, pa.int64()), pa.array(subjects, pa.string()), stamp)
    return columns, pa.array(maps, HEADERS_TYPE)
