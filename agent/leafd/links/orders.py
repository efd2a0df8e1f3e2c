"""The jobs for mirrors and sources, and their deadlines: jobs that wait for the plane.

    slot --put(kind, job)--> its jobs --> one of LINES lines --> carried out, one after the other
    slot --at(moment)--> a heap --> due(now)

A slot has at most one job of a kind, the latest: however slow the plane is, what waits is bounded by the number of
slots. The jobs of one place (a stream's slot) are always in the same line, so that a stop is never overtaken by the
start that follows it; those of other places do not wait for them.

In a line, slots that only ask stand behind those that have anything else to do. An origin keeps a consumer for ten
seconds that nobody takes up: of 10,000 slots at once two thirds were asked for, and taken up when they had expired.
Not here: what the jobs are (replicas.py).
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Generic, TypeVar

import trio

Job = Callable[[], Awaitable[None]]
LINES: Final = 8
ASK: Final = "ask"
"""The kind of job that can wait."""
STALE_MAX: Final = 64
"""Moments in the heap that no longer count, besides as many as there are slots."""


class Waiting:
    """The jobs that wait for one slot. place: the same for whatever comes in its place."""

    __slots__ = ("due_s", "jobs", "place")

    def __init__(self, place: int) -> None:
        self.place = place
        self.jobs: dict[str, Job] = {}
        """In the order in which they are to be done."""
        self.due_s = float("inf")


One = TypeVar("One", bound=Waiting)


class _Line(Generic[One]):
    """Slots with jobs, each once, in their order."""

    def __init__(self) -> None:
        self.lined_up = trio.Event()
        self._soon: OrderedDict[One, None] = OrderedDict()
        self._asks: OrderedDict[One, None] = OrderedDict()
        """Copies that have only to ask."""

    def put(self, slot: One, kind: str) -> None:
        if slot in self._soon:
            return
        if kind == ASK:
            self._asks.setdefault(slot)
        else:
            self._asks.pop(slot, None)
            self._soon[slot] = None
        self.lined_up.set()

    def next(self) -> One | None:
        """Takes the first one out."""
        line = self._soon or self._asks
        return line.popitem(last=False)[0] if line else None

    def jobs(self) -> int:
        """How many jobs they have."""
        return sum(len(slot.jobs) for line in (self._soon, self._asks) for slot in line)


class Orders(Generic[One]):
    """The lines of jobs. `run` carries them out, and tells when nothing is left to do for a slot."""

    def __init__(self, carry_out: Callable[[Job], Awaitable[None]], done: Callable[[One], None]) -> None:
        self._carry_out = carry_out
        self._done = done
        self._lines: list[_Line[One]] = [_Line() for _ in range(LINES)]

    def put(self, slot: One, kind: str, job: Job) -> None:
        """To be done after what waits already for that slot; of one kind only the latest counts."""
        slot.jobs.pop(kind, None)
        slot.jobs[kind] = job
        self._lines[slot.place % LINES].put(slot, kind)

    def waiting(self) -> int:
        """How many jobs wait."""
        return sum(line.jobs() for line in self._lines)

    async def run(self) -> None:
        """Carries them out, for ever."""
        async with trio.open_nursery() as nursery:
            for line in self._lines:
                nursery.start_soon(self._work, line)

    async def _work(self, line: _Line[One]) -> None:
        while True:
            while (slot := line.next()) is not None:
                jobs, slot.jobs = slot.jobs, {}
                for job in jobs.values():
                    await self._carry_out(job)
                if not slot.jobs:
                    self._done(slot)
            line.lined_up = trio.Event()
            await line.lined_up.wait()


class Moments(Generic[One]):
    """The moments at which slots are due, the nearest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, One]] = []
        self._count = 0
        self._live = 0

    def at(self, slot: One, moment_s: float) -> bool:
        """From now on it is due then (infinite: never). Whether that is nearer than anything was."""
        if slot.due_s == moment_s:
            return False
        self._live += (moment_s != float("inf")) - (slot.due_s != float("inf"))
        slot.due_s = moment_s
        if moment_s == float("inf"):
            return False
        nearer = moment_s < self.nearest_s
        self._count += 1
        heapq.heappush(self._heap, (moment_s, self._count, slot))
        if len(self._heap) > 2 * self._live + STALE_MAX:
            self._heap = [one for one in self._heap if one[2].due_s == one[0]]
            heapq.heapify(self._heap)
        return nearer

    @property
    def nearest_s(self) -> float:
        """The nearest moment; it may be that of a slot that is due later by now."""
        return self._heap[0][0] if self._heap else float("inf")

    def due(self, now_s: float) -> Iterator[One]:
        """Takes out those that are due."""
        while self._heap and self._heap[0][0] <= now_s:
            moment_s, _, slot = heapq.heappop(self._heap)
            if slot.due_s == moment_s:
                slot.due_s = float("inf")
                self._live -= 1
                yield slot
