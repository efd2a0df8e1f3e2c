"""What a server does with rows of the servers' table that it cannot read: it says so, and puts nothing in their place.

The group of all servers is a fake here, which has what the test says. Not here: rows themselves (test_table.py),
streams of real servers (tests/interop/test_placed_streams.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing
from leafd.cluster.placement import Site, Wish, choose_more
from leafd.cluster.table import StreamRow, write_row
from leafd.daemon.meta_group import MetaGroup
from leafd.daemon.placing import NOT_LEADER, Placing
from leafd.guard import Guard
from leafd.jetstream.errors import ApiError

from tests.rig.fakes import at_once
from tests.rig.logs import KeptLog

OWN = 7
ROW = StreamRow("A", "S", OWN, "n1", "east", 5, "author", {"name": "S", "subjects": ["s"]}, (), 9)
WRONG = write_row(replace(ROW, config={"name": "S", "subjects": 1}))


class World:
    """One server that leads, its table as the group has it, and what it logs."""

    def __init__(self) -> None:
        self.log = KeptLog()
        self.meta = SimpleNamespace(peer=OWN, leader=OWN, decides=True, unread=0, on_rows=[], take_letter=None)
        self.meta.decider, self.meta.linked, self.meta.on_left = OWN, list, []
        self.meta.patience = lambda seconds: seconds
        self.meta.soon, self.meta.is_new = at_once, False
        self.meta.look = at_once
        jetstream = SimpleNamespace(
            catalogue=SimpleNamespace(by_name={}, streams=lambda: ()), settings=None, place_by=lambda _: None
        )
        plane = SimpleNamespace(meta_send=None)
        fakes: list[Any] = [plane, self.meta, None, jetstream, self.log, None]
        self.placing = Placing(*fakes)

    def take(self, value: bytes, revision: int) -> None:
        """The group's table has that row, and no other."""
        for take in self.meta.on_rows:
            take({ROW.key: (revision, value)}, revision)

    async def refusal_of(self, op: str, name: str) -> int:
        """The error with which the leader refuses a change; 0: it does not."""
        config = {"name": name, "subjects": [name]}
        wish = {"op": op, "account": "A", "name": name, "config": config, "author": "", "created": 6}
        wish |= {"peer": 8, "server": "n2", "cluster": "west"}
        found = await self.placing._decide(wish)
        return int(found["error"]["err_code"]) if "error" in found else 0


@pytest.mark.parametrize("value", [b"{", WRONG], ids=["no row", "no configuration"])
def test_a_stream_whose_row_cannot_be_read_is_offline_and_its_name_is_nobody_elses(value: bytes) -> None:
    """Clients hear why, the log says it once, and no stream is made whose subjects it may have."""

    async def run() -> None:
        world = World()
        world.take(write_row(ROW), 9)
        assert await world.placing.server_of("A", "S") == OWN
        world.take(value, 10)
        world.take(value, 11)
        with pytest.raises(ApiError) as refused:
            await world.placing.server_of("A", "S")
        assert refused.value.fields()["err_code"] == 10194
        assert [await world.refusal_of(op, "S") for op in ("claim", "change", "drop", "where")] == [10194] * 4
        assert [await world.refusal_of(op, "T") for op in ("claim", "change")] == [10008] * 2
        assert await world.refusal_of("where", "T") == 0
        assert [text for text in world.log.texts if "cannot be read by this version" in text] == world.log.texts[:1]
        assert world.meta.unread == 1

    trio.run(run)


def test_a_stream_whose_row_can_be_read_again_is_there_again() -> None:
    """The version that wrote it may be installed here while the server is away."""

    async def run() -> None:
        world = World()
        world.take(WRONG, 9)
        assert world.meta.unread == 1
        world.take(write_row(ROW), 10)
        assert await world.placing.server_of("A", "S") == OWN
        assert world.meta.unread == 0
        assert await world.refusal_of("claim", "S") != 10194

    trio.run(run)


def test_healthz_is_not_well_while_rows_cannot_be_read() -> None:
    """Who watches a server hears of it without its log."""
    group = MetaGroup.__new__(MetaGroup)
    group._look = cast("Any", SimpleNamespace(leader=OWN))
    group.unread = 2
    assert group.unwell == "2 of the servers' streams cannot be read"
    group.unread = 0
    assert group.unwell == ""


