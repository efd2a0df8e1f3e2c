"""How many messages fit into so many bytes of payload: counted at the stream's leader, by headers alone.

A consumer that delivers headers only sends the header Nats-Msg-Size in place of each payload. So the count is exact,
and costs about a hundred bytes and two microseconds of the planner a message, however large the messages are; with
payloads of a kilobyte that is a tenth of reading them. What is known to fit is not counted: `planner` sees to that.

Not here: which range is wanted, and for what (`planner`). Work queues and streams with interest are read
for their sizes (`reader`): a consumer there would take messages from others.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

from leafd_spark.consumer import Consumer, pull_ended
from leafd_spark.fetch import ApiError, with_connection
from leafd_spark.options import Options
from leafd_spark.ranges import Range
from leafd_spark.standing import Standing
from leafd_spark.wire import Connection, Verdict, WireError

PULL_MAX = 50_000  # messages asked for at a time
PULL_MIN = 256
DELIVERY = re.compile(rb"HMSG [^ \r\n]+ \d+ \$JS\.ACK\.([^ \r\n]+) (\d+) (\d+)\r\n")
SIZE = b"\r\nNats-Msg-Size: "


class Cutter:
    """Adds sizes up as they are delivered, until they are too many. A decoder of `Connection.gather`."""

    def __init__(self, last: int, max_bytes: int) -> None:
        self._last = last
        self._left = max_bytes
        self.after = 0  # the first sequence that does not fit; 0 while all do
        self.count = 0  # deliveries
        self.wanted = 0  # of them in this pull
        self.pending = 1  # what the consumer still has

    def feed(self, buffer: bytearray, start: int, end: int) -> tuple[int, int]:
        """Take deliveries from buffer[start:end]; a Verdict, and the first byte that was not taken."""
        position = start
        while True:
            newline = buffer.find(b"\n", position, end)
            if newline < 0:
                return Verdict.MORE, position
            line = DELIVERY.match(buffer, position, newline + 1)
            if line is None:
                return (Verdict.STATUS if buffer.startswith((b"HMSG", b"MSG"), position) else Verdict.CONTROL), position
            block = newline + 1 + int(line[2])
            after = newline + 1 + int(line[3]) + 2
            if after > end:
                return Verdict.MORE, position
            position = after
            self._count(line[1].split(b"."), buffer, newline, block)
            if self.after or not self.pending or self.count >= self.wanted:
                return Verdict.FULL, position

    def _count(self, place: list[bytes], buffer: bytearray, begin: int, block: int) -> None:
        *_, stream_sequence, consumer_sequence, _, pending = place[:9] if len(place) >= 9 else place[:7]
        sequence, self.pending = int(stream_sequence), int(pending)
        self.count += 1
        if int(consumer_sequence) != self.count:
            raise WireError(f"delivery {int(consumer_sequence)} came where {self.count} was due")
        if sequence > self._last:
            self.after = self._last + 1
            return
        # The server's own is the last of that name.
        found = buffer.rfind(SIZE, begin, block)
        if found < 0:
            raise WireError("a delivery of headers without Nats-Msg-Size")
        self._left -= int(buffer[found + len(SIZE) : buffer.find(b"\r", found + len(SIZE), block)])
        if self._left < 0:
            self.after = sequence if self.count > 1 else sequence + 1


def admitted(standing: Standing, options: Options, wanted: Range, max_bytes: int, guess: int) -> int:
    """The sequence behind the last message of the range that fits into max_bytes of payload; one always fits.

    `guess` says how many messages may fit; it only bounds how many are asked for at a time.
    """
    made: list[Consumer] = []
    try:
        return with_connection(options, _counting(options, wanted, max_bytes, guess, made))
    finally:
        # By the other connection: on the first one deliveries may still be under way.
        for consumer in made:
            with contextlib.suppress(ApiError):
                standing.ask(consumer.remove)


def _counting(
    options: Options, wanted: Range, max_bytes: int, guess: int, made: list[Consumer]
) -> Callable[[Connection], int]:
    def count(connection: Connection) -> int:
        consumer = Consumer(options)
        made.append(consumer)
        consumer.make(connection, wanted.first, headers_only=True)
        cutter = Cutter(wanted.last, max_bytes)
        cutter.pending = consumer.pending
        while cutter.pending and not cutter.after:
            size = min(PULL_MAX, max(PULL_MIN, guess - cutter.count + guess // 10))
            cutter.wanted += consumer.pull(connection, size)
            while cutter.pending and not cutter.after and cutter.count < cutter.wanted:
                status = connection.gather(cutter)
                if status is not None:
                    pull_ended(status)
                    # Removed since they were counted as pending.
                    return cutter.after or wanted.last + 1
        return cutter.after or wanted.last + 1

    return count
