"""A server without JetStream in a cluster, or in a cluster of its own, beside others that have it: its clients use
theirs, whichever of the two is leafd and whichever nats-server.

Not here: clusters of core messages alone (test_cluster.py), the JetStream of several leafd (test_meta_group.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, StreamConfig

from tests import servers
from tests.rig.official import connect
from tests.rig.waiting import PATIENCE_S, until

CONFIG = """
listen: "127.0.0.1:{port}"
server_name: "{name}"
accounts {
  A { users: [ {user: a, password: a} ], jetstream: enabled }
  B { users: [ {user: b, password: b} ], jetstream: enabled }
  C { users: [ {user: c, password: c} ]{apart} }
  SYS { users: [ {user: sys, password: sys} ] }
}
system_account: SYS
cluster {
  name: C
  listen: "127.0.0.1:{route_port}"
  routes: [ "nats-route://127.0.0.1:{first}" ]
}
{jetstream}
"""
JETSTREAM = 'jetstream {{ store_dir: "{}"{} }}'
L, R = servers.LEAFD, servers.REFERENCE
COUNT = 200


@contextlib.contextmanager
def started(kinds: tuple[str, ...], folder: Path, without: int) -> Iterator[list[servers.Server]]:
    """JetStream is at each server but that one."""
    made: list[servers.Server] = []
    with contextlib.ExitStack() as stack:
        for number, kind in enumerate(kinds):
            place = folder / f"s{number}"
            place.mkdir()
            first = made[0].ports["route_port"] if made else "{route_port}"
            server = servers.make(
                kind,
                CONFIG.replace("{first}", str(first)),
                place,
                name=f"s{number}",
                jetstream=JETSTREAM.format(place / "store", ", meta_size: 3" if kind == L else "")
                if number != without
                else "",
                apart=", jetstream: enabled" if number == without else "",
            )
            made.append(server)
        for server in made:
            server.start()
            stack.callback(server.stop)
        yield made


async def until_ready(client: Client) -> None:
    """A meta leader answers, and knows of each of its three servers that it takes streams."""

    async def answers() -> bool:
        with contextlib.suppress(nats.errors.Error):
            answer = json.loads((await client.request("$JS.API.STREAM.CREATE.READY", READY, timeout=2)).data)
            return "error" not in answer
        return False

    await until(answers, "no JetStream")


async def until_heard(client: Client, subject: str) -> None:
    """The interest of a new stream goes another way than the answer to its creation, and may come behind it."""

    async def heard() -> bool:
        with contextlib.suppress(nats.errors.NoRespondersError):
            await client.request(subject, b"", timeout=PATIENCE_S)
            return True
        return False

    await until(heard, "no stream takes it")


async def fetched(consumer: JetStreamContext.PullSubscription) -> list[Msg]:
    """The next 50 messages; the interest of a new consumer may come behind the answer to its creation, too."""
    found: list[Msg] = []

    async def some() -> bool:
        with contextlib.suppress(nats.js.errors.ServiceUnavailableError):
            found.extend(await consumer.fetch(50, timeout=PATIENCE_S))
        return bool(found)

    await until(some, "the consumer gives nothing")
    return found


READY = json.dumps({"name": "READY", "subjects": ["ready"], "storage": "memory", "num_replicas": 3}).encode()


@pytest.mark.parametrize(
    ("kinds", "without"),
    [
        ((R, R, R, R), 3),
        ((R, R, R, L), 3),
        ((L, R, R, R), 0),
        ((L, L, L, L), 3),
        ((L, L, L, R), 3),
        ((R, L, L, L), 0),
    ],
    ids=["nats-server", "leafd", "first", "leafd at leafds", "nats-server at leafds", "nats-server first"],
)
def test_a_client_of_a_member_without_jetstream_uses_that_of_the_others(
    kinds: tuple[str, ...], without: int, tmp_path: Path
) -> None:
    async def use(server: servers.Server) -> None:
        client = await connect(server)
        other, hasty = await connect(server, "b"), await connect(server, patient=False)
        await until_ready(client)
        js = client.jetstream(timeout=PATIENCE_S)
        await js.add_stream(StreamConfig(name="S", subjects=["s.*"], num_replicas=3))
        await until_heard(client, "s.first")
        for number in range(COUNT):
            ack = await js.publish(f"s.{number}", b"%d" % number)
            assert (ack.stream, ack.seq) == ("S", number + 2)
        pulled = await js.pull_subscribe("s.*", durable="pull")
        got: list[bytes] = []
        while len(got) <= COUNT:
            for message in await fetched(pulled):
                got.append(message.data)
                await message.ack()
        assert got == [b"", *(b"%d" % number for number in range(COUNT))]
        pushed = await js.subscribe("s.*", durable="push", config=ConsumerConfig(ack_wait=PATIENCE_S))
        for expected in got:
            message = await pushed.next_msg(PATIENCE_S)
            assert message.data == expected
            await message.ack_sync(timeout=PATIENCE_S)
        info = await js.consumer_info("S", "push")
        assert (info.num_pending, info.num_ack_pending) == (0, 0)
        bucket = await js.create_key_value(bucket="K")
        await until_heard(client, "$KV.K.first")
        await bucket.put("a", b"1")
        assert (await bucket.get("a")).value == b"1"
        assert "S" not in [one.config.name for one in await other.jetstream(timeout=PATIENCE_S).streams_info()]
        with pytest.raises(nats.errors.NoRespondersError):
            await hasty.request("nobody", b"", timeout=PATIENCE_S)
        for one in (client, other, hasty):
            await one.close()

    with started(kinds, tmp_path, without) as made:
        asyncio.run(use(made[without]))
