"""A leader that tends the members of its streams' groups: one change after the other, until they are the wanted ones.

Not here: which change is next (test_membership.py).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import trio
from leafd.cluster.membership import HEARD_NS
from leafd.daemon.replicas import Replicas
from leafd.jetstream.catalogue import Stream
from leafd.native_meta import LEADER, REMOVE

OWN, OTHER, THIRD = 7, 8, 9
OLD, NEW = 90, 91


class Member(NamedTuple):
    peer: int
    disk: int
    heard_ns: int = 0
    voter: int = 1


class World:
    """A group that this server leads, and the changes that it is asked for."""

    def __init__(self, members: list[Member]) -> None:
        self.members, self.changes, self.told = members, list[tuple[int, tuple[int, int]]](), 0
        stream = SimpleNamespace(id=1, group=object(), led=True, lead=3)
        catalogue = SimpleNamespace(streams=lambda: [stream])
        meta = SimpleNamespace(peer=OWN)
        self.replicas = Replicas(
            cast("Any", self), cast("Any", meta), cast("Any", catalogue), cast("Any", None), lambda peer: None
        )
        self.replicas.look = self.look  # type: ignore[method-assign]

    async def look(self, stream: Stream) -> Any:
        return SimpleNamespace(role=LEADER, leased=1), tuple(self.members)

    async def stream_group_alter(self, stream: int, what: int, disk: tuple[int, int]) -> None:
        self.changes.append((what, disk))

    async def tend(self) -> bool:
        async def tell(stream: Stream, members: dict[int, int]) -> bool:
            self.told += 1
            return True

        return await self.replicas.tend(lambda _: {OWN: 70, OTHER: 80, THIRD: NEW}, tell)


def test_a_disk_that_was_heard_when_its_server_had_another_one_already_is_taken_out_later() -> None:
    """A server that is back within seconds with another disk was let in anew while the old one still counted as there:
    what is beside it is not what the table wants."""
    world = World([Member(OWN, 70), Member(OTHER, 80), Member(THIRD, OLD, 1), Member(THIRD, NEW)])

    async def run() -> None:
        for _ in range(3):
            await world.tend()
        assert (world.changes, world.told) == ([], 0)
        world.members[2] = Member(THIRD, OLD, HEARD_NS)
        for _ in range(2):
            await world.tend()
        assert world.changes == [(REMOVE, (THIRD, OLD))]
        del world.members[2]
        for _ in range(3):
            await world.tend()
        assert (len(world.changes), world.told) == (1, 1)

    trio.run(run)
