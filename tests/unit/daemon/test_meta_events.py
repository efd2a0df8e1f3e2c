"""Events of the group of all servers: told once, when it happens, and not because a server has just begun to look."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from leafd.cluster.council import banned_row
from leafd.cluster.founding import Disk
from leafd.daemon.current import Current
from leafd.daemon.meta_events import MetaEvents
from leafd.daemon.meta_group import MetaGroup
from leafd.monitor.facts import Facts
from leafd.native_plane import Plane

from tests.rig.fakes import stand_in

OWN = (7, 70)
OUT = {banned_row(Disk(*OWN)): (1, b"")}


class Meta:
    """The group, as this server sees it."""

    def __init__(self) -> None:
        self.peer = OWN[0]
        self.on_lead: list[Callable[[], None]] = []
        self.on_rows: list[Callable[[Mapping[bytes, tuple[int, bytes]], int], None]] = []

    @property
    def disk(self) -> tuple[int, int]:
        return OWN

    @property
    def system(self) -> str:
        return "SYS"

    def report(self, cluster: str, *, at_followers: bool = False) -> dict[str, Any]:
        return {"replicas": [{"name": "s2"}]}


class World:
    """A server of a group, and what it has told."""

    def __init__(self, *, advised: bool = True, domain: str = "hub") -> None:
        self.meta = Meta()
        self.told: list[tuple[int, str, dict[str, Any]]] = []
        plane = cast(Plane, SimpleNamespace(advised=lambda: advised, publish=self.publish))
        current = cast(Current, SimpleNamespace(account={"SYS": SimpleNamespace(id=2)}.get))
        facts = cast(Facts, SimpleNamespace(name="s1", server_id="N1", cluster="C", domain=domain))
        MetaEvents(plane, stand_in(MetaGroup, self.meta), current, facts)

    def publish(self, account: int, subject: str, payload: bytes) -> None:
        self.told.append((account, subject, json.loads(payload)))

    def rows(self, *seen: Mapping[bytes, tuple[int, bytes]]) -> list[str]:
        """What is told of these tables, one after the other."""
        for rows in seen:
            for look in self.meta.on_rows:
                look(rows, 0)
        return [subject for _, subject, _ in self.told]


def test_a_new_leader_is_told_in_the_system_account() -> None:
    """With the members that there are, this one among them."""
    world = World()
    for lead in world.meta.on_lead:
        lead()
    ((account, subject, event),) = world.told
    assert (2, "$JS.EVENT.ADVISORY.DOMAIN.LEADER_ELECTED") == (account, subject)
    assert "io.nats.jetstream.advisory.v1.domain_leader_elected" == event["type"]
    assert (["s2", "s1"], "C", "hub") == ([one["name"] for one in event["replicas"]], event["cluster"], event["domain"])


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ([OUT], 0),  # it was out before this server was started
        ([{}], 0),
        ([{}, OUT], 1),
        ([{}, OUT, OUT], 1),
        ([OUT, {}, OUT], 1),  # was let in again in between
    ],
)
def test_that_this_server_was_taken_out_is_told_when_it_happens(
    seen: list[Mapping[bytes, tuple[int, bytes]]], told: int
) -> None:
    """Once, by the server itself; a restart of one that is out tells nothing."""
    assert ["$JS.EVENT.ADVISORY.SERVER.REMOVED"] * told == World().rows(*seen)


def test_where_nobody_listens_nothing_is_written() -> None:
    """As other advisories."""
    assert [] == World(advised=False).rows({}, OUT)


def test_without_a_domain_none_is_said() -> None:
    """An empty name would be one."""
    world = World(domain="")
    world.rows({}, OUT)
    assert "domain" not in world.told[0][2]
