"""Rows of streams that three servers keep: publishes that a majority has before they are acknowledged, into one stream
and into 32, beside three nats-servers, with `sync_interval: always` too. Processor time is that of all three.

The clients connect to who leads the one stream; leaders of 32 are spread over the three. Not here: how a server is
measured (rows.py), what such a stream does under faults (tests/crash/histories).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import servers
from tests.bench.process import Process, Refused, api, running
from tests.bench.rows import (
    ALWAYS,
    DEFAULT,
    LEAFD,
    LOAD_SECONDS_MAX,
    SIZE,
    Figures,
    Goal,
    Row,
    Variant,
    load_program,
    stream_config,
)

NAMES = ("s0", "s1", "s2")
PATIENCE_S = 60.0
ASK_S = 5.0
AGAIN_S = 0.2
CONFIG = """
server_name: "{name}"
listen: "127.0.0.1:{port}"
jetstream { store_dir: "{store}", max_mem: 256MB, max_file: 16GB <more> }
cluster { name: C, listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:<first>" ] }
"""


@contextlib.contextmanager
def three(variant: Variant) -> Iterator[list[Process]]:
    """A cluster of three, each with an empty store."""
    more = ", meta_size: 3" if variant.kind == servers.LEAFD else ""
    more += ", sync_interval: always" if variant.sync_always else ""
    text = CONFIG.replace("<more>", more)
    with contextlib.ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leafd-bench-")))
        first = servers.free_port()
        made: list[Process] = []
        for name in NAMES:
            port = {} if made else {"route_port": first}
            own = text.replace("<first>", str(first))
            made.append(stack.enter_context(running(variant.kind, own, base / name, name=name, **port)))
        yield made


def make_stream(process: Process, name: str, subject: str) -> str:
    """A stream of three; who leads it. Right after their start a nats-server has no leader, and answers nothing."""
    until = time.monotonic() + PATIENCE_S
    config = stream_config(name, subject) | {"num_replicas": 3}
    while True:
        try:
            with api(process, patience=ASK_S) as connection:
                made = connection.must(f"$JS.API.STREAM.CREATE.{name}", config)
            return str(made["cluster"]["leader"])
        except (Refused, TimeoutError):
            if time.monotonic() > until:
                raise
            time.sleep(AGAIN_S)


def stored(process: Process, names: list[str]) -> int:
    with api(process) as connection:
        return sum(connection.messages_in(name) for name in names)


def publish(made: list[Process], streams: int, messages: int) -> Figures:
    """1,000 messages in flight, in all."""
    names = [f"BENCH{number}" for number in range(streams)]
    subjects = ["bench.>"] if streams == 1 else [f"bench.{number}" for number in range(streams)]
    leaders = [make_stream(made[0], name, subject) for name, subject in zip(names, subjects, strict=True)]
    led = made[NAMES.index(leaders[0])] if streams == 1 else made[0]
    time.sleep(1)
    before = sum(one.cpu_seconds() for one in made)
    words = [str(load_program()), "publish", "--port", str(led.port), "--messages", str(messages), "--size", str(SIZE)]
    words += ["--connections", str(streams), "--in-flight", str(1000 // streams)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LOAD_SECONDS_MAX)
    if done.returncode != 0:
        raise RuntimeError(f"{done.stderr.strip()}\n{led.server.log[-2000:]}")
    said = json.loads(done.stdout)
    used = sum(one.settled_cpu_seconds() for one in made) - before
    if stored(led, names) != said["messages"]:
        raise RuntimeError(f"{led.server.kind} has not stored what it acknowledged")
    return {
        "rate": said["messages"] / said["seconds"],
        "cpu_us": used / said["messages"] * 1e6,
        "load_busy": said["load_cpu_seconds"] / said["seconds"],
    }


def into(
    streams: int, messages: int, always: int
) -> Callable[..., contextlib.AbstractContextManager[Callable[[], Figures]]]:
    """New servers for each measurement."""

    @contextlib.contextmanager
    def opened(variant: Variant, quick: bool) -> Iterator[Callable[[], Figures]]:
        count = (always if variant.sync_always else messages) // (10 if quick else 1)

        def once() -> Figures:
            with three(variant) as made:
                return publish(made, streams, count // streams * streams)

        yield once

    return opened


GOALS = (Goal("rate", "msgs/s", 1.5), Goal("cpu_us", "us CPU/msg, all three", 0.35, at_most=True))
SYNCED = (Goal("rate", "msgs/s", 10),)

REPLICATED_ROWS = (
    Row("replicated", "publish into a stream of three servers", (LEAFD, DEFAULT), GOALS, into(1, 200_000, 20_000)),
    Row(
        "replicated-synced",
        "the same beside sync always",
        (LEAFD, ALWAYS),
        SYNCED,
        into(1, 200_000, 20_000),
    ),
    Row(
        "replicated-32", "publish into 32 streams of three servers", (LEAFD, DEFAULT), GOALS, into(32, 200_000, 20_000)
    ),
    Row(
        "replicated-32-synced",
        "the same beside sync always",
        (LEAFD, ALWAYS),
        SYNCED,
        into(32, 200_000, 20_000),
    ),
)
