"""What clients are told of a stream whose servers change while that is on its way, and what of it can be called off, as
at nats-servers: a change of the configuration, and no evacuation.

Three nats-servers walk the same way, which proves the test. Not here: that the change comes to its end, and is taken
back (test_evacuated.py), what a leader waits for (tests/unit/cluster/test_desired.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from tests import servers
from tests.interop.test_evacuated import CONSUMER, NO_CHANGE, TAGGED, published, told, updated
from tests.interop.test_meta_group import L, R, leader_of, led
from tests.interop.test_scaled_streams import CONFIG, said, settled
from tests.rig.official import one_each
from tests.rig.waiting import until

MESSAGES = 6


@contextlib.asynccontextmanager
async def standing_still(server: servers.Server) -> AsyncIterator[None]:
    """Nothing comes to its end there meanwhile."""
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


async def under_way(client: Client) -> list[object]:
    """What is told of the change: who is to have the stream, and what it can be taken back to."""
    found: dict[str, Any] = {}

    async def shown() -> bool:
        found.update((await said(client, "STREAM.INFO.S"))["cluster"].get("desired", {}))
        return bool(found.get("replicas")) and found["created"] > "2020"

    await until(shown, "no change is told of")
    assert found["name"] == "C"
    assert all(row["peer"] for row in found["replicas"])
    return [sorted(row["name"] for row in found["replicas"]), found.get("origin")]


async def arrived(client: Client) -> None:
    async def over() -> bool:
        return "desired" not in (await said(client, "STREAM.INFO.S"))["cluster"]

    await until(over, "a change is told of that has come to its end", seconds=120)


async def walk(made: list[servers.Server]) -> list[object]:
    """The leader of all servers has the stream; another one stands still, and is to get it."""
    found: list[object] = []
    async with one_each(made) as clients, one_each(made, "sys") as systems:
        leader = await asyncio.to_thread(leader_of, made)
        client, system = clients[int(leader[1:])], systems[int(leader[1:])]
        new, old = sorted({"s0", "s1", "s2"} - {leader})
        there = CONFIG | {"num_replicas": 2, "placement": {"tags": [f"!at:{new}"]}}
        await said(client, "STREAM.CREATE.S", there)
        await said(client, "CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": CONSUMER})
        await published(client, MESSAGES)
        await arrived(client)
        async with standing_still(made[int(new[1:])]):
            await updated(client, there | {"placement": {"tags": [f"!at:{old}"]}})
            found.append(await under_way(client))
        await settled(client, made, 2, MESSAGES, but=old)
        await arrived(client)
        assert "error" not in await updated(client, CONFIG | {"num_replicas": 2})  # asks for no server
        await arrived(client)
        new, old = old, new
        async with standing_still(made[int(new[1:])]):
            found.append(told(await said(client, "STREAM.PEER.EVACUATE.S", {"peer": old})))
            found.append(await under_way(client))
            if made[0].kind == L:  # a nats-server's consumer moves by itself
                assert "desired" not in (await said(client, "CONSUMER.INFO.S.d"))["cluster"]
            found.append(told(await said(client, "STREAM.CANCEL_MOVE.S")))
            found.append(told(await said(system, "ACCOUNT.STREAM.CANCEL_MOVE.A.S")))
        await settled(client, made, 2, MESSAGES, but=old)
        await arrived(client)
        new, old = old, new
        async with standing_still(made[int(new[1:])]):
            found.append(told(await said(system, "SERVER.EVACUATE", {"peer": old})))
            found.append(await under_way(client))
            found.append(told(await said(client, "STREAM.CANCEL_MOVE.S")))
        await settled(client, made, 2, MESSAGES, but=old)
    return found


def test_an_evacuation_is_shown_and_not_called_off_as_at_nats_servers(tmp_path: Path) -> None:
    """A move that somebody's configuration asked for says what it can be taken back to; an evacuation has nothing of
    that, and goes on."""
    found: dict[str, list[object]] = {}
    for kind in (R, L):
        with led(kind, tmp_path, TAGGED) as made:
            found[kind] = asyncio.run(walk(made))
    assert _without_names(found[L]) == _without_names(found[R])
    assert found[L].count(NO_CHANGE) == 3


def _without_names(found: list[object]) -> list[object]:
    """Which server leads is chance: how many are told of instead, and of excluded ones that there is one."""
    plain: list[object] = []
    for one in found:
        if isinstance(one, list):
            names, origin = one
            plain.append((len(names), str(origin).replace("s0", "sX").replace("s1", "sX").replace("s2", "sX")))
        else:
            plain.append(one)
    return plain
