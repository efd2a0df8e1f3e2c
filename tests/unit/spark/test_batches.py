"""Rows out of received bytes: what is a row and what isn't, where it ends however the bytes arrive, and its columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from leafd_spark.source import batches
from leafd_spark.source.batches import LINES_KNOWN_MAX, LineSizes, MissedDelivery, OtherStream, PlainDecoder
from leafd_spark.source.columns import ARROW_SCHEMA, Origins, Place, short_hash
from leafd_spark.source.decoder import Decoder, NativeDecoder
from leafd_spark.wire import Verdict, WireError

PLACE = Place("B", "hub", Origins.of([{"name": "C", "external": {"api": "$JS.box-1.API", "deliver": ""}}]))
NS = 1795239715904933874  # 2026-11-21T05:41:55.904933874Z

# Recorded from nats-server 2.15.1: two answers of a direct get (one with a stored header) and the end of their batch.
FIRST_BLOCK = (
    b"NATS/1.0\r\nNats-Stream: B\r\nNats-Subject: b.1\r\nNats-Sequence: 2\r\n"
    b"Nats-Time-Stamp: 2026-11-21T05:41:55.904933874Z\r\nNats-Num-Pending: 3\r\nNats-Last-Sequence: 0\r\n\r\n"
)
SECOND_BLOCK = (
    b"NATS/1.0\r\nNats-Msg-Id: 2\r\nNats-Stream: B\r\nNats-Subject: b.2\r\nNats-Sequence: 3\r\n"
    b"Nats-Time-Stamp: 2026-11-21T05:41:55.904946833Z\r\nNats-Num-Pending: 2\r\nNats-Last-Sequence: 2\r\n\r\n"
)
END_OF_BATCH = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 2\r\nNats-Last-Sequence: 3\r\n\r\n"


def hmsg(block: bytes, payload: bytes) -> bytes:
    return b"HMSG I.x 1 %d %d\r\n%b%b\r\n" % (len(block), len(block) + len(payload), block, payload)


TRANSCRIPT = hmsg(FIRST_BLOCK, b"x" * 150) + hmsg(SECOND_BLOCK, b"y" * 150) + hmsg(END_OF_BATCH, b"")


def answer(
    sequence: int, stored: bytes = b"", payload: bytes = b"data", stamp: str = "2026-11-21T05:41:55.9Z"
) -> bytes:
    """A direct get's answer in the form recorded from nats-server 2.15.1."""
    block = (
        b"NATS/1.0\r\n%bNats-Stream: B\r\nNats-Subject: b.%d\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n"
        b"Nats-Num-Pending: 3\r\nNats-Last-Sequence: %d\r\n\r\n"
        % (stored, sequence, sequence, stamp.encode(), sequence - 1)
    )
    return hmsg(block, payload)


def delivery(
    sequence: int, consumer_sequence: int, stored: bytes = b"", payload: bytes = b"data", pending: int = 9
) -> bytes:
    """A consumer's delivery in the form recorded from nats-server 2.15.1."""
    line = b"b.%d 1 $JS.ACK.B.c.1.%d.%d.%d.%d" % (sequence, sequence, consumer_sequence, NS, pending)
    if not stored:
        return b"MSG %b %d\r\n%b\r\n" % (line, len(payload), payload)
    block = b"NATS/1.0\r\n%b\r\n" % stored
    return b"HMSG %b %d %d\r\n%b%b\r\n" % (line, len(block), len(block) + len(payload), block, payload)


KINDS: list[type[PlainDecoder] | type[NativeDecoder]] = [PlainDecoder, NativeDecoder]
made: list[type[PlainDecoder] | type[NativeDecoder]] = [PlainDecoder]  # the kind that a test is about


@pytest.fixture(autouse=True, params=KINDS, ids=["plain", "native"])
def kind(request: pytest.FixtureRequest) -> None:
    """Each promise is kept by both."""
    made[0] = request.param


def decoder(rows_max: int = 1000, bytes_max: int = 1 << 20, *, with_headers: bool = True) -> Decoder:
    return made[0](PLACE, with_headers, rows_max, bytes_max)


def taken(found: Decoder) -> list[dict[str, Any]]:
    taken = found.take()
    assert ARROW_SCHEMA == taken.batch.schema
    taken.batch.validate(full=True)
    assert taken.sequences.tolist() == taken.batch.column("sequence").to_pylist()
    listed: list[dict[str, Any]] = taken.batch.to_pylist()
    return listed


