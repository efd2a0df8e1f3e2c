"""What a server leads goes to others before it ends: to whom, and how long it waits for that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.daemon.handing import HANDED_S, hand_over
from leafd.native_meta import LEADER

OWN = 1


@dataclass
class Member:
    peer: int
    lag: int = 0
    voter: int = 1


@dataclass
class Group:
    """The group of all servers, and streams by number, with who leads each."""

    members: list[Member]
    there: set[int]
    streams: dict[int, int] = field(default_factory=dict)
    leader: int = OWN
    stubborn: bool = False
    """Nobody takes what is handed over."""
    said: list[tuple[str, int]] = field(default_factory=list)

    peer = OWN

    @property
    def leads(self) -> bool:
        return self.leader == OWN

    def linked(self) -> dict[int, str]:
        return {peer: f"s{peer}" for peer in self.there}

    # ---- of the group, of streams and of the plane

    async def look(self, stream: Any = None) -> Any:
        if stream is not None:
            return (type("Look", (), {"leader": self.streams[stream.id], "role": LEADER})(), ())
        return None

    def shared(self) -> Iterator[Any]:
        return iter([type("Stream", (), {"id": number})() for number in self.streams])

    async def leader_of(self, stream: Any) -> int:
        return self.streams[stream.id]

    async def meta_transfer(self, peer: int) -> None:
        self.said.append(("group", peer))
        self.leader = OWN if self.stubborn else peer

    async def stream_group_transfer(self, stream: int, peer: int = 0) -> None:
        if self.stubborn:
            raise t.PlaneError(t.Status.AGAIN, "nobody has all there is")
        self.said.append(("stream", stream))
        self.streams[stream] = peer or 2


class Streams:
    """daemon.replicas.Replicas, of a group."""

    def __init__(self, group: Group) -> None:
        self.shared, self.look, self.leader = group.shared, group.look, group.leader_of


async def handed(group: Group) -> list[tuple[str, int]]:
    await hand_over(group, group, Streams(group))  # type: ignore[arg-type]
    return sorted(group.said)


def run(group: Group) -> tuple[list[tuple[str, int]], float]:
    """What was asked for, and how long that took."""
    clock = trio.testing.MockClock(autojump_threshold=0)

    async def main() -> tuple[list[tuple[str, int]], float]:
        began = trio.current_time()
        return await handed(group), trio.current_time() - began

    return trio.run(main, clock=clock)


def test_the_member_that_lacks_least_leads_all_servers() -> None:
    """Of those that are there and have a vote. Streams that others lead are theirs."""
    members = [Member(OWN), Member(2, lag=9), Member(3, lag=1), Member(4, voter=0), Member(5)]
    said, took = run(Group(members, {2, 3, 4}, {7: OWN, 8: 3, 9: OWN}))
    assert said == [("group", 3), ("stream", 7), ("stream", 9)]
    assert took < HANDED_S


@pytest.mark.parametrize("there", [set(), {4}])
def test_a_server_that_is_alone_ends_at_once(there: set[int]) -> None:
    """Nobody who could lead is there."""
    said, took = run(Group([Member(OWN), Member(2), Member(4, voter=0)], there))
    assert (said, took) == ([], 0)


def test_a_server_does_not_wait_for_long_for_those_who_do_not_take_it() -> None:
    """They elect somebody when it is gone."""
    said, took = run(Group([Member(OWN), Member(2)], {2}, {7: OWN}, stubborn=True))
    assert (said, took) == ([("group", 2)], HANDED_S)
