"""Rows of a DataFrame to framed messages, an Arrow batch at a time, and the ids that make a retry harmless.

Here: where subject, headers, id and payload of a message come from, which rows cannot be published,
and the ids. Not here: sending (`publish`), what Spark says of task and batch (`sink`).

A message id has to be the same whenever a row is published again: after a broken connection, by a task that runs
again, by a batch that runs again after the driver died. Spark promises neither an order of rows nor that a row is in
the same partition again. So an id is a column's value, or it is made of what the row says: a hash of subject, headers
and data, counted up for rows that are equal, behind a scope that names the query and the batch.

Equal rows in two partitions are the hard case. Each task counts its own from 0, so the stream takes the first
partition's and drops the other's as duplicates. A task therefore reports the hashes and counts of its rows, and what
the stream had already; when all tasks are done, `missing` says which copies the batch has and the stream does not.
They get the next counts. The batch's ids are then, for each content, 0 to one less than the number of equal rows in
the whole batch, however the rows were dealt out: the same at every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leafd_spark.options import Options

from .digests import Seen
from .frames import DIGEST_BYTES, FIXED_BYTES, GivenIds, Ids, MadeIds, Texts, content_id, digests, frame
from .publish import Chunk, Outgoing, Window, header_line

# Rows framed at a time: enough that Arrow's overhead a call does not count, few enough that the window stays full.
CHUNK_ROWS = 2048
# Hashes that a task counts, up to 100 bytes each. Beyond that a column has to hold the ids.
COUNTED_MAX = 4_000_000
# Bytes of rows that a task hands to the driver because the stream had them already.
HANDED_BYTES_MAX = 16 << 20

COLUMN_DATA, COLUMN_SUBJECT, COLUMN_HEADERS, COLUMN_ID = "data", "subject", "headers", "id"
# What no good subject matches, and few others: those are looked at one by one.
SUSPICIOUS = r"(^|\.)[*>]?(\.|$)|[^!-~]"


class RowError(ValueError):
    """A row that cannot be published by anybody."""


@dataclass(frozen=True, slots=True)
class Content:
    """A row as it is published, but for its id."""

    subject: str
    lines: bytes  # header lines, each with its end
    data: bytes

    def digest(self) -> bytes:
        content = b"%b\r\n%b\r\n%b" % (self.subject.encode(), self.lines, self.data)
        return blake2b(content, digest_size=DIGEST_BYTES).digest()

    def with_id(self, message_id: str, place: str, had: Callable[[dict[str, Any]], None] | None = None) -> Outgoing:
        return Outgoing(self.subject, _block(self.lines, message_id), self.data, f"{place} (id {message_id})", had)


def _block(lines: bytes, message_id: str) -> bytes:
    return b"NATS/1.0\r\n%bNats-Msg-Id: %b\r\n\r\n" % (lines, message_id.encode())


@dataclass(slots=True)
class Report:
    """A task's report to the driver on the ids that it made."""

    scope: str
    digests: bytes = b""  # of its distinct rows, one after the other
    counts: list[int] = field(default_factory=list)  # of each digest; empty: once each
    had: dict[bytes, int] = field(default_factory=dict)  # digests that the stream had already, and how often it said so
    handed: dict[bytes, Content] = field(default_factory=dict)  # the contents of those, up to HANDED_BYTES_MAX
    places: dict[bytes, tuple[str, int]] = field(default_factory=dict)  # of the others: stream and sequence


@dataclass(frozen=True, slots=True)
class Missing:
    """Copies of one content that the batch has and the stream does not."""

    digest: bytes
    first: int  # of the counts that they get
    count: int


