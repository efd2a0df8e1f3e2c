"""The decoder in C and the one without: whatever arrives, in whatever pieces, both give the same rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from leafd_spark.source import decoder as decoders
from leafd_spark.source.batches import PlainDecoder
from leafd_spark.source.columns import Place
from leafd_spark.source.decoder import Decoder, NativeDecoder, make_decoder
from leafd_spark.wire import Verdict

from .test_batches import END_OF_BATCH, answer, delivery, hmsg

PLACE = Place("B")

names = st.sampled_from([b"K", b"Nats-Msg-Id", b"Nats-Sequence", b"Nats-Stream-Source", b"\xff", b""])
values = st.sampled_from([b"v", b" v ", b"", b"\xff\n", b"S 5 > > a", b"S:abcdefgh 7 >", b"S:C=abc 8", b":x 9", b"S x"])
lines = st.one_of(
    st.builds(lambda name, value: b"%b:%b\r\n" % (name, value), names, values),
    st.sampled_from([b"no colon\r\n", b"\r\n"]),
)
stored = st.lists(lines, max_size=4).map(b"".join)
payloads = st.one_of(st.binary(max_size=40), st.sampled_from([b"\r\nHMSG", hmsg(END_OF_BATCH, b"")]))
stamps = st.sampled_from(["2026-11-21T05:41:55Z", "1969-12-31T23:59:59.000000001Z", "2026-11-21T05:41:55.904933874Z"])
others = st.sampled_from([b"PING\r\n", hmsg(END_OF_BATCH, b""), b"MSG a 1 2\r\nhi\r\n", b"+OK\r\n"])


def all_of(
    make: type[PlainDecoder] | type[NativeDecoder], data: bytes, cuts: list[int], deliveries: bool, with_headers: bool
) -> tuple[list[dict[str, Any]], str]:
    """All rows of the bytes, which arrive in pieces, and what went wrong in the end. What is no row is passed over."""
    made: Decoder = make(PLACE, with_headers, 3, 400)
    made.deliveries = deliveries
    found: list[dict[str, Any]] = []
    position = 0
    try:
        for end in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
            while True:
                verdict, position = made.feed(bytearray(data), position, end)
                if verdict == Verdict.MORE:
                    break
                if verdict == Verdict.FULL:
                    found += made.take().batch.to_pylist()
                    continue
                after = next((len(one) for one in OTHERS if data.startswith(one, position)), 0)
                if not after or position + after > end:
                    break
                position += after
        if made.rows:
            found += made.take().batch.to_pylist()
    except Exception as error:
        return found, type(error).__name__
    return found, ""


OTHERS = [b"PING\r\n", hmsg(END_OF_BATCH, b""), b"MSG a 1 2\r\nhi\r\n", b"+OK\r\n"]


def answers(number: int, block: bytes, payload: bytes, stamp: str) -> bytes:
    return answer(number, block, payload, stamp)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.one_of(st.builds(answers, st.integers(0, 2**63 - 1), stored, payloads, stamps), others), max_size=8),
    st.lists(st.integers(0, 3000), max_size=3),
    st.booleans(),
)
def test_answers_make_the_same_rows(frames: list[bytes], cuts: list[int], with_headers: bool) -> None:
    """Of direct gets' answers with any headers and payloads, cut anywhere."""
    data = b"".join(frames)
    expected = all_of(PlainDecoder, data, cuts, False, with_headers)
    assert expected == all_of(NativeDecoder, data, cuts, False, with_headers)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 2**63 - 1), stored, payloads, st.integers(0, 2)), max_size=8),
    st.lists(st.integers(0, 3000), max_size=3),
    st.booleans(),
)
def test_deliveries_make_the_same_rows(drawn: list[Any], cuts: list[int], with_headers: bool) -> None:
    """Of a consumer's deliveries likewise."""
    data = b"".join(
        delivery(sequence, place, block, payload, pending)
        for place, (sequence, block, payload, pending) in enumerate(drawn, 1)
    )
    expected = all_of(PlainDecoder, data, cuts, True, with_headers)
    assert expected == all_of(NativeDecoder, data, cuts, True, with_headers)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=60), st.integers(0, 400), st.booleans())
def test_damage_is_noticed_alike(noise: bytes, place: int, deliveries: bool) -> None:
    """Bytes written over a message's line make both stop at the same place, or fail."""
    data = bytearray(delivery(1, 1) + delivery(2, 2) if deliveries else answer(1) + answer(2))
    line = data.index(b"\r\n")
    data[min(place, line) : min(place + len(noise), line)] = noise.translate(None, b"\r\n")[: max(0, line - place)]
    plain, native = (all_of(make, bytes(data), [], deliveries, True) for make in (PlainDecoder, NativeDecoder))
    assert (plain[0], bool(plain[1])) == (native[0], bool(native[1]))


def test_a_message_larger_than_all_room() -> None:
    """The C side's columns grow until a single message fits, and rows in front of it are not lost."""
    large = b"x" * (5 << 20)
    data = bytearray(answer(1) + answer(2, stored=b"K: %b\r\n" % large[: 1 << 20], payload=large) + answer(3))
    made = NativeDecoder(PLACE, True, 1000, 1 << 30)
    found, position = [], 0
    while position < len(data):
        _, position = made.feed(data, position, len(data))
        found += [(len(row["data"]), len(row["headers"])) for row in made.take().batch.to_pylist()]
    assert [(4, 0), (len(large), 1), (4, 0)] == found


def test_many_headers_a_row() -> None:
    """Rows with more header fields than there was room for come all the same."""
    made = NativeDecoder(PLACE, True, 4, 1 << 20)
    data = bytearray(b"".join(answer(n, stored=b"K: v\r\n" * 100) for n in range(1, 9)))
    found, position = [], 0
    while position < len(data):
        _, position = made.feed(data, position, len(data))
        found += [(row["sequence"], len(row["headers"])) for row in made.take().batch.to_pylist()]
    assert [(n, 100) for n in range(1, 9)] == found


def test_without_the_module_there_is_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine for which there is no machine code reads all the same."""
    assert isinstance(make_decoder(PLACE, True, 10, 10), NativeDecoder)
    monkeypatch.setattr(decoders, "_native", None)
    assert isinstance(make_decoder(PLACE, True, 10, 10), PlainDecoder)
