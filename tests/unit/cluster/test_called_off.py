"""A change of a stream's servers is called off: what came about before it was asked for is no part of that.

The group of all servers is a fake, which this server leads, and so is the stream's. Not here: which servers keep a
stream then (test_sharing.py), real servers (tests/interop/test_evacuated.py).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from leafd.cluster.placement import Site, Spread
from leafd.cluster.table import StreamRow
from leafd.daemon.moves import Moves
from leafd.daemon.placing import Placing
from leafd.daemon.stream_rows import Sharing
from leafd.gojson import decode
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.stream import StreamConfig
from leafd.native_meta import LEADER

from tests.rig.fakes import at_once
from tests.rig.logs import KeptLog

OWN, OTHER, THIRD = 7, 8, 9
DISKS = {OWN: 70, OTHER: 80, THIRD: 90}
SERVERS = {peer: (disk, Site(f"n{peer}", "c", free=100, streams=peer)) for peer, disk in DISKS.items()}
ROW = StreamRow("A", "S", OWN, "n7", "c", 5, "author", {"name": "S", "num_replicas": 1}, (), 9)


class World:
    """A server that leads both groups. members: of the stream's group."""

    def __init__(self) -> None:
        self.members, self.revision = dict[int, int](), ROW.revision
        everybody = [SimpleNamespace(peer=peer, disk=disk) for peer, disk in DISKS.items()]
        meta = SimpleNamespace(peer=OWN, leader=OWN, decider=OWN, decides=True, unread=0, on_rows=[], on_left=[])
        meta.members, meta.linked, meta.write, meta.rescued = everybody, dict, self._write, None
        meta.patience = lambda seconds: seconds
        meta.soon, meta.is_new = at_once, False
        self.account = SimpleNamespace(name="A", streams={}, enabled=True)
        catalogue = SimpleNamespace(by_name={"A": self.account}, streams=list, known=self._known)
        jetstream = SimpleNamespace(catalogue=catalogue, settings=None, place_by=lambda _: None)
        fakes: list[Any] = [SimpleNamespace(meta_send=None), meta, None, jetstream, KeptLog(), None]
        self.placing = Placing(*fakes)
        self.placing._shared = self._found  # type: ignore[method-assign]
        self.placing._check_limits = self._unlimited  # type: ignore[method-assign]
        self.placing._site = lambda: SERVERS[OWN][1]  # type: ignore[method-assign]
        self.placing.replicas.look = self._look  # type: ignore[method-assign]
        self.placing.table.put(ROW)
        self.moves = Moves(
            meta,  # type: ignore[arg-type]
            catalogue,  # type: ignore[arg-type]
            lambda: self.placing.table,
            lambda peer: SERVERS[peer][1],
            self.placing._ask_leader,
            self.placing._leaders.of,
            self.placing.members.arrived_at,
        )

    async def _known(self, name: str) -> Any:
        return self.account

    async def _unlimited(self, row: StreamRow, before: StreamRow | None = None) -> None:
        pass

    async def _write(self, key: bytes, value: bytes, revision: int) -> int:
        assert revision == self.revision
        self.revision += 1
        return self.revision

    def _found(self, row: StreamRow, how: Sharing) -> StreamRow:
        return how.found(row, SERVERS, [], Spread())

    async def _look(self, stream: Any) -> Any:
        about = {"voter": 1, "heard_ns": 0, "lag": 0}
        members = [SimpleNamespace(peer=peer, disk=disk, **about) for peer, disk in self.members.items()]
        return SimpleNamespace(role=LEADER, leased=1, leader=OWN), tuple(members)

    @property
    def row(self) -> StreamRow:
        return self.placing.table.streams["A"]["S"]

    @property
    def replicas(self) -> int:
        """As the stream's configuration has it."""
        assert self.row.config is not None
        return int(self.row.config.get("num_replicas", 1))

    async def resize(self, count: int) -> None:
        """The stream's server is asked for so many replicas."""
        config = decode(StreamConfig, b'{"name":"S","num_replicas":%d}' % count, strict=False)
        await self.placing.change("A", config, ROW.created, "author")
        group = SimpleNamespace(name=self.row.group)
        self.account.streams["S"] = SimpleNamespace(account=self.account, name="S", created=5, group=group, led=True)

    async def call_off(self, order: bool) -> None:
        """By the account itself, or by an order of the system account."""
        if order:
            await self.moves.carry_out(["ACCOUNT", "STREAM", "CANCEL_MOVE", "A", "S"], b"")
        else:
            await self.placing.call_off(self.account.streams["S"])


@pytest.mark.parametrize("order", [False, True])
def test_a_change_after_one_that_is_carried_out_is_taken_back_alone(order: bool) -> None:
    """Also when the table has not been told yet that the first one is: its leader tells it with the second one."""

    async def run() -> None:
        world = World()
        await world.resize(2)
        assert len(world.row.members) == 2
        world.members = dict(world.row.members)  # both have it, and the group has not been tended since
        await world.resize(3)
        assert len(world.row.members) == 3
        await world.call_off(order)
        assert (world.replicas, set(dict(world.row.members))) == (2, world.members.keys())

    trio.run(run)


@pytest.mark.parametrize("order", [False, True])
def test_a_change_that_is_carried_out_is_not_taken_back(order: bool) -> None:
    """There is none under way."""

    async def run() -> None:
        world = World()
        await world.resize(2)
        world.members = dict(world.row.members)
        with pytest.raises(ApiError) as refused:
            await world.call_off(order)
        assert refused.value.err_code == 10129
        assert world.replicas == 2

    trio.run(run)


@pytest.mark.parametrize("order", [False, True])
def test_two_changes_of_which_none_is_carried_out_are_taken_back_together(order: bool) -> None:
    """The second server has yet to get what the first one has."""

    async def run() -> None:
        world = World()
        await world.resize(2)
        world.members = {OWN: DISKS[OWN]}
        await world.resize(3)
        await world.call_off(order)
        assert (world.replicas, world.row.peers) == (1, (OWN,))

    trio.run(run)
