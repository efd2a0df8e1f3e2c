"""Offsets and ranges: nothing is skipped, nothing is read twice, limits hold."""

from __future__ import annotations

import itertools
import json

from hypothesis import given, strategies as st
from leafd_spark.ranges import Dealing, Offset, Range, StreamState, deal, shares, split

MADE = "2026-11-21T05:59:01.264723709Z"


def state(first: int = 1, last: int = 100) -> StreamState:
    return StreamState(created=MADE, first=first, last=last, messages=last - first + 1, bytes=0, allows_direct=True)


@given(
    wanted=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**9), min_size=1),
    limit=st.integers(1, 10**6),
)
def test_a_limit_is_shared_out_whole_and_never_exceeded(wanted: dict[str, int], limit: int) -> None:
    """Streams get in proportion to what they hold, nobody more than that, and together the limit or all there is."""
    found = shares(wanted, limit)
    assert min(limit, sum(wanted.values())) == sum(found.values())
    assert all(0 <= found[name] <= wanted[name] for name in wanted)


@given(first=st.integers(1, 10**12), size=st.integers(0, 10**6), parts=st.integers(1, 64), least=st.integers(1, 10**5))
def test_a_range_is_dealt_out_whole(first: int, size: int, parts: int, least: int) -> None:
    """The pieces follow each other without gap or overlap, and are neither too many nor too small."""
    whole = Range(first, first + size - 1)
    pieces = split(whole, parts, least)
    assert size == sum(len(piece) for piece in pieces)
    if pieces:
        assert (whole.first, whole.last) == (pieces[0].first, pieces[-1].last)
        assert all(left.last + 1 == right.first for left, right in itertools.pairwise(pieces))
        assert len(pieces) <= parts
        assert len(pieces) == 1 or min(len(piece) for piece in pieces) >= least


@given(
    sizes=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 10**5), min_size=1),
    parallelism=st.integers(1, 50),
    least=st.integers(1, 10**4),
    minimum=st.integers(0, 50),
    most=st.sampled_from([0, 100, 5000]),
)
def test_streams_are_dealt_out_whole(
    sizes: dict[str, int], parallelism: int, least: int, minimum: int, most: int
) -> None:
    """Every sequence is in one piece; no piece is above the largest size, and there are as many as wanted."""
    wholes = {name: Range(7, 6 + size) for name, size in sizes.items()}
    pieces = deal(wholes, Dealing(parallelism, least, minimum, most))
    total = sum(sizes.values())
    assert total == sum(len(piece) for _, piece in pieces)
    assert all(0 < len(piece) <= (most or total) for _, piece in pieces)
    assert len(pieces) >= min(minimum, total)
    if not minimum and not most:
        assert len(pieces) <= parallelism + len(sizes)


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
