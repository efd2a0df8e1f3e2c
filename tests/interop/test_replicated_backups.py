"""Backups of streams that three servers keep, as at nats-servers: taken from whichever server is asked, and restored as
streams of three again, with their consumers, also while one of the servers is away.

Three nats-servers walk the same way, which proves the test. Not here: archives (test_backup.py).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.interop.test_backup import send, take
from tests.interop.test_meta_group import L, R, leader_of, led
from tests.interop.test_replicated_queues import CONFIRMED, consumer, everywhere, some_confirmed
from tests.interop.test_replicated_streams import made_by
from tests.rig.official import ask, one_each, patiently

MESSAGES = 30


async def walk(made: list[servers.Server]) -> None:
    await made_by(made[0], {f"s{number}" for number in range(len(made))})
    async with one_each(made) as (first, second, third):
        pull = await consumer(first, "C")
        for number in range(MESSAGES):
            await first.jetstream().publish("s.a", str(number).encode())
        await some_confirmed(pull)
        reply, archive = await take(second, "S")
        taken: dict[str, Any] = await ask(
            third, "$JS.API.STREAM.RESTORE.S", {"config": reply["config"], "state": reply["state"]}
        )
        assert taken["error"]["err_code"] == 10130
        await patiently(third, "STREAM.DELETE.S")
        info = await send(third, reply["config"], reply["state"], archive)
        assert "error" not in info
        assert (info["config"]["num_replicas"], info["state"]["messages"]) == (3, MESSAGES)
        everywhere(made, MESSAGES, MESSAGES)
        position = await patiently(second, "CONSUMER.INFO.S.C")
        assert position["ack_floor"]["stream_seq"] == CONFIRMED
        cluster = (await patiently(second, "STREAM.INFO.S"))["cluster"]
        assert {cluster["leader"], *(row["name"] for row in cluster["replicas"])} == {"s0", "s1", "s2"}


@pytest.mark.parametrize("kind", [R, L])
def test_a_backup_of_a_stream_of_three_servers_becomes_one_again(kind: str, tmp_path: Path) -> None:
    """All servers have its messages, and its consumer goes on where it was."""
    with led(kind, tmp_path) as made:
        asyncio.run(walk(made))


async def without_one(made: list[servers.Server]) -> None:
    """A server that does not lead the others dies; then streams are made and restored, and it comes back."""
    await made_by(made[0], {f"s{number}" for number in range(len(made))})
    leader = leader_of(made)
    gone = next(server for number, server in enumerate(made) if f"s{number}" != leader)
    async with one_each([server for server in made if server is not gone]) as (first, second):
        for number in range(MESSAGES):
            await first.jetstream().publish("s.a", str(number).encode())
        reply, archive = await take(second, "S")
        await patiently(second, "STREAM.DELETE.S")
        gone.kill()
        new = {"name": "NEW", "subjects": ["new"], "num_replicas": 3}
        assert (await patiently(first, "STREAM.CREATE.NEW", new))["config"]["num_replicas"] == 3
        await patiently(second, "STREAM.UPDATE.NEW", new | {"subjects": ["new", "newer"]})
        assert (await first.jetstream().publish("newer", b"x")).seq == 1
        await patiently(first, "STREAM.DELETE.NEW")
        if made[0].kind == R:
            return  # it gives the restore to any of the three: where that is the one that is away, nobody answers
        info = await send(second, reply["config"], reply["state"], archive)
        assert "error" not in info
        assert (info["config"]["num_replicas"], info["state"]["messages"]) == (3, MESSAGES)
        assert (await first.jetstream().publish("s.a", b"more")).seq == MESSAGES + 1
        gone.start()
        everywhere(made, MESSAGES + 1, MESSAGES + 1)
        cluster = (await patiently(second, "STREAM.INFO.S"))["cluster"]
        assert {cluster["leader"], *(row["name"] for row in cluster["replicas"])} == {"s0", "s1", "s2"}


@pytest.mark.parametrize("kind", [R, L])
def test_streams_are_made_and_restored_while_one_of_three_servers_is_away(kind: str, tmp_path: Path) -> None:
    """A majority keeps them, and the server has them when it is back."""
    with led(kind, tmp_path) as made:
        asyncio.run(without_one(made))
