#!/usr/bin/env python3
"""Measures how much leafd has the disk write for a stored message: the wear of a flash disk.

    tests/bench/bench_wear.py [DIRECTORY]

DIRECTORY is on the disk whose writes count, not on a tmpfs. The kernel counts what the daemon's process gives to the
disk (write_bytes of /proc/PID/io): the log and the database's commits, whole pages of each, but not what the disk makes
of it inside. packaging/doc/guide.md has the table.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import nats

from tests import servers

CONFIGURATION = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
SETTLE_SECONDS = 22.0  # until what was published is in the database, too


@dataclass(frozen=True)
class Load:
    """So many messages of a size; a second (0: as fast as it goes), so many of them published at a time."""

    messages: int
    size: int
    rate: float
    in_flight: int

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


def written(server: servers.Server) -> int:
    assert server.process is not None
    lines = Path(f"/proc/{server.process.pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


async def publish(url: str, load: Load) -> None:
    client = await nats.connect(url)
    jetstream = client.jetstream(publish_async_max_pending=load.in_flight + 1)
    began = time.monotonic()
    for first in range(0, load.messages, load.in_flight):
        if load.rate:
            await asyncio.sleep(max(0.0, began + first / load.rate - time.monotonic()))
        # What is published without a pause leaves the client in one piece.
        together = [
            await jetstream.publish_async(f"wear.{number % 10}", b"x" * load.size)
            for number in range(first, min(first + load.in_flight, load.messages))
        ]
        await asyncio.gather(*together)
    await client.close()


async def stream(url: str) -> None:
    client = await nats.connect(url)
    await client.jetstream().add_stream(name="WEAR", subjects=["wear.>"])
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", nargs="?", type=Path, default=Path("/var/tmp"))
    given = parser.parse_args()
    print("| load | bytes written a message |\n|---|---|")
    for load in LOADS:
        print(f"| {load} | {measure(load, given.directory):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
