"""A server that is ended (SIGTERM, as by a package's upgrade) hands on what it leads, so that nobody waits for an
election. Not here: one that is killed (test_replicated_streams.py), versions that follow each other
(test_rolling_upgrade.py).
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import L, leader_of, led
from tests.interop.test_scaled_streams import said
from tests.rig.official import one_each
from tests.rig.reports import report
from tests.rig.waiting import eventually, until

STREAMS = 12


async def all_led_by(client: Client, name: str) -> None:
    """The streams are made, and that server leads each."""
    for number in range(STREAMS):
        config = {"name": f"S{number}", "subjects": [f"s.{number}"], "num_replicas": 3}
        assert "error" not in await said(client, f"STREAM.CREATE.S{number}", config)

        async def leads(stream: str = f"S{number}") -> bool:
            cluster = (await said(client, f"STREAM.INFO.{stream}")).get("cluster", {})
            level = len(cluster.get("replicas", ())) == 2 and all(one["current"] for one in cluster["replicas"])
            if cluster.get("leader") != name and level:
                await said(client, f"STREAM.LEADER.STEPDOWN.{stream}", {"placement": {"preferred": name}})
            return bool(cluster.get("leader") == name and level)

        await until(leads, f"{name} does not lead all")


def led_here(server: servers.Server) -> int:
    """How many streams a server leads."""
    return sum(row["state"] == "LEADER" for row in report(server, "raftz?acc=A")["A"].values())


def test_a_server_that_ends_hands_on_what_it_leads(tmp_path: Path) -> None:
    """When its process has ended others lead already, and take messages: an election would take 1.5 s and more."""

    async def prepared(made: list[servers.Server], name: str) -> None:
        async with one_each(made) as clients:
            await all_led_by(clients[0], name)

    async def published(made: list[servers.Server]) -> None:
        async with one_each(made) as clients:
            for number in range(STREAMS):
                answer = await clients[number % 2].request(f"s.{number}", b"x", timeout=10)
                assert json.loads(answer.data)["seq"] == 1

    with led(L, tmp_path) as made:
        name = leader_of(made)
        asyncio.run(prepared(made, name))
        ended = made[int(name[1])]
        others = [server for server in made if server is not ended]
        assert ended.stop() == 0
        assert sum(map(led_here, others)) == STREAMS
        asyncio.run(published(others))
        eventually(lambda: leader_of(others) != name)


def test_the_last_server_ends_without_waiting_for_anybody(tmp_path: Path) -> None:
    """There is nobody to hand on to."""
    with led(L, tmp_path) as made:
        for server in made:
            assert server.stop() == 0
        assert not any("went wrong" in server.log for server in made)
