"""The server that a new stream is made on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from leafd.cluster.placement import NO_STREAMS, Site, Spread, Wish, choose, choose_more, might, placed, site_of
from leafd.cluster.table import Kept

OWN = Site("n1", "east", ("a:1", "ssd"), free=100, streams=5)
NEAR = Site("n2", "east", ("a:2",), free=500, streams=1)
FAR = Site("n3", "west", ("a:3", "ssd"), free=900)
NEVER = Site("n4", "west", ("!jetstream",), free=9999)


@pytest.mark.parametrize(
    ("wish", "name"),
    [
        (Wish(), "n2"),
        (Wish(size=501), "n3"),
        (Wish(tags=("ssd",)), "n1"),
        (Wish(cluster="west"), "n3"),
        (Wish(tags=("A:2",)), "n2"),
        (Wish(tags=("ssd", "!a:1")), "n3"),
        (Wish(cluster="west", tags=("ssd",)), "n3"),
    ],
)
def test_it_is_one_of_the_nearest_that_fit(wish: Wish, name: str) -> None:
    """Cluster and tags as they are asked for, and room."""
    found = choose(wish, OWN, (NEVER, FAR, NEAR))
    assert isinstance(found, Site)
    assert found.name == name


def test_streams_are_spread_but_for_a_servers_own() -> None:
    """The fewest streams, then who was asked, then the most room; one whose disk is full only if there is no other.
    What a server makes for itself stays if it fits, however many streams there are."""
    full, small, large = Site("f", "A", free=9, full=True), Site("a", "A", free=7), Site("b", "A", free=8)
    more = Site("d", "A", free=9, streams=1)
    assert choose(Wish(), small, (full, large, more)) == small
    assert choose(Wish(), more, (full, small, large)) == large
    assert choose(Wish(), full, (more,)) == more
    assert choose(Wish(), full, ()) == full
    counted = {name: Site(name, "A", free=8) for name in "abc"}
    for _ in range(30):
        found = choose(Wish(), counted["b"], (counted["a"], counted["c"]))
        assert isinstance(found, Site)
        counted[found.name] = replace(found, streams=found.streams + 1)
    assert [one.streams for one in counted.values()] == [10, 10, 10]
    assert choose(Wish(size=100), OWN, (NEAR, FAR), stays=True) == OWN
    assert choose(Wish(size=101), OWN, (NEAR, FAR), stays=True) == NEAR


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (Wish(cluster="nowhere"), ""),
        (Wish(tags=("a", "b")), ", tags not matched ['a']"),
        (Wish(tags=("ssd", "b")), ", tags not matched ['b', 'ssd']"),
        (Wish(cluster="east", tags=("!a:1", "x")), ", tags not matched ['x'], tags excluded ['a:1']"),
        (Wish(size=1, lasting=False), ", insufficient storage"),
        (Wish(size=10_000), ", insufficient storage"),
        (Wish(cluster="west", size=901), ", insufficient storage"),
    ],
)
def test_why_it_is_none_of_them_is_said(wish: Wish, why: str) -> None:
    """In nats-server's words."""
    assert choose(wish, OWN, (NEAR, FAR, NEVER)) == why


def test_a_server_that_tells_of_itself_is_read_or_refused() -> None:
    """A server of another version may say something else."""
    told = {"name": "n", "cluster": "c", "tags": ["A:B"], "free": 1, "memory": 3, "streams": 2}
    assert site_of(told) == Site("n", "c", ("a:b",), 1, 3, 2)
    assert site_of(told | {"full": True}) == Site("n", "c", ("a:b",), 1, 3, 2, full=True)
    for members in ({}, {"name": "n"}, {"name": "n", "cluster": "c", "tags": 1, "free": 1, "memory": 1, "streams": 1}):
        with pytest.raises(ValueError, match="no server"):
            site_of(members)


def test_replicas_are_of_one_cluster_and_where_there_are_the_fewest_streams() -> None:
    """The first one is chosen already; a server that gets no streams is none of them, either."""
    first = Site("a1", "A", free=100)
    others = (
        Site("a2", "A", free=100, streams=5),
        Site("a3", "A", free=50, streams=1),
        Site("a4", "A", tags=(NO_STREAMS,), free=100),
        Site("b1", "B", free=100),
    )
    chosen = choose_more(Wish(size=50), first, (first, *others), 3)
    assert not isinstance(chosen, str)
    assert [one.name for one in chosen] == ["a1", "a3", "a2"]
    assert choose_more(Wish(size=60), first, others, 3) == ", insufficient storage"
    assert choose_more(Wish(), first, others, 5) == ", peer offline"
    assert choose_more(Wish(tags=("x",)), first, others, 2) == ", tags not matched ['x']"
    excluding = Wish(size=60, tags=("!x",))
    tagged = [replace(one, tags=("x",)) if one.name == "a2" else one for one in others]
    assert choose_more(excluding, first, tagged, 3) == ", insufficient storage, tags excluded ['x']"


