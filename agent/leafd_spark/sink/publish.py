"""Publishing to JetStream streams: many messages in flight, each acknowledged before the task ends.

Here: the window of publishes that await their acknowledgement, how it slides on as acknowledgements come,
sending again what a broken connection left unanswered, and which answers are final. Not here: how rows become
messages and what their ids are (`outgoing`), who calls it (`sink`).

A message that is sent again carries the same `Nats-Msg-Id`, so the stream drops what it has already, within its
duplicate window. Replies go to one inbox for as long as the window lives, whatever connections it has meanwhile: an
acknowledgement that arrives late is as true as any other.
"""

from __future__ import annotations

import json
import random
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from leafd.wire_client import Message, frame_publish

from leafd_spark.fetch import ApiError, Patience, api, dial
from leafd_spark.options import Options
from leafd_spark.wire import Connection, Intake, NoResponders, Refused, WireError

from .frames import SUBSCRIPTION, Acknowledgements
from .pending import Awaited

# Bytes of messages that may await their acknowledgement, and bytes handed to the socket at a time: one send has to
# end within the timeout also where the line is slow.
WINDOW_BYTES = 4 << 20
SEND_BYTES = 128 << 10
# Messages given one by one are sent when so many have come together, or when somebody waits for them.
GATHERED_MAX = 256
# So long nobody may answer at the JetStream API before that is taken for a wrong domain; a leaf link that comes back
# takes less.
NOBODY_SECONDS = 5.0

Result = TypeVar("Result")

# JetStream's error where replicas have not agreed yet on a message of the same id: another task's equal row, or this
# very message on a connection that was lost.
ID_IN_PROCESS = 10158
IN_PROCESS_PAUSE = 0.005  # seconds before such a message is sent again
MESSAGE_TOO_LARGE = 10054  # JetStream's error for a message over the stream's max_msg_size


class PublishError(Exception):
    """The stream refused a message, and would refuse it again."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message."""

    subject: str
    headers: bytes
    payload: bytes
    place: str = ""  # where it comes from, for people
    had: Callable[[dict[str, Any]], None] | None = None  # hears the answer if the stream had the message already

    def __str__(self) -> str:
        return f"{self.place}: {self.subject}" if self.place else self.subject


class Source(Protocol):
    """The source of a chunk: asked for a row only when that row is in trouble."""

    def outgoing(self, row: int) -> Outgoing: ...

    def duplicate(self, row: int, answer: dict[str, Any]) -> None:
        """The stream had the message already."""

    def too_large(self, row: int, reason: str) -> Outgoing | None:
        """The message to publish in place of one that is too large for the stream; None: that is an error."""


@dataclass(slots=True)
class Chunk:
    """Framed messages, numbered one after the other; message n ends where message n + 1 begins."""

    first: int
    frames: memoryview
    bounds: Any  # an array
    source: Source
    sent: int = 0  # messages that were handed to a socket at least once

    @property
    def end(self) -> int:
        return self.first + len(self.bounds) - 1

    def slice(self, start: int, stop: int) -> memoryview:
        return self.frames[self.bounds[start] : self.bounds[stop]]


@dataclass(frozen=True, slots=True)
class _Given:
    """The source of messages that were given one by one."""

    messages: list[Outgoing]

    def outgoing(self, row: int) -> Outgoing:
        return self.messages[row]

    def duplicate(self, row: int, answer: dict[str, Any]) -> None:
        had = self.messages[row].had
        if had is not None:
            had(answer)

    def too_large(self, row: int, reason: str) -> Outgoing | None:
        return None


def header_line(name: str, value: str) -> str:
    """One line of a header block, without its end."""
    if not name or set(name) & set(":\r\n") or "\r" in value or "\n" in value:
        raise ValueError(f"header {name!r} holds a character that headers cannot hold")
    return f"{name}: {value}"


def header_block(message_id: str, fields: Iterable[tuple[str, str]]) -> bytes:
    lines = [header_line(name, value) for name, value in fields if name.lower() != "nats-msg-id"]
    return "\r\n".join(["NATS/1.0", *lines, header_line("Nats-Msg-Id", message_id), "", ""]).encode()


@dataclass(slots=True)
class Tally:
    """The streams' answers, counted."""

    stored: int = 0
    duplicates: int = 0
    streams: set[str] = field(default_factory=set)  # that acknowledged the first message of a connection, or duplicates


