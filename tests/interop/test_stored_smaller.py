"""Streams with `compression: s2` on a running daemon: they take less of the disk, and everybody gets what was sent.

Not here: what is stored how, what damage does within a message (native/test_packing.c).
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import lmdb
import nats
from nats.aio.client import Client

from tests import servers
from tests.rig.official import ask
from tests.servers import LEAFD, Server, running

CONFIGURATION = 'listen: "127.0.0.1:{port}"\njetstream { store_dir: "{store}" }\n'
COUNT = 1000
DIRECT = 50
READINGS = 1500
FEW = 600


def telemetry(number: int) -> bytes:
    """Eight readings in one message, as a box sends them."""
    readings = [
        {"sensor": f"box-{number % 40:04d}", "kind": "temperature", "unit": "celsius", "value": number * 7 % 113 + at}
        for at in range(8)
    ]
    return json.dumps(readings).encode()


async def info(server: Server, stream: str) -> dict[str, Any]:
    client = await nats.connect(server.url)
    found = await ask(client, f"$JS.API.STREAM.INFO.{stream}")
    await client.close()
    return found


async def counted(client: Client, stream: str) -> int:
    return int((await ask(client, f"$JS.API.STREAM.INFO.{stream}"))["state"]["messages"])


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


def reading(number: int) -> bytes:
    """A single one, too short to have anything to copy from itself."""
    fields = {"box": f"box-{number % 40:04d}", "sensor": "engine", "rpm": number * 7919 % 4000, "ok": True}
    return json.dumps(fields | {"temperature": number * 31 % 1200 / 10, "pressure": number * 17 % 800 / 100}).encode()


async def read_in_one(server: Server, count: int) -> list[bytes]:
    client = await nats.connect(server.url)
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox, pending_msgs_limit=-1)
    await client.publish("$JS.API.DIRECT.GET.S", json.dumps({"seq": 1, "batch": count}).encode(), reply=inbox)
    found = [(await subscription.next_msg(timeout=20)).data for _ in range(count)]
    await client.close()
    return found


async def read(server: Server, first: int, upto: int) -> list[bytes | None]:
    """One by one; None: the server cannot."""
    client = await nats.connect(server.url)
    found = []
    for sequence in range(first, upto + 1):
        answer = await client.request("$JS.API.DIRECT.GET.S", json.dumps({"seq": sequence}).encode(), timeout=10)
        found.append(None if (answer.headers or {}).get("Status") else answer.data)
    await client.close()
    return found


async def publish(server: Server, first: int, upto: int, compression: str) -> None:
    """With the stream made, or changed, to that."""
    client = await nats.connect(server.url)
    body = json.dumps({"name": "S", "subjects": ["s"], "compression": compression, "allow_direct": True}).encode()
    for verb in ("CREATE", "UPDATE"):
        reply = await client.request(f"$JS.API.STREAM.{verb}.S", body, timeout=10)
    assert json.loads(reply.data)["config"]["compression"] == compression
    for number in range(first, upto):
        await client.publish("s", reading(number))
    # (Acknowledged: on disk, with all before it.)
    assert (await client.jetstream().publish("s", reading(upto), timeout=30)).seq == upto
    await client.close()


def dictionaries(data: Path) -> list[bytes]:
    """The records of both databases, each once."""
    found = set()
    with lmdb.open(str(data), readonly=True, lock=False, max_dbs=1000) as store, store.begin() as transaction:
        for name in (b"dictionaries", b"dictionary_copies"):
            database = store.open_db(name, transaction, create=False)
            found |= {value for _, value in transaction.cursor(database)}
    return sorted(found)


def store_command(*words: object) -> tuple[int, Any]:
    done = servers.leafd("store", *words, "--json")
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_single_readings_of_a_compressed_stream_take_less_than_half() -> None:
    """Behind a dictionary of readings before them; also those from before and after the compression was switched off
    and on again come back."""
    sizes = {}
    for modes in (("none", "none", "none"), ("s2", "s2", "s2"), ("s2", "none", "s2")):
        with running(LEAFD, CONFIGURATION) as server:
            for turn, mode in enumerate(modes):
                asyncio.run(publish(server, turn * READINGS + 1, (turn + 1) * READINGS, mode))
            assert server.stop() == 0
            server.start()
            upto = len(modes) * READINGS
            assert asyncio.run(read_in_one(server, upto)) == [reading(number) for number in range(1, upto + 1)]
            assert server.stop() == 0
            sizes[modes] = used(server.directory)
            assert dictionaries(server.directory / "store" / "jetstream") != [] or mode == "none"
    assert sizes["s2", "s2", "s2"] < sizes["none", "none", "none"] / 2
    assert sizes["s2", "s2", "s2"] < sizes["s2", "none", "s2"] < sizes["none", "none", "none"]


def test_a_damaged_dictionary_is_named_and_costs_what_needs_it_only_if_both_copies_are(tmp_path: Path) -> None:
    """check: 3 and the dictionary; salvage loses nothing as long as one copy is sound, and a daemon serves everything;
    then every message is told that needs it, and the others are served."""
    with running(LEAFD, CONFIGURATION) as server:
        asyncio.run(publish(server, 1, FEW, "s2"))
        assert server.stop() == 0
        store = server.directory / "store"
        assert store_command("check", "--store", store)[0] == 0
        data = store / "jetstream" / "data.mdb"
        (record,) = dictionaries(data.parent)
        raw = bytearray(data.read_bytes())
        copies = [raw.find(record), raw.rfind(record)]
        assert 0 < copies[0] < copies[1]
        sent = [reading(number) for number in range(1, FEW + 1)]
        for broken, place in enumerate(copies, 1):
            raw[place + len(record) // 2] ^= 4
            data.write_bytes(raw)
            code, found = store_command("check", "--store", store)
            named = [line for line in found["damage"] if "copies of dictionary 1 of stream 1" in line]
            assert (code, len(named)) == (3, broken), found
            code, saved = store_command("salvage", tmp_path / str(broken), "--store", store)
            if broken == 1:
                assert (code, saved["lost"], len(found["damage"])) == (0, [], 1), saved
            else:
                lost = sum(re.search(r"message \d+ of stream 1", line) is not None for line in found["damage"])
                assert (code, FEW / 3 < lost < FEW) == (3, True), saved
        server.start()
        served = asyncio.run(read(server, 1, FEW))
        assert [one for one in served if one is not None] == sent[: FEW - lost]
        asyncio.run(publish(server, FEW + 1, FEW + 100, "s2"))
        more = asyncio.run(read(server, FEW + 1, FEW + 100))
        assert more == [reading(number) for number in range(FEW + 1, FEW + 101)]
