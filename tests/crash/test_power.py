"""The power fails under a running daemon: its file system is shut down as it stands, then mounted again.

The store lies on an ext4 of its own, in a file on a loop device. The file system's shutdown call lets go of what was
not written, its own journal included where it is told so, and answers every call from then on with EIO. Needs root and
loop devices. As a program (in a mount namespace of its own, so that nothing stays mounted) this is the scenario itself.

What leafd's journal wrote past the page cache is not lost this way, synced or not, and which sectors a disk itself may
lose is in nobody's hand here: tests/native/test_store_powercut.c goes through that. (nats-server with its default of a
sync every two minutes fails this test: it has lost the stream.)
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import struct
import sys
from pathlib import Path

from nats.errors import Error as NatsError

from tests.crash.disk import Disk, in_namespace, play_on
from tests.crash.keep import Boxes, closed, connected
from tests.servers import Server

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 64M, max_mem: 16M }
"""
ROUNDS = 6
SEED = 20260102
SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
LOG_FLUSHED, LOG_LOST = 1, 2  # is what the file system's own journal holds in memory still written


def cut(disk: Disk, flag: int) -> None:
    root = os.open(disk.mounted, os.O_RDONLY)
    try:
        fcntl.ioctl(root, SHUTDOWN, struct.pack("I", flag))
    finally:
        os.close(root)


async def publish_until_cut(server: Server, disk: Disk, boxes: Boxes, first: bool, seconds: float, flag: int) -> None:
    client, js = await connected(server)
    if first:
        await boxes.make_stream(js)
    work = asyncio.create_task(boxes.publish(js))
    await asyncio.sleep(seconds)
    assert not work.done(), "the publishers ended before the cut"
    cut(disk, flag)
    await asyncio.sleep(0.2)  # an acknowledgement that comes now was promised without a disk: the check would find it
    server.kill()
    work.cancel()
    with contextlib.suppress(NatsError, OSError, asyncio.CancelledError, asyncio.TimeoutError):
        await work
    await closed(client)


def scenario(directory: Path) -> int:
    return play_on(Disk(directory), CONFIGURATION, cut_and_check)


def cut_and_check(server: Server, disk: Disk) -> None:
    chance = random.Random(SEED)
    boxes = Boxes()
    for round_number in range(ROUNDS):
        flag = LOG_FLUSHED if round_number % 3 == 2 else LOG_LOST
        seconds = chance.uniform(0.1, 0.8)
        asyncio.run(publish_until_cut(server, disk, boxes, round_number == 0, seconds, flag))
        disk.unmount()
        assert disk.mount()
        server.start()
        asyncio.run(boxes.check(server))
        print(f"cut {round_number + 1}: {sum(map(len, boxes.acked))} acknowledged, all there", flush=True)
    assert all(len(numbers) > ROUNDS for numbers in boxes.acked)


def test_power_fails_under_the_daemon() -> None:
    """What was acknowledged before the file system went away is there when it is mounted again, once and in order."""
    in_namespace(__name__)


if __name__ == "__main__":
    sys.exit(scenario(Path(sys.argv[1])))
