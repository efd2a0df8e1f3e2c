"""The last hour: one sample each PERIOD_S in arrays of fixed size, and how far copies and consumers are behind.

    every 10 s    counters of the plane: one call, no listing
                  LOOKS_MAX mirrors, sources and consumers in turn: a round of all may take several samples

The backlog is the sum over the last whole round, so what a sample costs does not grow with the number of streams. Not
here: what the page shows of this moment (view.py).
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.copies import copies
from leafd.monitor.facts import Facts, memory_bytes
from leafd.records import dataclass
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.monitor.rooms import JetStreamAccountFacts, JetStreamFacts, StreamFacts

PERIOD_S: Final = 10.0
SAMPLES: Final = 360
COLUMNS: Final = (
    "time", "in_msgs", "out_msgs", "in_bytes", "out_bytes", "behind", "pending", "stored", "disk", "memory", "down",
)  # fmt: skip
"""Time, monotonic; rates a second; messages; bytes; how many hubs do not answer. 11 arrays of 360 numbers of 8
bytes are 31,680 bytes."""
LOOKS_MAX: Final = 64
STREAMS_MAX: Final = 1024
"""The most streams and consumers that one sample passes; most of them cost no look."""

_Place = tuple[str, str, str, int]
"""Account, stream, consumer, and how many looks it takes; no consumer for a stream of copies, and no stream where there
is nothing to look at."""


@dataclass(slots=True)
class Backlog:
    """Messages that copies are behind, and that consumers have still to get. behind: of those copies of which it is
    known; None: there are copies, and of none it is."""

    behind: int | None = 0
    pending: int = 0
    unknown: int = 0
    """Copies of which it is not known."""


class History:
    """The samples, and the backlog's rounds. run() takes them until cancelled."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.backlog = Backlog()
        self.taken = 0
        """Samples since the start."""
        self._columns = {name: array("d", bytes(8 * SAMPLES)) for name in COLUMNS}
        self._before: tuple[float, t.Stats] | None = None
        self._round: Iterator[_Place] | None = None
        self._debt = 0
        """Looks beyond LOOKS_MAX that were taken at once: a stream's sources are all asked or none."""
        self._counted = Backlog()

    @property
    def size_bytes(self) -> int:
        """The memory that the samples take."""
        return sum(len(column) * column.itemsize for column in self._columns.values())

    async def run(self) -> None:
        """A sample each PERIOD_S."""
        while True:
            with self._facts.guard.around("the status page's history"):
                await self.sample()
            await trio.sleep(PERIOD_S)

    async def sample(self) -> None:
        """One more, in the place of the oldest."""
        if self._facts.jetstream is not None:
            await self._count(self._facts.jetstream)
        stats, now = self._facts.plane.stats(), time.monotonic()
        before_s, before = self._before or (now, stats)
        self._before = now, stats
        elapsed = max(now - before_s, 1e-3)
        row: dict[str, float] = {
            name: max(getattr(stats, name) - getattr(before, name), 0) / elapsed
            for name in ("in_msgs", "out_msgs", "in_bytes", "out_bytes")
        }
        row |= {
            "time": now,
            "behind": math.nan if self.backlog.behind is None else self.backlog.behind,
            "pending": self.backlog.pending,
            "stored": stats.store_bytes,
            "disk": stats.disk_bytes,
            "memory": memory_bytes(),
            "down": sum(not one.connected and bool(one.last_error) for one in self._facts.leafs.remotes),
        }
        at = self.taken % SAMPLES
        for name, value in row.items():
            self._columns[name][at] = value
        self.taken += 1

    def since(self, taken: int, until: int) -> dict[str, list[float | None]]:
        """The samples by column, after so many up to so many, of those that are kept, the oldest first. Times are Unix
        milliseconds by the clock of today: setting it (a box boots in 1970, then NTP arrives) tears nothing apart."""
        first = max(taken, self.taken - SAMPLES, 0)
        places = [number % SAMPLES for number in range(first, min(until, self.taken))]
        found: dict[str, list[float | None]] = {
            name: [_figure(column[place]) for place in places] for name, column in self._columns.items()
        }
        began = time.time() - time.monotonic()
        found["time"] = [int((began + self._columns["time"][place]) * 1000) for place in places]
        return found

    async def _count(self, jetstream: JetStreamFacts) -> None:
        """Goes on with the round, and begins a new one when it is over."""
        if self._round is None:
            self._round, self._counted = _places(jetstream), Backlog()
        self._debt = max(self._debt - LOOKS_MAX, 0)
        if self._debt:
            return
        passed = 0
        pause = Pause()
        for account, stream, consumer, looks in self._round:
            await pause()
            if consumer:
                found = await look(jetstream, account, f"CONSUMER.INFO.{stream}.{consumer}")
                self._counted.pending += found.get("num_pending", 0)
            elif stream:
                await self._count_copies(jetstream, account, stream)
            passed, self._debt = passed + 1, self._debt + looks
            if self._debt >= LOOKS_MAX or passed >= STREAMS_MAX:
                return
        counted = self._counted
        if counted.unknown and not counted.behind:
            counted.behind = None
        self._round, self.backlog = None, counted

    async def _count_copies(self, jetstream: JetStreamFacts, account: str, stream: str) -> None:
        found = await look(jetstream, account, f"STREAM.INFO.{stream}")
        detail = {"name": stream} | {name: found[name] for name in ("mirror", "sources") if name in found}
        for copy in copies({"account_details": [{"name": account, "stream_detail": [detail]}]}):
            if copy.behind is None:
                self._counted.unknown += 1
            else:
                self._counted.behind = (self._counted.behind or 0) + copy.behind


def _figure(value: float) -> float | None:
    return None if math.isnan(value) else int(value) if value >= 100 else round(value, 2)


def _places(jetstream: JetStreamFacts) -> Iterator[_Place]:
    for account, stream in streams_of(jetstream):
        copies_of = 1 if stream.config.mirror else len(stream.config.sources)
        yield account.name, stream.name if copies_of else "", "", copies_of
        for consumer in list(stream.consumers.values()):
            if not consumer.hidden:
                yield account.name, stream.name, consumer.name, 1


def streams_of(jetstream: JetStreamFacts) -> Iterator[tuple[JetStreamAccountFacts, StreamFacts]]:
    """All streams, also while some come and go."""
    for account in list(jetstream.catalogue.by_name.values()):
        for name in list(account.streams) if account.enabled else ():
            stream = account.streams.get(name)
            if stream is not None:
                yield account, stream


async def look(jetstream: JetStreamFacts, account: str, request: str) -> dict[str, Any]:
    """The members of the API's answer; none where what is asked for went away in the meantime."""
    try:
        return await jetstream.look(account, request)
    except t.PlaneError:
        return {}
