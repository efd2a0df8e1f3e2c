"""How many messages fit into so many bytes of payload: counted at the stream's leader, by headers alone.

A consumer that delivers headers only sends the header Nats-Msg-Size in place of each payload. So the count is exact,
and costs about a hundred bytes and two microseconds of the planner a message, however large the messages are; with
payloads of a kilobyte that is a tenth of reading them. What is known to fit is not counted: `planner` sees to that.

What doesn't live here: which range is wanted, and for what (`planner`). Work queues and streams with interest are read
for their sizes (`reader`): a consumer there would take messages from others.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from .fetch import ApiError, api, with_connection
from .options import Options
from .ranges import Range
from .standing import Standing
from .wire import Connection, Verdict, WireError

PULL_MAX = 50_000  # messages asked for at a time
PULL_MIN = 256
PULL_NS = 5_000_000_000
CONSUMER_IDLE_NS = 10_000_000_000
DELIVERY = re.compile(rb"HMSG [^ \r\n]+ \d+ \$JS\.ACK\.([^ \r\n]+) (\d+) (\d+)\r\n")
SIZE = b"\r\nNats-Msg-Size: "
NO_MORE = (404, 408)


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
    made: list[str] = []
    try:
        return with_connection(options, _counting(options, wanted, max_bytes, guess, made))
    finally:
        # By the other connection: on the first one deliveries may still be under way.
        for name in made:
            with contextlib.suppress(ApiError):
                standing.ask(partial(_delete, options=options, name=name))


def _delete(connection: Connection, options: Options, name: str) -> None:
    api(connection, options, f"CONSUMER.DELETE.{options.stream}.{name}", {})


def _counting(
    options: Options, wanted: Range, max_bytes: int, guess: int, made: list[str]
) -> Callable[[Connection], int]:
    def count(connection: Connection) -> int:
        name = f"spark_sizes_{random.getrandbits(64):016x}"
        made.append(name)
        cutter = Cutter(wanted.last, max_bytes)
        cutter.pending = _create(connection, options, name, wanted.first)
        subject = options.subject_of(f"CONSUMER.MSG.NEXT.{options.stream}.{name}")
        while cutter.pending and not cutter.after:
            size = min(PULL_MAX, max(PULL_MIN, guess - cutter.count + guess // 10))
            cutter.wanted += size
            connection.publish_request(subject, json.dumps({"batch": size, "expires": PULL_NS}).encode())
            while cutter.pending and not cutter.after and cutter.count < cutter.wanted:
                status = connection.gather(cutter)
                if status is not None and status.status in NO_MORE:
                    # Removed since they were counted as pending.
                    return cutter.after or wanted.last + 1
                if status is not None:
                    raise WireError(f"a pull ended with {status.headers[:80]!r}")
        return cutter.after or wanted.last + 1

    return count


def _create(connection: Connection, options: Options, name: str, first: int) -> int:
    """A consumer from that sequence on; how many messages it has."""
    config: dict[str, Any] = {
        "name": name,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": first,
        "ack_policy": "none",
        "headers_only": True,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": CONSUMER_IDLE_NS,
    }
    endpoint = f"CONSUMER.CREATE.{options.stream}.{name}"
    if len(options.subjects) == 1:
        config["filter_subject"] = options.subjects[0]
        endpoint += f".{options.subjects[0]}"
    elif options.subjects:
        config["filter_subjects"] = list(options.subjects)
    answer = api(connection, options, endpoint, {"stream_name": options.stream, "config": config})
    return int(answer["num_pending"])
