"""What clients do while servers fail, and what they saw: numbers appended to a stream, registers read and changed.

Every number is published once; who has no answer goes on with the next one, and does not know. Each eighth is for a
durable consumer, and some go into a work queue. Some are published as batches, of which all are there or none, and some
are added to counters. A register is a subject of the same stream: its value is changed by
whoever expects the sequence that he has read (compare-and-set). Values are unique. Times are the clients' own clock,
which is one. Not here: consumers (pulling.py), messages that age (aging.py), what the histories mean (judge.py).
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from nats.aio.client import Client

from tests.crash.histories.aging import Aged, age
from tests.crash.histories.asking import asked, connected
from tests.crash.histories.pulling import Consumer, Delivery, drain, pull_until

REGISTERS: Final = 4
FLYING: Final = 16
"""Numbers that one client has under way."""
PAUSE_S: Final = 0.02
STREAM: Final[dict[str, Any]] = {
    "name": "H",
    "subjects": ["n.*", "r.*"],
    "num_replicas": 3,
    "allow_direct": True,
    "discard": "new",
    "max_msgs": 5_000_000,
    "allow_atomic": True,
}
COUNTED: Final[dict[str, Any]] = {
    "name": "K",
    "subjects": ["k.*"],
    "num_replicas": 3,
    "allow_direct": True,
    "allow_msg_counter": True,
}
COUNTERS: Final = 2
BATCHED: Final = 2
"""Batches that one client has under way."""
QUEUE: Final[dict[str, Any]] = {"name": "Q", "subjects": ["q"], "num_replicas": 3, "retention": "workqueue"}
ROWS: Final = 8
"""Subjects of numbers: the consumer has the first one's."""
QUEUED: Final = 4
"""Numbers that one client has under way to the queue."""
CONSUMERS: Final = {"H": Consumer("H", "n.0"), "Q": Consumer("Q", "q")}
WRONG_LAST: Final = 10071
"""Error code: the last sequence is another one."""


@dataclass
class Append:
    """A number that was published. seq 0: without an answer; refused: with an error."""

    subject: str
    number: int
    call: int
    answered: int = 0
    seq: int = 0
    refused: str = ""
    batch: str = ""
    value: int = 0
    """Of a counter that it was added to."""


@dataclass
class Touch:
    """A register read, or changed from one value to another. done: "yes", "no" (another value was there), "unknown"."""

    process: int
    register: int
    change: bool
    value: str
    before: str
    call: int
    answered: int = 0
    done: str = "unknown"


@dataclass
class History:
    """All that clients saw."""

    appends: list[Append] = field(default_factory=list)
    added: list[Append] = field(default_factory=list)
    touches: list[Touch] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    aged: list[Aged] = field(default_factory=list)
    processes: itertools.count[int] = field(default_factory=itertools.count)

    def touched(self) -> bytes:
        """As the judge of registers reads it."""
        return json.dumps([asdict(one) for one in self.touches]).encode()

    def numbered(self) -> bytes:
        """For people."""
        rows: dict[str, Sequence[Append | Delivery]] = {"appends": self.appends, "added": self.added}
        rows["deliveries"] = self.deliveries
        return json.dumps({name: [asdict(one) for one in found] for name, found in rows.items()}).encode()


