"""Boxes of one name at two servers: each server hears it of the other, and says it of those that are there alone.
Played on a clock of its own; what one server tells goes to the other as it would in the system account."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.guard import Guard
from leafd.links import leaf
from leafd.links.far_twins import FOUND_TURNS, SHOWN_S, TOGETHER_MAX, TURN_S, TURNS, FarTwins
from leafd.links.leaf_info import Advertised
from leafd.links.link import Link

SETTLED_S = 10.0
"""Both have told, asked and told again."""


class Line:
    """The plane of one server: rows of its connections, of which some stand open with nobody behind them."""

    def __init__(self) -> None:
        self.received = 0
        self.dead: set[int] = set()

    async def connections(self) -> list[t.ConnectionRow]:
        row = replace(t.ConnectionRow(*[0] * 16), received=self.received)
        return [replace(row, connection=number) for number in range(1, 5)]

    def send(self, connection: int, _frame: bytes) -> None:
        self.received += connection not in self.dead


class Hub:
    """One server and its boxes. others: those that hear it."""

    def __init__(self, name: str) -> None:
        self.name, self.others = name, list[Hub]()
        self.line, self.lines = Line(), list[str]()
        self.told: list[list[list[Any]]] = []
        log = SimpleNamespace(error=lambda text, **_: self.lines.append(text))
        self.twins = FarTwins(cast(Any, self.line), cast(Any, log), Guard(), self._tell)
        self.links: dict[int, Link] = {}

    def _tell(self, rows: list[list[Any]]) -> None:
        self.told.append(rows)
        server = {"name": self.name, "id": f"id of {self.name}", "cluster": f"{self.name}-site"}
        for one in [self, *self.others]:
            one.hear({"server": server, "boxes": rows})

    def hear(self, body: object) -> None:
        message = SimpleNamespace(payload=json.dumps(body).encode())
        self.twins.heard(f"id of {self.name}", cast(Any, message))

    def came(self, number: int, name: str, domain: str, server_id: str, **more: Any) -> Link:
        machine = leaf.Acceptor(leaf.Identity("N", "n", "2.15.1"), number, "", Advertised())
        bind = leaf.Bind(1, "A", False, cast(Any, None), "", domain, name, server_id, "A", True, 0, False)
        link = Link(number, f"10.0.0.{number}:7422", machine, bind=replace(bind, **more))
        self.links[number] = link
        self.twins.came(link)
        return link

    def went(self, number: int) -> None:
        link = self.links.pop(number)
        link.gone.set()
        self.twins.went(link)

    @property
    def texts(self) -> list[str]:
        return list(self.twins.texts())


def play(story: Callable[[Hub, Hub], Awaitable[None]]) -> None:
    """Two servers that hear each other."""

    async def main() -> None:
        one, two = Hub("one"), Hub("two")
        one.others.append(two)
        two.others.append(one)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.twins.run)
            nursery.start_soon(two.twins.run)
            await story(one, two)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_both_servers_say_that_two_machines_have_one_name() -> None:
    async def story(one: Hub, two: Hub) -> None:
        one.came(1, "box", "box", "first")
        two.came(2, "box", "box", "second")
        await trio.sleep(SETTLED_S)
        (there,), (here,) = one.texts, two.texts
        assert (
            'themselves "box" (account A), at 10.0.0.1 and, by server "two" of cluster "two-site", at 10.0.0.2' in there
        )
        assert 'at 10.0.0.2 and, by server "one" of cluster "one-site", at 10.0.0.1' in here
        assert [1, 1] == [len(one.lines), len(two.lines)]

    play(story)


def test_both_servers_say_that_two_boxes_have_one_domain() -> None:
    async def story(one: Hub, two: Hub) -> None:
        one.came(1, "a", "d", "first")
        two.came(2, "b", "d", "second")
        await trio.sleep(SETTLED_S)
        assert '"a" at 10.0.0.1 and, by server "two" of cluster "two-site", "b" at 10.0.0.2' in one.texts[0]
        assert 'both have the JetStream domain "d"' in two.texts[0]

    play(story)


@pytest.mark.parametrize(
    "other",
    [
        {"name": "box", "domain": "box", "server_id": "first"},
        {"name": "box", "domain": "box", "server_id": "second", "account_name": "B"},
        {"name": "another", "domain": "another", "server_id": "second"},
        {"name": "another", "domain": "box", "server_id": "second", "cluster": "c"},
        {"name": "box", "domain": "box", "server_id": "second", "system": True},
    ],
    ids=["one process with two links", "another account", "another name", "a server of a cluster", "the system's link"],
)
def test_others_are_no_twins(other: dict[str, Any]) -> None:
    async def story(one: Hub, two: Hub) -> None:
        one.came(1, "box", "box", "first")
        two.came(2, **other)
        await trio.sleep(TURN_S * TURNS * 2)
        assert [] == one.texts + two.texts

    play(story)


@pytest.mark.parametrize("later_s", [0.0, TURN_S * TURNS])
def test_what_is_left_of_a_machine_s_earlier_life_is_no_second_one(later_s: float) -> None:
    """It was started again and came to another server; the link of before stands open."""

    async def story(one: Hub, two: Hub) -> None:
        one.came(1, "box", "box", "first")
        await trio.sleep(SETTLED_S)
        one.line.dead.add(1)
        two.came(2, "box", "box", "second")
        await trio.sleep(SETTLED_S + later_s)
        assert [] == one.texts + two.texts

    play(story)


def test_it_is_said_as_long_as_both_are_there() -> None:
    async def story(one: Hub, two: Hub) -> None:
        one.came(1, "box", "box", "first")
        two.came(2, "box", "box", "second")
        await trio.sleep(SHOWN_S * 3)
        assert [1, 1] == [len(one.texts), len(two.texts)]
        two.went(2)
        assert [] == two.texts
        await trio.sleep(SHOWN_S + FOUND_TURNS * TURN_S)
        assert [] == one.texts
        two.came(3, "box", "box", "second")
        await trio.sleep(SETTLED_S)
        assert [1, 1] == [len(one.texts), len(two.texts)]
        assert [1, 1] == [len(one.lines), len(two.lines)]

    play(story)


def test_servers_that_were_apart_when_they_came_find_out_within_an_hour() -> None:
    async def story(one: Hub, two: Hub) -> None:
        one.others.clear()
        two.others.clear()
        for number in range(3, 100):
            one.came(number, f"b{number}", f"b{number}", f"id {number}")
        one.came(1, "box", "box", "first")
        two.came(2, "box", "box", "second")
        await trio.sleep(SETTLED_S)
        one.others.append(two)
        two.others.append(one)
        await trio.sleep(TURN_S * TURNS)
        assert [1, 1] == [len(one.texts), len(two.texts)]

    play(story)


def test_boxes_that_come_together_are_told_of_together() -> None:
    """Long names take more messages, each of which a server takes."""

    async def story(one: Hub, _two: Hub) -> None:
        for number in range(2 * TOGETHER_MAX):
            one.came(number, f"b{number}", "d", f"id {number}")
        await trio.sleep(SETTLED_S)
        assert [TOGETHER_MAX] * 2 == [len(rows) for rows in one.told]
        one.told.clear()
        for number in range(TOGETHER_MAX):
            one.came(1000 + number, chr(0x1F600) * 250 + str(number), "\n" * 255, f"id {number}")
        await trio.sleep(SETTLED_S)
        assert TOGETHER_MAX == sum(map(len, one.told))
        assert max(len(json.dumps(rows)) for rows in one.told) < 256 << 10

    play(story)


@pytest.mark.parametrize(
    "rows",
    [
        7,
        [7],
        [[]],
        [["A", "", "box", "box", "x", "10.0.0.9"]],
        [["A", "", "box", "box", "x", "10.0.0.9", 1]],
        [["A", "", "box", ["box"], "x", "10.0.0.9", True]],
        [["A", "", "box", "box", "", "10.0.0.9", True]],
        [["A", "", "box", "box", "x", "1" * 256, True]],
        [["A", "", "box", "box", "x" * 256, "10.0.0.9", True]],
    ],
)
def test_what_is_no_box_is_not_heard(rows: object) -> None:
    async def story(one: Hub, _two: Hub) -> None:
        one.came(1, "box", "box", "first")
        await trio.sleep(SETTLED_S)
        one.hear({"server": {"name": "three", "id": "N3"}, "boxes": rows})
        one.hear({"server": 3, "boxes": rows})
        one.hear([])
        await trio.sleep(SETTLED_S)
        assert [] == one.texts

    play(story)


def test_a_server_that_tells_of_boxes_without_end_fills_no_memory() -> None:
    async def story(one: Hub, _two: Hub) -> None:
        one.came(1, "box", "box", "first")
        for number in range(5000):
            one.hear(
                {"server": {"name": "x", "id": "N3"}, "boxes": [["A", "", "box", "box", f"{number}", "10.0.0.9", True]]}
            )
        await trio.sleep(SETTLED_S * 60)
        assert 1 == len(one.texts)
        assert 1 == len(one.lines)

    play(story)
