"""Offsets and ranges: nothing is skipped, nothing is read twice, limits hold."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st
from leafd.spark.ranges import Offset, Range, StreamState, admit, lost_before, resume, split

MADE = "2026-11-21T05:59:01.264723709Z"


def state(first: int = 1, last: int = 100) -> StreamState:
    return StreamState(created=MADE, first=first, last=last, messages=last - first + 1, bytes=0, allows_direct=True)


def test_a_batch_ends_with_the_stream() -> None:
    """Without a limit a batch takes all there is."""
    assert Offset(MADE, 101) == admit(Offset(MADE, 1), state(), None, 0)


def test_a_limit_of_rows_holds() -> None:
    """A batch covers at most as many sequences as rows are allowed."""
    assert Offset(MADE, 41) == admit(Offset(MADE, 11), state(), None, 30)
    assert Offset(MADE, 101) == admit(Offset(MADE, 91), state(), None, 30)


def test_a_limit_is_not_used_up_by_what_is_gone() -> None:
    """Sequences before the stream's first message do not count as rows."""
    assert Offset(MADE, 60) == admit(Offset(MADE, 1), state(first=50), None, 10)


def test_available_now_ends_where_it_was_prepared() -> None:
    """What came after the target waits for the next run, and at the target the query is done."""
    target = Offset(MADE, 51)
    assert target == admit(Offset(MADE, 1), state(), target, 0)
    assert target == admit(target, state(last=5000), target, 0)


def test_an_offset_never_goes_back() -> None:
    """A target or a stream's end before the start leaves the start as it is."""
    assert Offset(MADE, 80) == admit(Offset(MADE, 80), state(), Offset(MADE, 51), 0)
    assert Offset(MADE, 101) == admit(Offset(MADE, 101), state(), None, 5)


@given(
    first=st.integers(1, 50),
    length=st.integers(0, 200),
    start=st.integers(1, 250),
    limit=st.integers(1, 20),
)
def test_steps_of_any_limit_reach_the_end(first: int, length: int, start: int, limit: int) -> None:
    """Batch after batch, every query with a limit comes to the stream's end and stays there."""
    stream = state(first, first + length - 1)
    offset = Offset(MADE, start)
    for _ in range(300):
        after = admit(offset, stream, None, limit)
        assert after.next >= offset.next
        if after == offset:
            break
        offset = after
    assert offset.next == max(start, stream.last + 1)


@given(first=st.integers(1, 10**12), size=st.integers(0, 10**6), parts=st.integers(1, 64), least=st.integers(1, 10**5))
def test_a_range_is_dealt_out_whole(first: int, size: int, parts: int, least: int) -> None:
    """The pieces follow each other without gap or overlap, and are neither too many nor too small."""
    whole = Range(first, first + size - 1)
    pieces = split(whole, parts, least)
    assert size == sum(len(piece) for piece in pieces)
    if pieces:
        assert (whole.first, whole.last) == (pieces[0].first, pieces[-1].last)
        assert all(left.last + 1 == right.first for left, right in zip(pieces, pieces[1:], strict=False))
        assert len(pieces) <= parts
        assert len(pieces) == 1 or min(len(piece) for piece in pieces) >= least


def test_losses_are_noticed() -> None:
    """Expired messages, a stream made anew and a stream set back each have a reason; reading on has none."""
    assert "" == lost_before(Offset(MADE, 50), state(first=50))
    assert "" == lost_before(Offset(MADE, 101), state())
    assert "50 to 59 are gone" in lost_before(Offset(MADE, 50), state(first=60))
    assert "made anew" in lost_before(Offset("earlier", 50), state())
    assert "restored" in lost_before(Offset(MADE, 150), state())


def test_reading_goes_on_at_the_first_message_left() -> None:
    """After a loss that is tolerated nothing that is there is skipped."""
    assert Offset(MADE, 60) == resume(Offset(MADE, 50), state(first=60))
    assert Offset(MADE, 1) == resume(Offset("earlier", 50), state())
    assert Offset(MADE, 50) == resume(Offset(MADE, 50), state())


def test_an_offset_survives_the_checkpoint() -> None:
    """What Spark writes as JSON and reads again is the same offset."""
    offset = Offset(MADE, 2**53 + 1)
    assert offset == Offset.of(json.loads(json.dumps(offset.as_json())))


def test_the_state_of_a_stream_that_never_had_a_message() -> None:
    """nats-server says first 0, last 0; the next message is 1. After a purge it says first = last + 1."""
    config = {"config": {"allow_direct": True}, "created": MADE}
    empty = {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0}
    assert (1, 0) == ((found := StreamState.of(config | {"state": empty})).first, found.last)
    purged = {"messages": 0, "bytes": 0, "first_seq": 8, "last_seq": 7}
    assert (8, 7) == ((found := StreamState.of(config | {"state": purged})).first, found.last)