class Workload:
    """Clients at all servers, until `ended` is set. queue: the servers keep a work queue, too."""

    def __init__(self, history: History, seed: int, *, queue: bool) -> None:
        self.history, self.ended, self._queue = history, asyncio.Event(), queue
        history.consumers = [CONSUMERS["H"], *([CONSUMERS["Q"]] if queue else [])]
        self._drained = asyncio.Event()
        self._numbers = itertools.count()
        self._values = itertools.count(1)
        self._random = random.Random(seed)

    async def run(self) -> None:
        """Returns when it has ended, no answer is waited for any more, and the consumers have nothing left."""
        async with asyncio.TaskGroup() as all_of_them:
            clients = [await connected(number) for number in range(3)]
            for client in clients:
                for consumer in self.history.consumers:
                    found = self.history.deliveries
                    all_of_them.create_task(pull_until(self._drained, client, consumer, found))
            async with asyncio.TaskGroup() as group:
                for client in clients:
                    for _ in range(FLYING):
                        group.create_task(self._append(client, ""))
                    for _ in range(QUEUED if self._queue else 0):
                        group.create_task(self._append(client, "q"))
                    for _ in range(BATCHED):
                        group.create_task(self._batch(client))
                        group.create_task(self._add(client))
                    for register in range(REGISTERS):
                        group.create_task(self._touch(client, register))
                    group.create_task(age(self.ended, client, self.history.aged, self._random.randrange(1 << 30)))
            await drain(clients[0], self.history.consumers)
            self._drained.set()

    async def _append(self, client: Client, subject: str) -> None:
        while not self.ended.is_set():
            number = next(self._numbers)
            one = Append(subject or f"n.{number % ROWS}", number, time.monotonic_ns())
            self.history.appends.append(one)
            said = await asked(client, one.subject, str(number).encode())
            if "error" in said:  # which names a sequence, too: 0
                one.refused = str(said["error"].get("description"))
            elif said:
                one.seq, one.answered = said["seq"], time.monotonic_ns()
            if not one.seq:
                await asyncio.sleep(PAUSE_S * 5)
            await asyncio.sleep(PAUSE_S * self._random.random())

    async def _batch(self, client: Client) -> None:
        """One batch after the other. What of it was sent before there was no answer goes with the server's memory."""
        while not self.ended.is_set():
            await asyncio.sleep(PAUSE_S * 4 * self._random.random())
            numbers = [next(self._numbers) for _ in range(self._random.randint(1, 6))]
            batch, call = f"b{numbers[0]}", time.monotonic_ns()
            ones = [Append(f"n.{number % ROWS}", number, call, batch=batch) for number in numbers]
            self.history.appends += ones
            said: dict[str, Any] = {}
            for place, one in enumerate(ones, 1):
                headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(place)}
                if place < len(ones):
                    await client.publish(one.subject, str(one.number).encode(), headers=headers)
                else:
                    headers["Nats-Batch-Commit"] = "1"
                    said = await asked(client, one.subject, str(one.number).encode(), headers)
            for place, one in enumerate(ones, 1):
                if "error" in said:
                    one.refused = str(said["error"].get("description"))
                elif said:
                    one.seq, one.answered = said["seq"] - len(ones) + place, time.monotonic_ns()

    async def _add(self, client: Client) -> None:
        """Each number is added once, so that a sum tells which are in it."""
        while not self.ended.is_set():
            await asyncio.sleep(PAUSE_S * 2 * self._random.random())
            number = next(self._numbers)
            one = Append(f"k.{number % COUNTERS}", number, time.monotonic_ns())
            self.history.added.append(one)
            said = await asked(client, one.subject, b"", {"Nats-Incr": str(number)})
            if "error" in said:
                one.refused = str(said["error"].get("description"))
            elif said:
                one.seq, one.value, one.answered = said["seq"], int(said["val"]), time.monotonic_ns()

    async def _touch(self, client: Client, register: int) -> None:
        process = next(self.history.processes)
        while not self.ended.is_set():
            await asyncio.sleep(PAUSE_S * 4 * self._random.random())
            one = Touch(process, register, False, "", "", time.monotonic_ns())
            ask = json.dumps({"last_by_subj": f"r.{register}"}).encode()
            said = await asked(client, "$JS.API.STREAM.MSG.GET.H", ask)
            found = said.get("message", {})
            if not found and said.get("error", {}).get("err_code") != 10037:  # no message found
                continue
            one.answered, one.done, one.value = time.monotonic_ns(), "yes", _text(found)
            self.history.touches.append(one)
            process = await self._change(client, one, int(found.get("seq", 0)))

    async def _change(self, client: Client, seen: Touch, seq: int) -> int:
        """Who goes on: one who does not know what became of a change is not heard of again."""
        value = f"v{next(self._values)}"
        one = Touch(seen.process, seen.register, True, value, seen.value, time.monotonic_ns())
        self.history.touches.append(one)
        headers = {"Nats-Expected-Last-Subject-Sequence": str(seq)}
        said = await asked(client, f"r.{seen.register}", value.encode(), headers)
        if said and "error" not in said:
            one.done = "yes"
        elif said.get("error", {}).get("err_code") == WRONG_LAST:
            one.done = "no"
        else:
            return next(self.history.processes)
        one.answered = time.monotonic_ns()
        return one.process


def _text(message: dict[str, Any]) -> str:
    return base64.b64decode(message.get("data", "")).decode()
