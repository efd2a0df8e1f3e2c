"""A disk that takes nothing more: its file system has gone read-only under a running daemon, or has no inode left.

Single calls that fail, and each with every error: tests/native/test_store_io.c. Here: a real file system and daemon.
What must hold each time: nothing acknowledged is lost, publishers hear JetStream's error, what is stored is read, the
daemon stays up, and a start that is not possible is refused in one line. As a program (in a mount namespace of its
own) this is the scenarios themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.crash.disk import Disk, in_namespace, play_on
from tests.crash.keep import closed, connected
from tests.crash.test_full_disk import (
    LARGER_THAN_THE_DISK,
    MIB,
    NO_RESOURCES,
    PAYLOAD,
    Publisher,
    check,
    make_streams,
    page,
    says_so,
)
from tests.servers import Server, ServerDied


def scenario_read_only(server: Server, disk: Disk) -> None:
    """ext4 gives up: refused, read, stopped in order; refused as long as it is read-only, then all is there."""

    async def run() -> None:
        publisher = Publisher(server)
        client, js = await connected(server)
        await make_streams(js)
        keep = publisher.until_refused("KEEP.a", 3000)
        disk.abort()
        # What is under way when the disk goes is neither acknowledged nor refused: nobody knows yet.
        with contextlib.suppress(Exception):
            await js.publish("SPARE.a", b"under way", timeout=1)
        errors = await refused(Publisher(server))
        assert {NO_RESOURCES} == set(errors)
        assert ["file"] == page(server, "varz")["store"]["refusing"]
        for seq in (1, keep):
            assert PAYLOAD == (await js.get_msg("KEEP", seq, direct=False)).data
        assert "writing to" in server.log
        await closed(client)
        server.stop()
        with pytest.raises(ServerDied, match=r"cannot be written .Read-only file system."):
            server.start()
        disk.unmount()
        assert disk.mount()
        server.start()
        client, js = await connected(server)
        await check(js, 1, keep, set())
        publisher = Publisher(server)
        assert keep + 1 == publisher.until_taken("KEEP.a")
        says_so(server, False)
        await closed(client)

    asyncio.run(run())


async def refused(publisher: Publisher) -> list[int]:
    """Errors of a burst, once the daemon knows."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        acknowledged, errors = publisher.burst("KEEP.b", 5)
        assert not acknowledged
        if errors:
            return errors
    raise AssertionError("nothing was refused")


def scenario_no_inode(server: Server, disk: Disk) -> None:
    """Where no file can be made a store that is there starts and takes messages, with a damaged journal, too."""

    async def run() -> None:
        publisher = Publisher(server)
        client, js = await connected(server)
        await make_streams(js)
        keep = publisher.until_refused("KEEP.a", 2000)
        await closed(client)
        taken = []
        with contextlib.suppress(OSError):
            for number in itertools.count():
                taken.append(disk.mounted / f"others-{number}")
                taken[-1].touch()
        for damaged in (False, True):
            server.kill()
            if damaged:
                (journal,) = disk.mounted.rglob("journal")
                content = journal.read_bytes()
                with journal.open("r+b") as file:
                    file.seek(content.rindex(PAYLOAD, 0, content.rindex(PAYLOAD)))  # of the last one nobody could tell
                    file.write(b"damaged")
            server.start()
            assert damaged == ("the journal is damaged" in server.log)
            client, js = await connected(server)
            state = (await js.stream_info("KEEP")).state
            assert keep == state.last_seq
            assert state.messages >= keep - int(damaged)
            publisher = Publisher(server)
            for _ in range(3):
                keep = publisher.until_taken("KEEP.a")
            publisher.close()
            await closed(client)
        server.kill()
        others = disk.mounted / "store"
        shutil.move(others, disk.mounted / "elsewhere")
        with pytest.raises(ServerDied, match=r"cannot be written .No space left on device."):
            server.start()
        shutil.move(disk.mounted / "elsewhere", others)
        server.start()
        client, js = await connected(server)
        assert keep == (await js.stream_info("KEEP")).state.last_seq
        await closed(client)

    asyncio.run(run())


SCENARIOS = {"read-only": (scenario_read_only, 0), "no inode": (scenario_no_inode, 32)}


def scenario(name: str, directory: Path) -> int:
    play, inodes = SCENARIOS[name]
    return play_on(Disk(directory, 512 * MIB, inodes), LARGER_THAN_THE_DISK, play)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_disk_that_takes_nothing_loses_nothing(name: str) -> None:
    """Read-only under the daemon, or without an inode: refused where it must be, and nothing acknowledged is lost."""
    in_namespace("tests.crash.test_bad_disk", name)


if __name__ == "__main__":
    sys.exit(scenario(sys.argv[1], Path(sys.argv[2])))