def rows(*frames: bytes, with_headers: bool = True, deliveries: bool = False) -> list[dict[str, Any]]:
    found = decoder(with_headers=with_headers)
    found.deliveries = deliveries
    data = bytearray(b"".join(frames))
    assert (Verdict.MORE, len(data)) == found.feed(data, 0, len(data))
    return taken(found)


def kv(*pairs: tuple[str, bytes]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in pairs]


# ---- frames ----------------------------------------------------------------------------------------------------------


def test_a_batch_is_its_messages_and_the_status_that_ends_it() -> None:
    """A recorded batch is taken apart to the byte; the status is left where it is."""
    found = decoder()
    end = len(TRANSCRIPT) - len(hmsg(END_OF_BATCH, b""))
    assert (Verdict.STATUS, end) == found.feed(bytearray(TRANSCRIPT), 0, len(TRANSCRIPT))
    assert [(2, b"x" * 150), (3, b"y" * 150)] == [(row["sequence"], row["data"]) for row in taken(found)]


def test_bytes_may_arrive_split_anywhere() -> None:
    """Split at every byte, and moved to the buffer's front in between as a receive buffer is, the rows are the same."""
    whole = answer(1) + answer(2, stored=b"K: v\r\n", payload=b"") + answer(5, payload=b"\r\nHMSG")
    expected = rows(whole)
    for split in range(len(whole)):
        found = decoder()
        verdict, position = found.feed(bytearray(whole), 0, split)
        assert Verdict.MORE == verdict
        rest = bytearray(whole[position:])
        assert (Verdict.MORE, len(rest)) == found.feed(rest, 0, len(rest))
        assert expected == taken(found)


def test_a_payload_may_look_like_the_protocol() -> None:
    """A payload of protocol lines and statuses is a payload."""
    payload = hmsg(END_OF_BATCH, b"") + b"PING\r\n-ERR 'no'\r\nHMSG I.x 1 0 0\r\n"
    (row,) = rows(answer(1, payload=payload))
    assert payload == row["data"]


def test_a_stored_block_that_looks_like_a_status_is_a_row() -> None:
    """A publisher's header block may begin as a server's end of batch does: it does not end the batch."""
    block = FIRST_BLOCK.replace(b"NATS/1.0\r\n", b"NATS/1.0 404 Message Not Found\r\n")
    assert [2] == [row["sequence"] for row in rows(hmsg(block, b""))]


def test_a_stored_block_without_an_end_is_a_row() -> None:
    """Where a publisher's header block has no end of its own, the server's begins in the midst of a line."""
    block = b"garba" + FIRST_BLOCK.removeprefix(b"NATS/1.0\r\n")
    (row,) = rows(hmsg(block, b"data"))
    assert (2, "b.1", b"data") == (row["sequence"], row["subject"], row["data"])


def test_a_control_line_is_left_to_the_connection() -> None:
    """A PING between two messages stops the decoder in front of it."""
    data = bytearray(answer(1) + b"PING\r\n" + answer(2))
    found = decoder()
    assert (Verdict.CONTROL, len(answer(1))) == found.feed(data, 0, len(data))
    assert (Verdict.MORE, len(data)) == found.feed(data, len(answer(1)) + 6, len(data))
    assert [1, 2] == [row["sequence"] for row in taken(found)]


