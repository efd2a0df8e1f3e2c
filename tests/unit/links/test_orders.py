"""What waits for mirrors and sources: lines of jobs, and moments, without a plane and without a clock."""

from __future__ import annotations

import trio
import trio.testing
from leafd.links.orders import ASK, LINES, STALE_MAX, Job, Moments, Orders, Waiting

NEVER = float("inf")


def test_the_latest_job_of_a_kind_counts_and_what_has_one_place_is_done_in_order() -> None:
    """Two that have the same place: what the first one was told before comes first, however slow a job is."""

    async def play() -> list[str]:
        done: list[str] = []
        rested: list[int] = []

        def says(text: str, seconds: float = 0.0) -> Job:
            async def job() -> None:
                await trio.sleep(seconds)
                done.append(text)

            return job

        async def carry_out(job: Job) -> None:
            await job()

        orders: Orders[Waiting] = Orders(carry_out, lambda slot: rested.append(slot.place))
        old, new, elsewhere = Waiting(7), Waiting(7), Waiting(8)
        orders.put(old, "ask", says("never"))
        orders.put(old, "ask", says("asked"))
        orders.put(old, "end", says("ended", 5))
        orders.put(new, "start", says("started"))
        orders.put(elsewhere, "ask", says("elsewhere"))
        assert orders.waiting() == 4
        async with trio.open_nursery() as nursery:
            nursery.start_soon(orders.run)
            await trio.sleep(10)
            nursery.cancel_scope.cancel()
        assert sorted(rested) == [7, 7, 8], "each slot is told of once, when nothing is left to do for it"
        return done

    assert 7 % LINES != 8 % LINES
    done = trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [one for one in done if one != "elsewhere"] == ["asked", "ended", "started"]
    assert done.index("elsewhere") < done.index("ended")


def test_who_only_asks_stands_behind_those_whose_answers_have_come() -> None:
    """What an origin made for a slot is taken up before others are asked, and a slot's own jobs keep their order."""

    async def play() -> list[str]:
        done: list[str] = []

        def says(text: str) -> Job:
            async def job() -> None:
                done.append(text)

            return job

        async def carry_out(job: Job) -> None:
            await job()

        orders: Orders[Waiting] = Orders(carry_out, lambda slot: None)
        slots = [Waiting(number * LINES) for number in range(5)]
        for number, slot in enumerate(slots):
            orders.put(slot, ASK, says(f"ask {number}"))
        orders.put(slots[3], "start", says("start 3"))
        orders.put(slots[2], "end", says("end 2"))
        orders.put(slots[3], ASK, says("ask 3 again"))
        assert orders.waiting() == 7
        async with trio.open_nursery() as nursery:
            nursery.start_soon(orders.run)
            await trio.testing.wait_all_tasks_blocked()
            assert orders.waiting() == 0
            orders.put(slots[3], ASK, says("ask 3 later"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        return done

    expected = ["start 3", "ask 3 again", "ask 2", "end 2", "ask 0", "ask 1", "ask 4", "ask 3 later"]
    assert trio.run(play) == expected


def test_a_slot_is_due_at_its_latest_moment_only_and_never_twice() -> None:
    moments: Moments[Waiting] = Moments()
    one, other = Waiting(1), Waiting(2)
    assert moments.at(one, 5.0)
    assert not moments.at(other, 7.0)
    assert moments.at(one, 3.0)
    assert not moments.at(one, 8.0)
    assert list(moments.due(6.0)) == []
    assert list(moments.due(7.5)) == [other]
    moments.at(one, NEVER)
    assert list(moments.due(100.0)) == []
    moments.at(one, 9.0)
    assert list(moments.due(100.0)) == [one]
    assert list(moments.due(100.0)) == []


def test_moments_that_no_longer_count_do_not_pile_up() -> None:
    """However often a slot is put off, what is remembered is bounded by the number of slots."""
    moments: Moments[Waiting] = Moments()
    slots = [Waiting(number) for number in range(10)]
    for turn in range(10_000):
        moments.at(slots[turn % 10], float(turn))
    assert len(moments._heap) <= 2 * len(slots) + STALE_MAX + 1
    assert len(list(moments.due(1e9))) == 10
