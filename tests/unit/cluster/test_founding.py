"""The first members of a group: by hand, by random schedules, and with each rule taken out.

The models of tests/unit/raft/models say the same of all schedules of small worlds (test_models.py there).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest
from leafd.cluster import founding
from leafd.cluster.founding import (
    NO_BALLOT,
    ROUND_MAX,
    Accepted,
    Ballot,
    Disk,
    Founded,
    Founding,
    Members,
    Message,
    Offer,
    Prepare,
    Promised,
    Promises,
    Refused,
    Sending,
)

A, B, C = Disk(1, 10), Disk(2, 20), Disk(3, 30)
SCHEDULES: Final = 400
"""Each is a world of its own."""
QUIET_S: Final = 60.0


class World:
    """Servers with disks, and a network that loses, repeats and turns round."""

    def __init__(self, seed: int, count: int, *, wipes: int, make: Callable[..., Founding] = Founding) -> None:
        self.random = random.Random(seed)
        self.make = make
        self.expected = count
        self.wipes = wipes
        self.now = 0.0
        self.disks = {peer: Disk(peer, peer * 100) for peer in range(1, count + 1)}
        self.kept: dict[Disk, Promises] = {}
        self.up: dict[int, Founding] = {}
        self.waiting: dict[int, list[Sending]] = {}
        self.unwritten: dict[int, list[tuple[int, Promises]]] = {}
        self.flying: list[tuple[Disk, Sending]] = []
        self.founded: set[Members] = set()
        self.sides = dict.fromkeys(self.disks, True)
        for peer in self.disks:
            self.start(peer)

    def start(self, peer: int) -> None:
        own = self.disks[peer]
        self.up[peer] = self.make(own, self.expected, self.kept.get(own, Promises()), self.random.random)
        self.waiting[peer], self.unwritten[peer] = [], []

    def crash(self, peer: int) -> None:
        """Some of what was to be written is on the disk, in its order."""
        for _, promises in self.unwritten[peer][: self.random.randint(0, len(self.unwritten[peer]))]:
            self.kept[self.disks[peer]] = promises
        del self.up[peer]

    def wipe(self, peer: int) -> None:
        if peer in self.up:
            self.crash(peer)
        self.wipes -= 1
        self.disks[peer] = Disk(peer, self.disks[peer].disk + 1)

    def written(self, peer: int) -> None:
        """Everything that waits for the disk."""
        for _, promises in self.unwritten[peer]:
            self.kept[self.disks[peer]] = promises
            if promises.founded:
                self.founded.add(promises.members)
        self.flying += [(self.disks[peer], one) for one in self.waiting[peer]]
        self.waiting[peer], self.unwritten[peer] = [], []

    def collect(self, peer: int) -> None:
        """What came of the last call, and what may leave already."""
        if (saving := self.up[peer].take_saving()) is not None:
            self.unwritten[peer].append(saving)
        for sending in self.up[peer].take_sendings():
            if sending.after and self.unwritten[peer]:
                self.waiting[peer].append(sending)
            else:
                self.flying.append((self.disks[peer], sending))

    def deliver(self, sender: Disk, sending: Sending) -> None:
        peer = sending.to.peer
        if peer in self.up and self.disks[peer] == sending.to and self.linked(sender.peer, peer):
            self.up[peer].receive(sender, sending.message)
            self.collect(peer)

    def linked(self, one: int, other: int) -> bool:
        return self.sides[one] == self.sides[other]

    def weather(self) -> None:
        """For the next seconds: who is there, and who sees whom. What was sent before may arrive in them, too."""
        self.sides = {peer: self.random.random() < 0.3 for peer in self.disks}
        for peer in self.disks:
            draw = self.random.random()
            if draw < 0.3 and self.wipes > 0:
                self.wipe(peer)
            elif draw < 0.5 and peer in self.up:
                self.crash(peer)
            elif draw < 0.9 and peer not in self.up:
                self.start(peer)

    def step(self, faults: bool) -> None:
        """A tenth of a second, in which anything may happen."""
        if faults and self.random.random() < 0.02:
            self.weather()
        for peer in [*self.up]:
            self.up[peer].see(self.disks[other] for other in self.up if self.linked(peer, other))
            self.up[peer].tick(self.now)
            self.collect(peer)
            if not faults or self.random.random() < 0.3:
                self.written(peer)
        self.now += 0.1
        for _ in range(len(self.flying)):
            self.carry(faults)

    def carry(self, faults: bool) -> None:
        """One message that is on its way: it arrives, or later, or twice, or never."""
        if not self.flying:
            return
        at = self.random.randrange(len(self.flying))
        draw = self.random.random() if faults else 1.0
        if draw < 0.5:
            return
        sender, sending = self.flying[at] if draw < 0.6 else self.flying.pop(at)
        if draw > 0.65:
            self.deliver(sender, sending)


class FarWorld(World):
    """Three whose messages all arrive, in their order and late."""

    def __init__(self, seed: int, one_way_s: float) -> None:
        super().__init__(seed, 3, wipes=0)
        self.one_way_s = one_way_s
        self.under_way: list[tuple[float, Disk, Sending]] = []

    def carry(self, faults: bool) -> None:
        while self.flying:
            late_s = self.one_way_s * self.random.uniform(1.0, 1.1)
            self.under_way.append((self.now + late_s, *self.flying.pop(0)))

    def arrive(self) -> None:
        while self.under_way and self.under_way[0][0] <= self.now:
            self.deliver(*self.under_way.pop(0)[1:])


def play(seed: int, *, servers: int = 3, wipes: int = 0, make: Callable[..., Founding] = Founding) -> World:
    """A schedule with faults, and time without any after it."""
    world = World(seed, servers, wipes=wipes, make=make)
    for _ in range(600):
        world.step(faults=True)
    world.sides = dict.fromkeys(world.disks, True)
    for peer in world.disks.keys() - world.up.keys():
        world.start(peer)
    until = world.now + QUIET_S
    while world.now < until and not (len(world.founded) > 1 or all(one.kept.founded for one in world.up.values())):
        world.step(faults=False)
    return world


# ---- by any schedule


@pytest.mark.parametrize(("servers", "wipes"), [(3, 0), (3, 1), (3, 2), (5, 0), (5, 3)])
def test_there_is_one_group_and_everybody_knows_its_members(servers: int, wipes: int) -> None:
    late = 0
    for seed in range(SCHEDULES // servers):
        world = play(seed, servers=servers, wipes=wipes)
        assert len(world.founded) == 1, seed
        (members,) = world.founded
        assert all(one.kept.founded and one.kept.members == members for one in world.up.values()), seed
        late += any(disk not in members for disk in world.disks.values())
    assert (late > 0) == (wipes > 0)  # a disk that was wiped after the founding is no member


class Majority(Founding):
    """Founds with two of three, as nats-server's servers do."""

    def __init__(self, own: Disk, expected: int, kept: Promises, jitter: Callable[[], float]) -> None:
        super().__init__(own, expected // 2 + 1, kept, jitter)


class AnyList(Founding):
    """Passes over the lists that others have accepted."""

    def receive(self, sender: Disk, message: Message) -> None:
        if isinstance(message, Promised):
            message = Promised(message.ballot, NO_BALLOT, frozenset())
        super().receive(sender, message)


class Hasty(Founding):
    """Answers before its promise is on the disk."""

    def take_sendings(self) -> list[Sending]:
        return [Sending(one.to, one.message, 0) for one in super().take_sendings()]


@pytest.mark.parametrize("make", [Majority, AnyList, Hasty])
def test_a_rule_taken_out_is_found_missing(make: Callable[..., Founding]) -> None:
    assert any(len(play(seed, wipes=2, make=make).founded) > 1 for seed in range(1000))


# ---- by hand


def server(own: Disk, *others: Disk, kept: Promises | None = None, expected: int = 3) -> Founding:
    made = Founding(own, expected, kept or Promises(), lambda: 0.5)
    made.see(others)
    made.tick(0.0)
    return made


def sent(one: Founding) -> list[tuple[Disk, Message]]:
    return [(sending.to, sending.message) for sending in one.take_sendings()]


def test_nothing_is_founded_while_a_server_that_is_expected_is_away() -> None:
    one = server(A, B)
    one.tick(3600.0)
    assert one.missing == 1
    assert sent(one) == []


def test_a_wiped_server_and_a_new_one_found_nothing_while_the_third_is_away() -> None:
    """The trace of Founding.tla with the rule "majority": A and B were the first members."""
    wiped, new = server(Disk(2, 21), C), server(C, Disk(2, 21))
    for second in range(60):
        wiped.tick(second)
        new.tick(second)
    assert sent(wiped) + sent(new) == []
    new.see([Disk(2, 21), A])
    new.receive(A, Founded(frozenset({A, B})))
    assert new.kept.founded
    assert new.kept.members == {A, B}


def test_all_have_to_be_there_for_a_while() -> None:
    one = server(A, B, C)
    one.tick(founding.SETTLE_S - 0.1)
    one.see([B])
    one.tick(founding.SETTLE_S)
    one.see([B, C])
    one.tick(founding.SETTLE_S + 0.1)
    one.tick(2 * founding.SETTLE_S)
    assert sent(one) == []
    one.tick(2 * founding.SETTLE_S + 0.1)
    assert [to for to, _ in sent(one)] == [B, C]


@pytest.mark.parametrize(("one_way_s", "within_s"), [(0.1, 7.0), (0.5, 20.0), (1.0, 30.0), (2.0, 60.0)])
def test_servers_that_are_far_from_each_other_found_their_group(one_way_s: float, within_s: float) -> None:
    """A round is two round trips, and others may begin theirs meanwhile: each further one has twice as long."""
    for seed in range(60):
        world = FarWorld(seed, one_way_s)
        while not all(one.kept.founded for one in world.up.values()):
            world.step(faults=False)
            world.arrive()
            assert world.now < within_s
        assert len(world.founded) == 1


def test_a_promise_is_on_the_disk_before_it_is_given() -> None:
    one = server(B, A, C)
    one.receive(A, Prepare(Ballot(1, A)))
    assert one.take_saving() == (1, Promises(promised=Ballot(1, A)))
    assert one.take_sendings() == [Sending(A, Promised(Ballot(1, A), NO_BALLOT, frozenset()), after=1)]


def test_a_promise_holds_after_a_restart() -> None:
    one = server(B, A, C, kept=Promises(promised=Ballot(5, C)))
    one.receive(A, Prepare(Ballot(4, A)))
    one.receive(A, Offer(Ballot(4, A), frozenset({A, B, C})))
    assert one.take_saving() is None
    assert sent(one) == [(A, Refused(Ballot(4, A), Ballot(5, C)))] * 2


def test_a_list_that_may_have_been_founded_is_offered_again() -> None:
    accepted = frozenset({A, B, C})
    one = server(A, B, C)
    one.tick(founding.SETTLE_S)
    ballot = Ballot(1, A)
    assert sent(one) == [(B, Prepare(ballot)), (C, Prepare(ballot))]
    one.receive(B, Promised(ballot, NO_BALLOT, frozenset()))
    one.receive(C, Promised(ballot, NO_BALLOT, frozenset()))
    assert sent(one) == [(B, Offer(ballot, accepted)), (C, Offer(ballot, accepted))]
    again = server(Disk(1, 11), B, C)  # A's disk was wiped; B and C have accepted
    again.tick(founding.SETTLE_S)
    again.take_sendings()
    ballot = Ballot(1, again.own)
    for disk in (B, C):
        again.receive(disk, Promised(ballot, Ballot(1, A), accepted))
    assert sent(again) == [(B, Offer(ballot, accepted)), (C, Offer(ballot, accepted))]
    for disk in (B, C):
        again.receive(disk, Accepted(ballot))
    assert again.kept.members == accepted  # which is not among them, and joins


def test_a_list_that_a_member_lacks_was_not_founded() -> None:
    one = server(Disk(1, 11), B, C)
    one.tick(founding.SETTLE_S)
    one.take_sendings()
    ballot = Ballot(1, one.own)
    one.receive(B, Promised(ballot, Ballot(1, A), frozenset({A, B, C})))
    one.receive(C, Promised(ballot, NO_BALLOT, frozenset()))
    new = frozenset({one.own, B, C})
    assert sent(one) == [(B, Offer(ballot, new)), (C, Offer(ballot, new))]


def test_a_member_joins_no_other_group() -> None:
    kept = Promises(Ballot(1, A), Ballot(1, A), frozenset({A, B, C}), founded=True)
    one = server(B, A, C, kept=kept)
    one.receive(C, Founded(frozenset({C, Disk(4, 40)})))
    assert one.kept == kept
    assert one.other == {C, Disk(4, 40)}


@pytest.mark.parametrize(
    "message",
    [
        Prepare(Ballot(1, C)),  # a ballot of somebody else
        Prepare(Ballot(ROUND_MAX + 1, A)),
        Offer(Ballot(1, C), frozenset({A, B, C})),
        Offer(Ballot(ROUND_MAX + 1, A), frozenset({A, B, C})),
        Offer(Ballot(1, A), frozenset({A, C})),  # without this disk
        Promised(Ballot(1, B), NO_BALLOT, frozenset()),  # nobody asked
        Accepted(Ballot(1, B)),
        Refused(Ballot(1, B), Ballot(ROUND_MAX + 1, A)),
        Founded(frozenset()),
    ],
)
def test_a_message_that_cannot_be_right_changes_nothing(message: Message) -> None:
    one = server(B, A, C)
    one.receive(A, message)
    assert one.take_saving() is None
    assert one.kept == Promises()
