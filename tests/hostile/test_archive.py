"""A restored archive whose consumer holds what no server writes: the restore is refused, and nothing else happens."""

from __future__ import annotations

import pytest
from leafd.jetstream.backup.archive import CONSUMERS, ArchiveError, Entry, read_consumer

from tests.hostile.values import JSON

GOOD = (
    b'{"config":{"durable_name":"c"},"state":{"delivered":{"consumer_seq":1,"stream_seq":%s},"ack_floor":{},'
    b'"pending":{"1":{"Sequence":%s,"Timestamp":%s}},"redelivered":{"1":%s}}}'
)
PLACES = range(4)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", JSON, ids=lambda value: repr(value[:20]))
def test_consumer_of_an_archive(place: int, value: bytes) -> None:
    """Whatever stands where a number belongs, it is a position of 64 bits or the archive is refused."""
    numbers = [b"1"] * len(PLACES)
    numbers[place] = value
    try:
        found = read_consumer(Entry(CONSUMERS + "c", GOOD % tuple(numbers), 0))
    except ArchiveError:
        return
    rows = [number for row in found.position.pending for number in (row.stream_seq, row.consumer_seq, row.deliveries)]
    assert all(0 <= number < 1 << 64 for number in (found.position.delivered_stream, *rows))


@pytest.mark.parametrize("body", JSON, ids=lambda value: repr(value[:20]))
def test_no_consumer_at_all(body: bytes) -> None:
    """A body that is no consumer is refused."""
    with pytest.raises(ArchiveError):
        read_consumer(Entry(CONSUMERS + "c", body, 0))
