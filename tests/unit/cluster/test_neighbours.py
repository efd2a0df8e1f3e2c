"""Who knows of which servers of other clusters: three clusters of three, each server with one gateway a cluster.

Letters go as native/meta/ways.c lets them (test_plane_meta.c has its rules): by a link, by a gateway into the cluster,
by a server of the own cluster that has one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from leafd.cluster.neighbours import MAGIC, SERVERS_MAX, Links, Neighbours, Ways
from leafd.cluster.repetition import REPEAT_S
from leafd.links.origin import peer_number

EVERY = {f"{cluster}{number}": cluster for cluster in "abc" for number in range(3)}


@dataclass
class World:
    """Nine servers. out: the gateways, by who dialled and into which cluster."""

    out: dict[str, dict[str, str]] = field(default_factory=dict)
    """By server: cluster, and the server there."""
    cut: set[frozenset[str]] = field(default_factory=set)
    """Routes that are not there."""
    ways: dict[str, Ways] = field(default_factory=dict)
    sent: list[tuple[str, str, bytes]] = field(default_factory=list)
    letters: int = 0

    def __post_init__(self) -> None:
        self.rooms = {name: self._room(name, cluster) for name, cluster in EVERY.items()}

    def _room(self, name: str, cluster: str) -> Neighbours:
        def send(peer: int, letter: bytes) -> None:
            to = next(one for one in EVERY if peer_number(one) == peer)
            self.letters += 1
            if self.way(name, to):
                self.sent.append((name, to, letter))

        def spread(ways: Ways) -> None:
            self.ways[name] = ways

        return Neighbours(name, lambda: cluster, lambda: self.links(name), send, peer_number, spread)

    def mates(self, name: str) -> frozenset[str]:
        cluster = EVERY[name]
        return frozenset(
            one for one in EVERY if EVERY[one] == cluster and one != name and frozenset((one, name)) not in self.cut
        )

    def links(self, name: str) -> Links:
        out = {server: cluster for cluster, server in self.out.get(name, {}).items()}
        into = {one: EVERY[one] for one, gates in self.out.items() if name in gates.values()}
        return Links(self.mates(name), out, into)

    def way(self, name: str, to: str) -> bool:
        """Whether what a server says gets there."""
        if to in self.mates(name) or self._over(name, to):
            return True
        way = next((one for one in self.ways.get(name, ()) if one[0] == peer_number(to)), None)
        mates = [one for one in self.mates(name) if way is not None and peer_number(one) == way[2]]
        return bool(mates) and EVERY[to] not in self.out.get(name, {}) and self._over(mates[0], to)

    def _over(self, name: str, to: str) -> bool:
        there = self.out.get(name, {}).get(EVERY[to])
        return there is not None and (there == to or to in self.mates(there))

    def run(self, seconds: float, begin: float = 0.0) -> None:
        for step in range(int(seconds * 4)):
            for room in self.rooms.values():
                room.tick(begin + step / 4)
            sent, self.sent = self.sent, []
            for sender, to, letter in sent:
                self.rooms[to].hear(peer_number(sender), letter)

    def linked(self, name: str) -> set[str]:
        return set(self.rooms[name].linked.values())


def whole() -> World:
    """Each server has a gateway to the first one of each other cluster."""
    return World({name: {one: f"{one}0" for one in "abc" if one != cluster} for name, cluster in EVERY.items()})


def test_nine_servers_know_and_reach_each_other() -> None:
    """A server has gateways to two others, and hears of the rest."""
    world = whole()
    world.run(3)
    for name in EVERY:
        assert world.linked(name) == EVERY.keys() - {name}
        assert all(world.way(name, to) for to in EVERY if to != name)
        assert {one[0] for one in world.ways[name]} == {peer_number(to) for to in EVERY if EVERY[to] != EVERY[name]}


def test_a_server_without_a_gateway_reaches_others_by_one_of_its_cluster() -> None:
    """It is told by which."""
    world = whole()
    del world.out["a2"]
    world.run(3)
    assert world.linked("a2") == EVERY.keys() - {"a2"}
    assert {one[2] for one in world.ways["a2"]} == {peer_number("a0")}
    assert all(world.way("a2", to) for to in EVERY if to != "a2")


def test_a_cluster_without_gateways_reaches_nobody_and_is_forgotten() -> None:
    """What was told by a link counts no longer than the link."""
    world = whole()
    world.run(3)
    for name in ("a0", "a1", "a2"):
        del world.out[name]
    for gates in world.out.values():
        gates.pop("a", None)
    world.run(3, 3)
    assert world.linked("a0") == {"a1", "a2"}
    assert world.linked("b1") == {name for name, cluster in EVERY.items() if cluster != "a"} - {"b1"}
    assert world.ways["a1"] == ()


def test_a_server_that_is_gone_is_forgotten_everywhere() -> None:
    """Its own cluster says so to the others."""
    world = whole()
    world.run(3)
    world.cut |= {frozenset(("c2", one)) for one in ("c0", "c1")}
    del world.out["c2"]
    world.run(3, 3)
    for name in set(EVERY) - {"c2"}:
        assert "c2" not in world.linked(name)


def test_at_rest_next_to_nothing_is_said() -> None:
    """A letter each REPEAT_S for each link."""
    world = whole()
    world.run(130)
    world.letters = 0
    world.run(REPEAT_S * 2, 130)
    links = sum(len(world.mates(name)) + len(world.links(name).gateways) for name in EVERY)
    assert 0 < world.letters <= 3 * links


def test_letters_of_strangers_and_of_another_form_change_nothing() -> None:
    """Only servers with a link are heard, of what they can know."""
    world = whole()
    world.run(3)
    before = dict(world.ways)
    room = world.rooms["a1"]
    letter = b'LRN1{"servers":[["x","b"]]}'
    room.hear(peer_number("b2"), letter)  # a link leads to b0 alone
    room.hear(peer_number("nobody"), letter)
    for wrong in (b"", b"[]", b'{"servers":3}', b'{"servers":[["x"]]}', b'{"servers":[["",""]]}', b"[" * 9999, b"\xff"):
        room.hear(peer_number("b0"), MAGIC + wrong)
    assert world.ways == before
    # A gateway's other end names servers of its own cluster, and none that this one has by a route.
    room.hear(peer_number("b0"), b'LRN1{"servers":[["x","c"],["a2","b"],["a1","b"],["y","b"]]}')
    named = {one[0] for one in world.ways["a1"]}
    assert peer_number("y") in named
    assert not named & {peer_number("x"), peer_number("a2"), peer_number("a1")}


def test_there_is_a_bounded_number_of_servers() -> None:
    """Those that gateways lead to are kept in any case."""
    world = whole()
    world.run(3)
    many = ",".join(f'["!{number}","b"]' for number in range(9999))
    world.rooms["a1"].hear(peer_number("b0"), MAGIC + f'{{"servers":[{many}]}}'.encode())
    assert len(world.ways["a1"]) == SERVERS_MAX
    assert {peer_number("b0"), peer_number("c0")} <= {one[0] for one in world.ways["a1"]}
