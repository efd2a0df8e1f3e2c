"""Streams of three servers that take in what a leaf has: each message once, whatever leader is killed meanwhile, as at
nats-servers.

Three nats-servers with a leaf of their own kind walk the same way, which proves the test. Not here: what a leaf takes
of such a stream (tests/bench/moves.py), positions in the log (tests/native/test_replicas.c).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import CONFIG, L, R, leader_of, three
from tests.interop.test_replicated_streams import asked
from tests.rig.official import connect
from tests.rig.waiting import until

HUB = CONFIG.replace("jetstream {", 'leafnodes { listen: "127.0.0.1:{leaf_port}" }\njetstream { domain: hub,')
LEAF = """
listen: "127.0.0.1:{port}"
server_name: leaf
accounts { A { users: [ {user: a, password: a} ], jetstream: enabled } }
jetstream { store_dir: "{store}", domain: leaf }
leafnodes { remotes: [ { urls: [{urls}], account: A } ] }
"""
HALF = 300


async def published(client: Client, numbers: range) -> None:
    for number in numbers:
        await client.jetstream().publish("u.a", str(number).encode(), headers={"Nats-Msg-Id": str(number)})


async def made(client: Client, name: str, config: dict[str, Any]) -> None:
    """Asks until the stream is there."""

    async def there() -> bool:
        with contextlib.suppress(AssertionError, nats.errors.Error):
            await asked(client, f"STREAM.CREATE.{name}", {"name": name, **config})
            return True
        return False

    await until(there, f"{name} is not made")


async def has(client: Client, name: str, count: int) -> str:
    """The stream's leader, once it has so many."""
    leader = ""

    async def all_there() -> bool:
        nonlocal leader
        with contextlib.suppress(AssertionError, nats.errors.Error):
            info = await asked(client, f"STREAM.INFO.{name}")
            leader = info["cluster"].get("leader", "")
            return bool(leader) and info["state"]["messages"] >= count
        return False

    await until(all_there, f"{name} has not all")
    return leader


async def contents(client: Client, name: str) -> list[tuple[int, int]]:
    """Sequence and number of each message."""
    inbox, found = client.new_inbox(), list[tuple[int, int]]()
    subscription = await client.subscribe(inbox)
    body = json.dumps({"seq": 1, "batch": 2 * HALF + 10}).encode()
    await client.publish(f"$JS.API.DIRECT.GET.{name}", body, reply=inbox)
    while (message := await subscription.next_msg(timeout=10)).data:
        assert message.headers is not None
        found.append((int(message.headers["Nats-Sequence"]), int(message.data)))
    return found


async def walk(hub: list[servers.Server], leaf: servers.Server) -> None:
    names = {f"s{number}": server for number, server in enumerate(hub)}
    client, below = await connect(hub[0]), await connect(leaf)
    await asked(below, "STREAM.CREATE.U", {"name": "U", "subjects": ["u.>"]})
    await published(below, range(HALF))
    origin = {"name": "U", "external": {"api": "$JS.leaf.API"}}
    shared = {"num_replicas": 3, "allow_direct": True}
    await made(client, "S", shared | {"sources": [origin]})
    await made(client, "M", shared | {"mirror": origin})
    await has(client, "M", HALF)
    leader = await has(client, "S", HALF)
    await client.close()
    publishing = asyncio.create_task(published(below, range(HALF, 2 * HALF)))
    names[leader].kill()
    await publishing
    client = await connect(next(server for name, server in names.items() if name != leader))
    for name in ("S", "M"):
        await has(client, name, 2 * HALF)
        assert await contents(client, name) == [(number + 1, number) for number in range(2 * HALF)]
    await client.close()
    await below.close()


@pytest.mark.parametrize("kind", [R, L])
def test_what_a_leaf_has_comes_once_though_a_leader_is_killed(kind: str, tmp_path: Path) -> None:
    """A source and a mirror of three servers go on at the next leader behind what is committed."""
    with three(kind, tmp_path, HUB) as hub, contextlib.ExitStack() as stack:
        for server in hub:
            server.start()
        leader_of(hub)
        folder = tmp_path / "leaf"
        folder.mkdir()
        urls = ", ".join(f'"nats://a:a@127.0.0.1:{server.ports["leaf_port"]}"' for server in hub)
        leaf = servers.make(kind, LEAF, folder, urls=urls)
        leaf.start()
        stack.callback(leaf.stop)
        asyncio.run(walk(hub, leaf))
