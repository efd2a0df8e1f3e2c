"""What the control thread makes for somebody waits for room in its share of memory, in the order of asking."""

from __future__ import annotations

import trio
import trio.testing
from leafd.holding import Holding


def played(limit: int, sizes: list[int]) -> list[str]:
    """What becomes of those that ask for these sizes one after the other and hold them a second longer each."""
    said: list[str] = []

    async def one(holding: Holding, number: int, size: int) -> None:
        async with holding.take(size):
            said.append(f"+{number} {holding.used}")
            await trio.sleep(number + 1)
        said.append(f"-{number} {holding.used}")

    async def main() -> None:
        holding = Holding(limit)
        async with trio.open_nursery() as nursery:
            for number, size in enumerate(sizes):
                nursery.start_soon(one, holding, number, size)
                await trio.testing.wait_all_tasks_blocked()
            said.append("waits" if holding.crowded else "all")
        assert 0 == holding.used

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return said


def test_who_finds_no_room_waits_and_nobody_overtakes_him() -> None:
    """A small one behind a large one waits, too: else large ones would never be made."""
    assert ["+0 60", "waits", "-0 0", "+1 70", "+2 90", "-1 20", "-2 0"] == played(100, [60, 70, 20])


def test_one_alone_may_be_larger_than_the_share() -> None:
    """It waits until it is alone."""
    assert ["+0 10", "waits", "-0 0", "+1 500", "-1 0"] == played(100, [10, 500])


def test_without_a_bound_nobody_waits() -> None:
    """As without memory_limit."""
    assert "all" in played(0, [1 << 40, 1 << 40])


def test_who_is_cancelled_while_he_waits_leaves_the_line() -> None:
    """And takes nothing."""

    async def main() -> None:
        holding = Holding(10)
        async with holding.take(10):
            with trio.move_on_after(1):
                async with holding.take(1):
                    raise AssertionError
            assert not holding.crowded
        assert 0 == holding.used

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
