"""Streams with `compression: s2` on a running daemon: they take less of the disk, and everybody gets what was sent.

What does not live here: what is stored how, what damage does (native/test_packing.c).
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import lmdb
import nats
from nats.aio.client import Client

from tests.servers import LEAFD, Server, running

CONFIGURATION = 'listen: "127.0.0.1:{port}"\njetstream { store_dir: "{store}" }\n'
COUNT = 1000
DIRECT = 50


def telemetry(number: int) -> bytes:
    """Eight readings in one message, as a box sends them."""
    readings = [
        {"sensor": f"box-{number % 40:04d}", "kind": "temperature", "unit": "celsius", "value": number * 7 % 113 + at}
        for at in range(8)
    ]
    return json.dumps(readings).encode()


async def info(server: Server, stream: str) -> dict[str, Any]:
    client = await nats.connect(server.url)
    found = dict(json.loads((await client.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=10)).data))
    await client.close()
    return found


async def counted(client: Client, stream: str) -> int:
    reply = json.loads((await client.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=10)).data)
    return int(reply["state"]["messages"])


async def fill(server: Server, compression: str) -> None:
    """A stream and its mirror."""
    client = await nats.connect(server.url)
    stream = {"name": "S", "subjects": ["s"], "compression": compression, "allow_direct": True}
    mirror = {"name": "M", "mirror": {"name": "S"}, "compression": compression}
    for config in (stream, mirror):
        body = json.dumps(config).encode()
        await client.request(f"$JS.API.STREAM.CREATE.{config['name']}", body, timeout=10)
    for number in range(COUNT):
        await client.publish("s", telemetry(number))
    await client.flush(30)
    async with asyncio.timeout(60):
        while await counted(client, "M") < COUNT:
            await asyncio.sleep(0.05)
    await client.close()


async def everything(server: Server) -> list[bytes]:
    """By a consumer of the stream and one of its mirror, then some by direct gets."""
    client = await nats.connect(server.url)
    context = client.jetstream()
    found = []
    for stream in ("S", "M"):
        subscription = await context.subscribe("s", stream=stream, ordered_consumer=True)
        found += [(await subscription.next_msg(timeout=20)).data for _ in range(COUNT)]
    for number in range(DIRECT):
        found.append((await context.get_msg("S", number + 1, direct=True)).data or b"")
    await client.close()
    return found


def used(directory: Path) -> int:
    """Bytes of the pages that messages are on, once the server has stopped."""
    total = 0
    with (
        lmdb.open(str(directory / "store" / "jetstream"), readonly=True, lock=False, max_dbs=1000) as found,
        found.begin() as transaction,
    ):
        for name in [name for name in transaction.cursor().iternext(values=False) if name.startswith(b"m0")]:
            stat = transaction.stat(found.open_db(name, transaction, create=False))
            total += stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
    return total


def test_a_compressed_stream_is_smaller_and_the_same() -> None:
    """After a restart, when all is read from the disk, consumers, mirrors and direct gets have every byte; the counters
    are those of a stream that is not compressed."""
    sizes, states = {}, {}
    for compression in ("none", "s2"):
        with running(LEAFD, CONFIGURATION) as server:
            asyncio.run(fill(server, compression))
            assert server.stop() == 0
            server.start()
            sent = [telemetry(number) for number in range(COUNT)]
            assert asyncio.run(everything(server)) == [*sent, *sent, *sent[:DIRECT]]
            found = asyncio.run(info(server, "S"))
            assert found["config"]["compression"] == compression
            assert server.stop() == 0
            states[compression] = {key: found["state"][key] for key in ("messages", "bytes", "last_seq")}
            sizes[compression] = used(server.directory)
    assert states["none"] == states["s2"]
    assert sizes["s2"] < sizes["none"] * 2 // 3
