"""Boxes of one name or domain at one server, on a clock of its own: late answers and crowds. The rest is in
tests/interop/test_twins.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing
from leafd import native_types as t
from leafd.guard import Guard
from leafd.links import leaf
from leafd.links.alive import PROBE_MAX_S
from leafd.links.leaf_info import Advertised
from leafd.links.link import Link
from leafd.links.twins import AGAIN_S, ASKED_MAX, MACHINES_MAX, MANY_S, Twins


class Line:
    """The plane: its connections, of which some do not answer."""

    def __init__(self) -> None:
        self.received = 0
        self.late = {1}

    async def connections(self) -> list[t.ConnectionRow]:
        row = replace(t.ConnectionRow(*[0] * 16), received=self.received)
        return [replace(row, connection=number) for number in range(1, 64)]

    def send(self, connection: int, _frame: bytes) -> None:
        self.received += connection not in self.late


class Hub:
    """A server, and the boxes that come."""

    def __init__(self) -> None:
        self.line, self.lines = Line(), list[str]()
        log = SimpleNamespace(error=lambda text, **_: self.lines.append(text))
        identity = leaf.Identity("N", "n", "2.15.1")
        self.twins = Twins(cast(Any, self.line), cast(Any, log), Guard(), lambda: identity)

    def link(self, number: int, name: str, server_id: str, domain: str = "box") -> Link:
        machine = leaf.Acceptor(leaf.Identity("N", "n", "2.15.1"), number, "", Advertised())
        bind = leaf.Bind(1, "A", False, cast(Any, None), "", domain, name, server_id, "A", True, 0, False)
        return Link(number, f"10.0.0.{number}:7422", machine, bind=bind)


def play(story: Callable[[Hub], Awaitable[None]]) -> None:
    async def main() -> None:
        hub = Hub()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hub.twins.run)
            await story(hub)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_box_behind_a_slow_line_that_answers_late_is_asked_again() -> None:
    """Both stay linked and never come again, so nothing else would tell of them."""

    async def story(hub: Hub) -> None:
        for number, name in ((1, "a"), (2, "b")):
            hub.twins.came(hub.link(number, name, f"id of {name}"))
        await trio.sleep(PROBE_MAX_S)
        assert [] == hub.lines
        hub.line.late.clear()
        await trio.sleep(AGAIN_S)
        assert ['"a" at 10.0.0.1 and "b" at 10.0.0.2 (account A) both have the JetStream domain "box"'] == [
            line.rpartition(" - ")[2] for line in hub.lines
        ]
        assert 1 == len(list(hub.twins.texts()))

    play(story)


def test_pairs_that_never_answer_keep_no_other_from_its_turn() -> None:
    """As many as may wait to be asked, and one more that answers."""

    async def story(hub: Hub) -> None:
        hub.line.late = set(range(1, 2 * ASKED_MAX + 3))
        for number in range(1, 2 * ASKED_MAX + 5):
            domain = f"box{(number + 1) // 2}"
            hub.twins.came(hub.link(number, f"name {number}", f"id of {number}", domain))
        await trio.sleep(10 * ASKED_MAX * PROBE_MAX_S)
        assert [f'"box{ASKED_MAX + 2}"'] == [line.rpartition(" ")[2] for line in hub.lines]

    play(story)


def take_turns(hub: Hub, machines: int) -> None:
    for number in range(1, machines):
        before, now = (hub.link(one, "box", f"id {one}") for one in (number, number + 1))
        hub.twins.replaced(before, now)


def test_a_crowd_of_one_name_is_told_of_though_none_of_it_comes_twice() -> None:
    async def story(hub: Hub) -> None:
        take_turns(hub, 2000)
        (text,) = hub.twins.texts()
        assert f'more than {MACHINES_MAX} machines call themselves "box" (account A)' in text
        assert 1 == len(hub.lines)

    play(story)


def test_a_box_that_is_started_again_and_again_is_no_crowd() -> None:
    """Each life has another id, and its link may outlive it."""

    async def story(hub: Hub) -> None:
        for number in range(1, 30):
            hub.twins.replaced(hub.link(1, "box", f"id {number}"), hub.link(1, "box", f"id {number + 1}"))
            await trio.sleep(MANY_S / MACHINES_MAX)
        assert [] == hub.lines
        assert [] == list(hub.twins.texts())

    play(story)
