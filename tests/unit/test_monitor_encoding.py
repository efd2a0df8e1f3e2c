"""Reports in pieces are what json.dumps makes of them as a whole."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any, Final

import pytest
import trio
from leafd.monitor.encoding import HOLE, PIECE, Rows, Shape, Shaped, TooLarge, as_object, encode, pieces

ROW: Final[dict[str, Any]] = {"name": 'a\nü"', "none": None, "list": [1, {"x": [], "y": {}}], "empty": {}, "f": 1.5}
REPORTS: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "flat": {"a": 1, "b": "x", "c": None, "d": [], "e": {}},
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


@pytest.mark.parametrize("indent", [None, 2])
def test_rows_of_one_shape_are_written_as_their_objects(indent: int | None) -> None:
    """Whatever stands in their holes, between other rows, and at any depth."""
    shapes = [
        Shape({"name": HOLE, "%s": "100%", "deep": {"n": HOLE, "none": [], "t": {"u": HOLE}}}),
        Shape({"n": HOLE}),
    ]
    rows: list[Any] = [ROW]
    for number in range(300):
        rows.append(Shaped(shapes[0], (f'a%s\n"ü{number}', number, HOLE)))
        rows.append(Shaped(shapes[1], (-number,)))
    plain = [as_object(row) if isinstance(row, Shaped) else row for row in rows]
    first = {"name": 'a%s\n"ü0', "%s": "100%", "deep": {"n": 0, "none": [], "t": {"u": HOLE}}}

    assert [ROW, first, {"n": 0}] == plain[:3]
    for report, objects in (({"rows": rows}, {"rows": plain}), ({"a": [{"b": rows}]}, {"a": [{"b": plain}]})):
        whole = json.dumps(objects, indent=indent, separators=None if indent else (",", ":")).encode()
        assert whole == b"".join(collected(report, indent))


def test_a_message_has_a_bound() -> None:
    """What would be larger is not made to its end."""
    with pytest.raises(TooLarge):
        trio.run(lambda: encode(REPORTS["many"], most=100_000))
    assert json.dumps(REPORTS["flat"], separators=(",", ":")).encode() == trio.run(lambda: encode(REPORTS["flat"]))
