"""Rows of streams: written and read back, and which of two versions counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from leafd.cluster.table import Kept, StreamRow, Table, UnreadError, key_of, read_row, write_row

ROW = StreamRow("A", "S", 7, "n1", "east", 123456789, "author", {"name": "S", "subjects": ["s"]}, ((7, 5),), 9)


def test_a_row_is_read_as_it_was_written() -> None:
    """Also that of a deleted stream, and with names of any length in any script."""
    deleted = StreamRow("A", "S", gone=((1, 2), (3, 4)), revision=3)
    long = replace(ROW, account="ä" * 300, name="S" * 255)
    shared = replace(ROW, group=(1 << 63) - 1, members=((7, (1 << 64) - 1), (8, 2)))
    assert (shared.peers, ROW.peers) == ((7, 8), (7,))
    moved = replace(shared, founders=((7, 1), (8, 2)))
    for row in (ROW, deleted, long, shared, moved):
        assert read_row(row.revision, write_row(row)) == row
        assert len(row.key) < 255
    assert len({key_of("A", "S"), key_of("AS", ""), key_of("", "AS"), key_of("A\0S", "")}) == 4


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b"1", b"null", b"{}", b'{"account":"A"}', b'{"account":"A","name":"S","config":1}',
     b'{"account":"A","name":"S","gone":[1]}', b'{"account":"A","name":"S","gone":[[1,2,3]]}',
     b'{"account":"A","name":"S","created":"x"}', b"\xff", b'{"account":"A","name":"S","group":1}',
     b'{"account":"A","name":"S","members":[[1,2]]}', b'{"account":"A","name":"S","group":1,"members":[1]}',
     b'{"account":"A","name":"S","peer":Infinity}', b'{"account":"A","name":"S","gone":[[1,1e999]]}', b"[" * 200_000],
    ids=range(18),
)  # fmt: skip
def test_what_is_no_row_says_so(value: bytes) -> None:
    """Another version may have written it."""
    with pytest.raises(ValueError, match=r"\S"):
        read_row(1, value)


def test_the_newer_version_of_a_row_counts_whichever_comes_first() -> None:
    """What the leader tells is newer than a table that was read before; a row that is gone goes."""
    table = Table()
    rows = {ROW.key: (9, write_row(ROW)), b"m/12345678": (1, b"{}"), b"s/bad": (2, b"{")}
    assert table.take(rows, 9) == [ROW]
    assert table.take(rows, 9) == []
    assert table.unread == 1
    newer = replace(ROW, config=None, gone=((7, 5), (7, 123456789)), revision=12)
    table.put(newer)
    assert table.take(rows, 10) == []
    assert table.get("A", "S") == newer
    assert table.streams["A"] == {}
    other = StreamRow("A", "T", 8, "n2", "west", 1, "", {"name": "T"}, (), 13)
    table.put(other)
    assert table.take({}, 12) == [StreamRow("A", "S")]
    assert table.take({}, 13) == [StreamRow("A", "T")]
    assert (table.get("A", "S"), table.get("A", "T")) == (None, None)


@pytest.mark.parametrize("value", [b"{", write_row(replace(ROW, name="other"))])
def test_a_row_that_cannot_be_read_is_never_not_there(value: bytes) -> None:
    """Also where an older version of it was known, and where it has the name of another stream."""
    table = Table()
    assert table.take({ROW.key: (9, write_row(ROW))}, 9) == [ROW]
    assert table.take({ROW.key: (10, value)}, 10) == [StreamRow("A", "S")]
    assert (table.unread, table.revision("A", "S"), table.streams["A"]) == (1, 10, {})
    with pytest.raises(UnreadError):
        table.get("A", "S")
    assert (table.get("A", "T"), table.revision("A", "T")) == (None, 0)
    newer = replace(ROW, revision=11)
    assert table.take({ROW.key: (11, write_row(newer))}, 11) == [newer]
    assert (table.unread, table.get("A", "S")) == (0, newer)


def test_a_row_that_is_given_up_stays_so_until_another_one_is_written() -> None:
    """What its reader does not understand is no other thing at the next look; a row that is gone is gone."""
    table = Table()
    rows = {ROW.key: (9, write_row(ROW))}
    for row in table.take(rows, 9):
        table.give_up(row)
    assert table.take(rows, 20) == []
    assert (table.unread, table.revision("A", "S")) == (1, 9)
    assert table.take({}, 8) == []
    assert table.unread == 1
    assert table.take({}, 9) == []
    assert (table.unread, table.get("A", "S")) == (0, None)


def test_rows_behind_one_that_cannot_be_read_are_taken() -> None:
    """Whatever a peer that lies has written in it."""
    table = Table()
    other = replace(ROW, name="T")
    wrong = b'{"account":"A","name":"S","peer":Infinity}'
    assert table.take(
        {ROW.key: (9, write_row(ROW)), key_of("A", "X"): (3, wrong), other.key: (9, write_row(other))}, 9
    ) == [
        ROW,
        other,
    ]
    assert table.unread == 1


def test_streams_are_counted_by_the_servers_that_have_them() -> None:
    """Those of one server, and those of several, and what they reserve; a row that changes or goes counts no more."""
    table = Table()
    one = StreamRow("A", "ONE", 1, config={"max_bytes": -1}, created=1, revision=1)
    two = StreamRow("B", "TWO", 1, config={"max_bytes": 50}, created=1, revision=1, group=5, members=((1, 10), (2, 20)))
    table.put(one)
    table.put(two)
    assert (table.kept(1), table.kept(2)) == (Kept(1, 1, 50), Kept(0, 1, 50))
    table.put(replace(one, peer=2, config={"max_bytes": 7, "storage": "memory"}, revision=2))
    assert (table.kept(1), table.kept(2)) == (Kept(0, 1, 50), Kept(1, 1, 50, 7))
    table.remove(two)
    assert (table.kept(1), table.kept(2)) == (Kept(), Kept(1, 0, 0, 7))
    table.put(replace(one, config={"max_bytes": "much"}, revision=3))
    assert table.kept(1) == Kept(1)


def test_a_stream_and_its_mirrors_are_alternates_of_each_other_while_they_are_there() -> None:
    """A mirror that mirrors another one from now on, or is gone, is none any more."""
    table = Table()
    mirror = replace(ROW, name="M", config={"name": "M", "mirror": {"name": "S"}}, revision=10)
    table.put(mirror)
    assert table.alternates("A", "S") == [mirror]
    table.put(ROW)
    assert table.alternates("A", "S") == [ROW, mirror]
    assert (table.alternates("A", "M"), table.alternates("B", "S")) == ([], [])
    table.put(replace(mirror, config={"name": "M", "mirror": {"name": "T"}}, revision=11))
    assert (table.alternates("A", "S"), len(table.alternates("A", "T"))) == ([], 1)
    table.put(replace(mirror, config=None, revision=12))
    assert table.alternates("A", "T") == []
