"""Streams of three servers that take in what a leaf has: each message once, whatever leader is killed meanwhile, as at
nats-servers.

Three nats-servers with a leaf of their own kind walk the same way, which proves the test. Not here: what a leaf takes
of such a stream (tests/bench/moves.py), positions in the log (tests/native/test_replicas.c).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.js.errors import NoStreamResponseError

from tests import servers
from tests.interop.test_meta_group import CONFIG, L, R, leader_of, three
from tests.rig.official import ask, connect, must
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
ROOM = 20
"""Messages that a stream which discards new ones has room for."""


async def published(client: Client, numbers: range) -> None:
    """Each once, by its id: sent again while there are no responders, as a busy nats-server's cluster says of a stream
    that it has just made."""

    async def stored(number: int) -> bool:
        with contextlib.suppress(NoStreamResponseError):
            await client.jetstream().publish("u.a", str(number).encode(), headers={"Nats-Msg-Id": str(number)})
            return True
        return False

    for number in numbers:
        await until(partial(stored, number), f"{number} is not stored")


async def made(client: Client, name: str, config: dict[str, Any]) -> None:
    """Asks until the stream is there."""

    async def there() -> bool:
        with contextlib.suppress(AssertionError, nats.errors.Error):
            await must(client, f"$JS.API.STREAM.CREATE.{name}", {"name": name, **config})
            return True
        return False

    await until(there, f"{name} is not made")


async def has(client: Client, name: str, count: int) -> str:
    """The stream's leader, once it has so many."""
    leader = ""

    async def all_there() -> bool:
        nonlocal leader
        with contextlib.suppress(AssertionError, nats.errors.Error):
            info = await must(client, f"$JS.API.STREAM.INFO.{name}")
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


async def contents_from(client: Client, name: str, first: int, count: int) -> list[tuple[int, int]]:
    """The same once there are `count` of them from that sequence on: any server that has a copy may answer, also one
    that is behind its leader."""
    found = list[tuple[int, int]]()

    async def all_there() -> bool:
        nonlocal found
        found = await contents(client, name)
        return len(found) >= count and found[0][0] >= first

    await until(all_there, lambda: f"{name} has {found}")
    return found


async def walk(hub: list[servers.Server], leaf: servers.Server) -> None:
    names = {f"s{number}": server for number, server in enumerate(hub)}
    client, below = await connect(hub[0]), await connect(leaf)
    await must(below, "$JS.API.STREAM.CREATE.U", {"name": "U", "subjects": ["u.>"]})
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
        found = await contents_from(client, name, 1, 2 * HALF)
        assert found == [(number + 1, number) for number in range(2 * HALF)]
    await client.close()
    await below.close()


async def taken_out_of_a_full_stream(hub: list[servers.Server]) -> None:
    """What comes to a full stream waits at its origin, while the stream's leader changes, too."""
    client = await connect(hub[0])
    await made(client, "U", {"subjects": ["u.>"]})
    await published(client, range(3 * ROOM))
    full = {"num_replicas": 3, "allow_direct": True, "discard": "new", "max_msgs": ROOM}
    await made(client, "F", full | {"sources": [{"name": "U"}]})
    numbers = list[int]()

    async def purged() -> bool:
        error = (await ask(client, "$JS.API.STREAM.PURGE.F")).get("error")
        assert error is None or error["err_code"] == 10008, error  # nobody leads it just now
        return error is None

    for taken in range(3):
        await has(client, "F", ROOM)
        found = await contents_from(client, "F", taken * ROOM + 1, ROOM)
        assert [sequence for sequence, _ in found] == list(range(taken * ROOM + 1, (taken + 1) * ROOM + 1))
        numbers += [number for _, number in found]
        if taken == 1:
            await must(client, "$JS.API.STREAM.LEADER.STEPDOWN.F")
            await has(client, "F", ROOM)
        await until(purged, "F is not purged")
    assert numbers == list(range(3 * ROOM))
    await client.close()


async def a_bucket_s_mirror(hub: list[servers.Server]) -> None:
    """A bucket discards what is new, and so does its mirror, as the client makes it."""
    client = await connect(hub[0])
    script = client.jetstream()

    async def bucket_made() -> bool:
        with contextlib.suppress(nats.errors.Error):
            await script.create_key_value(bucket="B", replicas=3)
            return True
        return False

    await until(bucket_made, "no bucket is made")
    bucket = await script.key_value("B")
    mirror = {"mirror": {"name": "KV_B"}, "num_replicas": 3, "discard": "new", "max_msgs_per_subject": 1}
    more = {"allow_rollup_hdrs": True, "deny_delete": True, "allow_direct": True, "mirror_direct": True}
    await made(client, "KV_C", mirror | more)
    for number in range(30):
        await bucket.put(f"k{number % 3}", str(number).encode())
    await bucket.delete("k0")

    async def level() -> bool:
        info = await must(client, "$JS.API.STREAM.INFO.KV_C")
        return bool(info["state"]["last_seq"] == 31)

    await until(level, "the mirror is behind")
    assert await contents_of(client, "KV_C") == await contents_of(client, "KV_B")
    await client.close()


async def contents_of(client: Client, name: str) -> list[tuple[int, str, bytes]]:
    found = list[tuple[int, str, bytes]]()
    for sequence in range(1, 32):
        with contextlib.suppress(nats.js.errors.NotFoundError):
            message = await client.jetstream().get_msg(name, seq=sequence)
            found.append((sequence, message.subject or "", message.data or b""))
    return found


@pytest.mark.parametrize("kind", [R, L])
def test_a_full_stream_s_source_and_a_bucket_s_mirror_lose_nothing(kind: str, tmp_path: Path) -> None:
    """Where several servers keep a stream that discards new messages."""
    with three(kind, tmp_path) as hub:
        for server in hub:
            server.start()
        leader_of(hub)
        asyncio.run(taken_out_of_a_full_stream(hub))
        asyncio.run(a_bucket_s_mirror(hub))


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
