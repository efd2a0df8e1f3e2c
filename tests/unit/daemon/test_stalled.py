"""How often all copies are looked at for those who ask whether this server is well. Played on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing
from leafd.daemon.stalled import AWAY, KEPT_MAX_S, NAMED_MAX, SHARE, Stalled
from leafd.links.lag import NO_NEARER, SlotInfo

NAMES = ("one", "two", "three")
NO_NEARER_TEXT = "it comes no nearer to its origin"


def catalogue(*streams: Any) -> Any:
    """JetStream with these streams in the account A."""
    account = SimpleNamespace(name="A", streams={one.config.name: one for one in streams})
    return SimpleNamespace(catalogue=SimpleNamespace(by_name={"A": account}))


def collecting(*origins: str) -> Any:
    """A stream with these sources."""
    sources = [SimpleNamespace(name=name) for name in origins]
    return SimpleNamespace(id=7, config=SimpleNamespace(name="ALL", mirror=None, sources=sources))


class Copies:
    """Copies of which each look takes so long. reason: of the first one."""

    def __init__(self, look_s: float, reason: str = NO_NEARER_TEXT) -> None:
        self.look_s, self.reason = look_s, reason
        self.looks = 0

    async def statuses(self, stream: int, slots: Sequence[int]) -> list[SlotInfo]:
        assert (stream, slots[0]) == (7, 1)
        self.looks += 1
        await trio.sleep(self.look_s)
        first = SlotInfo(error={**NO_NEARER, "description": self.reason})
        return [first, *[SlotInfo() for _ in slots[1:]]]


def played(copies: Copies, asked: Callable[[Stalled], Any], *origins: str) -> None:
    stalled = Stalled(catalogue(collecting(*(origins or NAMES))), cast(Any, copies.statuses))
    trio.run(asked, stalled, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_reason_is_told_by_account_stream_and_origin() -> None:
    async def asked(stalled: Stalled) -> None:
        assert {"A > ALL < one": NO_NEARER_TEXT} == await stalled()

    played(Copies(0.0), asked)


def test_a_copy_whose_origin_is_away_is_not_told() -> None:
    async def asked(stalled: Stalled) -> None:
        assert {} == await stalled()

    for reason in AWAY:
        played(Copies(0.0, reason), asked)


def test_who_asks_each_second_makes_a_thousandth_of_that_time_work() -> None:
    """A look at a thousand copies takes 20 ms."""
    copies = Copies(0.02)

    async def asked(stalled: Stalled) -> None:
        for _ in range(600):
            assert {"A > ALL < one": NO_NEARER_TEXT} == await stalled()
            await trio.sleep(1)

    played(copies, asked)
    assert 600 / (0.02 * SHARE) - 3 <= copies.looks <= 600 / (0.02 * SHARE) + 1


def test_what_has_changed_is_told_soon_where_a_look_takes_long() -> None:
    copies = Copies(5.0)

    async def asked(stalled: Stalled) -> None:
        await stalled()
        copies.reason = "another one"
        await trio.sleep(KEPT_MAX_S - 1)
        assert {"A > ALL < one": NO_NEARER_TEXT} == await stalled()
        await trio.sleep(1)
        assert {"A > ALL < one": "another one"} == await stalled()

    played(copies, asked)


def test_those_who_ask_together_share_one_look() -> None:
    copies = Copies(0.02)

    async def asked(stalled: Stalled) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(stalled)

    played(copies, asked)
    assert 1 == copies.looks


def test_who_goes_away_while_it_is_looked_leaves_the_look_to_the_next_one() -> None:
    copies = Copies(0.02)

    async def asked(stalled: Stalled) -> None:
        with trio.move_on_after(0.01):
            await stalled()
        assert {"A > ALL < one": NO_NEARER_TEXT} == await stalled()

    played(copies, asked)
    assert 2 == copies.looks


def test_few_are_named_where_many_are_stalled() -> None:
    class Many(Copies):
        async def statuses(self, stream: int, slots: Sequence[int]) -> list[SlotInfo]:
            return [SlotInfo(error=dict(NO_NEARER)) for _ in slots]

    async def asked(stalled: Stalled) -> None:
        assert NAMED_MAX == len(await stalled())

    played(Many(0.0), asked, *(f"box-{number}" for number in range(NAMED_MAX + 5)))
