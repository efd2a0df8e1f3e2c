"""Arrow columns out of a receive buffer: the fast and the slow way have the same result, and it is right."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from leafd.spark import batches
from leafd.spark.batches import ARROW_SCHEMA, rows_of_direct, rows_of_messages

Stored = list[tuple[str, str]]


def answer(sequence: int, stored: bytes = b"", payload: bytes = b"data", stamp: str = "2026-11-21T05:41:55.9Z") -> Any:
    """A direct get's answer in the form recorded from nats-server 2.15.1."""
    block = (
        b"NATS/1.0\r\n%bNats-Stream: B\r\nNats-Subject: b.%d\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n"
        b"Nats-Num-Pending: 3\r\nNats-Last-Sequence: %d\r\n\r\n"
        % (stored, sequence, sequence, stamp.encode(), sequence - 1)
    )
    return block, payload


def buffer_of(*answers: Any) -> tuple[bytearray, list[int]]:
    buffer, spans = bytearray(), []
    for block, payload in answers:
        buffer += b"HMSG I.x 1 %d %d\r\n" % (len(block), len(block) + len(payload))
        start = len(buffer)
        buffer += block + payload
        spans += [start, start + len(block), len(buffer)]
        buffer += b"\r\n"
    return buffer, spans


def rows(*answers: Any, last: int = 1 << 60, with_headers: bool = True) -> list[dict[str, Any]]:
    buffer, spans = buffer_of(*answers)
    found = rows_of_direct(buffer, spans, "S", last, with_headers)
    assert ARROW_SCHEMA == found.batch.schema
    found.batch.validate(full=True)
    assert found.sequences.tolist() == found.batch.column("sequence").to_pylist()
    listed: list[dict[str, Any]] = found.batch.to_pylist()
    return listed


@pytest.fixture
def only_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """What servers send must not need the slow way."""

    def slowly(*_: Any) -> Any:
        raise AssertionError("the slow way was taken")

    monkeypatch.setattr(batches, "_slowly", slowly)


@pytest.mark.usefixtures("only_fast")
def test_an_answer_becomes_a_row() -> None:
    """Every column holds what the server said, and the payload untouched."""
    payload = bytes(range(256)) + b"\r\n\r\nNATS/1.0\r\nNats-Sequence: 9\r\n"
    (row,) = rows(answer(7, payload=payload, stamp="2026-11-21T05:41:55.904933874Z"))
    stamp = datetime(2026, 11, 21, 5, 41, 55, 904933, UTC)
    assert {
        "stream": "S",
        "sequence": 7,
        "subject": "b.7",
        "timestamp": stamp,
        "headers": [],
        "data": payload,
    } == row


@pytest.mark.usefixtures("only_fast")
def test_rows_with_and_without_stored_headers() -> None:
    """Stored headers come back in their order, on the row that had them; what the server appended does not."""
    found = rows(
        answer(1),
        answer(2, stored=b"Nats-Msg-Id: a:b\r\nX:  spaced \r\n"),
        answer(3),
        answer(4, stored=b"Nats-Stream-Source: C 5 c.> > c.a x591vXA7\r\n", payload=b""),
    )
    assert [
        [],
        [("Nats-Msg-Id", "a:b"), ("X", "spaced")],
        [],
        [("Nats-Stream-Source", "C 5 c.> > c.a x591vXA7")],
    ] == [row["headers"] for row in found]
    assert [b"data", b"data", b"data", b""] == [row["data"] for row in found]


@pytest.mark.usefixtures("only_fast")
def test_headers_can_be_left_out() -> None:
    """Without includeHeaders the column is there and empty."""
    (row,) = rows(answer(2, stored=b"A: b\r\n"), with_headers=False)
    assert [] == row["headers"]


@pytest.mark.usefixtures("only_fast")
@pytest.mark.parametrize(
    ("stamp", "microsecond"),
    [("2026-11-21T05:41:55Z", 0), ("2026-11-21T05:41:55.5Z", 500_000), ("2026-11-21T05:41:55.000000001Z", 0)],
)
def test_time_stamps_of_any_precision(stamp: str, microsecond: int) -> None:
    """Servers leave trailing zeros out; nanoseconds are cut to Spark's microseconds."""
    (row,) = rows(answer(1, stamp=stamp))
    assert datetime(2026, 11, 21, 5, 41, 55, microsecond, UTC) == row["timestamp"]


@pytest.mark.usefixtures("only_fast")
def test_rows_behind_the_range_are_left_out() -> None:
    """A batch that reached over a gap past the range's end gives the range's rows only."""
    assert [1, 5] == [row["sequence"] for row in rows(answer(1), answer(5), answer(9), last=8)]
    assert [] == rows(answer(9), last=8)


def test_forged_headers_do_not_move_a_row() -> None:
    """A publisher's own Nats-Sequence is a stored header, not the row's place."""
    (row,) = rows(answer(7, stored=b"Nats-Sequence: 999\r\nNats-Subject: no\r\n"))
    assert (7, "b.7") == (row["sequence"], row["subject"])
    assert [("Nats-Sequence", "999"), ("Nats-Subject", "no")] == row["headers"]


def test_headers_in_another_order_and_odd_bytes() -> None:
    """Another order of what is appended, lines that are no headers, and bytes that are not UTF-8 all end in rows."""
    block = (
        b"NATS/1.0\r\nBytes: \xff\r\nno header\r\nNats-Sequence: 3\r\nNats-Stream: B\r\nNats-Subject: b\r\n"
        b"Nats-Time-Stamp: 2026-11-21T05:41:55Z\r\n\r\n"
    )
    found = rows(answer(2), (block, b"p"))
    assert [(2, "b.2", b"data"), (3, "b", b"p")] == [(r["sequence"], r["subject"], r["data"]) for r in found]
    assert [[], [("Bytes", "\ufffd")]] == [row["headers"] for row in found]


def test_both_ways_agree() -> None:
    """On input that either can take, the slow way and the fast way give the same columns."""
    answers = [answer(n, stored=b"K: %d\r\n" % n if n % 3 else b"", payload=b"p" * n) for n in range(1, 200)]
    buffer, spans = buffer_of(*answers)
    fast = rows_of_direct(buffer, spans, "S", 1 << 60, True).batch
    blocks, _ = batches._cut(buffer, spans, len(spans) // 3)
    (sequence, subject, stamp), headers = batches._slowly(blocks, True)
    for name, column in (("sequence", sequence), ("subject", subject), ("timestamp", stamp), ("headers", headers)):
        assert column.to_pylist() == fast.column(name).to_pylist()


def test_messages_of_a_consumer_make_the_same_rows() -> None:
    """A message gives the same row whichever way it was read."""
    block = b"NATS/1.0\r\nK: v\r\n\r\n"
    found = rows_of_messages("S", [7], ["b.7"], [1795239715904933874], [block], [b"data"], True).batch
    (direct,) = rows(answer(7, stored=b"K: v\r\n", stamp="2026-11-21T05:41:55.904933874Z"))
    assert [direct] == found.to_pylist()