def missing(reports: list[Report]) -> list[Missing]:
    """The copies that no task could publish, since another task's equal row had taken the id."""
    if len(reports) < 2:
        return []
    heads = [np.frombuffer(report.digests, dtype="<u8")[::2] for report in reports]
    ordered = np.sort(np.concatenate(heads))
    suspects = ordered[1:][ordered[1:] == ordered[:-1]]  # the first halves of digests that several tasks have
    if not len(suspects):
        return []
    found: dict[bytes, list[int]] = {}
    for report, head in zip(reports, heads, strict=True):
        for place in np.flatnonzero(np.isin(head, suspects)):
            digest = report.digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]
            found.setdefault(digest, []).append(report.counts[place] if report.counts else 1)
    answer = []
    for digest, counts in found.items():
        # Each row that is missing was answered with "duplicate". Where none was, the stream's duplicate window is
        # so short that it took every copy.
        count = min(sum(counts) - max(counts), sum(report.had.get(digest, 0) for report in reports))
        if len(counts) > 1 and count:
            answer.append(Missing(digest, max(counts), count))
    return answer


class RowWriter:
    """Publishes record batches through a window, by the columns they have."""

    def __init__(self, options: Options, names: list[str], scope: str, partition: int, window: Window) -> None:
        if COLUMN_DATA not in names:
            raise ValueError(f"rows to publish need a column data (string or binary); there are {', '.join(names)}")
        if COLUMN_SUBJECT not in names and not options.subject:
            raise ValueError("rows to publish need a column subject, or the option subject")
        if options.message_id_column and options.message_id_column not in names:
            raise ValueError(f"option messageIdColumn names {options.message_id_column}, which is no column")
        if options.subject:
            _check_subject(options.subject)
        self._options = options
        self._names = names
        self._id_column = options.message_id_column or (COLUMN_ID if COLUMN_ID in names else "")
        self._scope = scope
        self._partition = partition
        self._window = window
        self._max_payload = 0
        self._rows = 0
        self._seen = Seen()  # the digests that there were; once each, if `_repeated` says nothing
        self._repeated: dict[bytes, int] = {}
        self._handed_bytes = 0
        self.report = Report(scope)

    def write(self, batches: Iterable[Any]) -> Report:
        """Publish all rows; each is stored when this returns."""
        for batch in batches:
            for start in range(0, batch.num_rows, CHUNK_ROWS):
                self._write_rows(batch.slice(start, CHUNK_ROWS))
        self._window.drain()
        self.report.digests = found = self._seen.all()
        if self._repeated:
            places = range(0, len(found), DIGEST_BYTES)
            self.report.counts = [self._repeated.get(found[at : at + DIGEST_BYTES], 1) for at in places]
        return self.report

    def place(self, row: int) -> str:
        return f"row {row} of partition {self._partition}"

    def _write_rows(self, batch: Any) -> None:
        if not self._max_payload:
            self._max_payload = self._window.max_payload()
        columns = _Columns(self._options, self._names, self._id_column, batch)
        refused = columns.refused(self._max_payload, self._id_size())
        for row, reason in refused.items():
            self._refuse(columns.content(row), columns.id_of(row), self._rows + row, reason)
        keep = np.arange(batch.num_rows)
        if refused:
            keep = np.setdiff1d(keep, list(refused))
        if len(keep):
            columns = columns.take(keep) if refused else columns
            self._window.push(self._framed(columns, self._rows + keep))
        self._rows += batch.num_rows

    def _id_size(self) -> int:
        """Bytes of the longest id made here."""
        return len(content_id(self._scope, bytes(DIGEST_BYTES), COUNTED_MAX))

    # -- ids --------------------------------------------------------------

    def count(self, digests: bytes) -> list[int]:
        """How many equal rows came before each, in this task; nothing if none did."""
        again = self._seen.add(digests)
        if len(self._seen) > COUNTED_MAX:
            raise ValueError(
                f"a task can make ids for {COUNTED_MAX} different rows at most: name a column that holds "
                "ids (messageIdColumn), or deal the rows out to more partitions"
            )
        if not again:
            return []
        found = [0] * (len(digests) // DIGEST_BYTES)
        for row in again:
            digest = digests[row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES]
            found[row] = self._repeated.get(digest, 1)
            self._repeated[digest] = found[row] + 1
        return found

    def had(self, digest: bytes, content: Content, answer: dict[str, Any]) -> None:
        """The stream had a row already: of an earlier run, or of an equal row in another task."""
        report = self.report
        report.had[digest] = report.had.get(digest, 0) + 1
        if digest in report.handed or digest in report.places:
            return
        size = len(content.data) + len(content.lines)
        if self._handed_bytes + size <= HANDED_BYTES_MAX:
            self._handed_bytes += size
            report.handed[digest] = content
        else:
            report.places[digest] = str(answer.get("stream")), int(answer.get("seq", 0))

    # -- frames -----------------------------------------------------------

    def _framed(self, columns: _Columns, rows: Any) -> Chunk:
        ids: Ids
        if columns.ids is None:
            made = digests(columns.texts)
            ids = MadeIds(self._scope, made, self.count(made))
        else:
            ids = GivenIds(columns.ids)
        first = self._window.reserve(len(rows))
        frames, bounds = frame(columns.texts, ids, self._window.inbox, first)
        return Chunk(first, frames, bounds, _Rows(self, columns, ids, rows))

    # -- rows that cannot be published ------------------------------------

    def _refuse(self, content: Content, message_id: str, row: int, reason: str) -> None:
        instead = self.dead_letter(content, message_id, row, reason)
        if instead is None:
            named = f"subject {content.subject!r}" + (f", id {message_id}" if message_id else "")
            raise RowError(f"{self.place(row)} ({named}) cannot be published: {reason}")
        self._window.publish(instead)

    def dead_letter(self, content: Content, message_id: str, row: int, reason: str) -> Outgoing | None:
        """The message for a row that cannot be published, if the user wants one."""
        if not self._options.dead_letter_subject:
            return None
        told = {
            "Dead-Letter-Reason": reason,
            "Dead-Letter-Subject": content.subject,
            "Dead-Letter-Id": message_id,
            "Dead-Letter-Size": str(len(content.data)),
        }
        lines = "".join(f"{name}: {_one_line(value)}\r\n" for name, value in told.items() if value)
        room = self._max_payload - len(lines.encode()) - FIXED_BYTES - self._id_size()
        letter = Content(self._options.dead_letter_subject, lines.encode(), content.data[: max(0, room)])
        digest = letter.digest()
        count = sum(self.count(digest))
        return letter.with_id(
            content_id(self._scope, digest, count), self.place(row), lambda answer: self.had(digest, letter, answer)
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The source of a chunk."""

    writer: RowWriter
    columns: _Columns
    ids: Ids
    rows: Any

    def outgoing(self, row: int) -> Outgoing:
        return self.columns.content(row).with_id(self.ids[row], self.writer.place(int(self.rows[row])))

    def duplicate(self, row: int, answer: dict[str, Any]) -> None:
        if isinstance(self.ids, MadeIds):
            self.writer.had(self.ids.digest(row), self.columns.content(row), answer)

    def too_large(self, row: int, reason: str) -> Outgoing | None:
        place = int(self.rows[row])
        return self.writer.dead_letter(self.columns.content(row), self.ids[row], place, reason)


class _Columns:
    """The columns of a few rows, as binary arrays; where a row's value is wrong, `refused` says so."""

    def __init__(self, options: Options, names: list[str], id_column: str, batch: Any) -> None:
        count = batch.num_rows
        column = {name: batch.column(place) for place, name in enumerate(names)}
        self._wrong: dict[int, str] = {}
        self.data = self._filled(_binary(column[COLUMN_DATA], COLUMN_DATA), "it has no data")
        self.ids = self._ids(column[id_column], id_column) if id_column else None
        if COLUMN_SUBJECT in column:
            subjects = _binary(column[COLUMN_SUBJECT], COLUMN_SUBJECT)
            self.subjects = subjects.fill_null(options.subject.encode()) if subjects.null_count else subjects
            self._check_subjects()
        else:
            self.subjects = pa.repeat(pa.scalar(options.subject.encode(), pa.binary()), count)
        headers = column.get(COLUMN_HEADERS)
        self.lines = self._lines(headers, count)

    def _filled(self, values: Any, reason: str) -> Any:
        if not values.null_count:
            return values
        self._note(values.is_null(), reason)
        return values.fill_null(b"")

    def _note(self, wrong: Any, reason: str) -> None:
        for row in np.flatnonzero(wrong.to_numpy(zero_copy_only=False)):
            self._wrong.setdefault(int(row), reason)

    def _ids(self, values: Any, name: str) -> Any:
        texts = values if _is_bytes(values.type) else values.cast(pa.string())
        ids = self._filled(_binary(texts, name), f"column {name}, its id, is null")
        self._note(pc.match_substring_regex(ids, r"[\r\n\x00]|^$"), f"column {name} holds no id")
        return ids

    def _check_subjects(self) -> None:
        suspicious = pc.match_substring_regex(self.subjects, SUSPICIOUS).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(suspicious):
            fault = _subject_fault(self.subjects[row].as_py())
            if fault:
                self._wrong.setdefault(int(row), fault)

    def _lines(self, headers: Any, count: int) -> Any:
        if headers is None or headers.null_count == count or not pc.any(pc.greater(_lengths(headers), 0)).as_py():
            return pa.repeat(pa.scalar(b"", pa.binary()), count)
        found = []
        for row, fields in enumerate(headers.to_pylist()):
            try:
                found.append(header_lines(fields or ()))
            except ValueError as error:
                self._wrong.setdefault(row, str(error))
                found.append(b"")
        return pa.array(found, pa.binary())

    def refused(self, max_payload: int, id_size: int) -> dict[int, str]:
        """The rows that cannot be published, and why; ids that no column holds will have that size at most."""
        size = pc.binary_length(self.lines).to_numpy(zero_copy_only=False) + pc.binary_length(self.data).to_numpy()
        size = size + (id_size if self.ids is None else pc.binary_length(self.ids).to_numpy())
        size = size + FIXED_BYTES
        for row in np.flatnonzero(size > max_payload):
            reason = f"it has {size[row]} bytes, and the server takes {max_payload} (max_payload)"
            self._wrong.setdefault(int(row), reason)
        return dict(sorted(self._wrong.items()))

    def take(self, rows: Any) -> _Columns:
        """The columns of those rows alone."""
        chosen = object.__new__(_Columns)
        places = pa.array(rows)
        chosen._wrong = {}
        chosen.data, chosen.subjects, chosen.lines = (
            values.take(places) for values in (self.data, self.subjects, self.lines)
        )
        chosen.ids = self.ids.take(places) if self.ids is not None else None
        return chosen

    @property
    def texts(self) -> Texts:
        return Texts(self.subjects, self.lines, self.data)

    def content(self, row: int) -> Content:
        subject = self.subjects[row].as_py().decode(errors="replace")
        return Content(subject, self.lines[row].as_py(), self.data[row].as_py())

    def id_of(self, row: int) -> str:
        return "" if self.ids is None else self.ids[row].as_py().decode(errors="replace")


def _is_bytes(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_string(kind) or types.is_large_string(kind)
    )


def _binary(values: Any, name: str) -> Any:
    if not _is_bytes(values.type):
        raise ValueError(f"column {name} has the type {values.type}; it must be a string or binary")
    return values.cast(pa.binary())


def _lengths(headers: Any) -> Any:
    return pc.subtract(*(headers.offsets[1:], headers.offsets[:-1]))


def _subject_fault(subject: bytes) -> str:
    try:
        _check_subject(subject.decode())
    except ValueError as error:  # as well: not UTF-8
        return str(error)
    return ""


def _check_subject(subject: str) -> None:
    tokens = subject.split(".")
    if not all(tokens) or any(character.isspace() or character == "\0" for character in subject):
        raise ValueError(f"{subject!r} is not a subject")
    if {"*", ">"} & set(tokens):
        raise ValueError(f"{subject!r} has a wildcard, and only a subscription may")


def header_lines(fields: Iterable[Any]) -> bytes:
    """The lines of a map's pairs, or of structs of key and value; the id has a place of its own."""
    lines = []
    for name, value in _pairs(fields):
        if name.lower() != "nats-msg-id":
            lines.append(header_line(name, value) + "\r\n")
    return "".join(lines).encode()


def _pairs(fields: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for each in fields:
        name, value = (each["key"], each["value"]) if isinstance(each, dict) else each
        if name is None:
            raise ValueError("a header without a name")
        yield _text(name), "" if value is None else _text(value)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


def _one_line(text: str) -> str:
    return " ".join(text.split())[:512]
