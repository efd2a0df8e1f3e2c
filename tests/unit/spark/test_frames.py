"""Frames and acknowledgements in C and with pyarrow: both say the same, byte by byte."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from leafd.wire_client import frame_publish
from leafd_spark.machine import native as machine_code
from leafd_spark.sink import frames
from leafd_spark.sink.frames import Acknowledgements, GivenIds, Ids, MadeIds, Texts, content_id

INBOX = "_INBOX.1f"

row = st.tuples(
    st.sampled_from([b"s.a", b"a", "s.\u00e9".encode()]),
    st.sampled_from([b"", b"K: v\r\n", b"A: 1\r\nB: 2\r\n"]),
    st.one_of(st.binary(max_size=300), st.integers(0, 1100).map(bytes)),
    st.one_of(st.just(0), st.integers(0, 12_000)),  # equal rows before it
)


def texts_of(rows: list[Any], skip: int) -> Texts:
    """The rows behind the first few of columns, as Spark's batches are cut."""
    subjects, lines, data, _ = zip(*rows, strict=True)
    return Texts(*(pa.array(column, pa.binary())[skip:] for column in (subjects, lines, data)))


def both(monkeypatch: pytest.MonkeyPatch, texts: Texts, ids: Ids, first: int) -> list[tuple[bytes, list[int]]]:
    found = []
    with monkeypatch.context() as patch:
        for without in (False, True):
            if without:
                patch.setattr(frames, "native", None)
            view, bounds = frames.frame(texts, ids, INBOX, first)
            found.append((bytes(view[: bounds[-1]]), bounds.tolist()))
    return found


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(row, min_size=1, max_size=6), st.integers(0, 3), st.integers(0, 10**12), st.booleans())
def test_frames_are_the_protocols(rows: list[Any], skip: int, first: int, counted: bool) -> None:
    """Of any rows, with ids made of what they say, both ways frame what a client that frames one by one does."""
    skip = min(skip, len(rows) - 1)
    texts, kept = texts_of(rows, skip), rows[skip:]
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = frames.digests(texts)
        monkeypatch.setattr(frames, "native", None)
        assert made == frames.digests(texts)
    counts = [count for *_, count in kept] if counted else []
    ids = MadeIds("scope-7", made, counts)
    expected, bounds = b"", [0]
    for number, (subject, lines, data, count) in enumerate(kept):
        digest = blake2b(b"%b\r\n%b\r\n%b" % (subject, lines, data), digest_size=16).digest()
        assert digest == ids.digest(number)
        message_id = content_id("scope-7", digest, count if counted else 0)
        assert message_id == ids[number]
        block = b"NATS/1.0\r\n%bNats-Msg-Id: %b\r\n\r\n" % (lines, message_id.encode())
        expected += frame_publish(subject.decode(), f"{INBOX}.{first + number}", block, data)
        bounds.append(len(expected))
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert [(expected, bounds)] * 2 == both(monkeypatch, texts, ids, first)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.tuples(row, st.text(min_size=1, max_size=20)), min_size=1, max_size=6))
def test_ids_of_a_column_stand_as_they_are(drawn: list[Any]) -> None:
    """Whatever text they are, both ways frame them alike."""
    texts = texts_of([each for each, _ in drawn], 0)
    ids = GivenIds(pa.array([text.encode() for _, text in drawn], pa.binary()))
    assert [text for _, text in drawn] == [ids[number] for number in range(len(drawn))]
    with pytest.MonkeyPatch.context() as monkeypatch:
        native, plain = both(monkeypatch, texts, ids, 1)
    assert native == plain


def test_columns_that_are_too_small_are_refused() -> None:
    """Numbers that point behind a column's bytes are an error and no read of what lies there."""
    good = (b"\0\0\0\0\1\0\0\0", b"x")
    for ends in (b"\0\0\0\0\2\0\0\0", b"\0\0\0\0", b"\1\0\0\0\0\0\0\0", b"\xff\xff\xff\xff\1\0\0\0"):
        with pytest.raises(ValueError, match="too small"):
            machine_code.digests(1, (*good, *good, ends, b"x"))
    with pytest.raises(ValueError, match="too small"):
        machine_code.frames(1, good * 3, b"scope", b"short", b"", b"inbox", 1)


def acknowledgement(number: int, **more: Any) -> bytes:
    body = json.dumps({"stream": "S", "seq": number} | more).encode()
    return b"MSG %b.%d 2 %d\r\n%b\r\n" % (INBOX.encode(), number, len(body), body)


OTHERS = [
    acknowledgement(7, duplicate=True),
    acknowledgement(8, error={"code": 503}),
    b"PING\r\n",
    b"-ERR 'Permissions Violation'\r\n",
    b"MSG %b.9 1 2\r\n{}\r\n" % INBOX.encode(),
    b"MSG %b.10 2 3\r\n+OK\r\n" % INBOX.encode(),
    b"HMSG %b.12 2 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" % INBOX.encode(),
    b"MSG _INBOX.1ff.13 2 2\r\n{}\r\n",
]


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("other", [b"", *OTHERS])
def test_only_plain_acknowledgements_are_taken(monkeypatch: pytest.MonkeyPatch, native: bool, other: bytes) -> None:
    """However the bytes are cut: whole ones of new messages, and none behind something else."""
    if not native:
        monkeypatch.setattr(frames, "native", None)
    front = [acknowledgement(number, domain="hub") for number in range(1, 4)]
    data = bytearray(b"".join(front) + other + acknowledgement(5))
    whole = [*front, acknowledgement(5)]
    for end in range(len(data) + 1):
        position, numbers = Acknowledgements(INBOX).take(data, 0, end)
        assert [1, 2, 3, 5][: len(numbers)] == numbers.tolist()
        assert sum(map(len, whole[: len(numbers)])) == position
        there = [count for count in range(4 if other else 5) if sum(map(len, whole[:count])) <= end]
        # Without machine code a glance is all that they get: something else among them, and none is taken.
        assert len(numbers) == there[-1] or (not native and other and not len(numbers))


def test_a_size_that_cannot_be_is_no_acknowledgement() -> None:
    """More digits than a number has, or bytes that do not come, leave the message where it is."""
    for size in ("99999999999999999999", "5000000000", "1", "3", ""):
        data = bytearray(f"MSG {INBOX}.1 2 {size}\r\n{{}}\r\n".encode())
        position, numbers = Acknowledgements(INBOX).take(data, 0, len(data))
        assert (0, []) == (position, numbers.tolist())
