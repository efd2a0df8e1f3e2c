"""What official clients' own cluster tests ask of three servers, beyond what other tests of ours have: who may be read
in a stream's place, what is told of a consumer, and that a stream which answers takes messages, as at nats-servers.

Three nats-servers walk the same way, which proves the tests. Not here: streams of several servers themselves
(test_replicated_streams.py), streams that are placed (test_placed_streams.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import L, R, led
from tests.interop.test_placed_streams import started
from tests.interop.test_replicated_streams import led_by
from tests.rig.official import connect, must, one_each, patiently
from tests.rig.waiting import until

SHARED = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}
TRIES, TRY_S = 3, 0.25
"""So often, and so far apart, does the official Go client publish where nobody listens."""


@pytest.mark.parametrize("kind", [R, L])
def test_who_asks_for_a_stream_is_told_its_mirrors_and_the_nearest_first(kind: str, tmp_path: Path) -> None:
    """A stream without mirrors, and a mirror, name nobody; a mirror that is deleted is named no more."""
    east = {"name": "S", "domain": "hub", "cluster": "east"}
    west = {"name": "M", "domain": "hub", "cluster": "west"}

    async def walk(up: list[servers.Server]) -> None:
        async with one_each(up, "a") as clients:

            async def told(name: str) -> list[Any]:
                found = [await must(one, f"$JS.API.STREAM.INFO.{name}") for one in (clients[0], clients[2])]
                return [one.get("alternates") for one in found]

            await must(clients[0], "$JS.API.STREAM.CREATE.S", {"name": "S", "placement": {"cluster": "east"}})
            assert await told("S") == [None, None]
            mirror = {"name": "M", "mirror": {"name": "S"}, "placement": {"cluster": "west"}}
            await must(clients[0], "$JS.API.STREAM.CREATE.M", mirror)
            found: list[Any] = []

            async def there() -> bool:
                found[:] = await told("S")
                return None not in found

            await until(there, "the mirror is not told of")
            assert found == [[east, west], [west, east]]
            assert await told("M") == [None, None]
            await must(clients[0], "$JS.API.STREAM.DELETE.M")

            async def gone() -> bool:
                return await told("S") == [None, None]

            await until(gone, "a mirror is told of that was deleted")

    with started(kind, tmp_path) as three:
        asyncio.run(walk(three.servers))


@pytest.mark.parametrize("kind", [R, L])
def test_of_a_consumer_as_many_servers_are_told_as_it_asks_for(kind: str, tmp_path: Path) -> None:
    """With one replica that is its leader alone, with none said as many as its stream has."""

    async def walk(up: list[servers.Server]) -> None:
        client = await connect(up[0])
        await patiently(client, "STREAM.CREATE.S", SHARED)  # a nats-server may say nothing
        for name, more, others in (("ONE", {"num_replicas": 1, "mem_storage": True}, 0), ("ALL", {}, 2)):
            config = {"durable_name": name, "ack_policy": "explicit", **more}
            wanted = {"stream_name": "S", "config": config}
            made = await must(client, f"$JS.API.CONSUMER.DURABLE.CREATE.S.{name}", wanted)
            for found in (made, await must(client, f"$JS.API.CONSUMER.INFO.S.{name}")):
                assert found["cluster"]["leader"] in {"s0", "s1", "s2"}
                assert len(found["cluster"].get("replicas", ())) == others
        await client.close()

    with led(kind, tmp_path) as up:
        asyncio.run(walk(up))


async def taken(client: Client) -> bool:
    """Whether a message is taken within the patience of the official Go client."""
    for _ in range(TRIES):
        with contextlib.suppress(nats.errors.NoRespondersError):
            return "error" not in json.loads((await client.request("s.a", b"1", timeout=5)).data)
        await asyncio.sleep(TRY_S)
    return False


@pytest.mark.parametrize("kind", [R, L])
def test_a_stream_that_answers_takes_messages(kind: str, tmp_path: Path) -> None:
    """Its leader is killed and is back before the others miss it: it is not asked for what only a leader knows."""

    async def walk(up: list[servers.Server]) -> None:
        client = await connect(up[0])
        await patiently(client, "STREAM.CREATE.S", SHARED)  # a nats-server may say nothing
        first = int((await led_by(client)).removeprefix("s"))
        await client.close()
        client = await connect(up[(first + 1) % 3])
        up[first].kill()
        up[first].start()

        async def answers() -> bool:
            with contextlib.suppress(AssertionError, nats.errors.Error):
                await must(client, "$JS.API.STREAM.INFO.S")
                return True
            return False

        await until(answers, "nobody answers for the stream")
        assert await taken(client)
        await client.close()

    with led(kind, tmp_path) as up:
        asyncio.run(walk(up))


@pytest.mark.parametrize("kind", [R, L])
def test_who_leads_already_is_not_made_the_leader(kind: str, tmp_path: Path) -> None:
    """The answer says so, and the leader tells since when it leads."""

    async def walk(up: list[servers.Server]) -> None:
        client = await connect(up[0])
        await patiently(client, "STREAM.CREATE.S", SHARED)  # a nats-server may say nothing
        group = (await must(client, "$JS.API.STREAM.INFO.S"))["cluster"]
        age_s = time.time() - datetime.fromisoformat(group["leader_since"][:19] + "+00:00").timestamp()
        assert 0 <= age_s < 60
        wish = json.dumps({"placement": {"preferred": group["leader"]}}).encode()
        said = json.loads((await client.request("$JS.API.STREAM.LEADER.STEPDOWN.S", wish, timeout=10)).data)
        text = f'preferred server "{group["leader"]}" is already leader'
        assert said["error"] == {"code": 400, "err_code": 10005, "description": text}
        assert (await must(client, "$JS.API.STREAM.INFO.S"))["cluster"]["leader"] == group["leader"]
        await client.close()

    with led(kind, tmp_path) as up:
        asyncio.run(walk(up))
