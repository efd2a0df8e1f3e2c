"""Key-value and object store at the edge of what clients ask of them, on both servers: longest histories, times to live
and their markers, mirrors of buckets, filtered watchers, links, sealed objects.

python -m tests.interop.test_buckets puts an object of a gigabyte into both and gets it again: how long that takes, and
how much memory the servers come to have.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, ObjectMeta, StreamConfig, StreamSource
from nats.js.errors import APIError, KeyNotFoundError, ObjectNotFoundError
from nats.js.kv import KeyValue

from tests import servers
from tests.rig.waiting import PATIENCE_S, until

CONFIGURATION = """
listen: "127.0.0.1:{port}"
server_name: box
jetstream { store_dir: "{store}", max_mem: 64M, max_file: 8G }
"""
CHUNK = 128 << 10
GIGABYTE = 1 << 30


@pytest.fixture(scope="module", params=servers.KINDS)
def server(request: pytest.FixtureRequest) -> Any:
    with servers.running(request.param, CONFIGURATION) as one:
        yield one


async def following(watcher: KeyValue.KeyWatcher) -> KeyValue.Entry | None:
    """What the watcher hears next; None: that was all there is by now."""
    found = await watcher.updates(timeout=PATIENCE_S)  # type: ignore[no-untyped-call]
    return found if isinstance(found, KeyValue.Entry) else None


@asynccontextmanager
async def streams(server: servers.Server) -> AsyncIterator[JetStreamContext]:
    client = await nats.connect(server.url)
    yield client.jetstream(timeout=PATIENCE_S)
    await client.close()


def test_the_longest_history_holds_64_values(server: servers.Server) -> None:
    """The oldest of 70 are gone, and the others are in order; a deletion is one of them."""

    async def check() -> None:
        async with streams(server) as js:
            bucket = await js.create_key_value(KeyValueConfig(bucket="long", history=64))
            for number in range(69):
                await bucket.put("a.b", b"%d" % number)
            await bucket.delete("a.b")
            found = await bucket.history("a.b")
            assert [one.value for one in found] == [b"%d" % number for number in range(6, 69)] + [b""]
            assert found[-1].operation == "DEL"
            assert [one.revision for one in found] == list(range(7, 71))
            with pytest.raises(KeyNotFoundError):
                await bucket.get("a.b")
            assert (await bucket.status()).values == 64

    asyncio.run(check())


def test_values_that_end_leave_a_marker(server: servers.Server) -> None:
    """Of a bucket with limit_marker_ttl: a watcher hears that the value is gone by its age."""

    async def check() -> None:
        async with streams(server) as js:
            bucket = await js.create_key_value(KeyValueConfig(bucket="ends", history=5, limit_marker_ttl=2))
            watcher = await bucket.watch("short")
            assert await following(watcher) is None
            await bucket.create("short", b"1", msg_ttl=1)
            first = await following(watcher)
            second = await following(watcher)
            assert first is not None
            assert second is not None
            assert (first.value, first.operation) == (b"1", None)
            assert (second.value, second.operation) in ((b"", "PURGE"), (b"", "DEL"), (b"", None))
            last = await js.get_last_msg("KV_ends", "$KV.ends.short")
            assert (last.headers or {})["Nats-Marker-Reason"] == "MaxAge"
            await bucket.put("short", b"2")
            assert (await bucket.get("short")).value == b"2"
            await watcher.stop()  # type: ignore[no-untyped-call]

    asyncio.run(check())


def test_a_purge_may_end_too(server: servers.Server) -> None:
    """A purge with a time to live leaves nothing of the key in the end."""

    async def check() -> None:
        async with streams(server) as js:
            bucket = await js.create_key_value(KeyValueConfig(bucket="purged", limit_marker_ttl=2))
            await bucket.put("a", b"1")
            await bucket.put("b", b"2")
            await bucket.purge("a", msg_ttl=1)

            async def gone() -> bool:
                return (await js.stream_info("KV_purged")).state.messages == 1

            await until(gone)
            assert await bucket.keys() == ["b"]

    asyncio.run(check())


def test_a_mirror_of_a_bucket_is_read_in_its_place(server: servers.Server) -> None:
    """Values of the origin are got from the copy, by the copy's own direct gets, and a deletion arrives there."""

    async def check() -> None:
        async with streams(server) as js:
            bucket = await js.create_key_value(KeyValueConfig(bucket="origin"))
            mirror = StreamConfig(
                name="KV_copy",
                mirror=StreamSource(name="KV_origin"),
                allow_direct=True,
                mirror_direct=True,
                max_msgs_per_subject=1,
            )
            await js.add_stream(mirror)
            await bucket.put("a.b", b"1")
            await bucket.put("c", b"2")

            async def copied() -> bool:
                return (await js.stream_info("KV_copy")).state.last_seq == 2

            await until(copied)
            found = await js.get_last_msg("KV_copy", "$KV.origin.a.b", direct=True)
            assert (found.data, found.subject) == (b"1", "$KV.origin.a.b")
            await bucket.delete("a.b")

            async def deleted() -> bool:
                last = await js.get_last_msg("KV_copy", "$KV.origin.a.b", direct=True)
                return (last.headers or {}).get("KV-Operation") == "DEL"

            await until(deleted)

    asyncio.run(check())


