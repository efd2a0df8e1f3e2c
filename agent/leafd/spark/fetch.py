"""Reading a range of sequences off a stream, whatever happens to the connection meanwhile.

What lives here: the direct gets, the ordered consumer for streams that do not allow them, dialling
anew and going on where the last row was, and noticing rows that vanished before they were read.
What doesn't: bytes (`wire`), columns (`batches`), which range to read (`ranges`).

Direct gets are asked for one batch ahead: the request for the next batch leaves as soon as the end of
this one has come, so the server fills the socket's buffer while Arrow columns are built.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow.compute as pc

from .batches import Rows, rows_of_direct, rows_of_messages
from .losses import Missing, rule_that_removed
from .options import Options
from .ranges import Range, StreamState
from .wire import Connection, NoResponders, Refused, WireError

CLIENT_NAME = "spark-nats"
RETRY_FIRST = 0.05  # seconds before the first attempt to dial anew; then it doubles
RETRY_MAX = 2.0
CONSUMER_IDLE_NS = 30_000_000_000  # after this the server removes a consumer that a killed task left behind

Result = TypeVar("Result")


class ApiError(Exception):
    """JetStream refused a request."""

    def __init__(self, subject: str, error: dict[str, Any]) -> None:
        super().__init__(f"{subject}: {error.get('description')} ({error.get('err_code')})")
        self.code = int(error.get("code", 0))


def dial(options: Options) -> Connection:
    return Connection(options.addresses, options.login, CLIENT_NAME, options.timeout)


def api(connection: Connection, options: Options, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
    subject = options.subject_of(endpoint)
    answer = connection.request_json(subject, body)
    if "error" in answer:
        raise ApiError(subject, answer["error"])
    return answer


def stream_state(connection: Connection, options: Options) -> StreamState:
    return StreamState.of(api(connection, options, f"STREAM.INFO.{options.stream}", {}))


def sequence_at(connection: Connection, options: Options, instant: str) -> int | None:
    """The first message at or after an instant; None if there is none."""
    try:
        answer = api(connection, options, f"STREAM.MSG.GET.{options.stream}", {"start_time": instant})
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    return int(answer["message"]["seq"])


class Patience:
    """How long to go on trying; any progress renews it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        self._deadline = time.monotonic() + self._seconds
        self._pause = RETRY_FIRST

    def wait(self, error: Exception) -> None:
        """Pause before the next attempt, or raise what it failed of."""
        if isinstance(error, Refused) or time.monotonic() >= self._deadline:
            raise error
        time.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, RETRY_MAX)


def with_connection(options: Options, work: Callable[[Connection], Result]) -> Result:
    """Do something short with a connection of its own, again if the connection fails."""
    patience = Patience(options.retry)
    while True:
        try:
            with dial(options) as connection:
                return work(connection)
        except (WireError, NoResponders, OSError) as error:
            patience.wait(error)


