"""The number of servers that keep a stream changes, and one takes another one's place, as at nats-servers: what is
there stays, and who is to have it has it.

Three nats-servers walk the same way, which proves the test. Not here: which servers are chosen
(tests/unit/cluster/test_sharing.py), the order of a group's steps (test_membership.py), copies (test_replicas_grown.c).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import L, R, group_at, leader_of, led
from tests.rig.comparison import told_alike
from tests.rig.official import one_each, stored
from tests.rig.reports import report
from tests.rig.waiting import until

CONFIG = {"name": "S", "subjects": ["s.>"], "allow_direct": True}


async def said(client: Client, subject: str, body: object = None) -> dict[str, Any]:
    """What a server says, also that it refuses; a nats-server that has just got a stream may say nothing."""
    payload = json.dumps(body).encode() if body is not None else b""
    found: dict[str, Any] = {}

    async def heard() -> bool:
        found.clear()
        with contextlib.suppress(nats.errors.Error):
            found.update(json.loads((await client.request(f"$JS.API.{subject}", payload, timeout=5)).data))
        return bool(found) and found.get("error", {}).get("err_code") != 10008

    await until(heard, lambda: f"{subject} is not answered: {found}")
    return found


def kept_by(made: list[servers.Server]) -> dict[str, int]:
    """The servers that have the stream, and how many messages each has."""
    found: dict[str, int] = {}
    for number, server in enumerate(made):
        accounts = report(server, "jsz?acc=A&streams=true").get("account_details") or [{}]
        found |= {f"s{number}": one["state"]["messages"] for one in accounts[0].get("stream_detail") or ()}
    return found


def assets(made: list[servers.Server]) -> list[int]:
    """How many groups of several servers each is in, that of all servers among them."""
    return [report(server, "jsz")["ha_assets"] for server in made]


async def settled(client: Client, made: list[servers.Server], count: int, messages: int, *, but: str = "") -> list[str]:
    """The stream's servers, its leader first, once there are so many, all of them with everything, and nobody else."""
    names: list[str] = []

    async def there() -> bool:
        cluster = (await said(client, "STREAM.INFO.S")).get("cluster", {})
        rows = cluster.get("replicas", ())
        names[:] = [cluster.get("leader", ""), *(row["name"] for row in rows)]
        level = all(row["current"] for row in rows) and but not in names and "" not in names
        return level and len(names) == count and kept_by(made) == dict.fromkeys(names, messages)

    await until(there, lambda: f"not kept by {count}: {names}")
    return names


async def walk(made: list[servers.Server]) -> list[object]:
    """What clients are told on the way."""
    found: list[object] = []

    async def resize(client: Client, count: int) -> None:
        info = await said(client, "STREAM.UPDATE.S", CONFIG | {"num_replicas": count})
        found.append(info.get("error") or (info["config"]["num_replicas"], info["state"]["messages"]))

    async def publish(client: Client, count: int) -> None:
        for _ in range(count):
            found.append((await stored(client, "s.a"))["seq"])

    async def without(client: Client, peer: object) -> None:
        body = {"peer": peer} if peer is not None else None
        found.append({**await said(client, "STREAM.PEER.REMOVE.S", body), "type": ""})

    async with one_each(made) as (first, second, third):
        await said(first, "STREAM.CREATE.S", CONFIG | {"num_replicas": 1})
        consumer = {"durable_name": "d", "ack_policy": "explicit", "ack_wait": 10**9}
        await said(second, "CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": consumer})
        await publish(third, 5)
        pulled = await (await first.jetstream().pull_subscribe_bind("d", "S")).fetch(3)
        await pulled[0].ack_sync()
        for wrong in (None, "", "nobody", "s9"):
            await without(first, wrong)
        await resize(second, 3)
        await publish(first, 3)
        names = await settled(third, made, 3, 8)
        await until(lambda: min(assets(made)) > 1, lambda: assets(made))  # at a nats-server the consumer is one more
        await resize(third, 5)
        await without(first, names[1])  # there is nobody who could take its place
        assert sorted(await settled(third, made, 3, 8)) == sorted(names)
        await resize(first, 2)
        two = await settled(second, made, 2, 8)
        await without(first, two[1])
        await publish(second, 1)
        other = await settled(third, made, 2, 9, but=two[1])
        await without(second, other[0])  # who leads
        moved = await settled(third, made, 2, 9, but=other[0])
        await publish(third, 1)
        await resize(first, 1)
        await settled(second, made, 1, 10)
        assert moved
        if made[0].kind == R:  # whose consumer has no leader for minutes at times: a follower in a group of one
            return found
        await until(lambda: assets(made) == [1, 1, 1], lambda: assets(made))
        taken, again = await third.jetstream().pull_subscribe_bind("d", "S"), set[int]()
        heard: list[object] = []

        async def delivered() -> bool:
            try:
                again.update(message.metadata.sequence.stream for message in await taken.fetch(10, timeout=2))
            except nats.errors.Error as error:
                heard.append(error)
            return len(again) == 9

        await until(delivered, lambda: f"not delivered again: {again}, {heard[-3:]}")
        assert again == set(range(2, 11))  # the first one was acknowledged
    return found


