"""What programs of an official client (nats-py, as it is when nobody sets anything) do over a bad line: two servers in
places of their own (tests/cell.py), the program at the leaf, what it wants in the hub's domain.

    python -m tests.bench.programs get HUB LEAF [--size 400000] [--chunk 131072]    an object of the hub's store
    python -m tests.bench.programs put HUB LEAF                                     one into the hub's store
    python -m tests.bench.programs watch HUB LEAF [--count 50]                      keys of a bucket, then changes of it
    python -m tests.bench.programs many HUB LEAF [--count 20]                       a request that many answer there
    python -m tests.bench.programs pull HUB LEAF [--count 300] [--max-bytes 4096]   a durable consumer, by max_bytes
    python -m tests.bench.programs stats HUB LEAF                                   the hub asks a service of the leaf

HUB and LEAF: leafd or nats-server. Each run has a time (--seconds), and prints what was done in it and each failure
that the program saw. packaging/doc/field-figures.md has what it showed. Not here: devices of MQTT
(tests/bench/devices.py).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

import nats
import nats.errors
import nats.js.api
import nats.micro
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.kv import KeyValue
from nats.micro.request import Request
from nats.micro.service import ServiceConfig

from tests import servers
from tests.bench.cell import pair
from tests.bench.process import Process
from tests.cell import HUB, LEAF, Cell, Link, joined

T = TypeVar("T")
CALM_RATE = 2e6
PATIENCE_S = 20.0
"""Of a request, where the program may say so; what it may not has the client's own 5 s."""


