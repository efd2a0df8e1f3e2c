"""The control thread's turns: measured, cut into slices, and large work done aside."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import trio
import trio.lowlevel
import trio.testing
from leafd.host import gauge as gauges
from leafd.host.gauge import Gauge
from leafd.turns import SLICE_S, WEIGHT_MAX, Pause, aside, beat

from tests.rig.logs import KeptLog


def work(seconds: float) -> None:
    """Uses CPU for that long."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def measured(function: Any) -> tuple[dict[str, Any], list[str]]:
    """What the gauge reports of a run, and what it logged."""
    log = KeptLog()
    gauge = Gauge(log)
    gc.disable()  # one that walks what all the other tests have left would be in the turn
    try:
        trio.run(function, instruments=[gauge])
    finally:
        gc.enable()
    return gauge.report(), log.texts


def test_the_gauge_names_the_longest_turn_and_how_long_it_was() -> None:
    """A task that computes for 30 ms without a pause is found, with the CPU time it took."""

    async def busy() -> None:
        work(0.03)
        await trio.lowlevel.checkpoint()

    report, _ = measured(busy)
    assert 30 <= report["longest_turn_cpu_ms"] <= report["longest_turn_ms"]
    assert "busy" in report["longest_turn_place"]


def test_a_turn_that_sleeps_is_long_on_the_wall_and_short_in_cpu() -> None:
    """What only waits (here: a blocking sleep) is told apart from what computes."""

    async def blocked() -> None:
        time.sleep(0.03)
        await trio.lowlevel.checkpoint()

    report, _ = measured(blocked)
    assert report["longest_turn_ms"] >= 30
    assert report["longest_turn_cpu_ms"] < 15


def test_a_wait_is_no_turn() -> None:
    """Time that passes while a task waits for something is nobody's turn."""

    async def waits() -> None:
        await trio.sleep(0.05)

    assert measured(waits)[0]["longest_turn_cpu_ms"] < 25


def test_a_long_turn_is_logged_once_a_minute() -> None:
    """Each turn beyond the bound is counted; the log gets one line."""

    async def twice() -> None:
        for _ in range(2):
            time.sleep(gauges.LONG_S * 1.2)
            await trio.lowlevel.checkpoint()

    report, lines = measured(twice)
    assert 2 == report["long_turns"]
    assert 1 == len(lines)
    assert "twice" in lines[0]


def test_long_work_that_pauses_lets_others_in() -> None:
    """While a task works for 60 ms with pauses, another one runs a couple of dozen times."""
    turns = 0

    async def main() -> None:
        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            pause = Pause()
            for _ in range(120):
                work(0.0005)
                await pause()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert turns >= 60 / (SLICE_S * 1000) / 2


def test_of_those_who_pause_one_goes_on_at_a_time() -> None:
    """Between two turns of a newcomer there is one slice of work, however many work at length."""
    slices = [0]

    async def main() -> None:
        async def long_work() -> None:
            pause = Pause()
            while True:
                work(SLICE_S)
                slices[0] += 1
                await pause()

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(long_work)
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            before = slices[0]
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            slices[0] -= before
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert slices[0] <= 22


def test_small_work_stays_and_large_work_goes_to_the_worker() -> None:
    """The thread is only paid for by those that need it; errors come back as they were raised."""

    async def main() -> None:
        assert threading.current_thread() is await aside(WEIGHT_MAX, threading.current_thread)
        assert threading.current_thread() is not await aside(WEIGHT_MAX + 1, threading.current_thread)
        for weight in (0, 1 << 20):
            try:
                await aside(weight, int, "x")
            except ValueError:
                continue
            raise AssertionError("no error")

    trio.run(main)


def test_tasks_that_began_at_different_times_wake_at_the_same() -> None:
    """Each of three wakes at whole seconds, so that the thread is woken once a second, and not three times."""
    woken: set[float] = set()

    async def each_second(begins_s: float) -> None:
        await trio.sleep(begins_s)
        for _ in range(5):
            await trio.sleep_until(beat(trio.current_time(), 1.0))
            woken.add(trio.current_time())

    async def main() -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for begins_s in (0.1, 0.35, 0.8):
                nursery.start_soon(each_second, begins_s)
        assert woken == {beat(began, 1.0) + second for second in range(5)}

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.0))
