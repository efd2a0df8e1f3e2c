"""What is told of a change of a stream's servers, step by step, in nats-server's members; the rest of it, beside
nats-servers, is in tests/interop/test_moves_shown.py."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from leafd.cluster.desired import desired
from leafd.cluster.sharing import moves, timed
from leafd.cluster.table import Origin, StreamRow, read_row, write_row

A, B, C = 1, 2, 3
NAMES = {A: "a", B: "b", C: "c"}
CONFIG = {"name": "S", "num_replicas": 2}
ROW = StreamRow("X", "S", A, "a", "c", 5, "", CONFIG, group=9, members=((A, 10), (B, 20)))


@dataclass
class Member:
    """One of the group, as its leader, A, sees it."""

    peer: int
    voter: bool = True
    lag: int = 0
    heard_ns: int = 1
    disk: int = 10


def told(row: StreamRow, *members: Member, own: int = A) -> dict[str, Any]:
    found = desired(row, members, lambda peer: {"name": NAMES[peer], "peer": str(peer)}, str, own)
    assert found is not None
    return found


def test_a_stream_at_rest_tells_of_no_change() -> None:
    """Nor does one that a server has alone."""
    assert desired(ROW, (), lambda _: {}, str, A) is None
    assert desired(replace(ROW, group=0, members=()), (), lambda _: {}, str, A) is None
    assert timed(ROW, 7) is ROW


def test_the_leader_tells_what_it_does_next_or_waits_for() -> None:
    """B is to go, and C takes its place."""
    row = timed(replace(ROW, members=((A, 10), (C, 30)), leaving=(B,)), 7)
    steps = (
        ((Member(A), Member(B)), "membership", "adding peer c"),
        ((Member(A), Member(B), Member(C, voter=False)), "catchup", "waiting for desired peers to catch up"),
        ((Member(A), Member(B), Member(C, lag=3)), "catchup", "waiting for desired peers to catch up"),
        ((Member(A), Member(B), Member(C, heard_ns=-1)), "catchup", "waiting for desired peers to catch up"),
        ((Member(A), Member(B), Member(C)), "membership", "removing peer b"),
        ((Member(A), Member(C)), "meta", "reporting membership to meta leader"),
    )
    for members, kind, words in steps:
        found = told(row, *members)
        assert (found["status"]["type"], found["status"]["description"]) == (kind, words)
        assert ([one["name"] for one in found["replicas"]], found["created"]) == (["a", "c"], "7")
        assert "origin" not in found


def test_a_leader_that_is_to_go_says_so() -> None:
    """When all others are there; before, it is as with any."""
    row = timed(replace(ROW, members=((B, 20), (C, 30)), leaving=(A,)), 7)
    assert told(row, Member(A), Member(B), Member(C))["status"]["description"].startswith("stepping down")
    assert told(row, Member(A), Member(B))["status"]["type"] == "membership"


def test_who_does_not_lead_tells_of_the_servers_alone() -> None:
    """It does not know how far they are."""
    row = timed(replace(ROW, leaving=(C,)), 7)
    found = desired(row, None, lambda peer: {"name": NAMES[peer]}, str, B)
    assert found is not None
    assert found.keys() == {"created", "name", "replicas"}


def test_what_it_can_be_taken_back_to_is_told_without_what_was_not_asked_for() -> None:
    """A placement of before, and a retention that was changed."""
    plain = Origin(A, "a", "c", ((A, 10),), 1, None)
    whole = replace(plain, placement={"tags": ["x"]}, retention="interest")
    assert told(replace(ROW, origin=plain), Member(A))["origin"] == {"replicas": 1}
    found = told(replace(ROW, origin=whole), Member(A))["origin"]
    assert found == {"replicas": 1, "placement": {"tags": ["x"]}, "retention": "interest"}


def test_a_stream_that_moves_from_one_server_to_another_is_to_be_on_the_new_one() -> None:
    """Both have it until that has all of it."""
    row = replace(ROW, config={"name": "S", "num_replicas": 1}, peer=B)
    assert moves(row)
    assert [one["name"] for one in told(row, Member(A), Member(B))["replicas"]] == ["b"]


def test_the_time_of_a_change_is_that_of_its_begin_and_outlives_the_table_s_bytes() -> None:
    """A second change of the same stream does not move it; its end takes it away."""
    begun = timed(replace(ROW, leaving=(C,)), 7)
    assert timed(replace(begun, leaving=(B, C)), 9).since == 7
    assert read_row(1, write_row(begun)) == replace(begun, revision=1)
    assert timed(replace(begun, leaving=()), 9).since == 0
