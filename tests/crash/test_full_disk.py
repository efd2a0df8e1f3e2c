"""The disk is full: by our own messages, by others' files, under a running daemon and at its start.

What must hold each time: publishers hear JetStream's error, everything else goes on (reads, deletions, purges,
consumers' progress), what a removal frees is really usable, a kill -9 at 0 bytes free is followed by a start,
publishing resumes by itself, every acknowledged message is there and every acknowledged deletion stays deleted. As a
program (in a mount namespace of its own) this is the scenarios themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DiscardPolicy, StorageType, StreamConfig, StreamSource
from nats.js.errors import NotFoundError

from tests.crash.disk import Disk, in_namespace, play_on
from tests.crash.keep import closed, connected
from tests.interop.test_backup import send, take
from tests.servers import Server

MIB = 1 << 20
BURST = 500
PATIENCE = 60
"""Seconds for one answer. A purge of a million messages goes in steps: 3 s where 20 others want the processor."""
CHECKED = 1000
NO_RESOURCES = 10023  # nats-server's "insufficient resources", what it answers when the store takes no more
PAYLOAD = b"x" * 100
LARGER = b"x" * 1000
"""Fills a disk with a tenth of the work."""
DEFAULTS = 'listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{http_port}\njetstream { store_dir: "{store}" }\n'
LARGER_THAN_THE_DISK = (
    "listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{http_port}\n"
    'jetstream { store_dir: "{store}", max_file: 10GB, max_mem: 16MB }\n'
)


class Publisher:
    """A bare client that publishes bursts and reads every answer."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), 20)
        self.reader = self.socket.makefile("rb")
        self.reader.readline()
        self.socket.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB answer 1\r\n')

    def burst(self, subject: str, count: int = BURST, payload: bytes = PAYLOAD) -> tuple[list[int], list[int]]:
        """The sequences that were acknowledged, and the errors."""
        one = f"PUB {subject} answer {len(payload)}\r\n".encode() + payload + b"\r\n"
        self.socket.sendall(one * count)
        acknowledged: list[int] = []
        errors: list[int] = []
        while len(acknowledged) + len(errors) < count:
            line = self.reader.readline()
            if line.startswith(b"MSG"):
                answer = json.loads(self.reader.read(int(line.split()[-1]) + 2))
                if "error" in answer:
                    errors.append(answer["error"]["err_code"])
                else:
                    acknowledged.append(answer["seq"])
            elif line.startswith(b"PING"):
                self.socket.sendall(b"PONG\r\n")
            else:
                assert line, "the server closed the connection"
        return acknowledged, errors

    def until_refused(self, subject: str, count: int = 1_000_000_000, payload: bytes = PAYLOAD) -> int:
        """Publishes until a whole burst is refused; returns the last acknowledged sequence."""
        last = 0
        while last < count:
            acknowledged, errors = self.burst(subject, payload=payload)
            last = max([last, *acknowledged])
            assert set(errors) <= {NO_RESOURCES}
            if len(errors) == BURST:
                return last
        return last

    def until_taken(self, subject: str, seconds: float = PATIENCE) -> int:
        """Tries until one message is acknowledged; returns its sequence."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            acknowledged, _ = self.burst(subject, 1)
            if acknowledged:
                return acknowledged[0]
            time.sleep(0.05)
        raise AssertionError(f"publishing did not resume within {seconds} s")

    def close(self) -> None:
        self.reader.close()
        self.socket.close()


class Others:
    """Somebody else's file, which takes all that is left of the disk."""

    def __init__(self, disk: Disk) -> None:
        self.path = disk.mounted / "others"
        self.disk = disk

    def fill(self) -> None:
        with self.path.open("ab") as file:
            for size in (MIB, 4096, 512):
                with contextlib.suppress(OSError):
                    while True:
                        os.write(file.fileno(), b"\1" * size)
            with contextlib.suppress(OSError):
                os.fsync(file.fileno())
        assert self.disk.free() < 64 << 10

    def leave(self) -> None:
        self.path.unlink()


