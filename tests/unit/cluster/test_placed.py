"""daemon/placed.py: the streams of other servers, as the plane is told of them, and when these are all there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import trio
import trio.testing
from leafd import native_types as t
from leafd.cluster.table import StreamRow
from leafd.daemon.placed import Placed
from leafd.guard import Guard
from leafd.jetstream.models.stream import StreamConfig

OWN, OTHER = 1, 2


class Plane:
    """Writes down what it is told; refuses as often as it is to."""

    def __init__(self, refusals: int = 0) -> None:
        self.said: list[Any] = []
        self._refusals = refusals

    async def placed(self, account: str, stream: str, subjects: tuple[str, ...]) -> None:
        await trio.lowlevel.checkpoint()
        if self._refusals:
            self._refusals -= 1
            raise t.PlaneError(t.Status.NO_MEMORY, "no memory")
        self.said.append((account, stream, subjects))

    def placed_known(self, *, known: bool) -> None:
        self.said.append(known)


class World:
    """A server of cluster C, that nobody leads until `led` is set."""

    def __init__(self, refusals: int = 0) -> None:
        self.plane, self.led = Plane(refusals), trio.Event()
        self.left: list[Callable[[], None]] = []
        meta = SimpleNamespace(peer=OWN, on_left=self.left, look=trio.lowlevel.checkpoint)
        placing = SimpleNamespace(follow=None, until_led=self.led.wait)
        current = SimpleNamespace(config=SimpleNamespace(cluster=SimpleNamespace(name="C"), gateway=None))
        self.placed = Placed(self.plane, meta, placing, current)  # type: ignore[arg-type]
        self.guard = Guard()

    def follow(self, name: str, *, peer: int = OTHER, cluster: str = "C", shared: bool = False, **config: Any) -> None:
        members = ((OWN, 1), (OTHER, 1)) if shared else ()
        row = StreamRow("A", name, peer=peer, cluster=cluster, members=members)
        self.placed.follow(row, StreamConfig(name=name, subjects=(f"{name}.>",), **config))

    def run(self, walk: Callable[[], Awaitable[None]]) -> list[Any]:
        """What the plane was told in the walk."""

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.placed.run, self.guard)
                await walk()
                nursery.cancel_scope.cancel()

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        return self.plane.said


def test_streams_are_said_that_other_servers_have_and_answer_for() -> None:
    """One of several servers is said also where this one is among them: another one may lead it."""
    world = World()
    world.follow("other")
    world.follow("own", peer=OWN)
    world.follow("shared", peer=OWN, shared=True)
    world.follow("silent", no_ack=True)
    world.follow("away", cluster="D")

    async def walk() -> None:
        await trio.sleep(5)
        assert [False] == world.plane.said
        world.led.set()
        await trio.sleep(5)
        world.placed.follow(StreamRow("A", "other"), None)
        await trio.sleep(5)

    said = world.run(walk)

    assert [("A", "other", ("other.>",)), ("A", "shared", ("shared.>",))] == sorted(said[1:3])
    assert [True, ("A", "other", ())] == said[3:]


def test_until_the_plane_has_taken_all_it_is_told_that_there_are_more() -> None:
    """What it had no memory for is said again."""
    world = World(refusals=2)
    world.led.set()
    world.follow("other")

    async def walk() -> None:
        await trio.sleep(1.5)
        assert [False] == world.plane.said
        await trio.sleep(1.5)

    assert [False, ("A", "other", ("other.>",)), True] == world.run(walk)
    assert 2 == world.guard.total


def test_in_another_group_of_servers_nothing_is_known_again() -> None:
    """What the former group had is taken back first."""
    world = World()
    world.led.set()
    world.follow("other")

    async def walk() -> None:
        await trio.sleep(1)
        for callback in world.left:
            callback()
        await trio.sleep(1)

    assert [False, ("A", "other", ()), True] == world.run(walk)[-3:]
