"""Publishers under official clients that repeat what got no acknowledgement, and the check of what a server has kept.

What breaks the server, and how it comes back, is each test's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import StreamConfig

from tests.crash.reading import Reader
from tests.servers import Server

BOXES = 3


async def connected(server: Server, patience_s: float = 2) -> tuple[Client, JetStreamContext]:
    async def quiet(error: Exception) -> None:
        """The link breaks in every round; that is the point."""

    client = await nats.connect(server.url, allow_reconnect=False, error_cb=quiet)
    return client, client.jetstream(timeout=patience_s)


async def closed(client: Client) -> None:
    with contextlib.suppress(NatsError, OSError, asyncio.TimeoutError):
        await asyncio.wait_for(client.close(), 2)


async def stored(server: Server, stream: str) -> list[str]:
    """Payloads in stream order, read by a fresh consumer from the first message on."""
    client, js = await connected(server)
    state = (await js.stream_info(stream)).state
    await closed(client)
    with Reader(server) as reader:
        return [payload.decode() for payload in reader.delivered(stream, state.messages)]


@dataclass
class Boxes:
    """Each box publishes its numbers, one after the other, with message ids; it goes on where no ack came."""

    acked: list[list[int]] = field(default_factory=lambda: [[] for _ in range(BOXES)])
    started: list[int] = field(default_factory=lambda: [0] * BOXES)

    @staticmethod
    async def make_stream(js: JetStreamContext) -> None:
        await js.add_stream(StreamConfig(name="KEEP", subjects=["KEEP.>"]))

    async def _publish(self, js: JetStreamContext, box: int) -> None:
        for number in itertools.count(len(self.acked[box])):
            self.started[box] = max(self.started[box], number + 1)
            name = f"{box}:{number}"
            ack = await js.publish(f"KEEP.{box}", name.encode(), headers={"Nats-Msg-Id": name})
            assert ack.seq > 0
            self.acked[box].append(number)

    async def publish(self, js: JetStreamContext) -> None:
        """All boxes, until the server breaks."""
        await asyncio.gather(*(self._publish(js, box) for box in range(BOXES)))

    async def check(self, server: Server) -> None:
        """What was acknowledged is there, once and in order, and nothing that was never sent."""
        found = await stored(server, "KEEP")
        for box in range(BOXES):
            numbers = [int(text.partition(":")[2]) for text in found if text.startswith(f"{box}:")]
            assert numbers == list(range(len(numbers))), f"box {box} has gaps, doubles or disorder"
            assert len(self.acked[box]) <= len(numbers) <= self.started[box]
