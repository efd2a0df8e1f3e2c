"""A server's part in the group of all servers: founding over letters, promises before words, who is let in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from leafd.cluster.council import LEARN, PROMOTE, REMOVE, Council, Ports, banned_row, group_name, names_in
from leafd.cluster.founding import Disk, Founded
from leafd.cluster.founding_bytes import DamagedError, write_message

NAMES = {peer: f"s{peer}" for peer in (1, 2, 3, 4)}


@dataclass
class Member:
    """As the plane shows it."""

    peer: int
    disk: int
    voter: int = 1
    heard_ns: int = 0


@dataclass
class World:
    """Servers whose letters arrive with the next tick."""

    councils: dict[int, Council] = field(default_factory=dict)
    records: dict[int, bytes] = field(default_factory=dict)
    founded: dict[int, tuple[int, tuple[Disk, ...]]] = field(default_factory=dict)
    altered: list[tuple[int, Disk]] = field(default_factory=list)
    rows: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    post: list[tuple[int, int, bytes]] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    full: set[int] = field(default_factory=set)

    def start(self, peer: int, disk: int = 0, *, there: bool = False) -> Council:
        """A server with this disk, and what its record says."""

        async def save(record: bytes) -> bool:
            if peer in self.full:
                return False
            self.records[peer] = record
            return True

        async def found(name: int, members: tuple[Disk, ...]) -> bool:
            self.founded[peer] = name, members
            return True

        async def alter(change: int, member: Disk) -> bool:
            self.altered.append((change, member))
            return True

        async def put(key: bytes, value: bytes, revision: int) -> bool:
            assert self.rows.get(key, (0, b""))[0] == revision
            self.rows[key] = revision + 1, value
            return True

        ports = Ports(
            lambda: {one: NAMES[one] for one in self.councils if one != peer},
            lambda to, data: self.post.append((peer, to, data)),
            save,
            found,
            alter,
            put,
            lambda: peer / 10,
            self.warned.append,
        )
        own = Disk(peer, disk or peer * 10)
        self.councils[peer] = Council(own, NAMES[peer], 3, self.records.get(peer), ports, there=there)
        return self.councils[peer]

    def run(self, seconds: float, begin: float = 0.0) -> None:
        """Time passes."""
        asyncio.run(self._pass(seconds, begin))

    async def _pass(self, seconds: float, begin: float) -> None:
        for step in range(int(seconds * 4)):
            for council in self.councils.values():
                await council.tick(begin + step / 4)
            post, self.post = self.post, []
            for sender, to, data in post:
                if to in self.councils:
                    self.councils[to].receive(sender, data)


def test_three_servers_found_one_group() -> None:
    """All name the same members and the same group, and their promises are on the disk."""
    world = World()
    for peer in (1, 2, 3):
        world.start(peer)
    world.run(10)
    members = (Disk(1, 10), Disk(2, 20), Disk(3, 30))
    assert dict.fromkeys((1, 2, 3), (group_name(members), members)) == world.founded
    assert {1, 2, 3} == world.records.keys()


def test_two_of_three_found_nothing() -> None:
    world = World()
    for peer in (1, 2):
        world.start(peer)
    world.run(20)
    assert {} == world.founded
    assert world.councils[1].founding.missing == 1


def test_who_cannot_write_its_promise_says_nothing() -> None:
    """A disk that takes nothing takes part in nothing, until it does."""
    world = World(full={2})
    for peer in (1, 2, 3):
        world.start(peer)
    world.run(20)
    assert {} == world.founded
    world.full.clear()
    world.run(20, begin=20.0)
    assert {1, 2, 3} == world.founded.keys()


def test_a_wiped_disk_waits_until_it_is_let_in_and_says_so() -> None:
    """It hears of the group from those that founded it, and is none of its first members."""
    world = World()
    for peer in (1, 2, 3):
        world.start(peer)
    world.run(10)
    name = world.founded[1][0]
    del world.records[3]
    world.start(3, disk=99)
    for peer in (1, 2):
        world.councils[peer].member = True
    world.run(5, begin=10.0)
    assert (name, ()) == world.founded[3]
    assert len(world.warned) == 1
    members = [Member(1, 10), Member(2, 20), Member(3, 30)]
    leader = world.councils[1]
    for expected in ((REMOVE, Disk(3, 30)), (LEARN, Disk(3, 99)), (PROMOTE, Disk(3, 99))):
        world.altered.clear()
        asyncio.run(leader.lead(members, world.rows))
        assert [expected] == world.altered
        if expected[0] == REMOVE:
            members.pop()
        elif expected[0] == LEARN:
            members.append(Member(3, 99, voter=0))
    assert {1: "s1", 2: "s2", 3: "s3"} == names_in(world.rows)


def test_a_server_that_never_answers_does_not_get_a_vote() -> None:
    """It is heard, and what is sent to it goes elsewhere, as where two sites have one cluster name: majorities of
    three would be majorities of four."""
    world = World()
    leader = world.start(1, there=True)
    world.start(3)
    leader.member = True
    world.run(3)
    for heard_ns, altered in ((-1, []), (5, [(PROMOTE, Disk(3, 30))])):
        asyncio.run(leader.lead([Member(1, 10), Member(3, 30, voter=0, heard_ns=heard_ns)], world.rows))
        assert altered == world.altered


def test_promises_of_another_disk_are_not_this_ones_and_damaged_ones_may_be_anything() -> None:
    world = World()
    for peer in (1, 2, 3):
        world.start(peer)
    world.run(10)
    assert world.start(1).founding.kept.founded
    assert not world.start(1, disk=11).founding.kept.founded
    world.records[1] = world.records[1][:-1]
    with pytest.raises(DamagedError):
        world.start(1)
    world.records[1] = b""
    with pytest.raises(DamagedError):
        world.start(1)


def test_a_letter_in_anothers_name_or_for_another_disk_does_nothing() -> None:
    world = World()
    council = world.start(1)
    members = frozenset({Disk(2, 20), Disk(3, 30)})
    council.receive(3, write_message(Disk(2, 20), council.own, Founded(members)))
    council.receive(2, write_message(Disk(2, 20), Disk(1, 11), Founded(members)))
    council.receive(2, write_message(Disk(2, 20), Disk(3, 30), Founded(members)))
    council.receive(2, b"LRB1")
    assert not council.founding.kept.founded
    council.receive(2, write_message(Disk(2, 20), council.own, Founded(members)))
    assert council.founding.kept.founded


def test_a_disk_that_was_taken_out_is_not_let_in_again() -> None:
    """Another disk of that server is."""
    world = World()
    for peer in (1, 2):
        world.start(peer, there=True)
    world.councils[1].member = world.councils[2].member = True
    world.start(3)
    world.run(3)
    members = [Member(1, 10), Member(2, 20)]
    world.rows[banned_row(Disk(3, 30))] = 1, b""
    asyncio.run(world.councils[1].lead(members, world.rows))
    assert [] == world.altered
    world.start(3, disk=31)
    world.run(3, begin=3.0)
    asyncio.run(world.councils[1].lead(members, world.rows))
    assert [(LEARN, Disk(3, 31))] == world.altered
