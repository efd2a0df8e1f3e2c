"""kill -9 of the whole daemon, again and again, under official clients.

The store alone goes through the same in tests/native/test_store_crash.c; here the promise is the one that a user is
given: what was acknowledged is there, once and in order.
"""

from __future__ import annotations

import asyncio
import collections
import json
import random
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig
from nats.js.errors import NotFoundError

from tests.crash.keep import Boxes, closed, connected, stored
from tests.servers import LEAFD, Server, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 1G, max_mem: 64M }
"""
ROUNDS = 8
BATCH = 20
SEED = 20260101
JOBS = 3000
SCHEDULES = 300


async def until_killed(work: Coroutine[Any, Any, None], server: Server, seconds: float) -> None:
    """Runs work, kills the server in the midst, and lets the work find out. What it saw broken is raised."""
    task = asyncio.create_task(work)
    await asyncio.sleep(seconds)
    server.kill()
    await asyncio.sleep(0.05)
    task.cancel()
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(ended, AssertionError):
        raise ended


def test_acknowledged_is_there_once_and_in_order() -> None:
    """Publishers that repeat what was not acknowledged, with message ids, find each message exactly once."""

    async def scenario(server: Server) -> None:
        chance = random.Random(SEED)
        boxes = Boxes()
        for round_number in range(ROUNDS):
            client, js = await connected(server)
            if round_number == 0:
                await boxes.make_stream(js)
            await until_killed(boxes.publish(js), server, chance.uniform(0.1, 0.6))
            await closed(client)
            server.start()
            await boxes.check(server)
        assert all(len(numbers) > ROUNDS for numbers in boxes.acked)

    with running(LEAFD, CONFIGURATION) as server:
        asyncio.run(scenario(server))


def test_an_atomic_batch_is_there_whole_or_not_at_all() -> None:
    """Of a batch all messages are there after a kill, or none; and all that were committed and acknowledged are."""

    async def publish(js: JetStreamContext, begun: list[int], acked: list[int]) -> None:
        while True:
            number = len(begun)
            begun.append(number)
            for place in range(1, BATCH + 1):
                headers = {"Nats-Batch-Id": f"b{number}", "Nats-Batch-Sequence": str(place)}
                name = f"{number}:{place}".encode()
                if place < BATCH:
                    await js._nc.publish(f"BATCH.{place % 3}", name, headers=headers)
                    continue
                ack = await js.publish("BATCH.last", name, headers=headers | {"Nats-Batch-Commit": "1"})
                assert ack.stream == "BATCH"
                acked.append(number)

    async def scenario(server: Server) -> None:
        chance = random.Random(SEED + 2)
        begun: list[int] = []
        acked: list[int] = []
        for round_number in range(ROUNDS):
            client, js = await connected(server)
            if round_number == 0:
                wanted = {"name": "BATCH", "subjects": ["BATCH.>"], "allow_atomic": True}
                await client.request("$JS.API.STREAM.CREATE.BATCH", json.dumps(wanted).encode())
            await until_killed(publish(js, begun, acked), server, chance.uniform(0.1, 0.4))
            await closed(client)
            server.start()
            found = [int(text.partition(":")[0]) for text in await stored(server, "BATCH")]
            counts = collections.Counter(found)
            assert set(counts.values()) == {BATCH}, "a batch is there in part"
            assert set(acked) <= set(counts) <= set(begun)
        assert len(acked) > ROUNDS

    with running(LEAFD, CONFIGURATION) as server:
        asyncio.run(scenario(server))


def test_confirmed_acks_are_kept() -> None:
    """A message whose ack was confirmed never comes again, and all others come."""

    async def left(js: JetStreamContext) -> int:
        info = await js.consumer_info("JOBS", "worker")
        return (info.num_pending or 0) + (info.num_ack_pending or 0)

    async def work(js: JetStreamContext, confirmed: list[int]) -> None:
        subscription = await js.pull_subscribe("", durable="worker", stream="JOBS")
        while await left(js) > 0:
            for message in await subscription.fetch(100, timeout=2):
                number = int(message.data)
                assert number not in confirmed, f"{number} came again after its ack was confirmed"
                await message.ack_sync(timeout=2)
                confirmed.append(number)

    async def scenario(server: Server) -> None:
        chance = random.Random(SEED + 1)
        confirmed: list[int] = []
        client, js = await connected(server)
        await js.add_stream(StreamConfig(name="JOBS", subjects=["JOBS.>"]))
        wanted = ConsumerConfig(durable_name="worker", ack_policy=AckPolicy.EXPLICIT, ack_wait=1)
        await js.add_consumer("JOBS", wanted)
        for number in range(JOBS - 1):
            await client.publish("JOBS.x", str(number).encode())
        await js.publish("JOBS.x", str(JOBS - 1).encode())  # its ack says that all before it are kept too
        for _ in range(ROUNDS):
            await until_killed(work(js, confirmed), server, chance.uniform(0.1, 0.4))
            await closed(client)
            server.start()
            client, js = await connected(server)
            assert await left(js) <= JOBS - len(confirmed)
        await asyncio.wait_for(work(js, confirmed), 60)
        # Where the kill took the confirmation of an ack that was kept, nobody was told: one a round at most.
        assert JOBS - ROUNDS <= len(confirmed) <= JOBS
        await closed(client)

    with running(LEAFD, CONFIGURATION) as server:
        asyncio.run(scenario(server))


def test_definitions_are_kept() -> None:
    """What was created and answered exists after a kill; what was deleted and answered does not."""

    async def scenario(server: Server) -> None:
        for number in range(4):
            client, js = await connected(server)
            await js.add_stream(StreamConfig(name=f"S{number}", subjects=[f"S{number}.>"]))
            await js.add_consumer(f"S{number}", ConsumerConfig(durable_name="c", ack_policy=AckPolicy.EXPLICIT))
            await js.publish(f"S{number}.a", b"x")
            if number > 0:
                await js.delete_stream(f"S{number - 1}")
            server.kill()
            await closed(client)
            server.start()
            client, js = await connected(server)
            names = [info.config.name for info in await js.streams_info()]
            assert names == [f"S{number}"]
            assert (await js.consumer_info(f"S{number}", "c")).num_pending == 1
            if number > 0:
                with pytest.raises(NotFoundError):
                    await js.stream_info(f"S{number - 1}")
            await closed(client)

    with running(LEAFD, CONFIGURATION) as server:
        asyncio.run(scenario(server))


def test_schedules_fire_once() -> None:
    """What each schedule makes is there exactly once, and its schedule is gone, whenever the server was killed."""

    async def made(js: JetStreamContext) -> dict[str, int]:
        return dict((await js.stream_info("PLAN", subjects_filter=">")).state.subjects or {})

    async def scenario(server: Server) -> None:
        chance = random.Random(SEED + 2)
        client, js = await connected(server)
        await client.request(
            "$JS.API.STREAM.CREATE.PLAN",
            b'{"name":"PLAN","subjects":["PLAN.>"],"allow_msg_schedules":true}',
        )
        for number in range(SCHEDULES):
            due = datetime.now(UTC) + timedelta(seconds=chance.uniform(0.5, 5))
            headers = {"Nats-Schedule": f"@at {due.isoformat()}", "Nats-Schedule-Target": f"PLAN.made.{number}"}
            await js.publish(f"PLAN.plan.{number}", b"x", headers=headers)
        await closed(client)
        last = datetime.now(UTC) + timedelta(seconds=6)
        for _ in range(ROUNDS):
            await asyncio.sleep(chance.uniform(0.1, 0.5))
            server.kill()
            server.start()
        await asyncio.sleep(max((last - datetime.now(UTC)).total_seconds(), 0))
        client, js = await connected(server)
        expected = {f"PLAN.made.{number}": 1 for number in range(SCHEDULES)}
        for _ in range(50):
            if await made(js) == expected:
                break
            await asyncio.sleep(0.1)
        assert await made(js) == expected
        await closed(client)

    with running(LEAFD, CONFIGURATION) as server:
        asyncio.run(scenario(server))
