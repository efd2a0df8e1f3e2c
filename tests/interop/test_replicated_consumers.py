"""Consumers of a stream that three servers keep, whose leader is killed: nothing is lost, and what was confirmed as
acknowledged does not come again, as at nats-servers.

Three nats-servers walk the same way, which proves the test. Not here: the stream itself (test_replicated_streams.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext

from tests import servers
from tests.interop.test_meta_group import L, R, leader_of, led, three
from tests.interop.test_replicated_streams import led_by, made_by
from tests.rig.comparison import told_alike
from tests.rig.official import connect, must, one_each, patiently
from tests.rig.reports import report
from tests.rig.waiting import until

MESSAGES = 40
TRY_S = 2.0
Pull = JetStreamContext.PullSubscription


async def published(client: Client, numbers: range) -> None:
    """Each is acknowledged; twice is once."""
    for number in numbers:

        async def taken(number: int = number) -> bool:
            headers = {"Nats-Msg-Id": str(number)}
            with contextlib.suppress(nats.errors.Error, nats.js.errors.APIError):
                await client.jetstream().publish("s.a", str(number).encode(), timeout=TRY_S, headers=headers)
                return True
            return False

        await until(taken, "nobody takes what is published")


async def fetched(pull: Pull, count: int, *, confirmed: bool) -> list[int]:
    """The next messages, acknowledged."""
    found = []
    for message in await pull.fetch(count, timeout=TRY_S):
        if confirmed:
            await message.ack_sync(timeout=TRY_S)
        else:
            await message.ack()
        found.append(int(message.data))
    return found


async def rest_of(pull: Pull, missing: set[int]) -> list[int]:
    """All that comes until each of the missing ones has."""
    found: list[int] = []

    async def all_there() -> bool:
        with contextlib.suppress(nats.errors.Error):
            found.extend(await fetched(pull, 10, confirmed=True))
        return missing <= set(found)

    await until(all_there, f"not all of {sorted(missing)} came")
    return found


async def info_of(client: Client, *, but: str = "") -> dict[str, Any]:
    """The consumer's info, once another server than that says that it leads."""
    found: dict[str, Any] = {}

    async def told() -> bool:
        with contextlib.suppress(AssertionError, nats.errors.Error):
            found.update(await must(client, "$JS.API.CONSUMER.INFO.S.C"))
        leader: str = found.get("cluster", {}).get("leader", but)
        return leader != but

    await until(told, "no leader knows the consumer")
    return found


def servers_of(info: dict[str, Any]) -> set[str]:
    """The servers that an info names."""
    cluster = info["cluster"]
    return {cluster["leader"], *(row["name"] for row in cluster["replicas"])}


