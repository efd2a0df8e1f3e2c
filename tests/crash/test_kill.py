"""kill -9 of the whole daemon, again and again, under official clients.

The store alone goes through the same in tests/native/test_store_crash.c; here the promise is the one that a user is
given: what was acknowledged is there, once and in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Coroutine
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig
from nats.js.errors import NotFoundError

from tests.servers import LEAFD, Server, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 1G, max_mem: 64M }
"""
ROUNDS = 8
SEED = 20260101
JOBS = 3000


async def connected(server: Server) -> tuple[Client, JetStreamContext]:
    async def quiet(error: Exception) -> None:
        """The link breaks in every round; that is the point."""

    client = await nats.connect(server.url, allow_reconnect=False, error_cb=quiet)
    return client, client.jetstream(timeout=2)


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


async def closed(client: Client) -> None:
    with contextlib.suppress(NatsError, OSError, asyncio.TimeoutError):
        await asyncio.wait_for(client.close(), 2)


async def stored(server: Server, stream: str) -> list[str]:
    """Payloads in stream order, read by a fresh consumer from the first message on."""
    client, js = await connected(server)
    state = (await js.stream_info(stream)).state
    found: list[str] = []
    subscription = await js.subscribe(f"{stream}.>", ordered_consumer=True)
    while len(found) < state.messages:
        message = await subscription.next_msg(timeout=5)
        found.append(message.data.decode())
    await closed(client)
    return found


def test_acknowledged_is_there_once_and_in_order() -> None:
    """Publishers that repeat what was not acknowledged, with message ids, find each message exactly once."""

    async def publish(js: JetStreamContext, box: int, acked: list[int], started: list[int]) -> None:
        """One message after the other; goes on with the first that got no ack."""
        for number in itertools.count(len(acked)):
            started[0] = max(started[0], number + 1)
            name = f"{box}:{number}"
            ack = await js.publish(f"KEEP.{box}", name.encode(), headers={"Nats-Msg-Id": name})
            assert ack.seq > 0
            acked.append(number)

    async def scenario(server: Server) -> None:
        chance = random.Random(SEED)
        acked: list[list[int]] = [[], [], []]
        started = [[0], [0], [0]]
        for round_number in range(ROUNDS):
            client, js = await connected(server)
            if round_number == 0:
                await js.add_stream(StreamConfig(name="KEEP", subjects=["KEEP.>"]))

            async def everybody(js: JetStreamContext = js) -> None:
                await asyncio.gather(*(publish(js, box, acked[box], started[box]) for box in range(3)))

            await until_killed(everybody(), server, chance.uniform(0.1, 0.6))
            await closed(client)
            server.start()
            found = await stored(server, "KEEP")
            for box in range(3):
                numbers = [int(text.partition(":")[2]) for text in found if text.startswith(f"{box}:")]
                assert numbers == list(range(len(numbers))), f"box {box} has gaps, doubles or disorder"
                assert len(acked[box]) <= len(numbers) <= started[box][0]
        assert all(len(numbers) > ROUNDS for numbers in acked)

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
