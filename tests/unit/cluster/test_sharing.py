"""Which servers keep a stream together, when that is to be more of them, fewer, or another one."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from leafd.cluster.placement import Site, Spread, Wish
from leafd.cluster.sharing import (
    FOUNDED,
    alone as go_on_alone,
    begun,
    called_off,
    enlarge,
    moved,
    refill,
    relocated,
    resize,
    settled,
    share,
    thinned,
    without,
)
from leafd.cluster.table import StreamRow, read_row, write_row
from leafd.daemon.stream_rows import Sharing

A, B, C, D, E = 1, 2, 3, 4, 5


def servers(*peers: int, cluster: str = "c") -> dict[int, tuple[int, Site]]:
    return {peer: (10 * peer, Site(f"s{peer}", cluster, free=100, streams=peer)) for peer in peers}


def alone() -> StreamRow:
    return StreamRow("A", "S", A, "s1", "c", created=7, config={"name": "S"})


def resized(row: StreamRow, count: int, *, there: tuple[int, ...] = (A, B, C, D, E), but: int = 0) -> StreamRow:
    changed = resize(row, Wish(), servers(*there), count, leader=row.peer, but=but)
    assert isinstance(changed, StreamRow), changed
    assert read_row(0, write_row(changed)) == changed
    return changed


def test_a_new_stream_is_founded_by_all_of_its_servers() -> None:
    """Its own server is one of them."""
    row = share(alone(), Wish(), servers(A, B, C, D), 3)
    assert isinstance(row, StreamRow)
    assert set(row.members) == {(A, 10), (B, 20), (C, 30)}
    assert (row.founders, row.group != 0) == ((), True)
    assert share(alone(), Wish(), servers(A, B), 3) == ", peer offline"


def test_a_majority_begins_without_servers_that_are_away() -> None:
    """They are filled in when they are back. Fewer than a majority begin nothing, nor does anybody without need."""
    row = share(alone(), Wish(), servers(A, B), 3, away=1)
    assert isinstance(row, StreamRow)
    assert set(row.peers) == {A, B}
    filled = refill(row, Wish(), servers(A, B, C), 3, leader=A)
    assert set(filled.peers) == {A, B, C}
    assert share(alone(), Wish(), servers(A), 3, away=2) == ", peer offline"
    assert share(alone(), Wish(), servers(A, B), 5, away=3) == ", peer offline"
    assert share(alone(), Wish(), servers(A, B), 3, away=0) == ""
    all_three = share(alone(), Wish(), servers(A, B, C), 3, away=2)
    assert isinstance(all_three, StreamRow)
    assert len(all_three.members) == 3


def test_a_stream_gets_as_many_servers_as_are_there_where_others_are_away() -> None:
    """A majority of those that are wanted, and never fewer than it had."""
    row = enlarge(alone(), Wish(), servers(A, B), 3, leader=A, away=1)
    assert isinstance(row, StreamRow)
    assert (row.peers, row.founders) == ((A, B), ((A, 10),))
    assert enlarge(row, Wish(), servers(A, B), 3, leader=A, away=1) == row  # as where something else is changed
    whole = resized(alone(), 3)
    assert enlarge(whole, Wish(), servers(A, B, C), 5, leader=A, away=2) == whole
    four = enlarge(whole, Wish(), servers(A, B, C, D), 5, leader=A, away=1)
    assert isinstance(four, StreamRow)
    assert four.peers == (A, B, C, D)
    assert enlarge(alone(), Wish(), servers(A), 3, leader=A, away=2) == ", peer offline"
    assert enlarge(alone(), Wish(), servers(A, B), 3, leader=A, away=0) == ", peer offline"


def test_a_servers_own_stream_is_shared_by_a_group_that_it_founds_alone() -> None:
    """The others have nothing of it, and wait to be let in."""
    row = resized(alone(), 3)
    assert row.members == ((A, 10), (B, 20), (C, 30))
    assert (row.founders, row.leaving, row.peer) == (((A, 10),), (), A)
    assert row.group != 0


def test_who_leaves_takes_part_until_the_others_are_the_members() -> None:
    """Nobody founds the group again, as one that comes back with its old disk would."""
    three = resized(alone(), 3)
    one = resized(three, 1)
    assert (one.members, one.leaving, one.founders, one.group) == (((A, 10),), (B, C), FOUNDED, three.group)
    again = resized(one, 2)
    assert (again.members, again.leaving) == (((A, 10), (B, 20)), (C,))


def test_who_was_told_to_delete_it_is_not_taken_in_before_that_is_done() -> None:
    """Its disk forgets what it has acknowledged."""
    row = replace(resized(resized(alone(), 3), 1), leaving=(), gone=((B, 7), (C, 6)))
    assert resized(row, 2).peers == (A, C)  # C has to delete an older one of that name
    assert resize(row, Wish(), servers(A, B), 2, leader=A) == ", peer offline"


def test_another_one_takes_the_place_of_one_that_keeps_it_no_more() -> None:
    """Also of the one that leads, and of one that is away."""
    three = resized(alone(), 3)
    assert resized(three, 3, but=B).peers == (A, C, D)
    assert resized(three, 3, but=B, there=(A, C, E)).peers == (A, C, E)
    moved = resized(three, 3, but=A)
    assert (moved.peers, moved.peer, moved.server, moved.leaving) == ((B, C, D), B, "s2", (A,))
    assert resize(three, Wish(), servers(A, B, C), 3, leader=A, but=B) == ", peer offline"


def less(row: StreamRow, count: int, but: int, *there: int) -> StreamRow:
    changed = without(row, Wish(), servers(*there), count, leader=row.peer, but=but)
    assert isinstance(changed, StreamRow), changed
    return changed


def test_fewer_keep_a_stream_when_nobody_can_take_the_place_of_one_that_goes() -> None:
    """Never nobody."""
    three = resized(alone(), 3)
    assert less(three, 3, B, A, B, C, D).peers == (A, C, D)
    two = less(three, 3, B, A, B, C)
    assert (two.peers, two.leaving, two.group) == ((A, C), (B,), three.group)
    one = less(two, 3, A, A, B, C)
    assert (one.peers, one.peer, one.server, one.leaving) == ((C, B), C, "s3", (A,))  # B was not excluded
    alone_then = less(replace(two, excluded=(B,)), 3, A, A, B, C)
    assert (alone_then.peers, alone_then.leaving) == ((C,), (A, B))
    assert without(alone_then, Wish(), servers(C), 3, leader=C, but=C) == ", peer offline"


def evacuated(row: StreamRow, replicas: int, but: int, *there: int) -> StreamRow:
    """As the leader of all servers decides it."""
    asked = replace(row, config={"name": "S", "num_replicas": replicas})
    found = Sharing(row.peer, but, fewer=True, excludes=True).found(asked, servers(*there), (), Spread())
    assert read_row(0, write_row(found)) == found
    return found


def test_an_evacuated_server_is_not_taken_in_while_replicas_are_missing() -> None:
    """But where somebody asks for another number of replicas."""
    three = resized(alone(), 3)
    assert evacuated(three, 3, B, A, B, C, D).excluded == ()  # another one has taken its place
    two = evacuated(three, 3, B, A, B, C)
    assert (two.peers, two.excluded) == ((A, C), (B,))

    def changed(row: StreamRow, how: Sharing, *there: int) -> StreamRow:
        return how.found(row, servers(*there), (), Spread())

    assert changed(two, Sharing(A, fills=True), A, B, C) == two
    assert changed(two, Sharing(A, before=two), A, B, C) == two  # something else is changed
    whole = changed(two, Sharing(A, fills=True), A, B, C, D)
    assert (whole.peers, whole.excluded) == ((A, C, D), ())
    fewer = changed(replace(two, config={"name": "S", "num_replicas": 2}), Sharing(A, before=two), A, B, C)
    assert (fewer.peers, fewer.excluded) == ((A, C), ())
    again = changed(replace(fewer, config={"name": "S", "num_replicas": 3}), Sharing(A, before=fewer), A, B, C)
    assert again.peers == (A, C, B)


def test_a_stream_that_moves_goes_back_to_where_it_was() -> None:
    """As long as it is on its way: to all that had it, or to the one that had it alone."""
    asked = {"name": "S", "num_replicas": 3, "placement": {"cluster": "c"}}
    three = replace(resized(alone(), 3), config=asked)
    moves = {**asked, "num_replicas": 2, "placement": {"tags": ["x"]}}
    away = begun(replace(resized(three, 3, but=B), config=moves), three)
    assert (away.peers, away.leaving) == ((A, C, D), (B,))
    assert begun(resized(away, 3, but=C), away).origin == away.origin  # it is where it began to move
    assert read_row(0, write_row(away)) == away
    back = called_off(away)
    assert (set(back.peers), back.leaving, back.config) == ({A, B, C}, (D,), asked)
    assert back.founders == three.founders or back.founders == FOUNDED
    arrived = settled(back, back.members)
    assert (arrived.leaving, arrived.gone, arrived.origin) == ((), ((D, 7),), None)
    lost = replace(away, gone=((B, 7),))  # it is being deleted there: it comes back as a new one
    assert set(called_off(lost).peers) == {A, C}


def test_a_stream_of_one_server_stays_there_when_its_move_is_called_off() -> None:
    """Its server founds the group, if it has not yet."""
    row = replace(alone(), config={"name": "S"})
    to = moved(row, Wish(), servers(A, B), but=A)
    assert isinstance(to, StreamRow)
    away = begun(to, row)
    back = called_off(away)
    assert (back.members, back.founders, back.leaving) == (((A, 10),), ((A, 10),), (B,))
    assert (back.peer, back.server, back.config) == (A, "s1", {"name": "S", "num_replicas": 1})
    assert settled(away, away.members) == away  # both have it, and it has still to leave one
    assert settled(back, back.members).origin is None


def test_a_retention_that_was_changed_on_the_way_goes_back_with_the_stream() -> None:
    """As nats-server has it: to the first one, unless `limits` was asked for last."""
    two = replace(resized(alone(), 2), config={"name": "S", "num_replicas": 2})

    def then(row: StreamRow, retention: str) -> StreamRow:
        found = begun(replace(row, config={**(row.config or {}), "retention": retention}), row)
        assert read_row(0, write_row(found)) == found
        return found

    def asked_for_after(*retentions: str) -> object:
        row = begun(replace(resized(two, 3), config={"name": "S", "num_replicas": 3}), two)
        for retention in retentions:
            row = then(row, retention)
        return (called_off(row).config or {}).get("retention")

    assert then(two, "interest").origin is None  # it is not on its way
    assert asked_for_after() is None
    assert asked_for_after("interest") == "limits"
    assert asked_for_after("interest", "limits") == "limits"
    assert asked_for_after("interest", "limits", "interest") == "limits"
    interest = replace(two, config={"name": "S", "num_replicas": 2, "retention": "interest"})
    away = begun(replace(resized(interest, 3), config={**(interest.config or {}), "num_replicas": 3}), interest)
    assert (called_off(then(away, "limits")).config or {})["retention"] == "limits"
    assert (called_off(away).config or {})["retention"] == "interest"


def test_servers_that_are_away_are_the_first_to_leave_but_for_the_leader() -> None:
    """What they have is behind, perhaps."""
    row = resized(alone(), 5)
    assert resized(row, 3, there=(A, D, E)).peers == (A, D, E)


def test_other_clusters_get_none_of_it() -> None:
    """A group's members are near each other."""
    there = servers(A, B) | servers(C, D, cluster="other")
    assert resize(alone(), Wish(), there, 3, leader=A) == ", peer offline"


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_wanted_nobody_keeps_it_and_leaves(seed: int) -> None:
    """And there are as many as were asked for."""
    draw, row = random.Random(seed), alone()
    for _ in range(30):
        count = draw.randrange(1, 5)
        row = resized(row, count) if draw.random() < 0.7 or not row.members else resized(row, count, but=row.peers[-1])
        assert len(row.peers) == len(set(row.peers)) == count or (count == 1 and not row.members)
        assert not set(row.peers) & set(row.leaving)
        assert row.peer in row.peers


