"""One of three servers gets its disk back as it was earlier, under the same id: the others remember what it has told.

Not here: the groups themselves (tests/native/test_groups_put_back.c), backups, which are another disk
(test_replicated_backups.py).
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final

from tests import servers
from tests.interop.test_meta_group import L, led
from tests.interop.test_replicated_streams import contents, led_by, made_by, members_at, state_at
from tests.rig.official import connect
from tests.rig.waiting import eventually, logged

MESSAGES: Final = 60
TOLD_S: Final = 3.0
"""A server has told the others by then how much its disk has."""


async def publish(server: servers.Server, count: int) -> None:
    client = await connect(server)
    for number in range(count):
        await client.jetstream().publish("s.a", b"%d" % number, timeout=20)
    await client.close()


async def put_back(made: list[servers.Server]) -> None:
    """The disk of one that does not lead the stream is the image of an earlier hour."""
    await made_by(made[0], {"s0", "s1", "s2"})
    client = await connect(made[0])
    leader = await led_by(client)
    await client.close()
    old, other = [server for number, server in enumerate(made) if f"s{number}" != leader][:2]
    store = old.directory / "store"
    await publish(other, MESSAGES)
    eventually(lambda: state_at(old) == state_at(other), lambda: [state_at(old), state_at(other)])
    old.stop()
    shutil.copytree(store, old.directory / "image")
    old.start()
    await publish(other, MESSAGES)
    await asyncio.sleep(TOLD_S)
    old.stop()
    shutil.rmtree(store)
    shutil.move(old.directory / "image", store)
    seen = len(old.log)
    old.start()
    logged(old, "this disk was put back from an older copy of itself", seen)
    logged(old, "goes here, since this disk has lost something, and is copied from the others", seen)
    await publish(other, MESSAGES)
    eventually(lambda: state_at(old) == state_at(other), lambda: [members_at(old), state_at(old), state_at(other)])
    eventually(lambda: all(members_at(server)["size"] == 3 for server in made), lambda: list(map(members_at, made)))


def test_a_disk_that_is_put_back_is_noticed_and_copied_from_the_others(tmp_path: Path) -> None:
    """It says so, and in the end each of the three has all that was acknowledged."""
    with led(L, tmp_path) as made:
        asyncio.run(put_back(made))
        everywhere = asyncio.run(contents(made, 3 * MESSAGES))
        assert everywhere[0] == everywhere[1] == everywhere[2]
        assert [str(number) for number in range(MESSAGES)] * 3 == everywhere[0]
        for server in made:
            assert server.log.count("was put back") <= 1
