"""Damaged pages and journal blocks at one of three servers: some of the rounds that
`python -m tests.crash.damaged_three` plays in masses."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

from tests.crash.damaged import file_of
from tests.crash.damaged_three import Three, configurations, run_all, table, three_servers
from tests.crash.pages import PAGE, kinds_of
from tests.rig.waiting import logged


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


async def make_streams(three: Three) -> None:
    async with three.client(0) as client:
        for name, config in configurations().items():
            await three.ask(client, f"STREAM.CREATE.{name}", config)
        worker = {"durable_name": "worker", "ack_policy": "explicit"}
        await three.ask(client, "CONSUMER.CREATE.WORK.worker", {"stream_name": "WORK", "config": worker})


async def publish_more(three: Three) -> None:
    async with three.client(0) as client:
        for stream in configurations():
            await three.work(client, stream, 5)


def test_damaged_entries_of_logs_make_the_disk_another_one_that_is_copied(tmp_path: Path) -> None:
    """Pages and keys are sound, and no start finds it before the groups are joined."""
    with three_servers(tmp_path, random.Random(7)) as three:
        asyncio.run(make_streams(three))
        asyncio.run(publish_more(three))
        away, server = three.servers[2], three.servers[1]
        assert away.stop() == 0  # so that the others keep what it will lack
        asyncio.run(publish_more(three))
        assert server.stop() == 0
        assert damage_logs(file_of(server, "data.mdb")) >= len(configurations())
        three.start(2)
        three.start(1)
        assert three.level() == "", server.log[-3000:]
        logged(server, "is damaged on this disk; it is another disk from here on")