class RangeReader:
    """Reads one range once. `position` is the next sequence wanted; everything before it was handed over."""

    def __init__(self, options: Options, wanted: Range, allows_direct: bool) -> None:
        self._options = options
        self._wanted = wanted
        self._direct = allows_direct
        self.position = wanted.first
        self._jumps: list[Range] = []  # sequences passed over: gaps, other subjects, or losses

    def batches(self) -> Iterator[Any]:
        """The range's rows as Arrow record batches, in the order of their sequences."""
        patience = Patience(self._options.retry)
        while self.position <= self._wanted.last:
            try:
                with dial(self._options) as connection:
                    rounds = self._direct_rounds(connection) if self._direct else self._consumer_rounds(connection)
                    for rows in rounds:
                        patience.renew()
                        self._note_jumps(rows.sequences)
                        self.position = int(rows.sequences[-1]) + 1
                        yield rows.batch
                    self._finish(connection)
            except (WireError, NoResponders, OSError) as error:
                patience.wait(error)

    # -- direct gets ------------------------------------------------------

    def _ask(self, connection: Connection, position: int) -> None:
        size = min(self._options.fetch_messages, self._wanted.last - position + 1)
        body: dict[str, Any] = {"seq": position, "batch": size, "max_bytes": self._options.fetch_bytes}
        if self._options.subject:
            body["next_by_subj"] = self._options.subject
        subject = self._options.subject_of(f"DIRECT.GET.{self._options.stream}")
        connection.publish_request(subject, json.dumps(body).encode())

    def _direct_rounds(self, connection: Connection) -> Iterator[Rows]:
        last = self._wanted.last
        self._ask(connection, self.position)
        more = True
        while more:
            buffer, scan = connection.collect()
            more = _batch_goes_on(scan.status)
            if more:
                reached = int(_status_field(scan.status, b"Nats-Last-Sequence"))
                more = reached < last and int(_status_field(scan.status, b"Nats-Num-Pending")) > 0
                if more:
                    self._ask(connection, reached + 1)
            if scan.spans:
                rows = rows_of_direct(buffer, scan.spans, self._options.stream, last, self._options.include_headers)
                if len(rows.sequences):
                    yield rows

    # -- ordered consumer -------------------------------------------------

    def _consumer_rounds(self, connection: Connection) -> Iterator[Rows]:
        options = self._options
        name = f"spark_{random.getrandbits(64):016x}"
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.position,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": CONSUMER_IDLE_NS,
        }
        endpoint = f"CONSUMER.CREATE.{options.stream}.{name}"
        if options.subject:
            config["filter_subject"] = options.subject
            endpoint += f".{options.subject}"
        elif options.subjects:
            config["filter_subjects"] = list(options.subjects)
        api(connection, options, endpoint, {"stream_name": options.stream, "config": config})
        delivered = 0
        pending = 1
        while pending and self.position <= self._wanted.last:
            gathered, delivered, pending = self._pull(connection, name, delivered)
            rows = gathered.rows(options)
            if rows is not None:
                yield rows
        api(connection, options, f"CONSUMER.DELETE.{options.stream}.{name}", {})

    def _pull(self, connection: Connection, name: str, delivered: int) -> tuple[_Gathered, int, int]:
        """One pull: what came, how far the consumer is, and how many messages it still has for us."""
        size = min(self._options.fetch_messages, self._wanted.last - self.position + 1)
        subject = self._options.subject_of(f"CONSUMER.MSG.NEXT.{self._options.stream}.{name}")
        connection.publish_request(subject, json.dumps({"batch": size, "no_wait": True}).encode())
        gathered = _Gathered()
        pending = 1
        for _ in range(size):
            message = connection.next_message()
            if message.status == 404:
                return gathered, delivered, 0
            if message.status:
                raise WireError(f"a pull ended with {message.headers[:80]!r}")
            place = _AckSubject(message.reply)
            delivered += 1
            if place.consumer_sequence != delivered:
                raise WireError(f"delivery {place.consumer_sequence} came where {delivered} was due")
            if place.stream_sequence > self._wanted.last:
                return gathered, delivered, 0
            gathered.add(message.subject, place, message.headers, message.payload)
            pending = place.pending
        return gathered, delivered, pending

    # -- losses -----------------------------------------------------------

    def _note_jumps(self, sequences: Any) -> None:
        expected = self.position
        if int(sequences[0]) != expected:
            self._jumps.append(Range(expected, int(sequences[0]) - 1))
        if int(sequences[-1]) - int(sequences[0]) + 1 != len(sequences):
            for place in np.flatnonzero(np.diff(sequences) != 1):
                self._jumps.append(Range(int(sequences[place]) + 1, int(sequences[place + 1]) - 1))

    def _finish(self, connection: Connection) -> None:
        """The server had no more up to the range's end. Were the sequences passed over ever ours to read?"""
        if self.position <= self._wanted.last:
            self._jumps.append(Range(self.position, self._wanted.last))
        self.position = self._wanted.last + 1
        if not self._jumps:
            return
        # What the stream's beginning has moved past went while we read (planning saw to it that the range began
        # within the stream). Gaps behind it are deleted messages, or those of other subjects.
        state = stream_state(connection, self._options)
        stream = self._options.stream
        for jump in self._jumps:
            if jump.first < state.first:
                gone = Range(jump.first, min(jump.last, state.first - 1))
                what = f"messages {gone.first} to {gone.last} of stream {stream} vanished before they were read"
                rule = rule_that_removed(gone, state)
                Missing(stream, what, rule, len(gone)).settle(self._options.fail_on_data_loss)