OWN = (A, 10)


@pytest.mark.parametrize("there", [(), ((A, 10),), ((A, 10), (B, 99)), ((A, 10), (D, 40), (E, 50))])
def test_one_disk_keeps_a_stream_alone_whose_majority_is_lost(there: tuple[tuple[int, int], ...]) -> None:
    """A server that is there with another disk is lost, too. All others delete what they have before they are taken
    in again."""
    row = replace(resized(alone(), 3), leaving=(D,), gone=((E, 6),))
    changed = go_on_alone(row, OWN, "s1", there)
    assert isinstance(changed, StreamRow)
    assert read_row(0, write_row(changed)) == changed
    assert (changed.members, changed.founders, changed.leaving, changed.peer) == ((OWN,), (OWN,), (), A)
    assert changed.group not in (0, row.group)
    assert set(changed.gone) == {(E, 6), (B, 7), (C, 7), (D, 7)}


def test_a_stream_whose_majority_is_there_or_that_is_elsewhere_is_not_rescued() -> None:
    """The text says why."""
    row = resized(alone(), 3)
    assert go_on_alone(row, OWN, "s1", ((A, 10), (B, 20))) == (
        "2 of the 3 disks that keep it are there, which elect a leader"
    )
    for disk in ((A, 11), (D, 40)):
        assert go_on_alone(row, disk, "s", ()) == "this server's disk is not one of those that keep it"


