"""Reports in pieces are what json.dumps makes of them as a whole."""

from __future__ import annotations

import gzip
import json
import random
import struct
from collections.abc import AsyncGenerator
from typing import Any, Final

import pytest
import trio
from leafd.gotime import ZERO_TIME, format_time
from leafd.monitor.encoding import PIECE, Alike, Form, Hole, Rows, TooLarge, encode, packed, pieces, takes_gzip
from leafd.native_rows import RowColumn, RowKind, RowWriter

ROW: Final[dict[str, Any]] = {"name": 'a\nü"', "none": None, "list": [1, {"x": [], "y": {}}], "empty": {}, "f": 1.5}
REPORTS: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "flat": {"a": 1, "b": "x", "c": None, "d": [], "e": {}},
    "wide": {f'"{i}"': one for i, one in enumerate([1, 'a\nü"', None, True, 1.5, -0.0, "x" * 3000, 2**70, [1]] * 900)},
    "within": {"one": {str(i): one for i, one in enumerate([1, "ü", None, False, 0.1] * 3)}},
    "rows": {"a": 1, "rows": [ROW] * 3, "after": True},
    "data": {"server": {"seq": 1, "tags": ["a"]}, "data": {"rows": [ROW] * 3, "none": []}},
    "deep": {"data": {"one": {"two": {"three": [ROW]}}}},
    "many": {"rows": [ROW | {"number": i} for i in range(5000)]},
}


async def rows_of(found: list[dict[str, Any]]) -> AsyncGenerator[dict[str, Any], None]:
    for row in found:
        yield row


def collected(report: dict[str, Any], indent: int | None) -> list[bytes]:
    """Its pieces."""

    async def main() -> list[bytes]:
        return [piece async for piece in pieces(report, indent=indent)]

    return trio.run(main)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", REPORTS)
def test_a_report_in_pieces_is_the_same_report(name: str, indent: int | None) -> None:
    """Also where its rows are made while it is written."""
    report = REPORTS[name]
    whole = json.dumps(report, indent=indent, separators=None if indent else (",", ":")).encode()
    made = {key: Rows(rows_of(value)) if key == "rows" else value for key, value in report.items()}
    for found in (collected(report, indent), collected(made, indent)):
        assert whole == b"".join(found)
        assert all(0 < len(piece) < PIECE + 4096 for piece in found)


def test_what_rows_add_to_the_report_comes_last() -> None:
    """Whether all of them are in it is known behind them."""
    report: dict[str, Any] = {}

    async def rows() -> AsyncGenerator[dict[str, Any], None]:
        yield {}
        report["cut"] = 7

    report |= {"rows": Rows(rows()), "after": 1}
    assert b'{"rows":[{}],"after":1,"cut":7}' == b"".join(collected(report, None))


RECORD: Final = struct.Struct("=2Qq2Qq")
"""Two sizes of texts, a time, three numbers, the last of which may be below 0."""
FORM: Final = Form(
    {
        "name": Hole(RowKind.TEXT, 0),
        "%s": "100%",
        "deep": {"n": Hole(RowKind.NUMBER, 24), "none": [], "t": {"u": Hole(RowKind.TIME, 16), "empty": {}}},
        "some": Hole(RowKind.OPTIONAL, 32),
        "at": Hole(RowKind.STAMP, 16),
        "list": [Hole(RowKind.SIGNED, 40), {"n": Hole(RowKind.SIGNED, 16)}],
        "last": Hole(RowKind.TEXT, 8),
    },
    RECORD.size,
)
NUMBERS: Final = (0, 1, 9, 10, 99, 100, 12345678901234567890, (1 << 64) - 1)
TIMES: Final = (0, 1, -1, 1795232197806385550, 10**9, 10**9 + 10, -(1 << 63), (1 << 63) - 1)


