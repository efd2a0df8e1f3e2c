"""What a server leads goes to others before it ends: to whom, and how long it waits for that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.daemon.handing import AGAIN_MAX_S, HANDED_S, SETTLED_S, Refusals, hand_over
from leafd.native_meta import LEADER, MetaMember

OWN = 1


def member(peer: int, lag: int = 0, voter: int = 1, trip_ns: int = 0) -> MetaMember:
    return MetaMember(peer, 100 + peer, lag, 0, voter, 0, trip_ns)


@dataclass
class Group:
    """The group of all servers, and streams by number, with who leads each."""

    members: list[MetaMember]
    there: set[int]
    streams: dict[int, int] = field(default_factory=dict)
    leader: int = OWN
    stubborn: bool = False
    """Nobody takes what is handed over."""
    said: list[tuple[str, int]] = field(default_factory=list)
    full: set[int] = field(default_factory=set)
    """The servers that refuse publishers."""

    peer = OWN

    @property
    def leads(self) -> bool:
        return self.leader == OWN

    def patience(self, seconds: float) -> float:
        return seconds

    def linked(self) -> dict[int, str]:
        return {peer: f"s{peer}" for peer in self.there}

    # ---- of the group, of streams and of the plane

    def stats(self) -> Any:
        return type("Stats", (), {"refuses_files": OWN in self.full})()

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
        self.shared, self.look, self.leader = group.shared, self._look, group.leader_of
        self._group = group

    async def _look(self, stream: Any) -> Any:
        return (await self._group.look(stream))[0], self._group.members

    def has_room(self, peer: int) -> bool:
        return peer in self._group.there and peer not in self._group.full


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
    members = [member(OWN), member(2, lag=9), member(3, lag=1), member(4, voter=0), member(5)]
    said, took = run(Group(members, {2, 3, 4}, {7: OWN, 8: 3, 9: OWN}))
    assert said == [("group", 3), ("stream", 7), ("stream", 9)]
    assert took < HANDED_S


def test_of_those_that_lack_as_much_the_nearest_leads() -> None:
    """With a leader that is far each message takes its way there and back. One whose way is not known comes last."""
    members = [member(OWN), member(2), member(3, trip_ns=10**9), member(4, trip_ns=10**6), member(5, 1, trip_ns=1)]
    said, _ = run(Group(members, {2, 3, 4, 5}))
    assert said == [("group", 4)]


@pytest.mark.parametrize("there", [set(), {4}])
def test_a_server_that_is_alone_ends_at_once(there: set[int]) -> None:
    """Nobody who could lead is there."""
    said, took = run(Group([member(OWN), member(2), member(4, voter=0)], there))
    assert (said, took) == ([], 0)


def test_a_server_does_not_wait_for_long_for_those_who_do_not_take_it() -> None:
    """They elect somebody when it is gone."""
    said, took = run(Group([member(OWN), member(2)], {2}, {7: OWN}, stubborn=True))
    assert (said, took) == ([("group", 2)], HANDED_S)


def refusing(group: Group, *changes: tuple[float, set[int]]) -> list[tuple[str, int]]:
    """What was handed over when publishers are refused at 0 s. changes: after so long these are full."""
    clock = trio.testing.MockClock(autojump_threshold=0)

    async def main() -> None:
        refusals = Refusals(group, group, Streams(group))  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refusals.run)
            refusals.begin()
            for after_s, full in changes:
                await trio.sleep(after_s)
                group.full = full
            await trio.sleep(2 * AGAIN_MAX_S)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)
    return sorted(group.said)


def test_a_server_whose_disk_is_full_hands_over_to_those_that_have_room() -> None:
    """Not at once: the others tell first whether they are as full."""
    members = [member(OWN), member(2), member(3, lag=9), member(4, voter=0)]
    group = Group(members, {2, 3, 4}, {7: OWN, 8: 2}, full={OWN})
    assert refusing(group, (SETTLED_S / 2, {OWN, 2})) == [("group", 3), ("stream", 7)]
    assert (group.streams, group.leader) == ({7: 3, 8: 2}, 3)


def test_where_all_are_full_the_leads_stay_until_one_has_room() -> None:
    """A member that cannot write could not be elected either."""
    members, all_full = [member(OWN), member(2), member(3)], {OWN, 2, 3}
    assert refusing(Group(members, {2, 3}, {7: OWN}, full=all_full)) == []
    group = Group(members, {2, 3}, {7: OWN}, full=all_full)
    assert refusing(group, (SETTLED_S, {OWN, 3})) == [("group", 2), ("stream", 7)]


def test_a_disk_that_was_full_for_a_moment_keeps_its_leads() -> None:
    """Room was made before the others had told of theirs."""
    assert refusing(Group([member(OWN), member(2)], {2}, {7: OWN}, full={OWN}), (SETTLED_S / 2, set())) == []
