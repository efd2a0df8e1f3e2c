"""What is measured with two servers of one kind and a leaf link between them: idle memory, catching up.

The link's return is the moment at which the restarted side's monitoring port shows the link.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.process import Api, Process, api, running
from tests.bench.rows import DEFAULT, LEAFD, Figures, Goal, Row, Variant, load, stream_config

SIZE = 256
LINK_SECONDS_MAX = 60.0
CATCH_UP_SECONDS_MAX = 180.0
POLL_SECONDS = 0.005

HUB = """
server_name: hub
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", domain: hub, max_mem: 256MB, max_file: 4GB }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
LEAF = """
server_name: leaf
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", domain: leaf, max_mem: 256MB, max_file: 4GB }
leafnodes { reconnect: 1s, remotes: [ { url: "nats-leaf://127.0.0.1:{hub_leaf_port}" } ] }
"""


@contextlib.contextmanager
def pair(variant: Variant) -> Iterator[tuple[Process, Process]]:
    """Hub and leaf, linked."""
    with tempfile.TemporaryDirectory(prefix="leafd-bench-") as directory:
        base = Path(directory)
        with running(variant.kind, HUB, base / "hub") as hub:
            leaf_port = hub.server.ports["leaf_port"]
            with running(variant.kind, LEAF, base / "leaf", hub_leaf_port=leaf_port) as leaf:
                wait_for_link(leaf)
                yield hub, leaf


def wait_for_link(process: Process) -> float:
    """When the link was seen, on the monotonic clock."""
    deadline = time.monotonic() + LINK_SECONDS_MAX
    while process.leaf_links() == 0:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{process.server.kind}: no leaf link:\n{process.server.log[-2000:]}")
        time.sleep(POLL_SECONDS)
    return time.monotonic()


def wait_for_count(connection: Api, stream: str, above: int) -> float:
    """When the stream first showed more than so many messages."""
    deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
    while True:
        stored = connection.messages_in(stream)
        if stored > above:
            return time.monotonic()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{stream} stays at {stored} messages")
        time.sleep(POLL_SECONDS)


def catch_up(origin: Process, copy: Process, messages: int, config: dict[str, object]) -> Figures:
    """Fills the origin while the copy's server is away, then watches the copy."""
    with api(origin) as connection:
        connection.must("$JS.API.STREAM.CREATE.ORIGIN", stream_config("ORIGIN", "origin.>"))
    with api(copy) as connection:
        connection.must("$JS.API.STREAM.CREATE.COPY", config)
        load(origin, "publish", 100, subject="origin", size=SIZE)
        wait_for_count(connection, "COPY", 99)
    copy.server.stop()
    load(origin, "publish", messages, subject="origin", size=SIZE, in_flight=1000)
    cpu = origin.cpu_seconds()
    copy.start()
    with api(copy) as connection:
        linked = wait_for_link(copy)
        first = wait_for_count(connection, "COPY", 100)
        last = wait_for_count(connection, "COPY", 100 + messages - 1)
        used = origin.settled_cpu_seconds() - cpu + copy.settled_cpu_seconds()
        stored = connection.messages_in("COPY")
    if stored != 100 + messages:
        raise RuntimeError(f"{copy.server.kind}: {stored} messages in the copy, {100 + messages} at the origin")
    return {
        "first_seconds": max(first - linked, 0.0),
        "rate": messages / max(last - first, 0.001),
        "cpu_us": used / messages * 1e6,
        "peak_mb": copy.peak_mb(),
    }


@contextlib.contextmanager
def by_source(variant: Variant, quick: bool) -> Iterator[Callable[[], Figures]]:
    """The hub sources from a stream of its leaf."""
    source = {"name": "ORIGIN", "external": {"api": "$JS.leaf.API"}}
    config = stream_config("COPY") | {"sources": [source]}
    del config["subjects"]

    def once() -> Figures:
        with pair(variant) as (hub, leaf):
            return catch_up(leaf, hub, 20_000 if quick else 200_000, config)

    yield once


@contextlib.contextmanager
def by_mirror(variant: Variant, quick: bool) -> Iterator[Callable[[], Figures]]:
    """The leaf mirrors a stream of its hub."""
    config = stream_config("COPY") | {"mirror": {"name": "ORIGIN", "external": {"api": "$JS.hub.API"}}}
    del config["subjects"]

    def once() -> Figures:
        with pair(variant) as (hub, leaf):
            return catch_up(hub, leaf, 20_000 if quick else 200_000, config)

    yield once


@contextlib.contextmanager
def idle(variant: Variant, quick: bool) -> Iterator[Callable[[], Figures]]:
    """A linked leaf with JetStream and nothing to do."""

    def once() -> Figures:
        with pair(variant) as (_, leaf):
            time.sleep(1 if quick else 5)
            return {"idle_mb": leaf.resident_mb(), "private_mb": leaf.private_mb(), "peak_mb": leaf.peak_mb()}

    yield once


CATCH_UP = (
    Goal("first_seconds", "s to the first", 1.0, at_most=True, ratio=False),
    Goal("rate", "msgs/s", 1.5),
)

LINK_ROWS = (
    Row(
        "idle",
        "idle memory of a leaf with JetStream",
        (LEAFD, DEFAULT),
        (
            Goal("idle_mb", "MB", 48, at_most=True, ratio=False),
            Goal("private_mb", "MB private and shared", 24, at_most=True, ratio=False),
        ),
        idle,
    ),
    Row("source", "catch-up of 200,000 messages of 256 B by a source", (LEAFD, DEFAULT), CATCH_UP, by_source),
    Row("mirror", "catch-up of 200,000 messages of 256 B by a mirror", (LEAFD, DEFAULT), CATCH_UP, by_mirror),
)