def alike(number: int) -> tuple[dict[str, Any], bytes, list[bytes]]:
    """A row as an object, its record and its texts."""
    draw = random.Random(number)
    texts = [f'a%s\n"ü\0😀{number}', "x" * draw.randrange(300)]
    at, n, some, below = draw.choice(TIMES), draw.choice(NUMBERS), draw.choice(NUMBERS), draw.choice(TIMES)
    row: dict[str, Any] = {
        "name": texts[0],
        "%s": "100%",
        "deep": {"n": n, "none": [], "t": {"u": format_time(at), "empty": {}}},
        "some": some,
        "at": format_time(at or ZERO_TIME),
        "list": [below, {"n": at}],
        "last": texts[1],
    }
    if not some:
        del row["some"]
    written = [json.dumps(text).encode() for text in texts]
    return row, RECORD.pack(*map(len, written), at, n, some, below), written


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 500])
def test_rows_that_are_alike_are_written_as_their_objects(indent: int | None, count: int) -> None:
    """C writes them, whatever stands in their holes: first, last and between other rows, and at any depth."""
    made = [alike(number) for number in range(count)]
    objects = [row for row, _, _ in made]
    rows = Alike(FORM, [record for _, record, _ in made], [text for _, _, texts in made for text in texts])

    for some, plain in (([rows], objects), ([ROW, rows, ROW, rows], [ROW, *objects, ROW, *objects])):
        for report, same in (
            ({"rows": some}, {"rows": plain}),
            ({"a": [{"b": some, "c": 1}]}, {"a": [{"b": plain, "c": 1}]}),
            ({"data": {"deep": some}}, {"data": {"deep": plain}}),
        ):
            whole = json.dumps(same, indent=indent, separators=None if indent else (",", ":")).encode()
            assert whole == b"".join(collected(report, indent))


def test_rows_that_do_not_fit_their_form_are_refused() -> None:
    """A record that is cut, a text that is missing, a column behind the record: nothing is read past what is there."""
    _, record, texts = alike(1)
    columns = [RowColumn(b"{", RowKind.TEXT, 0), RowColumn(b",", RowKind.TEXT, 8), RowColumn(b"}", RowKind.NOTHING, 0)]
    writer = RowWriter(columns, RECORD.size)

    assert writer.text(record * 2, b"".join(texts * 2)) == ("{" + ",".join(one.decode() for one in texts) + "}") * 2
    for records, named in ((record[:-1], b"".join(texts)), (record, texts[0]), (record * 2, b"".join(texts))):
        with pytest.raises(ValueError, match="do not go together"):
            writer.text(records, named)
    behind = RowWriter([RowColumn(b"", RowKind.NUMBER, RECORD.size - 7)], RECORD.size)
    with pytest.raises(ValueError, match="do not go together"):
        behind.text(record, b"")


def test_a_message_has_a_bound() -> None:
    """What would be larger is not made to its end."""
    with pytest.raises(TooLarge):
        trio.run(lambda: encode(REPORTS["many"], most=100_000))
    assert json.dumps(REPORTS["flat"], separators=(",", ":")).encode() == trio.run(lambda: encode(REPORTS["flat"]))


@pytest.mark.parametrize("sizes", [(), (1,), (0, 5), (PIECE, PIECE, 7), (1,) * 300], ids=str)
def test_pieces_are_packed_into_pieces_that_have_something(sizes: tuple[int, ...]) -> None:
    """Together they are the gzip of the same bytes, whose pieces were taken to their end."""
    random.seed(1)
    parts = [random.randbytes(size) for size in sizes]
    ended = []

    async def made() -> AsyncGenerator[bytes, None]:
        try:
            for part in parts:
                yield part
        finally:
            ended.append(True)

    async def main() -> list[bytes]:
        return [piece async for piece in packed(made())]

    found = trio.run(main)
    assert b"".join(parts) == gzip.decompress(b"".join(found))
    assert all(found)
    assert [True] == ended


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("gzip", True),
        ("br;q=1.0, GZIP;q=0.5, *;q=0.1", True),
        ("deflate, x-gzip", True),
        ("gzip; q=0.001", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip ; q=0.000", False),
        ("*", False),
        ("gzipped", False),
    ],
)
def test_gzip_is_taken_by_who_says_so(accepted: str, takes: bool) -> None:
    """RFC 9110, 12.5.3: a weight of 0 is a refusal. Who takes anything gets what it is without a word."""
    assert takes is takes_gzip(accepted)
