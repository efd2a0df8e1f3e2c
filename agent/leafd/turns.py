"""The control thread is shared by everybody, so nothing may hold it for long: large work goes aside, long work pauses.

    await aside(weight, function, ...)   pure work: at once when it is small, on the worker thread when it is large
    pause = Pause(); await pause()       in a loop: lets the others in after every couple of milliseconds of work
    await together(orders)               all at once, so that the plane is woken once for many
    async with Held(lock)                a lock that is free is taken without a turn of the others
    elements(value, PART) < PART         the value is small enough to be written as JSON at once
    await trio.sleep_until(beat(now, 1)) tasks that wake each second wake together: a sleeping processor costs most

The worker thread is one, so that large requests queue behind each other and not before small ones; the interpreter
switches between it and the control thread every SWITCH_S. A request that pauses goes to the end of one line, of which
one goes on at a time: ten long listings cost a newcomer as much as one. Not here: who measures that it is so
(host/gauge.py), work that waits instead of computing (passwords: logins/guesses.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

SLICE_S: Final = 0.002
SWITCH_S: Final = 0.001
WEIGHT_MAX: Final = 8 * 1024
"""Bytes of JSON, or what costs as much: half a millisecond of work on a small box is about this."""
ITEM_WEIGHT: Final = 64
"""The weight of one element of a list: a subject, a filter, a row."""

PART: Final = 128
"""Elements of JSON that are written at once: some tens of microseconds."""
TEXT: Final = 1024
"""A text of less is one element."""

_NUMBERS: Final = frozenset((int, float, bool, type(None)))
"""And what is written as shortly."""

_Result = TypeVar("_Result")
_worker: Final = trio.CapacityLimiter(1)
_line: Final = trio.Lock()


async def aside(weight: int, function: Callable[..., _Result], *arguments: object) -> _Result:
    """The function's result, or its exception. It must be pure: it may read what its caller has locked, and change
    nothing."""
    if weight <= WEIGHT_MAX:
        return function(*arguments)
    return await trio.to_thread.run_sync(function, *arguments, limiter=_worker)


def beat(now_s: float, period_s: float) -> float:
    """The first time behind now that is a multiple of the period. What is done now and then by several tasks is done
    in one turn so: to wake an idle thread, whose code and data have left the caches, costs more than most of them."""
    return (math.floor(now_s / period_s) + 1) * period_s


async def hold(lock: trio.Lock) -> None:
    """Takes a lock. One that is free is taken at once, where trio lets the others have a turn first: a request for
    JetStream takes two."""
    if lock.locked():
        await lock.acquire()
    else:
        lock.acquire_nowait()


class Held:
    """While a lock is held, as hold() takes it."""

    __slots__ = ("_lock",)

    def __init__(self, lock: trio.Lock) -> None:
        self._lock = lock

    async def __aenter__(self) -> None:
        await hold(self._lock)

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class Pause:
    """One task's long work, cut into slices."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def __call__(self) -> None:
        """Between two steps of the work."""
        if time.perf_counter() - self._since < SLICE_S:
            return
        async with _line:
            await trio.lowlevel.checkpoint()
        self._since = time.perf_counter()


async def together(orders: list[Callable[[], Awaitable[_Result]]]) -> list[_Result | Exception]:
    """The results or exceptions of the orders; the plane has them all at once, so that it is woken once for many."""
    found: dict[int, _Result | Exception] = {}

    async def one(index: int) -> None:
        try:
            found[index] = await orders[index]()
        except Exception as error:
            found[index] = error

    async with trio.open_nursery() as nursery:
        for index in range(len(orders)):
            nursery.start_soon(one, index)
    return [found[index] for index in range(len(orders))]


def elements(value: object, most: int) -> int:
    """How many texts, numbers, lists and so on a value for JSON has, if fewer than that; of a long text each KB counts.
    What json does not write counts as that many."""
    if isinstance(value, str):
        return 1 + len(value) // TEXT
    if isinstance(value, dict | list | tuple):
        found = 1
        for one in value.values() if isinstance(value, dict) else value:
            short = type(one) in _NUMBERS or (type(one) is str and len(one) < TEXT)
            found += 1 if short else elements(one, most - found)
            if found >= most:
                break
        return found
    return 1 if value is None or isinstance(value, int | float) else most
