"""A limit of bytes: exact at the leader, cheap, and without counting what is known to fit."""

from __future__ import annotations

import random

import pytest
from leafd.wire_client import frame_publish
from leafd_spark.fetch import dial
from leafd_spark.ranges import Range
from leafd_spark.source.sizes import Cutter, admitted
from leafd_spark.standing import Standing
from leafd_spark.wire import Verdict, WireError

from .hub import Hub


def counted(hub: Hub, first: int, last: int, limit: int, guess: int = 10, **options: str) -> int:
    given = hub.options("BYTES", streaming=True, **options)
    standing = Standing(given)
    try:
        return admitted(standing, given, Range(first, last), limit, guess)
    finally:
        standing.close()


def test_a_limit_of_bytes_is_found_exactly(hub: Hub) -> None:
    """As many messages as fit, one at least, and all of them if they fit, whatever was guessed; no consumer stays."""
    hub.create("BYTES")
    hub.fill(1, 50, "BYTES", size=100)
    for limit, after in ((1, 2), (99, 2), (100, 2), (199, 2), (200, 3), (1050, 11), (5000, 51), (9999, 51)):
        assert after == counted(hub, 1, 50, limit)
    assert 31 == counted(hub, 21, 40, 1000)
    assert 41 == counted(hub, 21, 40, 9999, guess=1)
    hub.remove(3, "BYTES")
    hub.remove(4, "BYTES")
    # 1, 2 and 5 fit; 6 is the first that does not.
    assert 6 == counted(hub, 1, 50, 300)
    assert 0 == hub.call("CONSUMER.NAMES.BYTES")["total"]


def test_only_the_wanted_subjects_count(hub: Hub) -> None:
    """Messages of other subjects take no bytes."""
    hub.create("BYTES")
    hub.fill(1, 60, "BYTES", size=100)
    # 1, 4, 7 fit; 10 does not. Of two subjects 1, 3, 4, 6, 7 fit, and 9 does not.
    assert 10 == counted(hub, 1, 60, 350, subject="bytes.1")
    assert 9 == counted(hub, 1, 60, 500, subjects="bytes.0,bytes.1")


def delivery(sequence: int, size: int, pending: int, stored: bytes = b"") -> bytes:
    block = b"NATS/1.0\r\n%bNats-Msg-Size: %d\r\n\r\n" % (stored, size)
    line = b"HMSG s.1 1 $JS.ACK.S.c.1.%d.%d.1700000000000000000.%d %d %d\r\n"
    return line % (sequence, sequence, pending, len(block), len(block)) + block + b"\r\n"


def test_any_cut_of_the_bytes_counts_the_same() -> None:
    """Deliveries in pieces of any size are counted once; a header of that name in a message changes nothing."""
    lie = b"Nats-Msg-Size: 7\r\nX: y\r\n"
    stream = b"".join(delivery(n, 100, 50 - n, lie if n % 2 else b"") for n in range(1, 51))
    for seed in range(20):
        pieces = random.Random(seed)
        cutter, buffer, start = Cutter(50, 1050), bytearray(), 0
        cutter.wanted = 50
        end = 0
        verdict = int(Verdict.MORE)
        while verdict == Verdict.MORE:
            buffer += stream[end : (end := end + pieces.randrange(1, 200))]
            verdict, start = cutter.feed(buffer, start, len(buffer))
        assert (Verdict.FULL, 11) == (verdict, cutter.after)


def test_a_delivery_that_got_lost_is_noticed() -> None:
    """A jump in the consumer's own count makes the count begin anew."""
    cutter = Cutter(50, 1000)
    cutter.wanted = 50
    data = bytearray(delivery(2, 100, 5))
    with pytest.raises(WireError, match="came where 1 was due"):
        cutter.feed(data, 0, len(data))


def test_a_message_cannot_lie_about_its_size(hub: Hub) -> None:
    """A stored header of the name that the server uses for sizes is not taken for one."""
    hub.create("BYTES")
    options = hub.options("BYTES")
    lie = b"NATS/1.0\r\nNats-Msg-Size: 1\r\n\r\n"
    with dial(options) as connection:
        for number in range(10):
            connection.send(frame_publish("bytes.1", f"{connection.inbox}.ack", lie, b"%d" % number * 100))
            connection.next_message()
    assert 4 == counted(hub, 1, 10, 350)
