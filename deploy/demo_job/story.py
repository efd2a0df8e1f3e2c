"""What happens while the stations send: the faults, when they happen, and how far everybody is meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from .nodes import Link, Node
from .observations import STATIONS
from .streams import Counter
from .traffic import Publisher

SAMPLE_SECONDS = 0.25
KILLED_SECONDS = 3.0  # between a kill and the restart


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was broken from one instant to another (seconds since the start)."""

    station: str  # or "hub"
    label: str
    began: float
    ended: float


@dataclass
class Record:
    """What the report draws."""

    times: list[float] = field(default_factory=list)
    backlog: dict[str, list[int]] = field(default_factory=lambda: {station: [] for station in STATIONS})
    acknowledged: dict[str, list[int]] = field(default_factory=lambda: {station: [] for station in STATIONS})
    faults: list[Fault] = field(default_factory=list)

    def most_waiting(self, station: str, fault: Fault) -> int:
        """Rows of a station that waited at most while something was broken: one number for the check and the report."""
        pairs = zip(self.times, self.backlog[station], strict=True)
        return max((count for instant, count in pairs if fault.began <= instant <= fault.ended), default=0)

    def worst(self) -> int:
        """The same of each fault and the leaves that it concerns."""
        found = (
            self.most_waiting(station, fault)
            for fault in self.faults
            for station in STATIONS
            if fault.station in (station, "hub")
        )
        return max(found, default=0)


class Watch:
    """Samples how many rows of each station the hub holds, and how many commands each leaf."""

    def __init__(self, hub: Node, leaves: dict[str, Node], publishers: dict[str, Publisher]) -> None:
        self.record = Record()
        self.at_hub = dict.fromkeys(STATIONS, 0)
        self.at_leaf = dict.fromkeys(STATIONS, 0)
        self._commands = {station: Counter(leaf.url, "COMMANDS") for station, leaf in leaves.items()}
        self._counter = Counter(hub.url, "TELEMETRY")
        self._counted = 0.0
        self._acknowledged = dict.fromkeys(STATIONS, 0)  # as they were when the hub was last counted
        self._publishers = publishers
        self._began = asyncio.get_running_loop().time()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    async def count(self) -> None:
        """Ask the hub, again and again. While it is down its last known counts stand, as they do on its disk."""
        while True:
            counts = await self._counter.counts()
            if counts is not None:
                self._counted = self.now
                for station in STATIONS:
                    self._acknowledged[station] = self._publishers[station].acknowledged
                    self.at_hub[station] = sum(n for subject, n in counts.items() if subject.split(".")[1] == station)
            await asyncio.sleep(SAMPLE_SECONDS)

    async def count_commands(self, station: str) -> None:
        """The same of a leaf's mirror of its commands."""
        while True:
            counts = await self._commands[station].counts()
            if counts is not None:
                self.at_leaf[station] = sum(counts.values())
            await asyncio.sleep(2 * SAMPLE_SECONDS)

    def sample(self) -> None:
        """One sample of what is known now: a hub that does not answer must not leave a hole in the record."""
        self.record.times.append(self.now)
        fresh = self.now - self._counted < 2 * SAMPLE_SECONDS
        for station in STATIONS:
            # Both numbers from one instant, or the rows published since the count would look like a backlog.
            stored = self._acknowledged[station] if fresh else self._publishers[station].acknowledged
            # The hub may have a row before its acknowledgement has come back to the publisher.
            self.record.backlog[station].append(max(0, stored - self.at_hub[station]))
            self.record.acknowledged[station].append(stored)

    async def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Sample until it is done; False if it wasn't within the time."""
        deadline = self.now + seconds
        while not done():
            if self.now > deadline:
                return False
            self.sample()
            await asyncio.sleep(SAMPLE_SECONDS)
        self.sample()
        return True

    async def close(self) -> None:
        for counter in (self._counter, *self._commands.values()):
            await counter.close()


@dataclass(frozen=True, slots=True)
class Plan:
    """When which fault happens; fractions of the sending time, moved a little by the seed."""

    cut: float
    joined: float
    leaf_killed: float
    hub_killed: float

    @staticmethod
    def of(seconds: float, seed: int) -> Plan:
        chance = random.Random(seed)

        def about(fraction: float) -> float:
            return seconds * fraction * chance.uniform(0.93, 1.07)

        return Plan(cut=about(0.15), joined=about(0.55), leaf_killed=about(0.3), hub_killed=about(0.72))


class Faults:
    """Carries out the plan, and notes it."""

    def __init__(self, plan: Plan, watch: Watch, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._watch = watch
        self._say = say

    async def _wait(self, instant: float) -> None:
        await asyncio.sleep(max(0.0, instant - self._watch.now))

    def _note(self, station: str, label: str, began: float) -> None:
        self._watch.record.faults.append(Fault(station, label, began, self._watch.now))

    async def cut(self, station: str, link: Link) -> None:
        await self._wait(self._plan.cut)
        began = self._watch.now
        self._say(f"{began:5.1f} s  {station}'s link is cut")
        link.cut()
        await self._wait(self._plan.joined)
        await link.join()
        self._note(station, f"{station}'s link cut", began)
        self._say(f"{self._watch.now:5.1f} s  {station}'s link is back")

    async def kill(self, node: Node, instant: float) -> None:
        await self._wait(instant)
        began = self._watch.now
        self._say(f"{began:5.1f} s  kill -9 {node.name}")
        await node.kill()
        await asyncio.sleep(KILLED_SECONDS)
        restart = self._watch.now
        await node.start()
        self._note(node.name, f"{node.name} killed", began)
        self._say(
            f"{self._watch.now:5.1f} s  {node.name} is up again, {self._watch.now - restart:.2f} s after its restart"
        )

    def all_of(self, link: Link, cut_station: str, leaf: Node, hub: Node) -> list[Coroutine[Any, Any, None]]:
        plan = self._plan
        return [self.cut(cut_station, link), self.kill(leaf, plan.leaf_killed), self.kill(hub, plan.hub_killed)]
