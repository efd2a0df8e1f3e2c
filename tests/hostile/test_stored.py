"""Stored definitions that cannot be taken up: whatever they are, the daemon starts, serves everything else, says which
they are, and lets them be deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from leafd import native_types as t
from leafd.jetstream.flat import flat_consumer, flat_stream
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig
from leafd.native_plane import Plane

from tests.hostile.wires import Asker
from tests.servers import LEAFD, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file_store: 64MB, max_memory_store: 16MB }
"""
CREATED = "2026-01-01T00:00:00Z"


def definition(name: str, **config: object) -> bytes:
    return json.dumps({"account": "$G", "created": CREATED, "config": {"name": name} | config}).encode()


BAD = {
    "no JSON": (b"\xff\xfe{", "unreadable-77"),
    "nothing": (b"", "unreadable-77"),
    "no object": (b"[1]", "unreadable-77"),
    "nested": (b'{"account":"$G","config":' + b"[" * 5000 + b"]" * 5000 + b"}", "unreadable-77"),
    "no time": (b'{"account":"$G","created":"soon","config":{"name":"BAD"}}', "BAD"),
    "no configuration": (b'{"account":"$G","created":"2026-01-01T00:00:00Z","name":"BAD"}', "BAD"),
    "wrong type": (definition("BAD", subjects=7), "BAD"),
    "unknown retention": (definition("BAD", retention="forever"), "BAD"),
    "far beyond a number": (definition("BAD", max_msgs=1 << 70), "BAD"),
    "a transform that is none": (definition("BAD", republish={"src": "a.*", "dest": "{{nothing(9)}}.b.>.c"}), "BAD"),
    "a name for no subject": (definition("a.b *", subjects=7), "unreadable-77"),
    "a name twice": (definition("KEEP"), "unreadable-77"),
}


def write(store: Path, stream: bytes, consumer: bytes | None = None) -> None:
    """Puts records into the store of a stopped server, as a version that knew them would have."""

    async def main() -> None:
        plane = Plane.open(t.Limits(jetstream=1, max_file_store=64 << 20), store, None)
        try:
            plane.start()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(plane.run, lambda event: None)
                plane.account(1, "$G", "", int(t.AccountFlag.JETSTREAM))
                flat = flat_stream(1, StreamConfig(name="x", max_msgs=-1, max_bytes=-1, max_msgs_per_subject=-1))
                await plane.stream_put(77, flat, name="x", definition=stream, domain="", subjects=())
                if consumer is not None:
                    flat_one = flat_consumer(1, ConsumerConfig(durable_name="c", ack_policy="explicit"))
                    await plane.consumer_put(77, 78, flat_one, name="c", definition=consumer)
                nursery.cancel_scope.cancel()
            await plane.stop()
        finally:
            plane.close()

    trio.run(main)


@pytest.mark.parametrize("what", BAD)
def test_stream_is_set_aside(what: str) -> None:
    """The start goes on; the stream is named in the log and the listing, served by nobody, and deleted for good."""
    record, name = BAD[what]
    with running(LEAFD, CONFIGURATION) as server:
        with Asker(server.port) as client:
            assert "error" not in client.asked("$JS.API.STREAM.CREATE.KEEP", {"name": "KEEP", "subjects": ["keep"]})
        server.stop()
        write(server.directory / "store" / "jetstream", record, b'{"name":"c"}')
        server.start("server.conf")
        assert f'stream "{name}" of account "$G" stays on disk unserved' in server.log
        with Asker(server.port) as client:
            assert "KEEP" == client.asked("keep", b"1")["stream"]
            assert 10194 == client.err_code(f"$JS.API.STREAM.INFO.{name}")
            assert 10194 == client.err_code(f"$JS.API.STREAM.PURGE.{name}")
            assert 10194 == client.err_code(f"$JS.API.CONSUMER.INFO.{name}.c")
            assert 10194 == client.err_code(f"$JS.API.STREAM.CREATE.{name}", {"name": name})
            assert [name] == list(client.asked("$JS.API.STREAM.LIST")["offline"])
            assert client.asked(f"$JS.API.STREAM.DELETE.{name}")["success"]
            assert 10059 == client.err_code(f"$JS.API.STREAM.INFO.{name}")
            made = client.asked(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": ["again"]})
            assert 0 == made["state"]["messages"]
        server.stop()
        server.start("server.conf")
        assert server.log.count("stays on disk unserved") == 1
        with Asker(server.port) as client:
            assert 0 == client.err_code(f"$JS.API.STREAM.INFO.{name}")
            assert 1 == client.asked("$JS.API.STREAM.INFO.KEEP")["state"]["messages"]


def test_consumer_is_set_aside() -> None:
    """A consumer that cannot be taken up keeps its stream from nothing; it is named, and deleted for good."""
    unbounded = dict.fromkeys(("max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size", "max_consumers"), -1)
    stream = definition("GOOD", subjects=["good"], **unbounded)
    with running(LEAFD, CONFIGURATION) as server:
        server.stop()
        write(server.directory / "store" / "jetstream", stream, b'{"name":"c","created":"soon","config":{}}')
        server.start("server.conf")
        assert 'consumer "c" of stream "GOOD" stays on disk unserved' in server.log
        with Asker(server.port) as client:
            assert 1 == client.asked("good", b"1")["seq"]
            body = {"stream_name": "GOOD", "config": {"durable_name": "c", "ack_policy": "explicit"}}
            assert 10195 == client.err_code("$JS.API.CONSUMER.INFO.GOOD.c")
            assert 10195 == client.err_code("$JS.API.CONSUMER.DURABLE.CREATE.GOOD.c", body)
            assert client.asked("$JS.API.CONSUMER.DELETE.GOOD.c")["success"]
            assert 0 == client.err_code("$JS.API.CONSUMER.DURABLE.CREATE.GOOD.c", body)
        server.stop()
        server.start("server.conf")
        assert server.log.count("stays on disk unserved") == 1
        with Asker(server.port) as client:
            assert 1 == client.asked("$JS.API.CONSUMER.INFO.GOOD.c")["num_pending"]
