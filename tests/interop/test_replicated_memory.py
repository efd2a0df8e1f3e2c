"""Streams in memory that three servers keep: their limits are those of memory, and what was acknowledged outlives a
server, as at nats-servers.

Three nats-servers walk the same way, which proves the test. Not here: that leafd keeps them in files
(packaging/doc/differences.md), and streams in files (test_replicated_streams.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import nats.errors
import pytest

from tests import servers
from tests.interop.test_meta_group import L, R, led
from tests.interop.test_replicated_consumers import fetched, rest_of
from tests.interop.test_replicated_queues import consumer
from tests.interop.test_replicated_streams import led_by, same_at_both, state_at
from tests.rig.official import connect, must, one_each, patiently
from tests.rig.waiting import eventually, until

MESSAGES = 40
CONFIRMED = 10
LIMIT = 1 << 20
CONFIG = {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "storage": "memory", "max_bytes": LIMIT}


async def walk(made: list[servers.Server], durable: dict[str, Any], config: dict[str, Any]) -> list[object]:
    """The leader is killed when some messages are acknowledged, and comes back; what clients are told."""
    async with one_each(made[:1]) as (client,):
        info = await patiently(client, "STREAM.CREATE.S", config)
        found: list[object] = [info["config"]["storage"], info["config"]["num_replicas"]]
        account = await must(client, "$JS.API.INFO")
        found += [account["reserved_memory"] >= LIMIT, account["reserved_storage"] >= LIMIT]
        for number in range(MESSAGES):
            said = json.loads((await client.request("s.a", str(number).encode(), timeout=20)).data)
            assert said["seq"] == number + 1
        pull = await consumer(client, "D", **durable)
        confirmed: list[int] = []
        while len(confirmed) < CONFIRMED:
            confirmed += await fetched(pull, CONFIRMED - len(confirmed), confirmed=True)
        leader = await led_by(client)
    names = {f"s{number}": server for number, server in enumerate(made)}
    names[leader].kill()
    other = next(server for name, server in names.items() if name != leader)
    client = await connect(other)
    await led_by(client, but=leader)
    state = (await patiently(client, "STREAM.INFO.S"))["state"]
    found += [state["messages"], state["bytes"]]
    pull = await client.jetstream().pull_subscribe_bind("D", "S")
    rest = await rest_of(pull, set(range(CONFIRMED, MESSAGES)))
    found.append(sorted(set(rest) & set(confirmed)))
    await client.close()
    names[leader].start()
    expected = state_at(other)
    eventually(lambda: all(state_at(server) == expected for server in made), lambda: [state_at(one) for one in made])
    return found


@pytest.mark.parametrize("durable", [{}, {"mem_storage": True}], ids=["as the stream", "in memory"])
def test_a_stream_in_memory_outlives_its_leader_as_at_nats_servers(durable: dict[str, Any], tmp_path: Path) -> None:
    """With its durable consumer, and its bytes are counted as those in memory."""
    told = same_at_both(partial(walk, durable=durable, config=CONFIG), tmp_path)
    assert told[0] == "memory"


def test_a_consumer_in_memory_of_a_stream_in_files_outlives_its_leader_as_at_nats_servers(tmp_path: Path) -> None:
    """What it has confirmed does not come again."""
    told = same_at_both(partial(walk, durable={"mem_storage": True}, config={**CONFIG, "storage": "file"}), tmp_path)
    assert told[0] == "file"


async def bucket(made: list[servers.Server]) -> list[object]:
    """A bucket in memory, by the official client; the leader is killed in between."""
    async with one_each(made[:1]) as (client,):
        store = client.jetstream()

        async def there() -> bool:
            with contextlib.suppress(nats.errors.Error):
                await store.create_key_value(bucket="B", storage="memory", replicas=3)
                return True
            return False

        await until(there, "the bucket is not made")
        keys = await store.key_value("B")
        await keys.put("a", b"1")
        leader = (await must(client, "$JS.API.STREAM.INFO.KV_B"))["cluster"]["leader"]
    names = {f"s{number}": server for number, server in enumerate(made)}
    names[leader].kill()
    client = await connect(next(server for name, server in names.items() if name != leader))
    found: list[object] = []

    async def got() -> bool:
        with contextlib.suppress(nats.errors.Error):
            entry = await (await client.jetstream().key_value("B")).get("a")
            await (await client.jetstream().key_value("B")).put("b", b"2")
            found.append(entry.value)
        return bool(found)

    await until(got, "the bucket is not there")
    await client.close()
    names[leader].start()
    return found


@pytest.mark.parametrize("kind", [R, L])
def test_a_bucket_in_memory_is_read_and_written_when_its_leader_is_gone(kind: str, tmp_path: Path) -> None:
    """By the official client."""
    with led(kind, tmp_path) as made:
        assert asyncio.run(bucket(made)) == [b"1"]


def test_memory_outlives_all_its_servers(tmp_path: Path) -> None:
    """As leafd keeps it. At nats-servers it would be gone."""

    async def one_message(made: list[servers.Server]) -> None:
        async with one_each(made[:1]) as (client,):
            await patiently(client, "STREAM.CREATE.S", CONFIG)
            await client.request("s.a", b"x", timeout=20)

    with led(L, tmp_path) as made:
        asyncio.run(one_message(made))
        for server in made:
            server.kill()
        for server in made:
            server.start()
        expected = {"messages": 1, "bytes": 3 + 1 + 16, "first_seq": 1, "last_seq": 1}
        eventually(lambda: all(state_at(one) == expected for one in made), lambda: [state_at(one) for one in made])