def test_a_stream_that_no_other_server_has_goes_on_on_another_disk_of_its_server() -> None:
    """Not while another one has still to go: that one's vote may have counted."""
    row = replace(resized(alone(), 3), members=(OWN,), leaving=())
    changed = go_on_alone(row, (A, 11), "s1", ((A, 11), (B, 20)))
    assert isinstance(changed, StreamRow)
    assert (changed.members, changed.founders, changed.peer) == (((A, 11),), ((A, 11),), A)
    assert changed.group not in (0, row.group)
    assert isinstance(go_on_alone(replace(row, leaving=(B,)), (A, 11), "s1", ()), str)
    assert isinstance(go_on_alone(row, (B, 20), "s2", ()), str)


def test_as_many_as_there_are_take_the_places_of_the_lost() -> None:
    """Who has yet to delete what it had is not among them."""
    row = go_on_alone(resized(alone(), 3), OWN, "s1", ())
    assert isinstance(row, StreamRow)
    assert refill(row, Wish(), servers(A, B, C), 3, leader=A) == row
    one_more = refill(row, Wish(), servers(A, C, D), 3, leader=A)
    assert (one_more.members, one_more.group, one_more.founders) == ((OWN, (D, 40)), row.group, FOUNDED)
    cleared = replace(row, gone=((C, 7),))
    assert {peer for peer, _ in refill(cleared, Wish(), servers(A, B, C, D), 3, leader=A).members} == {A, B, D}


