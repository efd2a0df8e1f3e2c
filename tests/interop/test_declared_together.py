"""Streams, consumers and buckets of several servers that each of these declares alike: made once, changed once, and as
they were when all have been killed.

nats-server has no declarations. Not here: those of one server (test_declared.py), what a change would lose
(unit/declared).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from tests import servers
from tests.interop.test_meta_group import CONFIG, L, leader_of, three
from tests.rig.official import one_each, patiently
from tests.rig.reloads import reloaded
from tests.rig.waiting import eventually

DECLARED: Final = """jetstream: enabled
    streams { ORDERS { subjects: ["orders.>"], num_replicas: 3, max_age: "1h" }, ALONE { subjects: [alone] } }
    consumers { ORDERS { work { ack_policy: explicit, num_replicas: 3 } } }
    kv { SETTINGS { replicas: 3 } }"""
NAMES: Final = ("ORDERS", "ALONE", "KV_SETTINGS")


async def infos(made: list[servers.Server]) -> list[dict[str, Any]]:
    async with one_each(made[1:2]) as (client,):
        found = [await patiently(client, f"STREAM.INFO.{name}") for name in NAMES]
        return [*found, await patiently(client, "CONSUMER.INFO.ORDERS.work")]


async def published(made: list[servers.Server]) -> None:
    async with one_each(made[2:]) as (client,):
        assert (await client.jetstream().publish("orders.a", b"1")).seq == 1
        bucket = await client.jetstream().key_value("SETTINGS")
        assert await bucket.put("key", b"value") == 1


def said(made: list[servers.Server], words: str) -> list[int]:
    """How often each log has them."""
    return [server.log.count(words) for server in made]


def test_what_several_servers_declare_alike_is_made_once_and_kept_by_all(tmp_path: Path) -> None:
    """A reload of each changes it once, a start of all changes nothing, and nothing is refused."""
    with three(L, tmp_path, CONFIG.replace("jetstream: enabled", DECLARED)) as made:
        for server in made:
            server.start()
        leader_of(made)
        eventually(lambda: sum(said(made, "created, as declared")) >= len(NAMES) + 1, lambda: [one.log for one in made])
        before = asyncio.run(infos(made))
        assert [one["config"]["num_replicas"] for one in before] == [3, 1, 3, 3]
        asyncio.run(published(made))

        for server in made:
            text = (server.directory / "server.conf").read_text()
            log = reloaded(server, text.replace('"1h"', '"2h"'))
            assert "Failed" not in log
        eventually(lambda: sum(said(made, "updated, as declared")) > 0, lambda: [one.log for one in made])
        after = asyncio.run(infos(made))
        assert [one["created"] for one in after] == [one["created"] for one in before]
        assert after[0]["config"]["max_age"] == 7200 * 10**9
        assert after[0]["state"]["messages"] == 1

        for server in made:
            server.kill()
        for server in made:
            server.start("server.conf")  # as it was reloaded
        leader_of(made)
        assert [one["created"] for one in asyncio.run(infos(made))] == [one["created"] for one in before]
        assert said(made, "is not as declared") == [0, 0, 0]
        assert sum(said(made, "created, as declared")) == len(NAMES) + 1
        assert (sum(said(made, "updated, as declared")), sum(said(made, "as declared again"))) == (1, 0)