def test_rows_and_bytes_are_bounded() -> None:
    """A decoder is full at its number of rows, and in front of a message that is too many bytes; one always fits."""
    data = bytearray(b"".join(answer(number, payload=b"x" * 1000) for number in range(1, 11)))
    for rows_max, bytes_max, expected in ((3, 1 << 20, 3), (1000, 4000, 3), (1000, 1, 1)):
        found, position, sizes = decoder(rows_max, bytes_max), 0, []
        while position < len(data):
            _, position = found.feed(data, position, len(data))
            sizes.append(len(taken(found)))
        assert [expected] * (10 // expected) + [10 % expected] * (10 % expected > 0) == sizes


@pytest.mark.parametrize("line", [b"HMSG I.x 1 a b\r\n", b"HMSG\r\n", b"HMSG I.x 1 20 10\r\n", b"HMSG I.x 1 0 10\r\n"])
def test_sizes_that_cannot_be_end_the_connection(line: bytes) -> None:
    """A message line that makes no sense is an error, not a guess."""
    with pytest.raises(WireError):
        decoder().feed(bytearray(line), 0, len(line))


def test_a_line_without_an_end_is_an_error() -> None:
    """Bytes that never become a line do not fill the memory."""
    with pytest.raises(WireError):
        decoder().feed(bytearray(b"x" * 70_000), 0, 70_000)


def test_remembered_lines_are_bounded() -> None:
    """However many sizes a stream's messages have, only so many lines are remembered."""
    lines = LineSizes()
    for size in range(LINES_KNOWN_MAX * 2):
        assert (10, 10 + size) == lines.learn(b"HMSG I.x 1 10 %d" % (10 + size))
    assert len(lines.known) <= LINES_KNOWN_MAX


# ---- columns ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def only_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """What servers send must not need the slow way."""

    def slowly(*_: Any) -> Any:
        raise AssertionError("the slow way was taken")

    monkeypatch.setattr(batches, "appended_row", slowly)


@pytest.mark.usefixtures("only_fast")
def test_an_answer_becomes_a_row() -> None:
    """Every column holds what the server said, and the payload untouched."""
    payload = bytes(range(256)) + b"\r\n\r\nNATS/1.0\r\nNats-Sequence: 9\r\n"
    (row,) = rows(answer(7, payload=payload, stamp="2026-11-21T05:41:55.904933874Z"))
    assert {
        "stream": "B",
        "domain": "hub",
        "subject": "b.7",
        "sequence": 7,
        "timestamp": datetime(2026, 11, 21, 5, 41, 55, 904933, UTC),
        "timestamp_ns": NS,
        "headers": [],
        "data": payload,
        "origin_stream": None,
        "origin_domain": None,
        "origin_sequence": None,
    } == row


@pytest.mark.usefixtures("only_fast")
def test_rows_with_and_without_stored_headers() -> None:
    """Stored headers come back in their order, on the row that had them; what the server appended does not."""
    found = rows(
        answer(1),
        answer(2, stored=b"Nats-Msg-Id: a:b\r\nX:  spaced \r\nX: \xff\r\n"),
        answer(3),
        answer(4, stored=b"A:\r\n", payload=b""),
    )
    assert [
        [],
        kv(("Nats-Msg-Id", b"a:b"), ("X", b"spaced"), ("X", b"\xff")),
        [],
        kv(("A", b"")),
    ] == [row["headers"] for row in found]
    assert [b"data", b"data", b"data", b""] == [row["data"] for row in found]


@pytest.mark.usefixtures("only_fast")
def test_headers_can_be_left_out() -> None:
    """Without includeHeaders the column is there and empty; where a message came from is known all the same."""
    (row,) = rows(answer(2, stored=b"A: b\r\nNats-Stream-Source: C 5 c.> > c.a x591vXA7\r\n"), with_headers=False)
    assert ([], "C", 5) == (row["headers"], row["origin_stream"], row["origin_sequence"])


@pytest.mark.usefixtures("only_fast")
def test_where_a_sourced_message_came_from() -> None:
    """Stream and sequence of the origin, and its domain where the stream's configuration names it."""
    value = b"Nats-Stream-Source: C:%b 5 c.> > c.a x591vXA7\r\n" % short_hash("$JS.box-1.API").encode()
    found = rows(
        answer(1),
        answer(2, stored=b"K: v\r\n" + value),
        answer(3, stored=b"Nats-Stream-Source: C 77 > >\r\n"),
        answer(4, stored=b"Nats-Stream-Source: C:unknown0 8 > > c.a\r\n"),
        answer(5, stored=b"Nats-Stream-Source: $JS.ACK.C.x.1.2.3.4.5\r\n"),
    )
    names = ("origin_stream", "origin_domain", "origin_sequence")
    assert [
        (None, None, None),
        ("C", "box-1", 5),
        ("C", None, 77),
        ("C", None, 8),
        (None, None, None),
    ] == [tuple(row[name] for name in names) for row in found]


@pytest.mark.usefixtures("only_fast")
@pytest.mark.parametrize(
    ("stamp", "nanoseconds"),
    [
        ("2026-11-21T05:41:55Z", 1795239715000000000),
        ("2026-11-21T05:41:55.5Z", 1795239715500000000),
        ("2026-11-21T05:41:55.000000001Z", 1795239715000000001),
        ("1969-12-31T23:59:59.9999999Z", -100),
        ("2024-02-29T00:00:00Z", 1709164800000000000),
    ],
)
def test_time_stamps_of_any_precision(stamp: str, nanoseconds: int) -> None:
    """Servers leave trailing zeros out; Spark's microseconds are cut, downwards before 1970 too."""
    (row,) = rows(answer(1, stamp=stamp))
    assert nanoseconds == row["timestamp_ns"]
    assert nanoseconds // 1000 == round((row["timestamp"] - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6)


def test_forged_headers_do_not_move_a_row() -> None:
    """A publisher's own Nats-Sequence is a stored header, not the row's place."""
    (row,) = rows(answer(7, stored=b"Nats-Sequence: 999\r\nNats-Subject: no\r\n"))
    assert (7, "b.7") == (row["sequence"], row["subject"])
    assert kv(("Nats-Sequence", b"999"), ("Nats-Subject", b"no")) == row["headers"]


def test_headers_in_another_order_and_odd_bytes() -> None:
    """Another order of what is appended, lines that are no headers, and bytes that are not UTF-8 all end in rows."""
    block = (
        b"NATS/1.0\r\nB\xff: \xff\r\nno header\r\nNats-Sequence: 3\r\nNats-Stream: B\r\nNats-Subject: b\xff\r\n"
        b"Nats-Time-Stamp: 2026-11-21T05:41:55Z\r\n\r\n"
    )
    found = rows(answer(2), hmsg(block, b"p"))
    assert [(2, "b.2", b"data"), (3, "b\ufffd", b"p")] == [(r["sequence"], r["subject"], r["data"]) for r in found]
    assert [[], kv(("B\ufffd", b"\xff"))] == [row["headers"] for row in found]


def test_answers_of_a_mirror_are_refused() -> None:
    """A mirror says its own name in its answers, and is believed."""
    with pytest.raises(OtherStream):
        rows(answer(1), answer(2).replace(b"Nats-Stream: B", b"Nats-Stream: M"))


def test_both_ways_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """On input that either can take, the slow way and the fast way give the same columns."""
    source = b"Nats-Stream-Source: C 5 > >\r\n"
    answers = [
        answer(n, stored=(b"K: %d\r\n" % n if n % 3 else b"") + source * (n % 5 == 0), payload=b"p" * n)
        for n in range(1, 200)
    ]
    fast = rows(*answers)

    def unexpected(*_: Any) -> Any:
        raise batches.Unexpected

    monkeypatch.setattr(batches, "_appended_columns", unexpected)
    assert fast == rows(*answers)


def test_deliveries_of_a_consumer_make_the_same_rows() -> None:
    """A message gives the same row whichever way it was read."""
    expected = rows(
        answer(7, stamp="2026-11-21T05:41:55.904933874Z"),
        answer(9, stored=b"K: v\r\n", payload=b"", stamp="2026-11-21T05:41:55.904933874Z"),
    )
    assert expected == rows(delivery(7, 1), delivery(9, 2, stored=b"K: v\r\n", payload=b""), deliveries=True)


def test_deliveries_in_the_longer_form() -> None:
    """A reply subject that names domain and account says the same."""
    longer = delivery(7, 1).replace(b"$JS.ACK.B", b"$JS.ACK.hub.ACCHASH.B")
    assert rows(delivery(7, 1), deliveries=True) == rows(longer, deliveries=True)


def test_deliveries_end_where_there_are_no_more() -> None:
    """A decoder of deliveries is full at the one with nothing pending, and at the range's last sequence."""
    for last, pending, expected in ((5, 9, 1), (4, 9, 1), (6, 9, 2), (99, 0, 1)):
        found = decoder()
        found.deliveries, found.last = True, last
        first = delivery(5, 1, pending=pending)
        data = bytearray(first + delivery(6, 2))
        verdict, _ = found.feed(data, 0, len(data))
        assert (Verdict.FULL, expected) == (verdict, len(taken(found)))


def test_a_delivery_that_was_lost_is_noticed() -> None:
    """Consumer sequences that jump end the connection: what came is not all there was."""
    with pytest.raises(MissedDelivery):
        rows(delivery(7, 1), delivery(9, 3), deliveries=True)


def test_what_is_no_delivery_is_no_row() -> None:
    """Heartbeats and the ends of pulls have no place in a stream; a message that was stored looking like one has."""
    status = b"NATS/1.0 404 No Messages\r\n\r\n"
    found = decoder()
    found.deliveries = True
    stored = b"HMSG b.7 1 $JS.ACK.B.c.1.7.1.%d.3 %d %d\r\n%b\r\n" % (NS, len(status), len(status), status)
    data = bytearray(stored + hmsg(status, b""))
    assert (Verdict.STATUS, len(stored)) == found.feed(data, 0, len(data))
    assert [(7, b"")] == [(row["sequence"], row["data"]) for row in taken(found)]
