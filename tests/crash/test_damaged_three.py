"""Damaged pages and journal blocks at one of three servers: some of the rounds that
`python -m tests.crash.damaged_three` plays in masses."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Collection
from pathlib import Path

from tests.crash.damaged import file_of
from tests.crash.damaged_three import Three, configurations, given, run_all, table, three_servers
from tests.crash.pages import PAGE, kinds_of
from tests.crash.test_damaged_copies import spoil
from tests.rig.waiting import logged, until
from tests.servers import Server

MESSAGES = 40
HURT = 20
"""The sequence of the message that is damaged."""
SOON_S = 20.0
"""In which others go on with a stream, on a machine under any load; by itself it takes less than one."""


def test_a_damaged_disk_of_three_comes_back_by_itself() -> None:
    """Nobody dies, streams go on, and the hurt server leads in the end with every message that was acknowledged."""
    rounds = run_all(4, 31)
    assert len(rounds) == 4
    assert not any(one.outcomes for one in rounds), table(rounds) + "".join(f"\n{one.notes}" for one in rounds)


def damage_logs(path: Path) -> int:
    """One byte of each entry of the logs of streams' groups. How many there were."""
    pages, found = kinds_of(path).get("ledger leaf", []), 0
    with path.open("r+b") as file:
        for page in pages:
            file.seek(page * PAGE)
            data = bytearray(file.read(PAGE))
            for key in re.finditer(rb"\xcf\x00{3}[\x02-\xff]\x00{4}", bytes(data)):  # behind it 4 bytes, and a value
                data[key.start() + 13] ^= 1
                found += 1
            file.seek(page * PAGE)
            file.write(data)
    return found


async def make_streams(three: Three, names: Collection[str]) -> None:
    async with three.client(0) as client:
        for name in names:
            await three.ask(client, f"STREAM.CREATE.{name}", configurations()[name])
        if "WORK" not in names:
            return
        worker = {"durable_name": "worker", "ack_policy": "explicit"}
        await three.ask(client, "CONSUMER.CREATE.WORK.worker", {"stream_name": "WORK", "config": worker})


async def publish_more(three: Three, names: Collection[str], count: int = 5) -> None:
    async with three.client(0) as client:
        for stream in names:
            await three.work(client, stream, count)


def test_damaged_entries_of_logs_make_the_disk_another_one_that_is_copied(tmp_path: Path) -> None:
    """Pages and keys are sound, and no start finds it before the groups are joined."""
    with three_servers(tmp_path, random.Random(7)) as three:
        asyncio.run(make_streams(three, configurations()))
        asyncio.run(publish_more(three, configurations()))
        away, server = three.servers[2], three.servers[1]
        assert away.stop() == 0  # so that the others keep what it will lack
        asyncio.run(publish_more(three, configurations()))
        assert server.stop() == 0
        assert damage_logs(file_of(server, "data.mdb")) >= len(configurations())
        three.start(2)
        three.start(1)
        assert three.level() == "", server.log[-3000:]
        logged(server, "is damaged on this disk; it is another disk from here on")


async def goes_on(three: Three, hurt: Server) -> None:
    """A reader's consumer goes on at the server that leads next, and others are served meanwhile."""
    async with three.client(1) as client:
        wanted = three.wanted("BIG")
        reading = asyncio.create_task(given(three, 0, client, "BIG", silent_s=2.0))
        await until(lambda: "is damaged here" in hurt.log, "it is not met")
        async with asyncio.timeout(SOON_S):
            await three.work(client, "BIG", 5)
            body = {"stream_name": "BIG", "config": {"durable_name": "C", "ack_policy": "none"}}
            await three.ask(client, "CONSUMER.CREATE.BIG.C", body)
            pulls, found = await client.jetstream().pull_subscribe_bind("C", "BIG"), list[bytes]()
            while len(found) < MESSAGES:
                found += [one.data for one in await pulls.fetch(MESSAGES - len(found), timeout=SOON_S)]
        assert found == wanted
        assert await reading == wanted, "from the server's copy"


def test_a_message_that_is_damaged_at_the_leader_does_not_silence_the_stream(tmp_path: Path) -> None:
    """Two of three are a majority, and the lead goes to one of them. Who reads has everything, also once the server
    leads with a copy."""
    with three_servers(tmp_path, random.Random(7)) as three:
        asyncio.run(make_streams(three, ("BIG",)))
        asyncio.run(publish_more(three, ("BIG",), MESSAGES))
        hurt, payload = three.servers[0], three.known["BIG"][HURT][1]
        assert hurt.stop() == 0
        assert spoil(hurt, lambda kind, _key, value: kind.startswith("m") and payload in value) == 1
        three.start(0)
        asyncio.run(goes_on(three, hurt))
