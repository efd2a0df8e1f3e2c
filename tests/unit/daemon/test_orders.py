"""Orders of the system account to the group of all servers, at the server that leads it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from leafd import native_types as t
from leafd.cluster.council import MEMBER_ROW, REMOVE, banned_row
from leafd.cluster.founding import Disk
from leafd.cluster.placement import Site
from leafd.daemon.meta_group import MetaGroup
from leafd.daemon.moves import Moves
from leafd.daemon.orders import Orders
from leafd.host.log import Log
from leafd.native_meta import MetaMember
from leafd.native_plane import Plane

from tests.rig.fakes import stand_in
from tests.rig.logs import KeptLog

OWN = 1
STEPDOWN, REMOVED, EVACUATED = (
    ["META", "LEADER", "STEPDOWN"], ["SERVER", "REMOVE"], ["SERVER", "EVACUATE"],
)  # fmt: skip
SITES = {1: Site("s1", "east"), 2: Site("s2", "east", ("ssd",)), 3: Site("s3", "west"), 4: Site("s4", "west")}


def member(peer: int, lag: int = 0, voter: int = 1) -> MetaMember:
    return MetaMember(peer, 100 + peer, lag, 0, voter, 0)


class Meta:
    """The group as its leader sees it."""

    def __init__(self) -> None:
        self.peer = self._leader = OWN
        self._members: tuple[MetaMember, ...] = (member(1), member(2, lag=9), member(3, lag=4), member(4, voter=0))
        self._written: list[tuple[bytes, bytes | None]] = []

    @property
    def leads(self) -> bool:
        return self._leader == OWN

    @property
    def leader(self) -> int:
        return self._leader

    @property
    def members(self) -> tuple[MetaMember, ...]:
        return self._members

    def named(self, peer: int) -> str:
        return f"s{peer}"

    def patience(self, seconds: float) -> float:
        return seconds

    async def look(self) -> None: ...


class World:
    """The orders of that group's leader, and what became of them."""

    def __init__(self) -> None:
        self.meta, self.log = Meta(), KeptLog()
        self.written: list[tuple[bytes, bytes | None]] = []
        self.altered: list[tuple[int, Disk]] = []
        self.handed: list[tuple[int, bool]] = []
        self.left, self.short = 0, 0
        self.later: list[Callable[[], Awaitable[object]]] = []
        meta: Any = stand_in(MetaGroup, self.meta)
        meta.write = self.write
        plane, nobody = cast(Plane, self), cast(Moves, None)
        self.orders = Orders(meta, plane, SITES.get, self.hand_on, self.later.append, cast(Log, self.log), nobody)

    async def write(self, key: bytes, value: bytes | None, revision: int) -> None:
        self.written.append((key, value))

    async def meta_transfer(self, peer: int) -> None:
        if peer == 99:
            raise t.PlaneError(t.Status.CLOSED, "another leads")
        self.meta._leader = peer

    async def meta_alter(self, change: int, disk: Disk) -> None:
        self.altered.append((change, disk))

    async def hand_on(self, peer: int, *, moves: bool = False) -> tuple[int, int]:
        self.handed.append((peer, moves))
        return self.left, self.short

    def order(self, tokens: list[str], body: object = None) -> dict[str, Any]:
        text = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

        async def run() -> dict[str, Any]:
            with trio.fail_after(5):
                found = await self.orders.carry_out(tokens, text)
                for follow in self.later:
                    await follow()
            return found

        return trio.run(run)


def test_the_lead_goes_to_the_voter_that_lags_least() -> None:
    """One that is being let in leads nobody."""
    world = World()
    answer = world.order(STEPDOWN)
    assert {"type": "io.nats.jetstream.api.v1.meta_leader_stepdown_response", "success": True} == answer
    assert 3 == world.meta.leader


@pytest.mark.parametrize(
    ("placement", "leader"),
    [({"cluster": "east"}, 2), ({"tags": ["SSD"]}, 2), ({"preferred": "s2"}, 2), (None, 3), ("nonsense", 3)],
)
def test_a_placement_chooses_among_them(placement: object, leader: int) -> None:
    """By cluster, tags, or name, as nats-server reads it; what is no placement is none."""
    world = World()
    assert world.order(STEPDOWN, {"placement": placement})["success"]
    assert leader == world.meta.leader


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        ({"preferred": "s9"}, 'preferred server "s9" not known'),
        ({"preferred": "s4"}, "no replacement peer connected"),
        ({"cluster": "north"}, "no replacement peer connected"),
    ],
)
def test_a_placement_that_nobody_fits_changes_nothing(placement: object, said: str) -> None:
    """In the words of nats-server."""
    world = World()
    error = world.order(STEPDOWN, {"placement": placement})["error"]
    assert (10005, said) == (error["err_code"], error["description"])
    assert OWN == world.meta.leader


def test_who_does_not_lead_says_so() -> None:
    """A request may come where the lead was a moment ago."""
    world = World()
    world.meta._leader = 2
    assert 10008 == world.order(REMOVED, {"peer": "s3"})["error"]["err_code"]
    assert ([], []) == (world.written, world.altered)


def test_a_removed_server_is_kept_out_before_it_is_no_member() -> None:
    """Else it would ask to be let in again in between. Others keep its streams from then on."""
    world = World()
    assert world.order(REMOVED, {"peer": "s3"})["success"]
    disk = Disk(3, 103)
    assert [(banned_row(disk), b'"s3"'), (MEMBER_ROW + (3).to_bytes(8, "big"), None)] == world.written
    assert [(REMOVE, disk)] == world.altered
    assert [(3, False)] == world.handed


def test_who_takes_itself_out_hands_its_streams_on_first() -> None:
    """It leads no more in a moment, and then nobody here could."""
    world = World()
    assert world.order(REMOVED, {"peer": "s1"})["success"]
    assert (1, False) == world.handed[0]


def test_a_server_is_named_by_its_number_too() -> None:
    """peer_id, which counts where both are given: two servers may have had one name."""
    world = World()
    assert world.order(REMOVED, {"peer": "s3", "peer_id": (2).to_bytes(8, "big").decode()})["success"]
    assert [(REMOVE, Disk(2, 102))] == world.altered


@pytest.mark.parametrize(
    ("body", "code"), [(b"", 10003), (b" ", 10003), (b"{", 10025), ({"peer": "s9"}, 10044), ({}, 10044)]
)
def test_a_wrong_order_is_refused_and_changes_nothing(body: object, code: int) -> None:
    """10003 bad request, 10025 invalid JSON, 10044 server is not a member of the cluster."""
    world = World()
    for tokens in (REMOVED, EVACUATED):
        assert code == world.order(tokens, body)["error"]["err_code"]
    assert ([], [], []) == (world.written, world.altered, world.handed)


def test_streams_that_an_evacuation_leaves_behind_are_told() -> None:
    """The order was answered long before; the log is all that there is."""
    world = World()
    world.left, world.short = 2, 3
    assert world.order(EVACUATED, {"peer": "s2"})["success"]
    assert [(2, True)] == world.handed
    assert [
        "2 streams stay on s2, which was to be evacuated: no other server can take them",
        "3 streams have a replica less, since s2 was evacuated: no other server can take its place",
    ] == world.log.texts
