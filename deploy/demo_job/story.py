"""The events while the stations send: the faults, when they happen, and how far everybody is meanwhile."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from .checks import Check, cut_was_felt
from .nodes import Link, Node
from .observations import STATIONS
from .record import Fault, Record
from .streams import Counter
from .traffic import Publisher

SAMPLE_SECONDS = 0.25
KILLED_SECONDS = 3.0  # between a kill and the restart


class Watch:
    """Samples how many rows of each station the hub holds, and how many commands each leaf."""

    def __init__(self, hub: str, leaves: dict[str, Node], publishers: dict[str, Publisher]) -> None:
        self.record = Record()
        self.at_hub = dict.fromkeys(STATIONS, 0)
        self.at_leaf = dict.fromkeys(STATIONS, 0)
        self._commands = {station: Counter(leaf.url, "COMMANDS") for station, leaf in leaves.items()}
        self._counter = Counter(hub, "TELEMETRY")
        self._counted = 0.0
        self._acknowledged = dict.fromkeys(STATIONS, 0)  # as they were when the hub was last counted
        self._publishers = publishers
        self._began = asyncio.get_running_loop().time()
        self.ended = False  # a cancellation alone is not enough: where an answer comes at that moment, it is swallowed

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def pace(self, station: str) -> tuple[int, float]:
        """How many rows a station sends, within how many seconds."""
        publisher = self._publishers[station]
        return publisher.total, publisher.seconds

    async def count(self) -> None:
        """Ask the hub, again and again. While it is down its last known counts stand, as they do on its disk."""
        while not self.ended:
            counts = await self._counter.counts()
            if counts is not None:
                self._counted = self.now
                for station in STATIONS:
                    self._acknowledged[station] = self._publishers[station].acknowledged
                    self.at_hub[station] = sum(n for subject, n in counts.items() if subject.split(".")[1] == station)
            await asyncio.sleep(SAMPLE_SECONDS)

    async def count_commands(self, station: str) -> None:
        """The same of a leaf's mirror of its commands."""
        while not self.ended:
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


class Faults(ABC):
    """The faults meanwhile. Each kind of hub has its own."""

    def __init__(self, watch: Watch, say: Callable[[str], None]) -> None:
        self._watch = watch
        self._say = say

    async def _wait(self, instant: float) -> None:
        await asyncio.sleep(max(0.0, instant - self._watch.now))

    def _note(self, station: str, label: str, began: float) -> None:
        self._watch.record.faults.append(Fault(station, label, began, self._watch.now))

    async def _kill(self, nodes: list[Node], concerned: str, what: str, dark: Coroutine[Any, Any, None]) -> None:
        """kill -9, a time without them, and their restart. concerned: a station, or "hub" for each of them."""
        began = self._watch.now
        self._say(f"{began:5.1f} s  kill -9 {what}")
        await asyncio.gather(*(node.kill() for node in nodes))
        await dark
        restart = self._watch.now
        await asyncio.gather(*(node.start() for node in nodes))
        self._note(concerned, f"{what} killed", began)
        self._say(f"{self._watch.now:5.1f} s  {what} is up again, {self._watch.now - restart:.2f} s after its restart")

    @abstractmethod
    def work(self) -> list[Coroutine[Any, Any, None]]:
        """All of it, to be run beside the sending."""

    @abstractmethod
    def felt(self) -> list[Check]:
        """Whether what was broken was missed: a fault that nobody noticed shows nothing."""


class HubFaults(Faults):
    """A link that is cut, a leaf and a lone hub that are killed."""

    def __init__(
        self, watch: Watch, say: Callable[[str], None], plan: Plan, cut: tuple[str, Link], leaf: Node, hub: Node
    ) -> None:
        super().__init__(watch, say)
        self._plan = plan
        self._station, self._link = cut
        self._leaf = leaf
        self._hub = hub

    async def _cut(self) -> None:
        await self._wait(self._plan.cut)
        began = self._watch.now
        self._say(f"{began:5.1f} s  {self._station}'s link is cut")
        self._link.cut()
        await self._wait(self._plan.joined)
        await self._link.join()
        self._note(self._station, f"{self._station}'s link cut", began)
        self._say(f"{self._watch.now:5.1f} s  {self._station}'s link is back")

    async def _kill_at(self, instant: float, node: Node) -> None:
        await self._wait(instant)
        await self._kill([node], node.name, node.name, asyncio.sleep(KILLED_SECONDS))

    def work(self) -> list[Coroutine[Any, Any, None]]:
        plan = self._plan
        return [self._cut(), self._kill_at(plan.leaf_killed, self._leaf), self._kill_at(plan.hub_killed, self._hub)]

    def felt(self) -> list[Check]:
        return [cut_was_felt(self._watch.record, self._station, *self._watch.pace(self._station))]