async def walk(made: list[servers.Server]) -> None:
    names = {f"s{number}": server for number, server in enumerate(made)}
    first = await made_by(made[0], set(names))
    client = await connect(next(server for name, server in names.items() if name != first))
    await published(client, range(MESSAGES))
    config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 2_000_000_000}

    async def there() -> bool:
        with contextlib.suppress(AssertionError, nats.errors.Error):
            await must(client, "$JS.API.CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
            return True
        return False

    await until(there, "the consumer is not made")
    pull = await client.jetstream().pull_subscribe_bind("C", "S")
    confirmed: list[int] = []
    while len(confirmed) < MESSAGES // 4:
        confirmed += await fetched(pull, MESSAGES // 4 - len(confirmed), confirmed=True)
    assert confirmed == list(range(MESSAGES // 4))
    in_flight = [int(message.data) for message in await pull.fetch(5, timeout=TRY_S)]
    names[first].kill()
    await led_by(client, but=first)
    await published(client, range(MESSAGES, MESSAGES + 5))
    info = await info_of(client, but=first)
    assert servers_of(info) == set(names)
    assert info["ack_floor"] == info["ack_floor"] | {"consumer_seq": len(confirmed), "stream_seq": len(confirmed)}
    later = await rest_of(pull, set(range(len(confirmed), MESSAGES + 5)))
    assert not set(later) & set(confirmed)
    assert set(in_flight) <= set(later)
    names[first].start()
    assert (await must(client, "$JS.API.CONSUMER.NAMES.S"))["consumers"] == ["C"]
    leader = (await info_of(client))["cluster"]["leader"]
    await published(client, range(MESSAGES + 5, MESSAGES + 8))
    assert len(await pull.fetch(3, timeout=TRY_S)) == 3
    await must(client, "$JS.API.CONSUMER.LEADER.STEPDOWN.S.C")
    info = await info_of(client, but=leader)
    assert (info["num_ack_pending"], info["num_pending"]) == (3, 0)  # the next leader knows what was delivered
    await must(client, "$JS.API.CONSUMER.DELETE.S.C")
    assert (await must(client, "$JS.API.CONSUMER.NAMES.S"))["consumers"] in ([], None)
    await client.close()


@pytest.mark.parametrize("kind", [R, L])
def test_a_consumer_goes_on_at_the_next_leader(kind: str, tmp_path: Path) -> None:
    """What was confirmed does not come again, and what was in flight does."""
    with three(kind, tmp_path) as made:
        for server in made:
            server.start()
        leader_of(made)
        asyncio.run(walk(made))


@pytest.mark.parametrize("kind", [R, L])
def test_an_ephemeral_consumer_made_again_as_it_is_is_the_same_one(kind: str, tmp_path: Path) -> None:
    """With the action `create` and a name, of streams of one server and of three. (A lone server refuses that, since it
    has given the one that is there an inactive threshold.)"""

    async def walk_again(made: list[servers.Server]) -> list[object]:
        client, said = await connect(made[0]), list[object]()
        for stream, replicas in (("S", 3), ("T", 1)):
            config = {"name": stream, "subjects": [f"{stream}.>"], "num_replicas": replicas}
            await patiently(client, f"STREAM.CREATE.{stream}", config)
            await patiently(client, f"CONSUMER.NAMES.{stream}")
            for more in ({}, {}, {"max_deliver": 7}):
                body = {"stream_name": stream, "config": {"name": "E", "ack_policy": "explicit", **more}}
                asks = json.dumps(body | {"action": "create"}).encode()
                answer = json.loads(
                    (await client.request(f"$JS.API.CONSUMER.CREATE.{stream}.E", asks, timeout=10)).data
                )
                said.append(answer.get("error", {}).get("err_code", answer.get("name")))
        await client.close()
        return said

    with led(kind, tmp_path) as made:
        assert asyncio.run(walk_again(made)) == ["E", "E", 10148] * 2


ASKS: dict[str, dict[str, Any]] = {
    "D": {"durable_name": "D"},
    "D1": {"durable_name": "D1", "num_replicas": 1},
    "E": {},
    "E1": {"num_replicas": 1},
    "E3": {"num_replicas": 3},
    "M": {"mem_storage": True},
}


async def servers_told(made: list[servers.Server], kind: str) -> list[object]:
    """How many servers each consumer has, by its stream's retention, which then changes."""
    async with one_each(made[:1]) as (client,):

        async def counted(stream: str, name: str) -> int:
            info = await patiently(client, f"CONSUMER.INFO.{stream}.{name}")
            return 1 + len(info["cluster"].get("replicas", ())) if info["cluster"].get("leader") else 0

        streams: dict[str, dict[str, Any]] = {
            "S": {"name": "S", "subjects": ["s"], "num_replicas": 3},
            "I": {"name": "I", "subjects": ["i"], "num_replicas": 3, "retention": "interest"},
        }
        for stream, config in streams.items():
            await patiently(client, f"STREAM.CREATE.{stream}", config)
            for name, asks in ASKS.items():
                if stream == "S" or asks.get("num_replicas", 3) == 3:
                    about = {"name": name, "ack_policy": "explicit", "inactive_threshold": 600 * 10**9, **asks}
                    await patiently(
                        client, f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": about}
                    )
        told: list[object] = [{name: await counted("S", name) for name in ASKS}]
        told.append([await counted("I", name) for name in ("D", "E", "E3", "M")])
        if kind == L:  # at each server; a nats-server names those that it has
            for server in made:
                rows = report(server, "jsz?acc=A&consumers=1&config=1")["account_details"][0]["stream_detail"]
                (row,) = [row for row in rows if row["name"] == "S"]
                shown = {one["name"]: 1 + len(one["cluster"].get("replicas", ())) for one in row["consumer_detail"]}
                assert shown == told[0]
        await patiently(client, "STREAM.UPDATE.I", streams["I"] | {"retention": "limits"})

        async def fewer() -> bool:
            return [await counted("I", name) for name in ("D", "E", "E3")] == [3, 1, 3]

        await until(fewer, "an ephemeral one has as many servers as before")
        leader = await led_by(client)
    if kind == L:
        named = {f"s{number}": server for number, server in enumerate(made)}
        named.pop(leader).kill()
        async with one_each(list(named.values())[:1]) as (client,):
            assert (await led_by(client, but=leader)) in named
            found = await patiently(client, "CONSUMER.NAMES.S")
            assert sorted(found["consumers"]) == sorted(ASKS)
    return told


def test_an_ephemeral_consumer_of_a_stream_of_limits_names_its_leader_alone_as_at_nats_servers(tmp_path: Path) -> None:
    """In its info, and in the report of each server. With leafd it goes on when that one dies."""

    def told(kind: str, folder: Path) -> list[object]:
        with led(kind, folder) as made:
            return asyncio.run(servers_told(made, kind))

    told_alike(told, tmp_path)


async def goes_on(made: list[servers.Server]) -> list[object]:
    """What consumers in memory have when another server has been asked to lead their stream."""
    async with one_each(made[:1]) as (client,):
        await patiently(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "num_replicas": 3})
        await published(client, range(3))
        leader, pulls = await led_by(client), []
        for name, asks in {"E": {}, "O": {"ack_policy": "none", "num_replicas": 1}}.items():
            config = {"name": name, "ack_policy": "explicit", "mem_storage": True, "inactive_threshold": 600 * 10**9}
            await patiently(client, f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config | asks})
            pulls.append(await client.jetstream().pull_subscribe_bind(name, "S"))
            (message,) = await pulls[-1].fetch(1, timeout=TRY_S)
            assert message.data == b"0"
        await must(client, "$JS.API.STREAM.LEADER.STEPDOWN.S")
        await led_by(client, but=leader)
        told: list[object] = []
        for name, pull in zip("EO", pulls, strict=True):
            info = await patiently(client, f"CONSUMER.INFO.S.{name}")
            told.append((info["num_ack_pending"], info["num_pending"], info["config"]["mem_storage"]))
            told.append([message.data for message in await pull.fetch(1, timeout=TRY_S)])
        return told


def test_a_consumer_in_memory_goes_on_when_another_server_leads_as_at_nats_servers(tmp_path: Path) -> None:
    """Ephemeral ones, with and without acknowledgements: none begins anew, and none passes anything over."""

    def told(kind: str, folder: Path) -> list[object]:
        with led(kind, folder) as made:
            return asyncio.run(goes_on(made))

    assert told_alike(told, tmp_path)[1::2] == [[b"1"], [b"1"]]