def test_who_left_has_something_to_delete_once_the_others_are_the_members() -> None:
    """What is known already, or is not wanted any more, changes nothing."""
    row = resized(resized(alone(), 3), 2)
    assert settled(row, ((A, 10), (C, 30))) == row
    now = settled(row, row.members)
    assert (now.leaving, now.gone, now.members) == ((), ((C, 7),), row.members)
    assert settled(now, now.members) == now


def test_a_stream_of_one_server_moves_by_being_kept_by_two_until_the_other_one_has_it() -> None:
    """Its own disk founds the group, and leaves when both are members; a second wish for the same changes nothing."""
    row = moved(alone(), Wish(), servers(A, B, C), but=A)
    assert isinstance(row, StreamRow)
    assert (row.members, row.founders, row.peer, row.server) == (((A, 10), (B, 20)), ((A, 10),), B, "s2")
    assert thinned(replace(row, leaving=(C,)), 1) == replace(row, leaving=(C,))  # one thing after the other
    there = settled(row, ((A, 10), (B, 20)))
    assert there == row
    thin = thinned(row, 1)
    assert (thin.members, thin.leaving, thin.founders, thin.peer) == (((B, 20),), (A,), FOUNDED, B)
    assert thinned(thin, 1) == thin
    gone = settled(thin, ((B, 20),))
    assert (gone.members, gone.leaving, gone.gone) == (((B, 20),), (), ((A, 7),))
    assert moved(alone(), Wish(), servers(A), but=A) == ", peer offline"
    assert moved(alone(), Wish(), servers(B, C), but=A) == ", peer offline"  # nobody has it but one that is away


def test_a_stream_that_asks_to_be_elsewhere_keeps_the_servers_that_fit() -> None:
    """Others take the places of the rest, which leave when those vote. A server's alone is kept by both until then."""
    row = resized(alone(), 3, there=(A, B, C))
    kinds = {A: "x", B: "y", C: "x", D: "y", E: "y"}
    there = {peer: (10 * peer, Site(f"s{peer}", "c", (tag,), free=100)) for peer, tag in kinds.items()}
    there[6] = (60, Site("s6", "d", ("y",), free=100))
    changed = relocated(row, Wish(tags=("y",)), there, 3, leader=A)
    assert isinstance(changed, StreamRow)
    assert (set(changed.members), changed.leaving) == ({(B, 20), (D, 40), (E, 50)}, (A, C))
    assert (changed.group, changed.founders, changed.peer in changed.peers) == (row.group, FOUNDED, True)
    assert read_row(0, write_row(changed)) == changed
    assert relocated(row, Wish("c"), there, 3, leader=A) == row
    assert relocated(row, Wish(tags=("z",)), there, 3, leader=A) == ", tags not matched ['z']"
    assert isinstance(relocated(row, Wish("d"), there, 3, leader=A), str)  # it has one server
    few = {peer: there[peer] for peer in (A, B, C)}
    assert relocated(row, Wish(tags=("!y",)), few, 3, leader=A) == ", tags excluded ['y']"
    assert relocated(row, Wish(tags=("x",)), few, 3, leader=A) == ", tags not matched ['x']"
    all_new = relocated(row, Wish(tags=("y",)), {**there, B: (20, Site("s2", "c"))}, 2, leader=A)
    assert isinstance(all_new, StreamRow)
    assert (set(all_new.peers), all_new.leaving, all_new.peer in (D, E)) == ({D, E}, (A, B, C), True)
    one = relocated(alone(), Wish("d"), there, 1, leader=A)
    assert isinstance(one, StreamRow)
    assert (one.members, one.founders, one.peer, one.cluster) == (((A, 10), (6, 60)), ((A, 10),), 6, "d")
