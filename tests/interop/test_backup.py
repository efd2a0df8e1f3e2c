"""Backups between leafd and the reference, in every line-up: what one wrote, the other restores as it was.

The line-ups of a server with itself prove the test. Archives are taken and sent as clients do it, chunk by chunk; the
hand-made ones below are damaged in every way that the format allows, and both servers have to say the same to each.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.interop.clients import connected
from tests.rig.official import ask, must

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_memory_store: 64MB, max_file_store: 1GB }
"""
LINE_UPS = [(one, other) for one in servers.KINDS for other in servers.KINDS]
MESSAGES = 700
CHUNK = 20_000
STAMP = 1_700_000_000_000_000_000


@contextlib.contextmanager
def started(kind: str, directory: Path) -> Iterator[servers.Server]:
    directory.mkdir()
    server = servers.make(kind, CONFIGURATION, directory)
    server.start()
    try:
        yield server
    finally:
        server.stop()


# ---- taking and sending archives ------------------------------------------------------------------------------------


async def take(client: Client, stream: str, **options: object) -> tuple[dict[str, Any], bytes]:
    """The reply and the archive, acknowledged chunk by chunk."""
    chunks: list[bytes] = []
    over: asyncio.Future[dict[str, str] | None] = asyncio.get_running_loop().create_future()

    async def chunk(message: Msg) -> None:
        if not message.data:
            over.set_result(message.headers)
            return
        chunks.append(message.data)
        if message.reply:
            size, index = message.reply.split(".")[-2:]
            assert (len(message.data), len(chunks)) == (int(size), int(index))
            await message.respond(b"")

    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox, cb=chunk)
    reply = await must(
        client, f"$JS.API.STREAM.SNAPSHOT.{stream}", {"deliver_subject": inbox, "chunk_size": CHUNK} | options
    )
    headers = await asyncio.wait_for(over, 20)
    await subscription.unsubscribe()
    assert [CHUNK] * (len(chunks) - 1) == [len(one) for one in chunks[:-1]]
    assert ({"Status": "204"} if len(chunks) > 1 else None) == headers
    return reply, b"".join(chunks)


async def send(
    client: Client, config: dict[str, Any], state: dict[str, Any], archive: bytes, seconds: float = 10
) -> dict[str, Any]:
    """Restores an archive in chunks, each answered within some seconds; the answer that ended it."""
    reply = await must(client, f"$JS.API.STREAM.RESTORE.{config['name']}", {"config": config, "state": state})
    for at in range(0, len(archive), CHUNK):
        answer = await client.request(reply["deliver_subject"], archive[at : at + CHUNK], timeout=seconds)
        if answer.data:
            return dict(json.loads(answer.data))
    answer = await client.request(reply["deliver_subject"], b"", timeout=20)
    return dict(json.loads(answer.data))