async def make_streams(js: JetStreamContext) -> None:
    for name in ("KEEP", "SPARE"):
        await js.add_stream(StreamConfig(name=name, subjects=[f"{name}.>"]))
    await js.add_consumer("KEEP", ConsumerConfig(durable_name="c", ack_wait=60))


async def everything_but_publishing_goes_on(js: JetStreamContext, first: int, last: int) -> None:
    """Reads, a deletion, and a consumer's progress, which is on disk when a double ack is answered."""
    assert PAYLOAD == (await js.get_msg("KEEP", last)).data
    assert await js.delete_msg("KEEP", first + 1)
    consumer = await js.pull_subscribe("KEEP.>", "c", stream="KEEP")
    for message in await consumer.fetch(5, timeout=PATIENCE):
        await message.ack_sync(timeout=PATIENCE)
    await consumer.unsubscribe()


def page(server: Server, path: str) -> dict[str, Any]:
    """A monitoring page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/{path}", timeout=PATIENCE) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def says_so(server: Server, refusing: bool) -> None:
    """varz and healthz name what is refused; the server counts as healthy, since a restart would not help."""
    assert (["file"] if refusing else []) == page(server, "varz")["store"]["refusing"]
    health = page(server, "healthz")
    assert "ok" == health["status"]
    assert refusing == ("refusing" in health)


async def check(js: JetStreamContext, first: int, last: int, deleted: set[int]) -> None:
    """KEEP holds everything from first to last but what was deleted."""
    state = (await js.stream_info("KEEP")).state
    assert (first, last) == (state.first_seq, state.last_seq)
    assert last - first + 1 - len(deleted) == state.messages
    subscription = await js.subscribe("KEEP.>", ordered_consumer=True)
    alive = [number for number in range(first, last + 1) if number not in deleted]
    for seq in alive[:CHECKED]:  # the oldest, then the newest: what lay in the journal
        message = await subscription.next_msg(timeout=PATIENCE)
        assert seq == message.metadata.sequence.stream
    await subscription.unsubscribe()
    for seq in {*range(max(first, last - CHECKED), last + 1)} - deleted:
        assert PAYLOAD == (await js.get_msg("KEEP", seq, direct=False)).data


def scenario_own_messages(server: Server, disk: Disk, payload: bytes = PAYLOAD) -> None:
    """The issue's own case: 100-byte messages until they are refused, purge, publish again, kill -9."""

    async def run() -> None:
        publisher = Publisher(server)
        client, js = await connected(server, PATIENCE)
        await make_streams(js)
        keep = publisher.until_refused("KEEP.a", 1000)
        assert keep >= 1000
        last = publisher.until_refused("SPARE.a", payload=payload)
        assert last * len(payload) > 5_000_000
        own = sum(file.stat().st_blocks * 512 for file in (disk.mounted / "store" / "jetstream").iterdir())
        print(f"{last} messages until the refusal, {own >> 20} MB in files, {disk.free() >> 20} MB free", flush=True)
        await everything_but_publishing_goes_on(js, 1, keep)
        await js.purge_stream("SPARE")
        publisher.until_taken("SPARE.a")
        again = publisher.until_refused("SPARE.a", payload=payload) - last
        print(f"after a purge: {again} messages", flush=True)
        assert again > last / 2
        await closed(client)
        publisher.close()
        server.kill()
        server.start()
        client, js = await connected(server, PATIENCE)
        assert last + again <= (await js.stream_info("SPARE")).state.last_seq
        await check(js, 1, keep, {2})
        await closed(client)

    asyncio.run(run())