def test_a_server_that_is_away_counts_for_a_stream_that_it_could_keep() -> None:
    """By its cluster and its tags; how much room it has now nobody knows."""
    assert might(Wish(size=1000), "east", NEAR)
    assert might(Wish(tags=("a:2",)), "east", NEAR)
    assert not might(Wish(tags=("ssd",)), "east", NEAR)
    assert not might(Wish(), "east", FAR)
    assert not might(Wish(), "west", NEVER)


RACKS = (
    Site("r1", "A", ("rack:a",), free=9, streams=3, shared=2),
    Site("r2", "A", ("rack:a", "rack:c"), free=9, streams=1),
    Site("r3", "A", ("rack:b",), free=9, streams=2),
    Site("r4", "A", ("ssd",), free=9),
)


def named(chosen: list[Site] | str) -> list[str] | str:
    return chosen if isinstance(chosen, str) else [one.name for one in chosen]


def test_servers_of_one_stream_have_different_tags_where_that_is_asked_for() -> None:
    """Each by the first tag that begins so, those that keep it already among them, and none without such a tag."""
    wish = Wish(replicas=2, spread=Spread("rack:"))
    assert named(choose_more(wish, RACKS[0], RACKS, 2)) == ["r1", "r3"]
    assert named(choose_more(wish, RACKS[0], RACKS, 3)) == ", server tag not unique"
    assert named(choose_more(wish, Site("", "A"), RACKS, 2, beside=RACKS[2:3])) == ["", "r2"]
    assert choose(wish, RACKS[3], RACKS[:3]) == RACKS[1]
    assert choose(wish, RACKS[3], ()) == ", server tag not unique"
    assert not might(wish, "A", RACKS[3])
    asked = Wish(tags=("Rack:a",), replicas=2, spread=Spread("rack:"))
    assert named(choose_more(asked, RACKS[0], RACKS, 2)) == ["r1", "r2"]


def test_a_server_with_as_many_streams_together_as_it_may_keep_gets_those_of_its_own_alone() -> None:
    """The rest of what is wrong is said, too."""
    wish = Wish(replicas=2, spread=Spread("rack:", 2))
    assert choose(wish, RACKS[0], RACKS[2:]) == RACKS[2]
    assert choose(Wish(spread=Spread("", 2)), RACKS[0], ()) == RACKS[0]
    assert choose(wish, RACKS[0], RACKS[3:]) == ", server tag not unique, miscellaneous issue"


def test_what_was_placed_a_moment_ago_is_not_free() -> None:
    """By the table, which knows it before the server tells of it; a version before tells only what is free."""
    kept = Kept(alone=2, shared=1, files=30, memory=8)
    told = Site("n", "A", free=100, memory=9, streams=7, most=(100, 5))
    assert placed(told, kept) == Site("n", "A", free=70, memory=0, streams=3, shared=1, most=(100, 5))
    assert placed(replace(told, most=None), kept) == Site("n", "A", free=100, memory=9, streams=3, shared=1)
    site = {"name": "n", "cluster": "A", "tags": [], "free": 100, "memory": 9, "streams": 7}
    assert site_of(site | {"most": [100, 5]}) == told
    assert site_of(site) == replace(told, most=None)
    with pytest.raises(ValueError, match="no server"):
        site_of(site | {"most": 100})


def test_a_stream_goes_to_the_next_cluster_where_its_own_has_too_few_servers_with_room() -> None:
    """Not because one of them is away; and to its own, which then says why not, where no cluster has them."""
    wish = Wish(size=50, replicas=2)
    near = [Site("a1", "A", free=60), Site("a2", "A", free=10)]
    next_one, last = [Site(f"b{n}", "B", free=60) for n in (1, 2)], [Site(f"c{n}", "C", free=90) for n in (1, 2)]
    assert choose(wish, near[0], [*last, near[1], *next_one]) == next_one[0]
    assert choose(wish, near[1], [*last, near[0], *next_one]) == next_one[0]
    assert choose(wish, near[1], [*last, near[0], *next_one], but=("b1",)) == last[0]
    assert choose(replace(wish, replicas=1), near[1], [*next_one, near[0]]) == near[0]
    assert choose(wish, near[0], [near[1], next_one[0]]) == near[0]
    assert choose(wish, near[0], next_one) == next_one[0]
    assert choose(wish, near[0], next_one, away=near[1:]) == near[0]
    assert choose(wish, near[0], next_one, away=[None]) == near[0]
    assert choose(wish, near[0], next_one, away=last) == next_one[0]
    assert choose(wish, near[0], [], but=("a1",)) == ""