class Run:
    """One program's time, and what it saw."""

    def __init__(self, options: argparse.Namespace, cell: Cell, hub: Process, leaf: Process) -> None:
        self.options = options
        self.cell = cell
        self.line = Link(options.rate, delay=options.trip / 2, loss=options.loss)
        self._ports = {HUB: hub.port, LEAF: leaf.port}
        self._began = time.monotonic()

    def told(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {what}", flush=True)

    def bad(self) -> None:
        """The line is as it is to be; the time begins."""
        time.sleep(2)
        self.cell.change(self.line)
        self.cell.carried[:] = [0, 0]
        self._began = time.monotonic()

    @contextlib.asynccontextmanager
    async def client(self, place: int) -> AsyncIterator[Client]:
        async def failed(error: Exception) -> None:
            self.told(f"the client says: {error!r}")

        address = f"nats://127.0.0.1:{self._ports[place]}"
        connection = await nats.connect(address, error_cb=failed, allow_reconnect=False)
        try:
            yield connection
        finally:
            with contextlib.suppress(Exception):
                await connection.close()

    @contextlib.contextmanager
    def beside(self, program: Callable[[Client, asyncio.Event], Awaitable[None]]) -> Iterator[None]:
        """At the hub, in a thread of its own, until the block is left."""
        ready, ended = threading.Event(), threading.Event()

        async def work() -> None:
            async with self.client(HUB) as connection:
                done = asyncio.Event()
                task = asyncio.ensure_future(program(connection, done))
                await done.wait()
                ready.set()
                while not ended.is_set() and not task.done():
                    await asyncio.sleep(0.1)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

        def at_hub() -> None:
            with self.cell.at(HUB):
                asyncio.run(work())

        thread = threading.Thread(target=at_hub)
        thread.start()
        ready.wait()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def far(connection: Client) -> JetStreamContext:
    """The hub's streams, for a client of the leaf."""
    return connection.jetstream(domain="hub")


async def again(run: Run, what: str, task: Callable[[], Awaitable[T]]) -> T:
    """As a program does that does not give up: until it is done, each failure is told."""
    while True:
        try:
            return await task()
        except (TimeoutError, nats.errors.Error) as error:
            run.told(f"{what}: {error!r}")


async def get(run: Run) -> None:
    body = random.randbytes(run.options.size)
    meta = nats.js.api.ObjectMeta(options=nats.js.api.ObjectMetaOptions(max_chunk_size=run.options.chunk))

    async def fill(connection: Client, done: asyncio.Event) -> None:
        store = await connection.jetstream().create_object_store("files")
        await store.put("one", body, meta=meta)
        done.set()

    with run.beside(fill):
        async with run.client(LEAF) as connection:
            store = await far(connection).object_store("files")
            run.bad()
            found = await again(run, "get", lambda: store.get("one"))
            assert getattr(found, "data", None) == body
            run.told("the object is here")


async def put(run: Run) -> None:
    body = random.randbytes(run.options.size)
    async with run.client(LEAF) as connection:
        context = connection.jetstream(domain="hub", timeout=run.options.timeout)
        store = await context.create_object_store("files")
        run.bad()
        for _ in range(10):
            options = nats.js.api.ObjectMetaOptions(max_chunk_size=run.options.chunk)
            try:
                await store.put("one", body, meta=nats.js.api.ObjectMeta(options=options))
                run.told("the object is there")
                return
            except (TimeoutError, nats.errors.Error) as error:
                run.told(f"put: {error!r}")


async def watch(run: Run) -> None:
    count = run.options.count

    async def change(connection: Client, done: asyncio.Event) -> None:
        bucket = await connection.jetstream().create_key_value(bucket="settings", history=1)
        for number in range(count):
            await bucket.put(f"key.{number}", random.randbytes(100))
        done.set()
        for turn in range(1, 1 << 20):
            await asyncio.sleep(5)
            await bucket.put(f"key.{turn % count}", json.dumps({"t": time.monotonic()}).encode())

    with run.beside(change):
        async with run.client(LEAF) as connection:
            bucket = await far(connection).key_value("settings")
            run.bad()
            watcher = await again(run, "watch", bucket.watchall)
            updates: Callable[[float], Awaitable[KeyValue.Entry | None]] = watcher.updates
            seen = 0
            took: list[float] = []
            while len(took) < 20:
                entry = await again(run, "update", lambda: updates(60.0))
                if entry is None:
                    run.told(f"{seen} keys are here")
                elif (entry.value or b"").startswith(b'{"t"'):
                    took.append(time.monotonic() - json.loads(entry.value or b"")["t"])
                else:
                    seen += 1
            run.told(f"changes after {' '.join(f'{one:.1f}' for one in took)} s")


async def many(run: Run) -> None:
    async def answer(connection: Client, done: asyncio.Event) -> None:
        for number in range(run.options.count):

            async def taken(message: Msg, number: int = number) -> None:
                await message.respond(json.dumps({"n": number, "more": "x" * 100}).encode())

            await connection.subscribe("who", cb=taken)
        await connection.flush()
        done.set()
        await asyncio.sleep(1e6)

    with run.beside(answer):
        async with run.client(LEAF) as connection:
            run.bad()
            for _ in range(10):
                inbox = connection.new_inbox()
                asked = time.monotonic()
                answers = await connection.subscribe(inbox)
                await connection.publish("who", b"", reply=inbox)
                got, first = 0, 0.0
                with contextlib.suppress(nats.errors.TimeoutError):
                    while got < run.options.count:
                        await answers.next_msg(timeout=PATIENCE_S)
                        first = first or time.monotonic() - asked
                        got += 1
                took = time.monotonic() - asked
                run.told(f"{got} of {run.options.count} answers, the first after {first:.1f} s, {took:.1f} s")
                await answers.unsubscribe()


async def pull(run: Run) -> None:
    count = run.options.count

    async def fill(connection: Client, done: asyncio.Event) -> None:
        context = connection.jetstream()
        await context.add_stream(name="JOBS", subjects=["jobs.>"])
        for number in range(count):
            await context.publish("jobs.x", f"{number:06d}".encode() + random.randbytes(194))
        await context.add_consumer("JOBS", durable_name="box", ack_policy="explicit", ack_wait=30)
        done.set()

    with run.beside(fill):
        async with run.client(LEAF) as connection:
            run.bad()
            ask = "$JS.hub.API.CONSUMER.MSG.NEXT.JOBS.box"
            wish = {"batch": 500, "max_bytes": run.options.max_bytes, "expires": int(30e9), "idle_heartbeat": int(5e9)}
            inbox = connection.new_inbox()
            answers = await connection.subscribe(inbox)
            got: list[int] = []
            while len(set(got)) < count:
                await connection.publish(ask, json.dumps(wish).encode(), reply=inbox)
                asked, before, used = time.monotonic(), len(got), 0
                while used < run.options.max_bytes and time.monotonic() - asked < PATIENCE_S + 30:
                    try:
                        message = await answers.next_msg(timeout=12)
                    except nats.errors.TimeoutError:
                        run.told("nothing for 12 s, though a heartbeat each 5 s was asked for")
                        break
                    status = (message.headers or {}).get("Status")
                    if status == "100":
                        continue
                    if status:
                        if len(got) == before:
                            run.told(f"ended with {message.headers}")
                        break
                    got.append(int(message.data[:6]))
                    used += len(message.subject) + len(message.reply) + len(message.data)
                    await message.ack()
            run.told(f"{len(set(got))} messages, {len(got) - len(set(got))} of them again")


async def stats(run: Run) -> None:
    async def ask(connection: Client, done: asyncio.Event) -> None:
        done.set()
        for _ in range(8):
            for subject in ("$SRV.PING", "$SRV.STATS.adds", "add"):
                asked = time.monotonic()
                try:
                    await connection.request(subject, b"1", timeout=PATIENCE_S)
                    run.told(f"{subject} after {time.monotonic() - asked:.1f} s")
                except nats.errors.Error as error:
                    run.told(f"{subject}: {error!r}")

    async with run.client(LEAF) as connection:
        service = await nats.micro.add_service(connection, ServiceConfig(name="adds", version="1.0.0"))

        async def taken(request: Request) -> None:
            await request.respond(str(int(request.data) + 1).encode())

        await service.add_endpoint(name="add", subject="add", handler=taken)
        await connection.flush()
        run.bad()
        with run.beside(ask):
            await asyncio.sleep(120)


PROGRAMS = {"get": get, "put": put, "watch": watch, "many": many, "pull": pull, "stats": stats}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=PROGRAMS)
    parser.add_argument("hub", choices=servers.KINDS)
    parser.add_argument("leaf", choices=servers.KINDS)
    for name, default in (("rate", 50_000), ("trip", 2.0), ("loss", 0.05), ("seconds", 240.0), ("timeout", 5.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    for name, number in (("size", 400_000), ("chunk", 131_072), ("count", 50), ("max-bytes", 4096)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    calm = Link(rate=CALM_RATE, delay=options.trip / 2)
    with joined(calm) as cell, pair(cell, options.hub, options.leaf) as (hub, leaf), cell.at(LEAF):
        run = Run(options, cell, hub, leaf)

        async def bounded() -> None:
            try:
                await asyncio.wait_for(PROGRAMS[options.what](run), options.seconds)
            except TimeoutError:
                run.told("not done")

        asyncio.run(bounded())
        run.told(f"carried {cell.carried} bytes up and down")


if __name__ == "__main__":
    main()