def scenario_given_back(server: Server, disk: Disk) -> None:
    """What a purge gave back to the disk is taken by others: removals go on in the room that the store kept."""

    async def run() -> None:
        others = Others(disk)
        publisher = Publisher(server)
        client, js = await connected(server, PATIENCE)
        await make_streams(js)
        keep = publisher.until_refused("KEEP.a", 20_000)
        publisher.until_refused("SPARE.a", payload=LARGER)
        full = disk.free()
        await js.purge_stream("SPARE")
        for _ in range(PATIENCE):
            if disk.free() > full + 60 * MIB:
                break
            await asyncio.sleep(1)
        print(f"{full >> 20} MB free when it was full, {disk.free() >> 20} after a purge", flush=True)
        assert disk.free() > full + 60 * MIB
        others.fill()
        last = max(keep, publisher.until_refused("KEEP.a"))
        await everything_but_publishing_goes_on(js, 1, last)
        await closed(client)
        publisher.close()
        server.kill()
        others.fill()
        server.start()
        client, js = await connected(server, PATIENCE)
        publisher = Publisher(server)
        last = max(last, publisher.until_refused("KEEP.a"))
        assert await js.delete_msg("KEEP", 3)
        others.leave()
        assert publisher.until_taken("KEEP.a") == last + 1
        await check(js, 1, last + 1, {2, 3})
        await closed(client)

    asyncio.run(run())


def scenario_others(server: Server, disk: Disk) -> None:
    """Others take every byte under a publisher; kill -9, start at 0 bytes free, purge, room back."""

    async def run() -> None:
        others = Others(disk)
        publisher = Publisher(server)
        client, js = await connected(server, PATIENCE)
        await make_streams(js)
        assert publisher.until_refused("SPARE.a", 3_000, LARGER) >= 3_000
        last = publisher.until_refused("KEEP.a", 20_000)
        others.fill()
        last = max(last, publisher.until_refused("KEEP.a"))
        print(f"{last} messages until the refusal, {disk.free()} bytes free", flush=True)
        await everything_but_publishing_goes_on(js, 1, last)
        for _ in range(2):
            server.kill()
            others.fill()
            server.start()
            client, js = await connected(server, PATIENCE)
            await check(js, 1, last, {2})
            publisher = Publisher(server)
            acknowledged, errors = publisher.burst("KEEP.a", 5)
            assert len(errors) == 5, "there is no room to take anything"
            assert not acknowledged
            says_so(server, True)
        assert "is full" in server.log
        await js.purge_stream("SPARE")
        taken = publisher.until_taken("KEEP.a")
        assert last + 1 == taken
        server.kill()
        server.start()
        client, js = await connected(server, PATIENCE)
        assert 0 == (await js.stream_info("SPARE")).state.messages
        others.leave()
        publisher = Publisher(server)
        assert taken + 1 == publisher.until_taken("KEEP.a")
        says_so(server, False)
        await check(js, 1, taken + 1, {2})
        await closed(client)

    asyncio.run(run())


def scenario_ingest(server: Server, disk: Disk) -> None:
    """Mirrors and sources wait for room and go on where they were; a refused message evicts none."""

    async def run() -> None:
        others = Others(disk)
        publisher = Publisher(server)
        client, js = await connected(server, PATIENCE)
        await make_streams(js)
        await js.add_stream(StreamConfig(name="ORIGIN", subjects=["ORIGIN.>"], storage=StorageType.MEMORY))
        await js.add_stream(StreamConfig(name="MIRROR", mirror=StreamSource(name="ORIGIN")))
        await js.add_stream(StreamConfig(name="SOURCED", sources=[StreamSource(name="ORIGIN")]))
        await js.add_stream(StreamConfig(name="RING", subjects=["RING.>"], max_msgs=100, discard=DiscardPolicy.OLD))
        copies = ("MIRROR", "SOURCED")
        publisher.until_refused("ORIGIN.a", 1000)
        publisher.until_refused("RING.a", 500)
        before = await settled(js, copies)
        others.fill()
        publisher.until_refused("SPARE.a")
        ring = (await js.stream_info("RING")).state
        assert (100, 500) == (ring.messages, ring.last_seq)
        acknowledged, errors = publisher.burst("ORIGIN.b")
        assert not errors, "there is memory"
        acknowledged += publisher.burst("ORIGIN.b", payload=b"y" * 5000)[0]
        assert not publisher.burst("RING.a")[0]
        assert ring == (await js.stream_info("RING")).state
        for name in copies:
            assert before[name] <= (await js.stream_info(name)).state.last_seq
        others.leave()
        publisher.until_taken("KEEP.a")
        await settled(js, copies)
        await closed(client)

    asyncio.run(run())


