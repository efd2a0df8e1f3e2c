"""kill -9 of the whole daemon while it changes the key of its store, under official clients.

The store alone goes through the same in tests/native/test_store_sealed.c; here keys come from the configuration, and
kills fall into starts as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from pathlib import Path

import pytest
from nats.js import JetStreamContext
from nats.js.api import StreamConfig

from tests import servers
from tests.crash.keep import Boxes, closed, connected, stored
from tests.servers import LEAFD, Server, ServerDied

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 1G, max_mem: 64M, KEYS }
"""
# Each with the key before it, and alone.
CHANGES = (
    ("key: first, cipher: aes", "key: first, cipher: aes"),
    ("key: second, prev_key: first, cipher: chacha", "key: second, cipher: chacha"),
    ("key: third, prev_key: second, cipher: chacha", "key: third, cipher: chacha"),
)
FILL = 12_000
LOOKS = 20
KILLS = 4
SEED = 20261122
CHANGED = "prev_key is not needed any more"
CHANGED_SECONDS_MAX = 60


def configure(server: Server, keys: str) -> None:
    head, _, _ = server.configuration.partition("max_mem: 64M, ")
    server.configuration = f"{head}max_mem: 64M, {keys} }}\n"


def killed_as_it_starts(server: Server, seconds: float) -> None:
    """The kill comes so long after the first line: before the store is open, while it is opened, or right after it."""
    before = len(server.log)

    def kill() -> None:
        deadline = time.monotonic() + servers.START_SECONDS_MAX
        while len(server.log) == before and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(seconds)
        server.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with contextlib.suppress(ServerDied):
        server.start()
    killer.join()


async def fill(server: Server) -> None:
    """Many subjects, so that a change has many entries with a text in their key."""
    client, js = await connected(server)
    await js.add_stream(StreamConfig(name="FILL", subjects=["FILL.>"]))
    for number in range(FILL - 1):
        await client.publish(f"FILL.{number}", b"%d" % number)
    ack = await js.publish(f"FILL.{FILL - 1}", b"%d" % (FILL - 1), timeout=30)
    assert FILL == ack.seq
    await closed(client)


async def look(js: JetStreamContext, numbers: list[int]) -> None:
    """By sequence, and by subject."""
    for number in numbers:
        message = await js.get_msg("FILL", number + 1)
        assert (f"FILL.{number}", b"%d" % number) == (message.subject, message.data)
        assert number + 1 == (await js.get_last_msg("FILL", f"FILL.{number}")).seq


async def publish_until_killed(server: Server, boxes: Boxes, chance: random.Random) -> None:
    """Both keys are there: whatever is read in the middle of the change is what was stored."""
    client, js = await connected(server)
    await look(js, [chance.randrange(FILL) for _ in range(LOOKS)])
    publishing = asyncio.create_task(boxes.publish(js))
    await asyncio.sleep(chance.uniform(0.01, 0.6))
    server.kill()
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)
    await closed(client)


async def change_ended(server: Server, before: int) -> None:
    for _ in range(CHANGED_SECONDS_MAX * 10):
        if server.log.count(CHANGED) > before:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the change of key never came to its end")


async def check_all(server: Server, boxes: Boxes) -> None:
    await boxes.check(server)
    assert [str(number) for number in range(FILL)] == await stored(server, "FILL")
    client, js = await connected(server)
    await look(js, list(range(0, FILL, FILL // LOOKS)))
    await closed(client)


def test_what_was_acknowledged_outlives_kills_in_a_change_of_key(tmp_path: Path) -> None:
    """With both keys at any moment, and with the new one alone once the log has said so; never with the old one."""

    async def scenario(server: Server) -> None:
        chance = random.Random(SEED)
        boxes = Boxes()
        server.start()
        client, js = await connected(server)
        await boxes.make_stream(js)
        await closed(client)
        await fill(server)
        server.kill()
        said = 0
        before = ""
        for both, alone in CHANGES:
            configure(server, both)
            for _ in range(KILLS):
                killed_as_it_starts(server, chance.uniform(0, 0.3))
                server.start()
                await publish_until_killed(server, boxes, chance)
            server.start()
            await change_ended(server, said)
            await check_all(server, boxes)
            server.kill()
            said = server.log.count(CHANGED)
            configure(server, alone)
            server.start()
            await check_all(server, boxes)
            server.kill()
            if before:
                configure(server, before)
                with pytest.raises(ServerDied, match="another key"):
                    server.start()
            before = alone
        assert all(len(numbers) > KILLS for numbers in boxes.acked)

    server = servers.make(LEAFD, CONFIGURATION.replace("KEYS", "enabled: true"), tmp_path)
    try:
        asyncio.run(scenario(server))
    finally:
        server.stop()