def test_a_restore_that_is_killed_half_way_leaves_nothing(tmp_path: Path) -> None:
    """kill -9 between two chunks: the next start serves no half stream, has the room back and takes the backup anew."""
    payload = b"x" * 20_000

    async def taken(server: servers.Server) -> tuple[dict[str, Any], bytes]:
        async with connected(server) as client:
            await must(client, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
            for number in range(400):
                await client.jetstream().publish("s", b"%d" % number + payload)
            return await take(client, "S")

    async def half(server: servers.Server, told: dict[str, Any], archive: bytes) -> None:
        async with connected(server) as client:
            reply = await must(client, "$JS.API.STREAM.RESTORE.S", {"config": told["config"], "state": told["state"]})
            for at in range(0, len(archive) // 2, CHUNK):
                await client.request(reply["deliver_subject"], archive[at : at + CHUNK], timeout=20)
            server.kill()

    async def whole(server: servers.Server, told: dict[str, Any], archive: bytes) -> None:
        async with connected(server) as client:
            assert "error" in await ask(client, "$JS.API.STREAM.INFO.S")
            assert (await must(client, "$JS.API.INFO"))["storage"] == 0
            answer = await send(client, told["config"], told["state"], archive, 20)
            assert answer["state"]["messages"] == 400

    with started(servers.LEAFD, tmp_path / "one") as server:
        told, archive = asyncio.run(taken(server))
    with started(servers.LEAFD, tmp_path / "other") as server:
        asyncio.run(half(server, told, archive))
        server.start()
        assert 'stream "S" of account "$G" was being restored when the server ended' in server.log
        asyncio.run(whole(server, told, archive))


# ---- what one has, the other gets -----------------------------------------------------------------------------------


async def fill(client: Client) -> None:
    """A stream with gaps, headers, empty and larger messages, and consumers in every position."""
    js = client.jetstream()
    await must(
        client, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "duplicate_window": 60_000_000_000}
    )
    for number in range(1, MESSAGES + 1):
        headers = {"Nats-Msg-Id": f"id-{number}", "Origin": "é"} if number % 3 == 0 else None
        await js.publish(f"s.{number % 7}", b"%d " % number * (number % 50), headers=headers)
    for gap in (1, 2, 77, 500, MESSAGES):
        await js.delete_msg("S", gap)
    consumers: dict[str, dict[str, object]] = {
        "explicit": {"durable_name": "explicit", "ack_policy": "explicit", "ack_wait": 120_000_000_000},
        "filtered": {"durable_name": "filtered", "ack_policy": "all", "filter_subject": "s.3"},
        "new": {"durable_name": "new", "ack_policy": "explicit", "deliver_policy": "new"},
        "ephemeral": {"ack_policy": "none", "inactive_threshold": 600_000_000_000},
    }
    for name, config in consumers.items():
        body = {"stream_name": "S", "config": {"name": name} | config}
        await must(client, f"$JS.API.CONSUMER.CREATE.S.{name}" + (".s.3" if name == "filtered" else ""), body)
    explicit = await js.pull_subscribe_bind("explicit", "S")
    messages = await explicit.fetch(10)
    for index in (0, 1, 4):
        await messages[index].ack_sync()
    await messages[2].nak()
    await asyncio.sleep(0.2)
    await explicit.fetch(1)
    filtered = await js.pull_subscribe_bind("filtered", "S")
    messages = await filtered.fetch(5)
    await messages[2].ack_sync()


async def everything(client: Client) -> dict[str, Any]:
    """All that can be seen of the stream and its consumers, without what a restore makes anew."""
    info = await must(client, "$JS.API.STREAM.INFO.S", {"deleted_details": True})
    messages = []
    for sequence in range(1, MESSAGES + 1):
        answer = await ask(client, "$JS.API.STREAM.MSG.GET.S", {"seq": sequence})
        messages.append(answer.get("message", answer.get("error")))
    consumers = []
    for name in (await must(client, "$JS.API.CONSUMER.NAMES.S"))["consumers"]:
        consumer = await must(client, f"$JS.API.CONSUMER.INFO.S.{name}")
        for position in ("delivered", "ack_floor"):
            consumer[position].pop("last_active", None)
        del consumer["created"], consumer["ts"]
        consumers.append(consumer)
    # The time of a last message that is deleted is in no archive.
    del info["state"]["last_ts"]
    return {"config": info["config"], "state": info["state"], "messages": messages, "consumers": consumers}


@pytest.mark.parametrize(("writer", "reader"), LINE_UPS)
def test_a_backup_is_the_same_stream_elsewhere(writer: str, reader: str, tmp_path: Path) -> None:
    """Messages, headers, times, gaps, sequences and consumers' positions are equal after the way to the other one."""

    async def run(source: servers.Server, target: servers.Server) -> None:
        async with connected(source) as client:
            await fill(client)
            before = await everything(client)
            reply, archive = await take(client, "S")
        async with connected(target) as client:
            answer = await send(client, reply["config"], reply["state"], archive)
            assert "error" not in answer, answer
            assert before == await everything(client)
            await goes_on(client)

    with started(writer, tmp_path / "a") as source, started(reader, tmp_path / "b") as target:
        asyncio.run(run(source, target))


async def goes_on(client: Client) -> None:
    """The restored stream takes messages; its consumers go on where they were."""
    js = client.jetstream()
    assert MESSAGES + 1 == (await js.publish("s.9", b"more")).seq
    explicit = await js.pull_subscribe_bind("explicit", "S")
    # Delivered up to 12 (1 and 2 are gone) before, and one of them twice.
    following = (await explicit.fetch(1))[0].metadata
    assert (13, 12) == (following.sequence.stream, following.sequence.consumer)
    new = await js.pull_subscribe_bind("new", "S")
    assert MESSAGES + 1 == (await new.fetch(1))[0].metadata.sequence.stream


@pytest.mark.parametrize("kind", servers.KINDS)
def test_what_is_asked_for_counts(kind: str, tmp_path: Path) -> None:
    """Without consumers there are none afterwards; the configuration is the request's, with what it left out. That the
    stream is created is told."""

    async def run(server: servers.Server) -> None:
        async with connected(server) as client:
            await fill(client)
            reply, archive = await take(client, "S", no_consumers=True, window_size=1)
            assert 4 == reply["state"]["consumer_count"]
            taken = await ask(client, "$JS.API.STREAM.RESTORE.S", {"config": reply["config"], "state": reply["state"]})
            assert 10130 == taken["error"]["err_code"]
            await must(client, "$JS.API.STREAM.DELETE.S")
            config = {"name": "S", "subjects": ["other"], "max_msgs": 10}
            created = await client.subscribe("$JS.EVENT.ADVISORY.STREAM.CREATED.S")
            answer = await send(client, config, reply["state"], archive)
            assert json.loads((await created.next_msg(timeout=20)).data)["action"] == "create"
            state = answer["state"]
            assert (10, MESSAGES, 0) == (state["messages"], state["last_seq"], state["consumer_count"])
            assert ["other"] == answer["config"]["subjects"]

    with started(kind, tmp_path / "a") as server:
        asyncio.run(run(server))


# ---- damage ---------------------------------------------------------------------------------------------------------


def of_a_byte(crc: int) -> int:
    for _ in range(8):
        crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc


CRCS = [of_a_byte(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRCS[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def s2(data: bytes) -> bytes:
    """One raw chunk."""
    checksum = crc32c(data)
    masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return b"\xff\x06\0\0S2sTwO\x01" + (len(data) + 4).to_bytes(3, "little") + struct.pack("<I", masked) + data


def number(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + number(rest) if rest else bytes([low])


def entry(name: str, sequence: int, header: bytes, payload: bytes, stamp: int = STAMP) -> bytes:
    sizes = number(len(name)) + number(stamp << 1) + number(sequence) + number(len(header)) + number(len(payload))
    return sizes + name.encode() + header + payload


def state(**changed: int) -> bytes:
    times = {"first_ts": "2020-01-01T00:00:00Z", "last_ts": "2020-01-01T00:00:00Z"}
    members: dict[str, object] = {"messages": 2, "bytes": 72, "first_seq": 1, "last_seq": 3, "consumer_count": 0}
    return entry("state.json", 0, b"", json.dumps(members | times | changed).encode())


MAGIC, END = b"NATSARC1", bytes(5)
ONE, TWO = entry("q.1", 1, b"", b"one"), entry("q.1", 2, b"", b"two", STAMP + 1)
WHOLE = MAGIC + state() + ONE + TWO + END
CONSUMER = entry("consumers/c", 0, b"", b'{"config":{"ack_policy":"explicit"}}')
EXPIRED = entry("q.2", 2, b"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n", b"x")
ARCHIVES: dict[str, bytes] = {
    "whole": s2(WHOLE),
    "nothing": b"",
    "garbage": b"garbage that is none" * 10,
    "too short": s2(b"abc"),
    "neither format": s2(b"abcdefghijkl" * 100),
    "magic alone": s2(MAGIC),
    "no state": s2(MAGIC + entry("other", 0, b"", b"{}")),
    "bad state": s2(MAGIC + entry("state.json", 0, b"", b"{x")),
    "impossible state": s2(MAGIC + state(messages=9, first_seq=8, last_seq=2) + END),
    "no end": s2(MAGIC + state() + ONE + TWO),
    "cut entry": s2(MAGIC + state() + ONE + TWO[:4]),
    "cut chunk": s2(WHOLE)[:-3],
    "checksum": s2(WHOLE)[:-8] + bytes([s2(WHOLE)[-8] ^ 1]) + s2(WHOLE)[-7:],
    "chunk of unknown type": s2(WHOLE)[:10] + b"\x02\0\0\0",
    "skipped chunk": s2(WHOLE)[:10] + b"\x99\x03\0\0xyz" + s2(WHOLE)[10:],
    "out of order": s2(MAGIC + state() + TWO + ONE + END),
    "message without sequence": s2(MAGIC + state() + entry("q", 0, b"", b"x") + END),
    "a consumer too few": s2(MAGIC + state(consumer_count=1) + ONE + END),
    "consumer without state": s2(MAGIC + state(consumer_count=1) + CONSUMER + ONE + END),
    "empty": s2(MAGIC + state(messages=0, first_seq=8, last_seq=7) + END),
    "expired": s2(MAGIC + state() + ONE + EXPIRED + END),
    "trailing": s2(WHOLE + b"behind the end"),
}


async def told(client: Client, name: str, archive: bytes) -> tuple[object, ...]:
    """What a server says to the archive, and the counters of what it left."""
    answer = await send(client, {"name": name, "subjects": [name], "allow_msg_ttl": True}, {}, archive)
    info = await ask(client, f"$JS.API.STREAM.INFO.{name}")
    seen = info.get("state", {})
    # What came last is the request's own business when there is nothing in the stream.
    first = seen.get("first_seq") if seen.get("messages") or "error" not in answer else None
    return (
        answer.get("error"),
        *(seen.get(name) for name in ("messages", "bytes", "last_seq", "num_deleted", "consumer_count")),
        first,
    )


def test_damage_is_told_as_the_reference_tells_it(tmp_path: Path) -> None:
    """Each archive gets the same answer and leaves the same stream behind, or none."""

    async def run(server: servers.Server) -> dict[str, tuple[object, ...]]:
        async with connected(server) as client:
            return {
                name: await told(client, f"D{index}", archive) for index, (name, archive) in enumerate(ARCHIVES.items())
            }

    found = []
    for kind in servers.KINDS:
        with started(kind, tmp_path / kind) as server:
            found.append(asyncio.run(run(server)))

    assert found[1] == found[0]
