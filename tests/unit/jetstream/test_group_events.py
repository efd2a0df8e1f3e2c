"""Events of the groups that keep streams: that too few servers are there for a leader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from leafd.jetstream import group_events
from trio.testing import MockClock


class Group:
    """Three servers, of which this one led S; what is told of it."""

    def __init__(self, there: set[int], leader: str = "") -> None:
        self.told: list[tuple[str, str]] = []
        self.stream: Any = SimpleNamespace(name="S", lead=2, account=SimpleNamespace(name="A"))
        table = SimpleNamespace(streams={"A": {"S": SimpleNamespace(peers=(1, 2, 3))}})
        placing = SimpleNamespace(own=1, table=table, reaches=there.__contains__, cluster_of=self._cluster)
        advisories = SimpleNamespace(
            group=lambda stream, consumer, what, members, system: self.told.append((what, consumer))
        )
        catalogue = SimpleNamespace(accounts={7: SimpleNamespace(id=7, system=True)})
        self.context: Any = SimpleNamespace(
            placing=placing, advisories=advisories, catalogue=catalogue, plane=SimpleNamespace(advised=lambda: True)
        )
        self._about: dict[str, Any] = {"replicas": []} | ({"leader": leader} if leader else {})

    async def _cluster(self, stream: Any) -> dict[str, Any]:
        return self._about


@pytest.mark.parametrize(
    ("there", "leader", "told"),
    [
        (set(), "", [("QUORUM_LOST", ""), ("QUORUM_LOST", "D")]),
        ({2}, "", []),  # two of three elect one
        (set(), "s2", []),
    ],
)
def test_that_a_majority_is_lost_is_told_by_who_led(there: set[int], leader: str, told: list[Any]) -> None:
    """After a while, of the stream and of its consumers; not where another one leads, or may."""
    group = Group(there, leader)
    trio.run(group_events.left, group.context, group.stream, ["D"], clock=MockClock(autojump_threshold=0))
    assert group.told == told


def test_who_leads_again_has_lost_nothing() -> None:
    """In the meantime."""
    group = Group(set())

    async def leads_again() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group_events.left, group.context, group.stream, [])
            await trio.sleep(1)
            group.stream.lead += 1

    trio.run(leads_again, clock=MockClock(autojump_threshold=0))
    assert group.told == []
