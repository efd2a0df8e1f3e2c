"""boxz and the status page's boxes: who comes first, and that what is not known is null."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from leafd.daemon.box_desk import BoxDesk
from leafd.monitor.boxes import BoxRow, boxz, first
from leafd.monitor.facts import Facts
from leafd.monitor.rooms import DiskFacts, LinkFacts

from tests.rig.fakes import stand_in

HOUR = 3600 * 10**9


def box(name: str, *, linked: bool = False, seen_ns: int | None = None, doubled: bool = False) -> BoxRow:
    up = SimpleNamespace(connection=int(name[-1]), peer="10.0.0.1:5", version="2.15.1", program="")
    told = {"count": 3, "address": "10.0.0.9"} if doubled else None
    return BoxRow(name, f"U{name}", "T", 1000, cast(LinkFacts, up) if linked else None, 5 * HOUR, seen_ns, told)


class Enrolled:
    """The boxes of a hub."""

    def __init__(self, *rows: BoxRow, behind: Mapping[str, int | None]) -> None:
        self._rows, self._behind = rows, behind

    def rows(self, pattern: str) -> Iterator[BoxRow]:
        return iter([row for row in self._rows if fnmatchcase(row.name, pattern)])

    async def behind(self) -> Mapping[str, int | None]:
        await trio.lowlevel.checkpoint()
        return self._behind

    async def disks(self, rows: Iterable[BoxRow]) -> Mapping[str, DiskFacts | None]:
        await trio.lowlevel.checkpoint()
        found = {"b1": cast(DiskFacts, SimpleNamespace(stored=9, most=None))}
        return {row.name: found.get(row.name) for row in rows if row.link is not None}


def facts(*rows: BoxRow, **behind: int | None) -> Facts:
    """Facts of a hub with these boxes, of whose links the plane knows nothing yet."""

    async def connections() -> list[Any]:
        await trio.lowlevel.checkpoint()
        return []

    boxes = stand_in(BoxDesk, Enrolled(*rows, behind=behind))
    plane = SimpleNamespace(connections=connections)
    return cast(Facts, SimpleNamespace(boxes=boxes, plane=plane, head=lambda: {"server_id": "N"}))


def shown(known: Facts, **options: str) -> dict[str, Any]:
    found: dict[str, Any] = trio.run(boxz, known, options)
    return found


def test_what_is_not_known_is_null() -> None:
    """A box that never came was not last here in 1970, and is not level."""
    (one,) = shown(facts(box("b1")))["boxes"]
    assert (None, None, False) == (one["seen"], one["behind"], one["linked"])
    assert "since" not in one


def test_of_a_link_that_is_up_what_is_known_is_shown() -> None:
    """Numbers that the plane has not told yet are left out, and are not 0."""
    (one,) = shown(facts(box("b1", linked=True), b1=4))["boxes"]
    assert (4, "10.0.0.1:5", "1970-01-01T05:00:00Z", None) == (
        one["behind"], one["address"], one["since"], one["leafd"],
    )  # fmt: skip
    assert not {"rtt", "in_bytes", "loss"} & one.keys()


def test_boxes_are_chosen_by_name_and_by_being_away() -> None:
    """The totals are of all that fit the pattern; a page is a part of the list."""
    known = facts(box("b1", linked=True), box("b2"), box("c3"), box("b4"))
    report = shown(known, boxes="b*", away="1", limit="1", offset="1")
    assert (3, 1, ["b4"]) == (report["total"], report["linked"], [one["name"] for one in report["boxes"]])


def test_disks_are_asked_of_those_that_are_here_and_asked_for() -> None:
    """An away box has none, which is null; without disk=1 nobody is asked."""
    known = facts(box("b1", linked=True), box("b2"))
    assert [{"stored": 9, "max": None}, None] == [one["disk"] for one in shown(known, disk="1")["boxes"]]
    assert "disk" not in shown(known)["boxes"][0]


def test_the_page_has_first_who_needs_somebody() -> None:
    """Two machines with one key, then the away, those longest away first, then the most behind."""
    rows = [
        box("b1", linked=True), box("b2", linked=True), box("b3", seen_ns=9 * HOUR), box("b4", seen_ns=2 * HOUR),
        box("b5"), box("b6", linked=True, doubled=True),
    ]  # fmt: skip
    found, left_out = trio.run(first, facts(*rows, b1=1, b2=500), 5)
    assert (["b6", "b5", "b4", "b3", "b2"], 1) == ([one["name"] for one in found], left_out)


@pytest.mark.parametrize("pattern", ["", "*"])
def test_no_pattern_is_every_box(pattern: str) -> None:
    """As in the command line."""
    assert 2 == shown(facts(box("b1"), box("b2")), boxes=pattern)["total"]


def test_a_plane_that_has_told_of_no_connection_is_not_asked_again() -> None:
    """Metrics ask it once for all their reports."""

    async def connections() -> list[Any]:
        raise AssertionError("asked again")

    known = facts(box("b1"))
    known.plane.connections = connections  # type: ignore[method-assign]
    found: dict[str, Any] = trio.run(boxz, known, {}, None, [])
    assert found["total"] == 1
