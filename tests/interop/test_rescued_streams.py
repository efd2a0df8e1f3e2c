"""A stream of three servers of which two are lost for good goes on at the third, by a command, and gets others again.

Not here: the group on a disk (tests/native/test_groups_alone.c), the row of such a stream
(tests/unit/cluster/test_sharing.py), the rescue of the group of all servers (test_meta_group.py).
"""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import L, group_at, leader_of, led, told_by, until_all_vote
from tests.interop.test_replicated_streams import stored
from tests.rig.official import connect, must
from tests.rig.waiting import eventually, logged, until

STREAM = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}


async def published(client: Client, first: int, count: int) -> None:
    """Numbers, each of which is acknowledged."""
    for number in range(first, first + count):
        ack = json.loads((await client.request("s.a", str(number).encode(), timeout=10)).data)
        assert ack["seq"] == number + 1, ack


async def made(server: servers.Server) -> None:
    client = await connect(server)
    await must(client, "$JS.API.STREAM.CREATE.S", STREAM)
    await published(client, 0, 100)
    await client.close()


async def seen(server: servers.Server) -> dict[str, Any]:
    """The stream's info; {}: nobody leads it."""
    client = await connect(server)
    try:
        found = await must(client, "$JS.API.STREAM.INFO.S")
        return found if "leader" in found["cluster"] else {}
    except (AssertionError, nats.errors.Error):
        return {}
    finally:
        await client.close()


def others_level(server: servers.Server) -> bool:
    found = asyncio.run(seen(server)).get("cluster", {}).get("replicas", [])
    return len(found) == 2 and all(one["current"] for one in found)


def asked_for(server: servers.Server, what: str, *names: str) -> None:
    done = servers.leafd("cluster", what, *names, "--store", str(server.directory / "store"), "--yes")
    assert done.returncode == 0, done.stderr


def said(server: servers.Server) -> str:
    return " ".join(told_by(server, "status").split())


async def goes_on(server: servers.Server) -> None:
    client = await connect(server)

    async def is_led() -> bool:
        return bool(await seen(server))

    await until(is_led, "nobody leads the stream")
    await published(client, 100, 20)
    assert await stored(client, 120) == [str(number) for number in range(120)]
    await client.close()


async def has_all(server: servers.Server, count: int) -> None:
    client = await connect(server)
    assert await stored(client, count) == [str(number) for number in range(count)]
    await client.close()


def test_what_one_of_three_disks_has_goes_on_and_is_copied_to_those_that_come(tmp_path: Path) -> None:
    """One of the lost servers comes back with an empty disk, the other one with its old disk."""
    with led(L, tmp_path) as three:
        stays, wiped, back = three
        asyncio.run(made(stays))
        eventually(lambda: others_level(stays), lambda: asyncio.run(seen(stays)))
        for server in (wiped, back):
            server.kill()
        eventually(lambda: not group_at(stays).get("leader"), lambda: group_at(stays))
        eventually(lambda: "stream S of several servers: there is no leader" in said(stays), lambda: said(stays))
        stays.stop()
        asked_for(stays, "rescue")
        asked_for(stays, "rescue-streams", "S")
        stays.start()
        assert leader_of([stays]) == "s0"
        logged(stays, "goes on with what this server has of it, as it was asked to")
        asyncio.run(goes_on(stays))
        eventually(lambda: not (stays.directory / "store" / "jetstream" / "rescue-streams").exists())
        shutil.rmtree(wiped.directory / "store")
        for server in (wiped, back):
            server.start()
        until_all_vote(stays)
        eventually(lambda: others_level(stays), lambda: asyncio.run(seen(stays)))
        stays.kill()
        leader_of([wiped, back], but="s0")
        asyncio.run(has_all(back, 120))
        stays.start()


def test_a_stream_with_a_majority_is_not_rescued(tmp_path: Path) -> None:
    """It has a leader again, and all its servers; the command's file is gone."""
    with led(L, tmp_path) as three:
        stays = three[0]
        asyncio.run(made(stays))
        stays.stop()
        asked_for(stays, "rescue-streams")
        stays.start()
        eventually(lambda: not (stays.directory / "store" / "jetstream" / "rescue-streams").exists())
        assert "goes on with what this server has" not in stays.log
        eventually(lambda: others_level(stays), lambda: asyncio.run(seen(stays)))
        asyncio.run(has_all(stays, 100))
