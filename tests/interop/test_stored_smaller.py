"""Streams with `compression: s2` on a running daemon: they take less of the disk, and everybody gets what was sent.

What does not live here: what is stored how, what damage does (native/test_packing.c).
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
from nats.js.api import StreamConfig, StreamSource

from tests.servers import LEAFD, Server, running

CONFIGURATION = 'listen: "127.0.0.1:{port}"\njetstream { store_dir: "{store}" }\n'
COUNT = 400


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


async def fill(server: Server, compression: str) -> None:
    client = await nats.connect(server.url)
    body = {"name": "S", "subjects": ["s"], "compression": compression, "allow_direct": True}
    await client.request("$JS.API.STREAM.CREATE.S", json.dumps(body).encode(), timeout=10)
    context = client.jetstream()
    for number in range(COUNT):
        await context.publish("s", telemetry(number))
    await context.add_stream(StreamConfig(name="M", mirror=StreamSource(name="S")))
    while (await context.stream_info("M")).state.messages < COUNT:
        await asyncio.sleep(0.05)
    await client.close()


async def everything(server: Server) -> list[bytes]:
    """By a consumer of the stream, one of its mirror, and direct gets."""
    client = await nats.connect(server.url)
    context = client.jetstream()
    found = []
    for stream in ("S", "M"):
        subscription = await context.subscribe("s", stream=stream, ordered_consumer=True)
        found += [(await subscription.next_msg(timeout=20)).data for _ in range(COUNT)]
    for number in range(COUNT):
        found.append((await context.get_msg("S", number + 1, direct=True)).data or b"")
    await client.close()
    return found


def used(directory: Path) -> int:
    """Of the database's file, what is compressed away shows once it is written."""
    return (directory / "store" / "jetstream" / "data.mdb").stat().st_blocks * 512


def test_a_compressed_stream_is_smaller_and_the_same() -> None:
    """After a restart, when all is read from the disk, consumers, mirrors and direct gets have every byte; the counters
    are those of a stream that is not compressed."""
    sizes, states = {}, {}
    for compression in ("none", "s2"):
        with running(LEAFD, CONFIGURATION) as server:
            asyncio.run(fill(server, compression))
            assert server.stop() == 0
            server.start()
            assert asyncio.run(everything(server)) == [telemetry(number) for _ in range(3) for number in range(COUNT)]
            found = asyncio.run(info(server, "S"))
            assert found["config"]["compression"] == compression
            states[compression] = {key: found["state"][key] for key in ("messages", "bytes", "last_seq")}
            sizes[compression] = used(server.directory)
    assert states["none"] == states["s2"]
    assert sizes["s2"] < sizes["none"]
