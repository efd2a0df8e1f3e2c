#!/usr/bin/env python3
"""Measures how much leafd has the disk write for a stored message: the wear of a flash disk.

    tests/bench/bench_wear.py [--steady [--kind KIND]] [--device NAME] [DIRECTORY]

DIRECTORY is on the disk whose writes count, not on a tmpfs. The kernel counts what the daemon's process gives to the
disk (write_bytes of /proc/PID/io): the log and the database's commits, whole pages of each, but not what the disk makes
of it inside. packaging/doc/guide.md has the table.

--steady: 10,000 messages a second for 20 s, a thousand at a time, with what of it the journal is
(packaging/doc/figures.md), by a client that is no load; --kind nats-server: of one that syncs always. --device: the
block device that DIRECTORY's file system has to itself (a loop device, say). What arrived there is told, too: it is
less than the kernel's count, which takes a page that is written again for all the pages that it keeps with it, and has
the file system's own writes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import nats
from nats.js.api import StoreCompression, StreamConfig

from tests import servers
from tests.bench.small import Publisher, disk, settled

CONFIGURATION = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}" }
"""
SYNCED = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", sync_interval: always }
"""
SETTLE_SECONDS = 22.0  # until what was published is in the database, too


@dataclass(frozen=True)
class Load:
    """So many messages of a size; a second (0: as fast as it goes), so many of them published at a time."""

    messages: int
    size: int
    rate: float
    in_flight: int
    payload: str = "random"  # or "json": see drawn()
    compression: str = "none"

    def __str__(self) -> str:
        if self.rate:
            return f"{self.rate:g} a second, {self.size} B"
        return f"as fast as it goes, {self.in_flight} at a time, {self.size} B"


LOADS = tuple(
    load
    for size in (128, 1024)
    for load in (
        Load(20, size, 1, 1),
        Load(100, size, 10, 1),
        Load(1_000, size, 100, 1),
        Load(3_000, size, 0, 1),
        Load(3_000, size, 0, 10),
        Load(20_000, size, 0, 50),
        Load(50_000, size, 0, 500),
    )
)


STEADY = tuple(
    Load(200_000, 200, 10_000, 1_000, payload, compression)
    for payload in ("random", "json")
    for compression in ("none", "s2")
)


def drawn(load: Load, number: int, chance: random.Random) -> bytes:
    """The payload of a message: nothing in random bytes repeats, telemetry in JSON has names that do."""
    if load.payload == "random":
        return chance.randbytes(load.size)
    figures = {
        "ts": 1_764_176_000_000 + number * 100,
        "site": f"plant-{number % 7:02}",
        "unit": f"press-{number % 10}",
        "temp": round(20 + chance.random() * 5, 2),
        "pressure": round(1 + chance.random(), 4),
        "rpm": chance.randrange(1_400, 1_500),
        "state": "running",
        "seq": number,
        "volt": round(229 + chance.random() * 3, 1),
        "amp": round(chance.random() * 12, 3),
    }
    return json.dumps(figures).encode().ljust(load.size)[: load.size]


def written(server: servers.Server) -> int:
    assert server.process is not None
    lines = Path(f"/proc/{server.process.pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


async def publish(url: str, load: Load) -> None:
    client = await nats.connect(url)
    jetstream = client.jetstream(publish_async_max_pending=load.in_flight + 1)
    chance = random.Random(3)
    began = time.monotonic()
    for first in range(0, load.messages, load.in_flight):
        if load.rate:
            await asyncio.sleep(max(0.0, began + first / load.rate - time.monotonic()))
        # What is published without a pause leaves the client in one piece.
        together = [
            await jetstream.publish_async(f"wear.{number % 10}", drawn(load, number, chance))
            for number in range(first, min(first + load.in_flight, load.messages))
        ]
        await asyncio.gather(*together)
    await client.close()


async def stream(url: str, compression: str = "none") -> None:
    client = await nats.connect(url)
    config = StreamConfig(name="WEAR", subjects=["wear.>"], compression=StoreCompression(compression))
    await client.jetstream().add_stream(config)
    await client.close()


def measure(load: Load, directory: Path) -> float:
    """Bytes that were written for each message."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        server = servers.make(servers.LEAFD, CONFIGURATION, Path(place))
        server.start()
        try:
            asyncio.run(stream(server.url))
            time.sleep(SETTLE_SECONDS)
            before = written(server)
            asyncio.run(publish(server.url, load))
            time.sleep(SETTLE_SECONDS)
            return (written(server) - before) / load.messages
        finally:
            server.stop()


def arrived(device: str) -> int:
    """Bytes that were written to a block device so far."""
    os.sync()
    return int(Path(f"/sys/class/block/{device}/stat").read_text().split()[6]) * 512


def paced(port: int, load: Load) -> float:
    """How many a second were acknowledged."""
    chance = random.Random(3)
    publisher = Publisher(port, load.size, 1, 1)
    began = time.monotonic()
    for first in range(0, load.messages, load.in_flight):
        numbers = range(first, min(first + load.in_flight, load.messages))
        drawn_now = [(f"wear.{number % 10}", drawn(load, number, chance)) for number in numbers]
        publisher.waits(first, load.in_flight)
        time.sleep(max(0.0, began + first / load.rate - time.monotonic()))
        publisher.send_each(drawn_now)
    publisher.waits(load.messages, 0)
    publisher.close()
    return load.messages / (time.monotonic() - began)


def steady(load: Load, given: argparse.Namespace) -> str:
    configuration = CONFIGURATION if given.kind == servers.LEAFD else SYNCED
    with tempfile.TemporaryDirectory(dir=given.directory) as place:
        server = servers.make(given.kind, configuration, Path(place))
        server.start()
        try:
            asyncio.run(stream(server.url, load.compression))
            settled(server)
            before, device = disk(server), arrived(given.device) if given.device else 0
            rate = paced(server.port, load)
            settled(server)
            did = disk(server).since(before)
            device = arrived(given.device) - device if given.device else 0
        finally:
            server.stop()
    each = (figure / load.messages for figure in (did.written, did.journal, did.written - did.journal, device))
    figures = " | ".join(f"{figure:,.0f}" for figure in each)
    return f"| {load.payload}, compression {load.compression} | {rate:,.0f} | {figures} | {did.checkpoints} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", nargs="?", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--steady", action="store_true")
    parser.add_argument("--kind", choices=(servers.LEAFD, servers.REFERENCE), default=servers.LEAFD)
    parser.add_argument("--device", default="")
    given = parser.parse_args()
    if given.steady:
        print("| payload | a second | written a message | journal | rest | device | checkpoints |")
        print("|---|---|---|---|---|---|---|")
        for load in STEADY:
            print(steady(load, given), flush=True)
        return
    print("| load | bytes written a message |\n|---|---|")
    for load in LOADS:
        print(f"| {load} | {measure(load, given.directory):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
