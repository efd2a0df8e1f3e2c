"""Who is there: told when it changes, by the leader of those that stand still, each second while nobody leads."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from leafd.cluster.placement import Site
from leafd.cluster.presence import AWAY_S, Presence
from leafd.cluster.repetition import REPEAT_S

SECOND = 1_000_000_000


@dataclass
class Member:
    """As the leader sees it."""

    peer: int
    heard_ns: int = 0
    trip_ns: int = 0


@dataclass
class World:
    """Servers that are linked with each other; those that are stopped say and hear nothing."""

    leader: int = 1
    stopped: set[int] = field(default_factory=set)
    rooms: dict[int, Presence] = field(default_factory=dict)
    free: dict[int, int] = field(default_factory=dict)
    now: float = 0.0
    said: int = 0
    heard: dict[int, float] = field(default_factory=dict)
    lost: int = 0
    """So many letters are lost next."""

    def start(self, peer: int, run: int = 1) -> None:
        self.rooms[peer] = Presence(peer, run)
        self.free.setdefault(peer, 10)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            up = [peer for peer in self.rooms if peer not in self.stopped]
            self.heard |= dict.fromkeys(up, self.now)
            members = [Member(one, int((self.now - self.heard.get(one, 0)) * SECOND)) for one in self.rooms]
            for peer in up:
                linked = [one for one in self.rooms if one != peer]
                site = Site(f"s{peer}", "c", (), self.free[peer], 0, 0)
                for to, news in self.rooms[peer].tick(self.now, site, linked, self.leader, members):
                    self.said += 1
                    if self.lost:
                        self.lost -= 1
                    elif to not in self.stopped:
                        self.rooms[to].hear(peer, json.loads(news), self.now)

    def there(self, peer: int) -> set[int]:
        room = self.rooms[peer]
        return {one for one in room.known if room.is_there(one, self.now)}


def three(leader: int = 1) -> World:
    world = World(leader)
    for peer in (1, 2, 3):
        world.start(peer)
    world.run(20)
    return world


def test_servers_know_what_each_tells() -> None:
    """A change is told at once."""
    world = three()
    assert {peer: world.there(peer) for peer in (1, 2, 3)} == {1: {2, 3}, 2: {1, 3}, 3: {1, 2}}
    world.free[3] = 4
    world.run(1)
    assert world.rooms[1].site(3).free == 4


@pytest.mark.parametrize("leader", [1, 2])
def test_the_leader_tells_who_stands_still(leader: int) -> None:
    """And that it is there again."""
    world = three(leader=leader)
    world.stopped = {3}
    world.run(int(AWAY_S) + 2)
    assert world.there(1) == {2}
    assert world.there(2) == {1}
    world.stopped = set()
    world.run(2)
    assert world.there(1) == {2, 3}
    assert world.there(2) == {1, 3}


@pytest.mark.parametrize(
    ("trip_s", "silent_s", "away"), [(0.1, 5.5, True), (2.0, 5.5, False), (2.0, 16.5, True), (9.0, 31.0, True)]
)
def test_who_is_far_is_missed_later(trip_s: float, silent_s: float, away: bool) -> None:
    """Over a line with a round trip of two seconds a lost packet or two are as long: it was away each time."""
    member = Member(2, int(silent_s * SECOND), int(trip_s * SECOND))
    assert Presence(1, 1)._is_away(member, 0.0) is away


def test_without_a_leader_who_says_nothing_is_not_there() -> None:
    """Servers tell of themselves each second then."""
    world = three()
    world.leader = 0
    world.run(20)
    assert world.there(2) == {1, 3}
    world.stopped = {3}
    world.run(int(AWAY_S) + 1)
    assert world.there(2) == {1}


def test_at_rest_next_to_nothing_is_said() -> None:
    """One letter for each pair each REPEAT_S, and the leader's of who is away."""
    world = three()
    world.run(200)
    world.said = 0
    world.run(int(REPEAT_S) * 10)
    assert 0 < world.said <= 10 * (6 + 2) + 8


def test_a_server_that_starts_anew_is_told_at_once() -> None:
    """Its links may have been there all the time, as others see it."""
    world = three()
    world.run(200)
    world.start(3, run=2)
    world.run(2)
    assert world.there(3) == {1, 2}


def test_letters_may_be_lost() -> None:
    """They are said again soon."""
    world = World(lost=7)
    for peer in (1, 2, 3):
        world.start(peer)
    world.run(4)
    assert [world.there(peer) for peer in (1, 2, 3)] == [{2, 3}, {1, 3}, {1, 2}]


def test_only_the_leader_says_who_is_away() -> None:
    """And no longer than it leads."""
    world = three()
    world.rooms[2].hear(3, {"news": "away", "peers": [1]}, world.now)
    assert world.there(2) == {1, 3}
    world.rooms[2].hear(1, {"news": "away", "peers": [3]}, world.now)
    assert world.there(2) == {1}
    world.leader = 3
    world.run(1)
    assert world.there(2) == {1, 3}


def test_who_misses_a_member_knows_since_when() -> None:
    """The leader by what it heard last, the others since they saw it; when it is there again it is not missed."""
    world = World()
    for peer in (1, 2, 3):
        world.start(peer)
    world.run(3)
    assert world.rooms[1].missed_s(3, world.now) is None
    world.stopped.add(3)
    world.run(20)
    assert world.rooms[1].missed_s(3, world.now) == 20
    later = world.rooms[2].missed_s(3, world.now)
    assert later is not None
    assert 20 - AWAY_S - 2 <= later <= 20
    world.stopped.clear()
    world.run(3)
    assert [world.rooms[peer].missed_s(3, world.now) for peer in (1, 2)] == [None, None]


def test_a_server_that_has_yet_to_tell_of_itself_is_asked_and_one_that_stands_still_is_not() -> None:
    """Right after a start nobody has told of himself, and requests about streams of others come at once."""
    world = World()
    for peer in (1, 2):
        world.start(peer)
    assert (world.rooms[1].is_new(2), world.rooms[2].is_new(1)) == (True, True)
    world.run(1)
    assert (world.rooms[1].is_new(2), world.rooms[2].is_new(1)) == (False, False)
    world.start(3)
    world.stopped = {3}
    assert world.rooms[2].is_new(3)
    world.run(int(AWAY_S) + 3)
    assert not world.rooms[2].is_new(3)
    assert world.there(2) == {1}


def test_what_a_member_told_of_itself_is_known_while_it_is_away() -> None:
    """Until it is no member any more, or tells anew. Of one that has told nothing, nothing is known."""
    room, site = Presence(1, 1), Site("s2", "c", ("ssd",), 10, 0, 0)
    news = {
        "news": "site",
        "run": 1,
        "name": "s2",
        "cluster": "c",
        "tags": ["ssd"],
        "free": 10,
        "memory": 0,
        "streams": 0,
    }
    room.hear(2, news, 0.0)
    own = Site("s1", "c")
    room.tick(1.0, own, [2], 1, [Member(1), Member(2)])
    room.tick(2.0, own, [], 1, [Member(1), Member(2), Member(3)])
    assert (room.last_site(2), room.last_site(3), room.known) == (site, None, [])
    room.tick(3.0, own, [], 1, [Member(1)])
    assert room.last_site(2) is None
