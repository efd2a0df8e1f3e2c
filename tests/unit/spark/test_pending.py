"""Numbers in flight and digests that were there, kept without an object each, are the sets that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from leafd_spark.machine import native as machine_code
from leafd_spark.sink import digests
from leafd_spark.sink.digests import Seen
from leafd_spark.sink.pending import ROOM, Awaited

step = st.one_of(
    st.tuples(st.just("add"), st.integers(1, ROOM)),
    st.tuples(st.just("take"), st.lists(st.integers(0, 3 * ROOM), max_size=20)),
    st.tuples(st.just("acknowledge"), st.integers(1, 100)),
    st.tuples(st.just("again"), st.integers(1, 30)),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(step, max_size=30))
def test_what_is_awaited_is_a_set(steps: list[tuple[str, object]]) -> None:
    """Whatever is sent, acknowledged, acknowledged twice, given up and sent again."""
    awaited, expected, sent = Awaited(), set[int](), 1
    for kind, given_ in steps:
        if kind == "add":
            assert isinstance(given_, int)
            awaited.add(sent, sent + given_)
            expected |= set(range(sent, sent + given_))
            sent += given_
        elif kind == "take":
            assert isinstance(given_, list)
            numbers = [max(0, sent - number) for number in given_]
            assert len(expected & set(numbers)) == awaited.take(np.array(numbers, np.int64))
            expected -= set(numbers)
        elif kind == "acknowledge":
            assert isinstance(given_, int)
            numbers = sorted(expected)[:-given_]
            assert len(numbers) == awaited.take(np.array(numbers, np.int64))
            expected -= set(numbers)
        elif expected:
            assert sorted(expected) == list(awaited.clear())
            assert isinstance(given_, int)
            for number in sorted(expected)[given_:]:  # some of them are sent again, the later ones first
                awaited.add(number, number + 1)
            first = set(sorted(expected)[:given_])
            for number in first:
                awaited.add(number, number + 1)
            awaited.remove(min(first))
            expected.remove(min(first))
        assert (len(expected), min(expected, default=None)) == (len(awaited), awaited.oldest())
        assert all(number in awaited for number in list(expected)[:5])
        assert 0 not in awaited
        assert sent not in awaited


@pytest.mark.parametrize("native", [True, False])
def test_digests_that_come_again_are_found(monkeypatch: pytest.MonkeyPatch, native: bool) -> None:
    """In the same call or a later one, also when the table has grown; each is kept once, in the order of arrival."""
    if not native:
        monkeypatch.setattr(digests, "native", None)
    found, known = Seen(), list[bytes]()
    numbers = np.random.default_rng(1)
    for size in (1, 5, 0, 3000, 2000, 9000):
        drawn = [int(number).to_bytes(16, "little") for number in numbers.integers(1, 20_000, size)]
        again = found.add(b"".join(drawn))
        before, expected = set(known), []
        for row, digest in enumerate(drawn):
            if digest in before:
                expected.append(row)
            else:
                known.append(digest)
            before.add(digest)
        assert expected == again
        assert (len(known), b"".join(known)) == (len(found), found.all())


def test_a_table_that_is_too_small_is_refused() -> None:
    """No slot is looked for in a table that has none left, or that is no power of two."""
    for size, count in ((0, 0), (16, 1), (48, 1), (64, 4)):
        with pytest.raises(ValueError, match="too small"):
            machine_code.seen(bytearray(size), bytes(range(16)) * count)