def scenario_restore(server: Server, disk: Disk) -> None:
    """A restore into a full disk is told so and harms nothing; the same archive is restored when there is room."""

    async def run() -> None:
        others = Others(disk)
        publisher = Publisher(server)
        client, js = await connected(server, PATIENCE)
        await make_streams(js)
        last = publisher.until_refused("KEEP.a", 20_000)
        publisher.until_refused("SPARE.a", 2000)
        reply, archive = await take(client, "KEEP")
        whole = (reply["config"], reply["state"], archive)
        await js.delete_stream("KEEP")
        others.fill()
        spare = publisher.until_refused("SPARE.a")
        answer = await send(client, *whole, seconds=30)
        assert answer["error"]["code"] in (500, 503), answer
        assert (await js.stream_info("SPARE")).state.last_seq == spare
        with contextlib.suppress(NotFoundError):
            await js.delete_stream("KEEP")  # what came of it
        server.kill()
        others.leave()
        server.start()
        client, js = await connected(server, PATIENCE)
        Publisher(server).until_taken("SPARE.a")
        answer = await send(client, *whole, seconds=30)
        assert "error" not in answer, answer
        await check(js, 1, last, set())
        await closed(client)

    asyncio.run(run())


async def settled(js: JetStreamContext, copies: tuple[str, ...]) -> dict[str, int]:
    """Waits until each copy ends as its origin does; returns their last sequences."""
    for _ in range(150):
        newest = (await js.get_last_msg("ORIGIN", "ORIGIN.>", direct=False)).data
        last = {name: (await js.stream_info(name)).state.last_seq for name in copies}
        count = (await js.stream_info("ORIGIN")).state.last_seq
        if all(number >= count for number in last.values()):
            for name in copies:
                state = (await js.stream_info(name)).state
                assert state.last_seq - state.first_seq + 1 == state.messages
                assert newest == (await js.get_msg(name, state.last_seq, direct=False)).data
            return last
        await asyncio.sleep(0.1)
    raise AssertionError(f"the copies end at {last}, the origin at {count}")


SCENARIOS: dict[str, tuple[Callable[[Server, Disk], None], int, str]] = {
    "own": (partial(scenario_own_messages, payload=LARGER), 300 * MIB, DEFAULTS),
    "own, without a limit": (scenario_own_messages, 96 * MIB, LARGER_THAN_THE_DISK),
    "given back": (scenario_given_back, 240 * MIB, LARGER_THAN_THE_DISK),
    "others": (scenario_others, 96 * MIB, LARGER_THAN_THE_DISK),
    "ingest": (scenario_ingest, 96 * MIB, LARGER_THAN_THE_DISK),
    "restore": (scenario_restore, 96 * MIB, LARGER_THAN_THE_DISK),
}


def scenario(name: str, directory: Path) -> int:
    play, size, configuration = SCENARIOS[name]
    return play_on(Disk(directory, size), configuration, play)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_full_disk_refuses_publishers_and_nothing_else(name: str) -> None:
    """Whoever filled the disk: nothing acknowledged is lost, removals make room, and publishing resumes by itself."""
    in_namespace("tests.crash.test_full_disk", name)


if __name__ == "__main__":
    sys.exit(scenario(sys.argv[1], Path(sys.argv[2])))
