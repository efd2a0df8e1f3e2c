"""A plane that only writes down what it is told, and replicas that it drives; time is trio's mock clock."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import trio
import trio.testing
from leafd import native_types as t
from leafd.links import leaf
from leafd.links.link import Link
from leafd.links.origin import Origin
from leafd.links.replica import Slot
from leafd.links.replicas import Replicas

from tests.rig.logs import QuietLog
from tests.rig.planes import Unwilling

ORIGIN = Origin("ORDERS", "$JS.hub.API")
SLOT = Slot(10, "AGG", 2, "A", 1, False, ORIGIN, "leaf", "JS_SRC_x")


class FakePlane(Unwilling):
    """Writes down calls; `reachable` decides whether a create is heard."""

    def __init__(self) -> None:
        super().__init__()
        self.reachable = True
        self.looks: list[tuple[float, str]] = []
        self.told: dict[str, int] = {}
        """Which link alone is told of a subject."""
        self.handlers: dict[int, tuple[str, t.Handler]] = {}
        self.requests: list[tuple[float, str, dict[str, Any], str]] = []
        self.calls: list[tuple[Any, ...]] = []
        self.flags: dict[int, int] = {}
        self.untold: list[int] = []
        """The links that requests may go out by before the other end has said what it wants."""
        self.repaid: list[t.Message] = []
        self.started: dict[str, int] = {}
        """Of the newest start: what only some tests look at."""
        self.sequence = 0
        self.arriving = 0
        """What comes between any question about a slot and its end."""
        self.lag = 0
        self.broken: set[str] = set()
        self.state_status = t.Status.OK
        self.busy: trio.Event | None = None
        """Until it is set, requests are not carried out."""
        self.trips: dict[int, float] = {}
        """The round trips of links now, in seconds."""
        self.measured: list[float] = []
        """When they were looked at."""

    def subscribe(
        self,
        account: int,
        subject: str,
        handler: t.Handler,
        *,
        queue: str = "",
        flags: int = 0,
        link: int = 0,
    ) -> int:
        self.handlers[len(self.handlers) + 1] = (subject, handler)
        self.flags[len(self.handlers)] = flags
        self.told[subject] = link
        return len(self.handlers)

    async def reaches(self, account: int, subject: str) -> bool:
        if self.busy is not None:
            await self.busy.wait()
        self.looks.append((trio.current_time(), subject))
        return self.reachable

    def unsubscribe(self, account: int, subscription: int) -> None:
        self.handlers[subscription] = ("", lambda message: None)

    async def publish_counted(
        self,
        account: int,
        subject: str,
        payload: bytes,
        *,
        reply: str = "",
        header: bytes = b"",
        flags: int = 0,
        link: int = 0,
    ) -> int:
        self.untold.append(link)
        if self.busy is not None:
            await self.busy.wait()
        self.requests.append((trio.current_time(), subject, json.loads(payload or b"{}"), reply))
        return int(self.reachable)

    def publish(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> None:
        self.calls.append(("publish", subject))

    def repay(self, message: t.Message) -> None:
        self.repaid.append(message)

    def fail_if_broken(self, what: str) -> None:
        if what in self.broken:
            raise t.PlaneError(1, f"{what}: out of memory")

    async def ingest_start(
        self,
        stream: int,
        slot: int,
        *,
        mirror: bool,
        durable_behind: int | None,
        last_sequence: int,
        silence_ns: int,
        deliver_subject: str,
        consumer: str,
        source: t.IngestSource,
        transforms: Iterable[tuple[str, str]] = (),
        link: int = 0,
        origin: int = 0,
        alone: bool = False,
        begins: int = t.IngestAt.NEXT,
        pending: int | None = None,
        spared: bool = False,
        span: t.Span = t.NO_SPAN,
    ) -> None:
        self.told[deliver_subject] = link if alone else 0
        self.fail_if_broken("start")
        if "position" in self.broken:
            raise t.PlaneError(t.Status.CORRUPT, "starting a source")
        self.started = {"silence_ns": silence_ns, "spared": spared, "repaid": len(self.repaid)}
        parts = {"last_sequence": last_sequence, "consumer": consumer, "source": source, "behind": durable_behind}
        parts["origin"] = origin
        self.span = span
        self.calls.append(("start", stream, slot, parts))

    async def ingest_stop(self, stream: int, slot: int) -> t.IngestState:
        self.fail_if_broken("stop")
        self.calls.append(("stop", stream, slot))
        self.sequence += self.arriving
        return t.IngestState(self.sequence, 0, self.lag, 0, 4, 800, 0, known_ns=2_000_000_000)

    async def ingest_states(self, slots: Sequence[tuple[int, int]]) -> list[t.IngestState | None]:
        self.fail_if_broken("state")
        if self.state_status not in (t.Status.OK, t.Status.NOT_FOUND):
            raise t.PlaneError(self.state_status, "reading ingests' states")
        state = t.IngestState(self.sequence, 0, self.lag, 0, 0, 0, 1, known_ns=0, pace_milli=25_500)
        return [state if self.state_status == t.Status.OK else None for _ in slots]

    async def connections(self) -> list[t.ConnectionRow]:
        self.measured.append(trio.current_time())
        row = t.ConnectionRow(*[0] * 16)
        return [replace(row, connection=number, trip_ns=round(s * 1e9)) for number, s in self.trips.items()]

    async def ingest_forget(self, stream: int, key: str) -> None:
        self.calls.append(("forget", stream, key))

    async def ingest_stand(self, stream: int, key: str, sequence: int) -> None:
        self.calls.append(("stand", stream, key, sequence))

    async def record_put(self, key: bytes, value: bytes) -> None:
        self.calls.append(("record", key, value))

    def deliver(self, subject: str) -> None:
        """A message comes on that subject, for whoever listens there."""
        for heard, handler in list(self.handlers.values()):
            if heard == subject:
                handler(t.Message(1, 2, 5, 2, subject, "", b"", b""))

    def answer(self, body: dict[str, Any], header: bytes = b"", at: int = -1, connection: int = 5) -> None:
        """Answers the newest request, or another one, as its origin would; connection: whose answer it is."""
        reply = self.requests[at][3]
        for subject, handler in list(self.handlers.values()):
            if subject == reply:
                handler(t.Message(1, 2, connection, 2, reply, "", header, json.dumps(body).encode()))


@asynccontextmanager
async def driven(plane: FakePlane) -> AsyncIterator[Replicas]:
    replicas = Replicas(plane, QuietLog())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replicas.run)
        yield replicas
        nursery.cancel_scope.cancel()


def link_to(domain: str, account: int = 2, *, orderly: bool = False) -> Link:
    bind = leaf.Bind(
        account, "A", True, t.Permissions(), "", domain, "hub", "N", "A", True, 1 << 20, False, orderly=orderly
    )
    machine = leaf.Solicitor(leaf.Identity("N", "n", "2.15.1"), leaf.Remote((), account, "A"), "", "")
    return Link(5, "h:1", machine, bind=bind)


def on_mock_clock(test: Callable[[FakePlane, Replicas], Awaitable[None]]) -> Callable[[], None]:
    """A test with a plane and driven replicas of its own, where sleeping takes no time."""

    async def play() -> None:
        plane = FakePlane()
        async with driven(plane) as replicas:
            await test(plane, replicas)

    @functools.wraps(test)
    def run() -> None:
        trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))

    del run.__wrapped__  # pytest would look for fixtures called plane and replicas
    return run


async def take_up(plane: FakePlane, replicas: Replicas, slot: Slot = SLOT, consumer: str = "c") -> None:
    """The slot asks, its origin answers with a consumer, and the ingest runs."""
    replicas.set_slots(slot.stream, [slot])
    await trio.testing.wait_all_tasks_blocked()
    plane.answer({"name": consumer})
    await trio.testing.wait_all_tasks_blocked()