def test_watchers_see_what_they_ask_for(server: servers.Server) -> None:
    """A pattern, without deletions, from the first value on, headers alone; and the mark behind what is there."""

    async def check() -> None:
        async with streams(server) as js:
            bucket = await js.create_key_value(KeyValueConfig(bucket="watched", history=5))
            for key, value in (("x.1", b"a"), ("y.1", b"b"), ("x.1", b"c"), ("x.2", b"d")):
                await bucket.put(key, value)
            await bucket.delete("x.2")

            async def seen(pattern: str, **options: bool) -> list[tuple[str, bytes | None]]:
                watcher = await bucket.watch(pattern, **options)
                found = []
                while (one := await following(watcher)) is not None:
                    found.append((one.key, one.value))
                await watcher.stop()  # type: ignore[no-untyped-call]
                return found

            assert await seen("x.*") == [("x.1", b"c"), ("x.2", b"")]
            assert await seen("x.*", ignore_deletes=True) == [("x.1", b"c")]
            assert await seen("x.1", include_history=True) == [("x.1", b"a"), ("x.1", b"c")]
            assert [key for key, _ in await seen(">", headers_only=True)] == ["y.1", "x.1", "x.2"]
            assert await seen("nothing.*") == []

    asyncio.run(check())


def test_objects_are_whole_and_can_be_sealed(server: servers.Server) -> None:
    """Three megabytes in chunks; a newer object of the name takes its place; a sealed store takes no more."""

    async def check() -> None:
        async with streams(server) as js:
            store = await js.create_object_store(bucket="files")
            for size in (3_000_000, 3_000_001):
                data = hashlib.sha256(b"x").digest() * (size // 32 + 1)
                await store.put("large", data[:size], meta=ObjectMeta(description="d", headers={"A": "b"}))
            found = await store.get("large")
            assert found.data == data[:size]
            assert (found.info.size, found.info.chunks) == (size, -(-size // CHUNK))
            assert (await js.stream_info("OBJ_files")).state.messages == (found.info.chunks or 0) + 1
            await store.put("empty", b"")
            assert (await store.get("empty")).data == b""
            await store.delete("large")
            with pytest.raises(ObjectNotFoundError):
                await store.get("large")
            await store.seal()  # type: ignore[no-untyped-call]
            with pytest.raises(APIError):
                await store.put("late", b"1")
            assert (await store.get("empty")).data == b""
            assert (await store.status()).sealed

    asyncio.run(check())


def test_a_link_leads_to_its_object(server: servers.Server) -> None:
    """A link is an entry of its own, which names another's bucket and object, as the Go client writes it."""

    async def check() -> None:
        async with streams(server) as js:
            store = await js.create_object_store(bucket="linked")
            await store.put("there", b"content")
            link: dict[str, Any] = {"name": "here", "options": {"link": {"bucket": "linked", "name": "there"}}}
            link |= {"bucket": "linked", "nuid": "N", "size": 0, "chunks": 0}
            await js.publish("$O.linked.M.aGVyZQ==", json.dumps(link).encode(), headers={"Nats-Rollup": "sub"})
            info = await store.get_info("here")
            assert info.is_link()
            assert sorted(one.name for one in await store.list()) == ["here", "there"]
            options = info.options
            assert options is not None
            assert options.link is not None
            assert (await store.get(str(options.link.name))).data == b"content"

    asyncio.run(check())


def test_a_value_that_is_replaced_is_never_missing(server: servers.Server) -> None:
    """Whoever asks while a newer one is on its way to the disk gets the one or the other: directly, with other keys, by
    the API, and from a mirror."""

    async def check() -> None:
        async with streams(server) as js, streams(server) as others:
            bucket = await js.create_key_value(KeyValueConfig(bucket="busy", direct=True))
            copy = StreamConfig(name="KV_same", mirror=StreamSource(name="KV_busy"), max_msgs_per_subject=1)
            await js.add_stream(copy.evolve(allow_direct=True))
            await bucket.put("a", b"0")

            async def copied() -> bool:
                return (await js.stream_info("KV_same")).state.messages == 1

            await until(copied)
            ended = asyncio.Event()
            key = b'{"last_by_subj": "$KV.busy.a"}'
            questions = [
                ("$JS.API.DIRECT.GET.KV_busy.$KV.busy.a", b""),
                ("$JS.API.DIRECT.GET.KV_busy", b'{"multi_last": ["$KV.busy.*"]}'),
                ("$JS.API.DIRECT.GET.KV_same", key),
                ("$JS.API.STREAM.MSG.GET.KV_busy", key),
            ]

            async def asked(subject: str, question: bytes) -> int:
                count = 0
                while not ended.is_set():
                    answer = await others._nc.request(subject, question, timeout=PATIENCE_S)
                    assert "Status" not in (answer.headers or {}), (subject, answer.headers)
                    assert b'"error"' not in answer.data, (subject, answer.data)
                    count += 1
                return count

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(asked(*question)) for question in questions]
                for number in range(200):
                    await bucket.put("a", b"%d" % number)
                ended.set()
            assert all(task.result() > 0 for task in tasks)

    asyncio.run(check())


class Drawn(io.RawIOBase):
    """So many bytes that do not repeat within a chunk."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._block = hashlib.shake_128(b"drawn").digest(CHUNK)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        taken = min(len(buffer), self._left, CHUNK)
        buffer[:taken] = self._block[:taken]
        self._left -= taken
        return taken


async def transfer(server: servers.Server, size: int) -> tuple[float, float]:
    """Seconds that an object's putting and getting took."""
    async with streams(server) as js:
        store = await js.create_object_store(bucket="huge")
        begun = time.monotonic()
        await store.put("one", io.BufferedReader(Drawn(size), CHUNK))
        put = time.monotonic()
        with open("/dev/null", "wb") as nowhere:
            found = await store.get("one", writeinto=nowhere)
        assert found.info.size == size
        return put - begun, time.monotonic() - put


def main() -> None:
    """Prints a row for each server. The first argument: how many MiB in place of a gigabyte."""
    size = int(sys.argv[1]) << 20 if len(sys.argv) > 1 else GIGABYTE
    for kind in servers.KINDS:
        with servers.running(kind, CONFIGURATION) as server:
            put, got = asyncio.run(transfer(server, size))
            own, files = server.memory_bytes("RssAnon") >> 20, server.memory_bytes("RssFile") >> 20
            times = f"put in {put:.1f} s, got in {got:.1f} s"
            print(f"{kind}: {size >> 20} MiB {times}; {own} MiB of memory, {files} of mapped files")


if __name__ == "__main__":
    main()
