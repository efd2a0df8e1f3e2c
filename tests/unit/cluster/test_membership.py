"""The members of a stream's group come to those that the table wants, one change after the other."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from leafd.cluster.council import LEARN, PROMOTE, REMOVE
from leafd.cluster.membership import HEARD_NS, Change, next_change
from leafd.native_meta import MetaMember, member_info

A, B, C, D = 1, 2, 3, 4


class Member(NamedTuple):
    peer: int
    disk: int
    voter: int = 1
    heard_ns: int = 0


def three(*more: Member) -> list[Member]:
    return [Member(A, 10), Member(B, 20), *more]


WANTED = {A: 10, B: 20, C: 31}


@pytest.mark.parametrize(
    ("members", "wanted", "change"),
    [
        pytest.param(three(Member(C, 31)), WANTED, None, id="all as wanted"),
        pytest.param(three(Member(C, 30, heard_ns=-1)), WANTED, (REMOVE, C, 30), id="a wiped disk goes first"),
        pytest.param(three(Member(C, 30, heard_ns=HEARD_NS)), WANTED, (REMOVE, C, 30), id="not heard lately"),
        pytest.param(three(Member(C, 30, heard_ns=1)), WANTED, (LEARN, C, 31), id="a disk that is heard is not gone"),
        pytest.param(three(), WANTED, (LEARN, C, 31), id="the new disk learns"),
        pytest.param(
            [Member(peer, 10) for peer in range(1, 10)],
            dict.fromkeys(range(5, 11), 10),
            (REMOVE, B, 10),
            id="where a group is full one that is not wanted makes room",
        ),
        pytest.param(three(Member(C, 31, 0)), WANTED, (PROMOTE, C, 31), id="who has learnt votes"),
        pytest.param(three(), {A: 10, B: 20, C: 0}, None, id="a server without a known disk is waited for"),
        pytest.param(three(Member(C, 30)), {A: 10, B: 20, C: 0}, None, id="what is not known takes nobody out"),
        pytest.param(three(Member(C, 31), Member(D, 40)), WANTED, (REMOVE, D, 40), id="one too many"),
        pytest.param(three(Member(D, 40)), WANTED, (LEARN, C, 31), id="who is too many stays until others vote"),
        pytest.param([Member(A, 10)], {B: 20}, (LEARN, B, 20), id="the leader takes itself out last"),
        pytest.param([Member(A, 10), Member(B, 20)], {B: 20}, None, id="nor at all"),
    ],
)
def test_the_next_change_is_the_one_that_is_wanted(
    members: list[Member], wanted: dict[int, int], change: tuple[int, int, int] | None
) -> None:
    """Nothing is taken out that may be needed."""
    assert next_change(members, wanted, A) == (Change(*change) if change is not None else None)


def test_any_members_become_those_that_are_wanted() -> None:
    """And at no step there is nobody who votes."""
    draw = random.Random(3)
    for _ in range(500):
        members = {(A, 10): True} | {(draw.randrange(2, 7), draw.randrange(9)): draw.random() < 0.8 for _ in range(4)}
        wanted = {A: 10} | {draw.randrange(2, 7): draw.randrange(1, 9) for _ in range(draw.randrange(5))}
        for _ in range(40):
            seen = [Member(peer, disk, voter, -1) for (peer, disk), voter in members.items()]
            change = next_change(seen, wanted, A)
            if change is None:
                break
            disk = (change.peer, change.disk)
            if change.what == REMOVE:
                del members[disk]
            else:
                assert (disk in members) == (change.what == PROMOTE)
                members[disk] = change.what == PROMOTE
            assert any(members.values())
        assert members == dict.fromkeys(wanted.items(), True)


@pytest.mark.parametrize(
    ("voter", "lag", "heard_ns", "current"), [(1, 0, 9, True), (0, 0, 9, False), (1, 3, 9, False), (1, 0, -1, False)]
)
def test_only_who_counts_among_a_majority_is_shown_as_current(
    voter: int, lag: int, heard_ns: int, current: bool
) -> None:
    """Whoever takes its leader away before that has one less than it looks like."""
    assert member_info("s1", MetaMember(1, 10, lag, heard_ns, voter, 0))["current"] is current