class _AckSubject:
    """Where a consumer's delivery stands, from its reply subject (both of the server's forms)."""

    def __init__(self, subject: str) -> None:
        parts = subject.split(".")
        if len(parts) >= 11:  # $JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>. ...
            parts = parts[:2] + parts[4:]
        if len(parts) < 9 or parts[:2] != ["$JS", "ACK"]:
            raise WireError(f"not a delivery of a consumer: reply {subject!r}")
        self.stream_sequence, self.consumer_sequence = int(parts[5]), int(parts[6])
        self.nanoseconds, self.pending = int(parts[7]), int(parts[8])


class _Gathered:
    """Messages of a consumer, column by column."""

    def __init__(self) -> None:
        self._sequences: list[int] = []
        self._subjects: list[str] = []
        self._nanoseconds: list[int] = []
        self._blocks: list[bytes] = []
        self._payloads: list[bytes] = []

    def add(self, subject: str, place: _AckSubject, block: bytes, payload: bytes) -> None:
        self._sequences.append(place.stream_sequence)
        self._subjects.append(subject)
        self._nanoseconds.append(place.nanoseconds)
        self._blocks.append(block)
        self._payloads.append(payload)

    def rows(self, options: Options) -> Rows | None:
        if not self._sequences:
            return None
        columns = (self._sequences, self._subjects, self._nanoseconds, self._blocks, self._payloads)
        return rows_of_messages(options.stream, *columns, options.include_headers)


def _status_field(status: bytes, name: bytes) -> bytes:
    start = status.find(b"\r\n" + name + b":")
    if start < 0:
        raise WireError(f"an end of batch without {name.decode()}")
    start += len(name) + 3
    return status[start : status.find(b"\r\n", start)].strip()


def _batch_goes_on(status: bytes) -> bool:
    """Whether a batch ended so that a next one may follow; False if there is nothing left."""
    code = status[len(b"NATS/1.0 ") :][:3]
    if code == b"204":
        return True
    if code == b"404":
        return False
    if code == b"503":
        raise NoResponders("nobody answers direct gets: stream or server is gone, or allow_direct was turned off")
    raise ValueError(f"a direct get was refused: {status!r}")


def size_admitted(options: Options, wanted: Range, allows_direct: bool, max_bytes: int) -> int:
    """The sequence behind the last message that fits into max_bytes of payload; one message always fits.

    The messages are read for their sizes, so a limit by bytes costs one transfer of that many bytes more a
    trigger. The server has no cheaper way to tell, and an estimate would not be a limit.
    """
    fetch_bytes = min(options.fetch_bytes, max_bytes)
    sizing = replace(options, include_headers=False, fail_on_data_loss=False, fetch_bytes=fetch_bytes)
    used = 0
    some = False
    for batch in RangeReader(sizing, wanted, allows_direct).batches():
        total = used + np.cumsum(pc.binary_length(batch.column("data")).to_numpy())
        fitting = int(np.searchsorted(total, max_bytes, side="right"))
        if fitting < len(total):
            refused = int(batch.column("sequence")[fitting].as_py())
            return refused if fitting or some else refused + 1
        used = int(total[-1])
        some = True
    return wanted.last + 1