def test_who_led_a_moment_ago_is_asked_while_its_beats_are_late() -> None:
    """As long as a silent server is taken for one that is there, and only while a way leads to it; not this server
    itself, which knows that it leads no more."""

    async def run() -> None:
        group = MetaGroup.__new__(MetaGroup)
        group.peer, group._led = OWN, (8, trio.current_time())
        group._neighbours = cast("Any", SimpleNamespace(linked={8: "n2", 9: "n3"}))
        group._look = cast("Any", SimpleNamespace(leader=9))
        assert group.decider == 9
        group._look = cast("Any", SimpleNamespace(leader=0))
        assert (group.leader, group.decider) == (0, 8)
        group._neighbours.linked = {9: "n3"}
        assert group.decider == 0
        group._neighbours.linked = {8: "n2"}
        await trio.sleep(4.9)
        assert group.decider == 8
        await trio.sleep(0.2)
        assert group.decider == 0
        group._led = OWN, trio.current_time()
        assert group.decider == 0

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def test_streams_of_a_burst_go_to_different_servers() -> None:
    """How many streams a server has is what the table says: what servers tell of themselves is a second old."""
    world, servers = World(), range(8, 13)
    told = {peer: Site(f"n{peer}", "c", free=1 << 30) for peer in servers}
    presence = SimpleNamespace(is_new=lambda peer: False, is_there=lambda peer, now: True, site=told.__getitem__)
    world.placing._presence = cast("Any", presence)
    world.meta.linked = lambda: told
    world.placing._site = lambda: Site("n7", "c", free=1 << 30)  # type: ignore[method-assign]

    async def run() -> None:
        for number in range(10):
            first, *others = [world.placing._site_of(peer) for peer in servers]
            assert first is not None
            chosen = choose_more(Wish(replicas=3), first, [one for one in others if one is not None], 3)
            members = tuple((int(one.name[1:]), 1) for one in chosen if isinstance(one, Site))
            assert len(members) == 3
            row = StreamRow("A", f"S{number}", 8, config={"name": f"S{number}"}, revision=9, members=members)
            world.placing._put(row)
        found = {peer: world.placing.table.kept(peer).shared for peer in servers}
        assert found == {8: 10, 9: 5, 10: 5, 11: 5, 12: 5}

    trio.run(run)


def test_a_client_waits_for_an_election_and_is_refused_when_there_has_been_no_leader_for_long() -> None:
    """Four seconds from when this server knew the group first, or its leader went: less than clients wait."""

    async def run() -> None:
        group = MetaGroup.__new__(MetaGroup)
        group._stands_since, ready = trio.current_time(), list[int]()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.soon, lambda: ready)
            await trio.sleep(2)
            ready.append(1)
            begun = trio.current_time()
        assert trio.current_time() - begun < 0.2
        ready.clear()
        await group.soon(lambda: ready)
        assert 3.9 < trio.current_time() - group._stands_since < 4.2
        begun = trio.current_time()
        await group.soon(lambda: ready)
        assert trio.current_time() == begun

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_change_is_asked_for_again_while_the_leader_is_new() -> None:
    """One that has just been elected has still to see its table whole."""

    async def run() -> None:
        world, asked = World(), list[float]()

        async def decide(wish: Mapping[str, Any]) -> dict[str, Any]:
            asked.append(trio.current_time())
            return NOT_LEADER

        world.placing._decide = decide  # type: ignore[method-assign]
        for is_new, times in ((False, 4), (True, 16)):
            world.meta.is_new = is_new
            asked.clear()
            with pytest.raises(ApiError, match="temporarily unavailable"):
                await world.placing._ask_leader({})
            assert len(asked) == times

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def test_rows_of_before_a_leader_are_carried_out_when_there_is_one() -> None:
    """Nothing else has to happen: a server that starts would stand still for a while, else."""

    async def run() -> None:
        world, tried = World(), list[tuple[float, StreamRow]]()

        async def settle(row: StreamRow) -> bool:
            tried.append((trio.current_time(), row))
            return True

        world.placing._settle = settle  # type: ignore[method-assign]
        world.placing._guard = Guard()
        world.meta.leader = 0
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.placing._reconcile)
            world.take(write_row(ROW), 9)
            await trio.sleep(1)
            assert not tried
            world.meta.leader = 8
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        assert [row for _, row in tried] == [ROW]
        assert tried[0][0] - begun < 2

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