async def harmed(made: list[servers.Server]) -> None:
    """The one that leads is killed while others are let in, and comes back."""
    async with one_each(made) as clients:
        leader = (await said(clients[0], "STREAM.INFO.S"))["cluster"]["leader"]
        await said(clients[0], "STREAM.UPDATE.S", CONFIG | {"num_replicas": 3})
    killed = made[int(leader[1])]
    killed.kill()
    await asyncio.sleep(1)
    killed.start()
    async with one_each([killed]) as (client,):
        await settled(client, made, 3, 10)


def test_a_stream_is_kept_by_more_and_fewer_servers_and_by_others_as_at_nats_servers(tmp_path: Path) -> None:
    """What was not acknowledged is delivered again, and a leader that dies while others are let in goes on with it."""

    def told(kind: str, folder: Path) -> list[object]:
        with led(kind, folder) as made:
            found = asyncio.run(walk(made))
            if kind == L:
                asyncio.run(harmed(made))
            return found

    told_alike(told, tmp_path)


async def hurried(made: list[servers.Server], seed: int) -> None:
    """Changes of which each comes before the one before is carried out, and messages between them."""
    drawn = random.Random(seed)
    count, sent = 3, 0
    async with one_each(made) as clients:
        await said(clients[0], "STREAM.CREATE.S", CONFIG | {"num_replicas": count})
        await settled(clients[1], made, count, 0)
        await asyncio.sleep(1)  # its leader has nothing more to do
        for there_and_back in (1, count):
            await said(clients[0], "STREAM.UPDATE.S", CONFIG | {"num_replicas": there_and_back})
        await settled(clients[1], made, count, 0)
        for _ in range(8):
            if drawn.random() < 0.3:
                await said(drawn.choice(clients), "STREAM.PEER.REMOVE.S", {"peer": f"s{drawn.randrange(3)}"})
            else:
                count = drawn.choice([one for one in (1, 2, 3) if one != count])
                info = await said(drawn.choice(clients), "STREAM.UPDATE.S", CONFIG | {"num_replicas": count})
                assert info["config"]["num_replicas"] == count, info
            with contextlib.suppress(nats.errors.Error):
                await clients[0].request("s.a", b"x", timeout=1)
                sent += 1
            await asyncio.sleep(drawn.choice((0, 0.1, 0.5)))
        state = (await said(clients[1], "STREAM.INFO.S"))["state"]
        assert state["messages"] >= sent
        await settled(clients[2], made, count, state["messages"])


@pytest.mark.parametrize("seed", [1, 2])
def test_changes_that_come_faster_than_they_are_carried_out_end_as_the_last_one_says(tmp_path: Path, seed: int) -> None:
    """The stream is kept by as many servers as were asked for last, each with all its messages."""
    with led(L, tmp_path) as made:
        asyncio.run(hurried(made, seed))


@pytest.mark.parametrize(("kind", "itself"), [(R, False), (L, False), (L, True)])
def test_the_streams_of_a_server_that_is_taken_out_are_kept_by_others(tmp_path: Path, kind: str, itself: bool) -> None:
    """Each server that is left has the stream with all its messages, once one of its two is no member any more, also if
    that one leads and takes itself out."""

    async def removed(made: list[servers.Server]) -> None:
        async with one_each(made) as clients, one_each(made, "sys") as systems:
            await said(clients[0], "STREAM.CREATE.S", CONFIG | {"num_replicas": 2})
            for number in range(9):
                await stored(clients[0], "s.a", b"%d" % number)
            names = await settled(clients[0], made, 2, 9)
            before = leader_of(made)
            if (before == names[1]) != itself:
                to = {"placement": {"preferred": names[int(itself)]}}
                await said(systems[0], "META.LEADER.STEPDOWN", to)
                await asyncio.to_thread(leader_of, made, but=before)
            # By its name the reference's leader does not find itself.
            named = {"peer_id": group_at(made[0])["peer"]} if itself else {"peer": names[1]}
            answer = await said(systems[int(names[0][1:])], "SERVER.REMOVE", named)
            assert answer.get("success"), answer
            left = [client for number, client in enumerate(clients) if f"s{number}" != names[1]]

            async def moved() -> bool:
                cluster = (await said(left[0], "STREAM.INFO.S")).get("cluster", {})
                rows = cluster.get("replicas", ())
                keepers = {cluster.get("leader", ""), *(row["name"] for row in rows)}
                has = kept_by(made)
                return keepers == {"s0", "s1", "s2"} - {names[1]} and all(has.get(one) == 9 for one in keepers)

            await until(moved, lambda: f"it is not kept by the others: {kept_by(made)}")

    with led(kind, tmp_path) as made:
        asyncio.run(removed(made))
