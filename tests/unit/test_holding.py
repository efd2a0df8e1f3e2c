"""What the control thread makes for somebody waits for room in its share of memory, in the order of asking."""

from __future__ import annotations

import trio
import trio.testing
from leafd.holding import Contested, Holding


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


class Named:
    """A holder, who says when he has to give way."""

    def __init__(self, name: str, said: list[str]) -> None:
        self._name, self._said = name, said

    def give_way(self) -> None:
        self._said.append(self._name)


def contested(limit: int, *steps: tuple[str, int]) -> tuple[list[str], int]:
    """Who gave way when these had so much, one after the other, and what is counted at the end."""
    said: list[str] = []
    share, holders = Contested(limit), {name: Named(name, said) for name, _ in steps}
    for name, size in steps:
        share.hold(holders[name], size)
    return said, share.used


def test_the_one_with_the_most_gives_way_to_the_others() -> None:
    """When they have more than the share without him."""
    assert ([], 100) == contested(100, ("a", 40), ("b", 60))
    assert (["b"], 110) == contested(100, ("a", 40), ("b", 60), ("b", 90), ("a", 90), ("c", 20), ("a", 80), ("c", 30))
    assert (["a", "b"], 110) == contested(100, ("a", 300), ("b", 200), ("c", 90), ("d", 20))


def test_one_may_have_more_than_the_share_beside_small_ones() -> None:
    """Else whoever holds one byte would end everybody's."""
    assert ([], 5100) == contested(100, ("small", 1), ("large", 5000), ("small", 100))


def test_who_has_given_up_all_has_nothing() -> None:
    """And what has no bound is counted all the same."""
    assert ([], 7) == contested(100, ("a", 5000), ("a", 0), ("b", 7))
    assert ([], 900) == contested(0, ("a", 300), ("b", 600))


def test_one_at_a_time_has_his_turn() -> None:
    """Whoever is away from it in between finds it again; also when he is cancelled there."""
    said: list[str] = []

    async def one(share: Contested, name: str, away: float) -> None:
        async with share.turn():
            said.append(f"+{name}")
            await (share.away(away) if away else trio.sleep(1))  # noqa: ASYNC105  (it is, with the other one)
            said.append(f"-{name}")

    async def main() -> None:
        share = Contested()
        with trio.move_on_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one, share, "a", 5)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(one, share, "b", 0)
                nursery.start_soon(one, share, "c", 100)
        await one(share, "d", 0)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert ["+a", "+d", "-d"] == [word for word in said if word[1] not in "bc" and word != "-a"]
    assert said.index("-b") == said.index("+b") + 1 < said.index("-a")
    assert "-c" not in said
