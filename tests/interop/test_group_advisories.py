"""Events of the groups that keep streams: who leads a stream and its consumers, in their account and in the system
account, as at nats-servers; and of the group of all servers.

Not here: that too few servers are there for a leader (unit/jetstream/test_group_events.py), other advisories.
"""

from __future__ import annotations

import contextlib
import json
from functools import partial
from pathlib import Path
from typing import Any

from nats.aio.msg import Msg

from tests import servers
from tests.interop.test_meta_group import leader_of
from tests.interop.test_replicated_streams import led_by, same_at_both
from tests.rig.official import ask_all, connect, must, patiently
from tests.rig.waiting import until

DURABLE: dict[str, Any] = {"durable_name": "D", "ack_policy": "explicit"}
ALONE: dict[str, Any] = {"name": "E", "ack_policy": "explicit", "num_replicas": 1, "inactive_threshold": 60 * 10**9}
EPHEMERAL: dict[str, Any] = {"name": "F", "ack_policy": "explicit"}
ELECTIONS = 2
"""Of the stream and of its consumer with replicas, each in two accounts."""
STEPDOWNS_MAX = 4
WHOLE_S = 10.0


async def walk(made: list[servers.Server]) -> list[object]:
    """A stream and three consumers, of which one keeps replicas, are made, and the stream's lead is handed over."""
    clients = [await connect(made[0]), await connect(made[0], "sys")]
    told: list[tuple[str, str, dict[str, Any]]] = []

    stream, consumer = (
        f"$JS.EVENT.ADVISORY.{one}" for one in ("STREAM.LEADER_ELECTED.S", "CONSUMER.LEADER_ELECTED.S.D")
    )

    async def hear(place: str, message: Msg) -> None:
        if message.subject.startswith((stream, consumer[:-1])):  # and not that another one leads all servers
            told.append((place, message.subject, json.loads(message.data)))

    for place, client in zip(("A", "SYS"), clients, strict=True):

        async def heard(message: Msg, place: str = place) -> None:
            await hear(place, message)

        await client.subscribe("$JS.EVENT.ADVISORY.>", cb=heard)
        await client.flush()

    def count(subject: str) -> int:
        return sum(subject == one[1] for one in told)

    await patiently(clients[0], "STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "num_replicas": 3})
    for config in (ALONE, EPHEMERAL):
        await must(clients[0], f"$JS.API.CONSUMER.CREATE.S.{config['name']}", {"stream_name": "S", "config": config})
    await must(clients[0], "$JS.API.CONSUMER.DURABLE.CREATE.S.D", {"stream_name": "S", "config": DURABLE})
    await until(lambda: min(count(stream), count(consumer)) >= ELECTIONS, lambda: told)
    shapes = {(place, subject): shape(event) for place, subject, event in told}
    first = await led_by(clients[0])
    assert first in {one[2]["leader"] for one in told if one[1] == stream}
    told.clear()
    await must(clients[0], "$JS.API.STREAM.LEADER.STEPDOWN.S")
    await until(lambda: count(stream) >= ELECTIONS, lambda: told)
    assert await led_by(clients[0], but=first) in {one[2]["leader"] for one in told if one[1] == stream}
    for client in clients:
        await client.close()
    return [(one, shapes[one]) for one in sorted(shapes)]


def shape(event: dict[str, Any]) -> list[object]:
    """What it has, and the names of the servers."""
    names = sorted(one["name"] for one in event["replicas"])
    rows = {key for one in event["replicas"] for key in one} - {"lag", "offline"}
    return [sorted(event), event["type"], event.get("account"), event["stream"], names, sorted(rows)]


def test_who_leads_a_stream_and_its_consumers_is_told_as_at_nats_servers(tmp_path: Path) -> None:
    """When they are made, and when another server leads. Of one with one replica, or an ephemeral one, nothing is."""
    same_at_both(walk, tmp_path)


def named(event: dict[str, Any]) -> tuple[str, list[str]]:
    """The names of the leader and of all members."""
    members = {row["peer"]: row["name"] for row in event["replicas"]}
    return members.get(event["leader"], ""), sorted(members.values())


async def all_servers(made: list[servers.Server]) -> list[object]:
    """Another server leads the group of all, and then a third one is taken out of it."""
    names = {f"s{number}": server for number, server in enumerate(made)}
    stays = leader_of(made)
    client = await connect(names[stays], "sys")
    told: list[tuple[str, dict[str, Any]]] = []

    async def heard(message: Msg) -> None:
        told.append((message.subject.removeprefix("$JS.EVENT.ADVISORY."), json.loads(message.data)))

    for what in ("DOMAIN.>", "SERVER.>", "API"):
        await client.subscribe(f"$JS.EVENT.ADVISORY.{what}", cb=heard)
    await client.flush()
    shown = await ask_all(client, "$SYS.REQ.SERVER.PING", answers=3)
    ids = {one["server"]["name"]: one["server"]["id"] for one in shown}

    def found(what: str) -> list[dict[str, Any]]:
        return [event for subject, event in told if subject == what]

    def whole(leader: str) -> list[dict[str, Any]]:
        """The events of that leader which name all members."""
        return [event for event in found("DOMAIN.LEADER_ELECTED") if named(event) == (leader, sorted(names))]

    for _ in range(STEPDOWNS_MAX):
        # (On a busy machine an event tells of fewer members, or of a server that led for a moment. Then once more.)
        await must(client, "$JS.API.META.LEADER.STEPDOWN")
        await until(lambda: found("DOMAIN.LEADER_ELECTED"), lambda: told)
        leader = leader_of(made)
        with contextlib.suppress(AssertionError):
            await until(partial(whole, leader), seconds=WHOLE_S)
            break
    elected = whole(leader)[-1]
    goes = next(name for name in names if name not in (stays, leader))
    await must(client, "$JS.API.SERVER.REMOVE", {"peer": goes})
    await until(lambda: found("SERVER.REMOVED"), lambda: told)
    removed = found("SERVER.REMOVED")[-1]
    orders = ("$JS.API.META.LEADER.STEPDOWN", "$JS.API.SERVER.REMOVE")

    def audited() -> dict[str, dict[str, Any]]:
        return {event["subject"]: event for event in found("API") if event["subject"] in orders}

    await until(lambda: len(audited()) == len(orders), lambda: told)
    await client.close()
    return [
        *((one, sorted(audited()[one]), audited()[one]["type"], audited()[one].get("request")) for one in orders[:1]),
        (sorted(audited()[orders[1]]), goes in audited()[orders[1]]["request"]),
        sorted(elected),
        (elected["type"], elected["cluster"]),
        sorted(removed),
        (removed["type"], removed["cluster"], removed["server"] == goes, removed["server_id"] == ids[goes]),
    ]


def test_who_leads_all_servers_and_who_is_taken_out_is_told_as_at_nats_servers(tmp_path: Path) -> None:
    """In the system account: by the new leader, and by the server that is taken out."""
    same_at_both(all_servers, tmp_path)