class Window:
    """Publishes in flight over one connection; survives the connection."""

    def __init__(self, options: Options) -> None:
        self._options = options
        # Short, as every message and every acknowledgement carries it.
        self.inbox = f"_INBOX.{random.getrandbits(64):x}"
        self._acknowledgements = Acknowledgements(self.inbox)
        self._chunks: deque[Chunk] = deque()
        self._gathered: list[Outgoing] = []
        self._in_flight = Awaited()
        self._again: deque[int] = deque()  # numbers that a lost connection left unanswered
        self._next = 1
        self._connection: Connection | None = None
        self._patience = Patience(options.retry)
        self._progress = self._dialled = time.monotonic()
        self.tally = Tally()

    @property
    def stored(self) -> int:
        return self.tally.stored

    @property
    def duplicates(self) -> int:
        return self.tally.duplicates

    # -- messages in ------------------------------------------------------

    def publish(self, message: Outgoing) -> None:
        """One message; it may leave with later ones."""
        self._gathered.append(message)
        if len(self._gathered) >= min(GATHERED_MAX, self._options.in_flight):
            self._push_gathered()

    def push(self, chunk: Chunk) -> None:
        """Many messages, framed with the numbers that `reserve` gave last; returns when all are sent."""
        self._add(chunk)

    def reserve(self, count: int) -> int:
        """The first of so many numbers in a row, which make `inbox.<number>` reply subjects."""
        self._push_gathered()  # chunks are pushed in the order of their numbers
        first = self._next
        self._next += count
        return first

    def drain(self) -> None:
        """Wait until every message is acknowledged."""
        while True:
            self._push_gathered()
            self._persist(lambda: bool(len(self._in_flight) or self._again))
            if not self._gathered:  # what was refused for its size may have had something to say instead
                self._chunks.clear()
                return

    def max_payload(self) -> int:
        """The largest message that the server takes, headers included."""
        return self._retried(lambda connection: int(connection.info.get("max_payload", 1 << 20)))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _push_gathered(self) -> None:
        if not self._gathered:
            return
        messages, self._gathered = self._gathered, []
        first = self.reserve(len(messages))
        frames, bounds = bytearray(), [0]
        for number, message in enumerate(messages, first):
            frames += frame_publish(message.subject, f"{self.inbox}.{number}", message.headers, message.payload)
            bounds.append(len(frames))
        self._add(Chunk(first, memoryview(frames), np.array(bounds), _Given(messages)))

    def _add(self, chunk: Chunk) -> None:
        oldest = min(self._in_flight.oldest() or chunk.first, min(self._again, default=chunk.first))
        while self._chunks and self._chunks[0].end <= oldest:
            self._chunks.popleft()
        self._chunks.append(chunk)
        if oldest == chunk.first:
            self._got_on()  # nothing was awaited until now, however long the rows took to come
        self._persist(lambda: chunk.first + chunk.sent < chunk.end)

    # -- the exchange -----------------------------------------------------

    def _persist(self, goes_on: Callable[[], bool]) -> None:
        """Send and receive until that is no longer so, over as many connections as it takes."""
        while goes_on():
            self._retried(self._step)

    def _retried(self, work: Callable[[Connection], Result]) -> Result:
        while True:
            try:
                if self._connection is None:
                    self._connection = self._dial()
                return work(self._connection)
            except (WireError, NoResponders, OSError) as error:
                self.close()
                # What was not acknowledged may be stored or not: its id makes asking again harmless.
                self._again = deque(sorted([*self._in_flight.clear(), *self._again]))
                self._patience.wait(error)

    def _dial(self) -> Connection:
        connection = dial(self._options)
        connection.send(b"SUB %b.* %d\r\n" % (self.inbox.encode(), SUBSCRIPTION))
        self._dialled = time.monotonic()
        return connection

    def _step(self, connection: Connection) -> None:
        """Fill the window if a good part of it is free, or else take what acknowledgements there are."""
        unsent = next((chunk for chunk in self._chunks if chunk.first + chunk.sent < chunk.end), None)
        if self._again:
            self._send_again(connection)
        elif unsent is not None and self._send_on(connection, unsent):
            return
        else:
            self._receive(connection)

    def _send_again(self, connection: Connection) -> None:
        numbers: list[int] = []
        frames = bytearray()
        room = self._options.in_flight - len(self._in_flight)
        while self._again and len(numbers) < room and len(frames) < SEND_BYTES:
            number = self._again[0]
            chunk = self._chunk_of(number)
            frames += chunk.slice(number - chunk.first, number - chunk.first + 1)
            numbers.append(self._again.popleft())
        if not numbers:
            self._receive(connection)
            return
        for number in numbers:
            self._in_flight.add(number, number + 1)
        connection.send(frames)

    def _send_on(self, connection: Connection, chunk: Chunk) -> bool:
        """Send the next messages of a chunk; False if the window has no room worth a send."""
        bytes_each = max(1, len(chunk.frames) // (len(chunk.bounds) - 1))
        most = max(1, min(self._options.in_flight, WINDOW_BYTES // bytes_each))
        room = most - len(self._in_flight)
        if room <= 0 or room < min(most // 4, chunk.end - chunk.first - chunk.sent):
            return False
        start = chunk.sent
        limit = chunk.bounds[start] + SEND_BYTES
        last = min(start + room, len(chunk.bounds) - 1)
        chunk.sent = stop = start + max(1, int(chunk.bounds[start : last + 1].searchsorted(limit, "right")) - 1)
        # Noted before it is sent: a send that fails half-way has sent an unknown number of them.
        self._in_flight.add(chunk.first + start, chunk.first + stop)
        connection.send(chunk.slice(start, stop))
        return True

    def _chunk_of(self, number: int) -> Chunk:
        place = bisect_right(self._chunks, number, key=lambda chunk: chunk.first)
        return self._chunks[place - 1]

    # -- acknowledgements -------------------------------------------------

    def _receive(self, connection: Connection) -> None:
        intake = connection.intake
        if intake.start == intake.end:
            intake.receive()
        if not self._take_plain(intake):
            self._judge(connection.next_message())
        if not len(self._in_flight):
            return
        if time.monotonic() - max(self._progress, self._dialled) > self._options.timeout:
            raise WireError(f"no acknowledgement within {self._options.timeout:g} s")

    def _take_plain(self, intake: Intake) -> bool:
        """Acknowledgements of messages that are newly stored, as many as there are; False if none is at the front."""
        if not self.tally.streams:
            return False  # whose name is of interest once
        intake.start, numbers = self._acknowledgements.take(intake.buffer, intake.start, intake.end)
        if not len(numbers):
            return False
        self.tally.stored += self._in_flight.take(numbers)
        self._got_on()
        return True

    def _got_on(self) -> None:
        self._progress = time.monotonic()
        self._patience.renew()

    def _judge(self, message: Message) -> None:
        inbox, _, text = message.subject.rpartition(".")
        if inbox != self.inbox or int(text) not in self._in_flight:
            return
        number = int(text)
        if message.status == 503:
            self._nobody(self._outgoing(number))
        if message.status:
            raise WireError(f"a publish was answered with {message.headers[:80]!r}")
        answer = json.loads(message.payload)
        if "error" in answer:
            self._refused(number, answer["error"])
            return
        self._in_flight.remove(number)
        self.tally.streams.add(str(answer.get("stream", "")))
        if answer.get("duplicate"):
            self.tally.duplicates += 1
            chunk = self._chunk_of(number)
            chunk.source.duplicate(number - chunk.first, answer)
        else:
            self.tally.stored += 1
        self._got_on()

    def _outgoing(self, number: int) -> Outgoing:
        chunk = self._chunk_of(number)
        return chunk.source.outgoing(number - chunk.first)

    def _refused(self, number: int, error: dict[str, Any]) -> None:
        code, description = int(error.get("err_code", 0)), str(error.get("description"))
        chunk = self._chunk_of(number)
        if code == MESSAGE_TOO_LARGE:
            instead = chunk.source.too_large(number - chunk.first, description)
            if instead is not None:
                self._in_flight.remove(number)
                self._gathered.append(instead)  # it leaves with the next push, or when the window is drained
                return
        if code == ID_IN_PROCESS:
            self._in_flight.remove(number)
            self._again.append(number)
            time.sleep(IN_PROCESS_PAUSE)
            return
        text = f"{self._outgoing(number)}: {description} ({code})"
        # 5xx is the server's trouble and may pass; the rest will be the same next time.
        if int(error.get("code", 0)) >= 500:
            raise WireError(text)
        raise PublishError(text)

    def _nobody(self, message: Outgoing) -> None:
        """Handles a message that no stream took. There is no stream for it, or the stream's leader is away for a
        moment."""
        options = self._options
        try:
            with dial(options) as connection:
                found = api(connection, options, "STREAM.NAMES", {"subject": message.subject})
        except NoResponders as error:
            # What was acknowledged before had the right domain: it is away, and may come back.
            text = f"{message}: no stream takes the subject, and nobody answers at {options.api}"
            if self.tally.streams or time.monotonic() - self._progress < NOBODY_SECONDS:
                raise NoResponders(text) from error
            raise PublishError(f"{text}: is the domain right, and is JetStream on?") from error
        except Refused:
            raise NoResponders(f"{message}: no stream takes the subject now (which would, we may not ask)") from None
        except (ApiError, WireError, OSError) as error:
            raise NoResponders(f"{message}: no stream takes the subject, and asking which would: {error}") from error
        if not found.get("streams"):
            raise PublishError(f"{message}: no stream takes the subject, says {options.api}; is the domain right?")
        raise NoResponders(f"{message}: the stream {found['streams'][0]} does not answer")
