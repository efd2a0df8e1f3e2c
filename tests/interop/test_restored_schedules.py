"""Schedules of a stream that was backed up and restored, in every line-up of leafd and the reference.

What a restore keeps of messages and consumers is in test_backup.py, what a schedule does in tests/wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from tests.interop.clients import connected
from tests.interop.test_backup import send, started, take
from tests.rig.official import must
from tests.servers import KINDS, Server

PENDING_S = 3.0
"""How far ahead the first schedule lies, which falls due while there is no stream; and how far behind it the second."""
FIRED_S = 30.0


def at(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("@at %Y-%m-%dT%H:%M:%S.%fZ")


async def schedule(client: Client, name: str, **patterns: str) -> None:
    """A stream with these schedules, each with a target of its name; `ended` has a later message, which ends it."""
    config = {"name": name, "subjects": [f"{name}.>"], "allow_msg_schedules": True}
    await must(client, f"$JS.API.STREAM.CREATE.{name}", config)
    for key, pattern in patterns.items():
        headers = {"Nats-Schedule": pattern, "Nats-Schedule-Target": f"{name}.to.{key}", "Own": key}
        await client.jetstream().publish(f"{name}.from.{key}", key.encode(), headers=headers)
    await client.jetstream().publish(f"{name}.from.ended", b"over")


async def made(client: Client, name: str, key: str) -> int:
    """How many messages a schedule has made."""
    info = await must(client, f"$JS.API.STREAM.INFO.{name}", {"subjects_filter": f"{name}.to.{key}"})
    return sum((info["state"].get("subjects") or {}).values())


async def fired(client: Client, name: str, key: str, count: int = 1) -> None:
    """Waits until a schedule has made so many."""
    deadline = time.monotonic() + FIRED_S
    while await made(client, name, key) < count:
        assert time.monotonic() < deadline, f"{name}: {key} has not fired"
        await asyncio.sleep(0.1)


async def backup(client: Client, name: str) -> tuple[float, dict[str, Any], bytes]:
    """The archive of a stream with schedules of all kinds, taken before the first of those that fire once; and when
    that one falls due. On a machine that was too slow for it, again with more time."""
    pending = PENDING_S
    while True:
        due = time.time() + pending
        patterns = {"passed": at(due), "ahead": at(due + pending), "again": "@every 1s", "yearly": "@yearly"}
        await schedule(client, name, **patterns, ended=at(due))
        await fired(client, name, "again")
        told, archive = await take(client, name)
        if time.time() < due:
            return due, told, archive
        await must(client, f"$JS.API.STREAM.DELETE.{name}")
        pending *= 2


async def restored(server: Server, due: float, told: dict[str, Any], archive: bytes) -> None:
    """What had passed is made at once, what lies ahead at its time, what recurs goes on; what has ended stays so."""
    name = told["config"]["name"]
    await asyncio.sleep(max(due + 0.2 - time.time(), 0))
    async with connected(server) as client:
        answer = await send(client, told["config"], told["state"], archive)
        assert "error" not in answer, answer
        before = await made(client, name, "again")
        await fired(client, name, "passed")
        message = await client.jetstream().get_last_msg(name, f"{name}.to.passed")
        expected = {"Own": "passed", "Nats-Scheduler": f"{name}.from.passed", "Nats-Schedule-Next": "purge"}
        assert (b"passed", expected) == (message.data, dict(message.headers or {}))
        await fired(client, name, "ahead")
        await fired(client, name, "again", before + 2)
        info = await must(client, f"$JS.API.STREAM.INFO.{name}", {"subjects_filter": ">"})
        left = {f"{name}.from.{key}" for key in ("again", "yearly", "ended")}
        assert left | {f"{name}.to.{key}" for key in ("passed", "ahead", "again")} == set(info["state"]["subjects"])


def test_schedules_of_a_restored_stream_go_on(tmp_path: Path) -> None:
    """Whoever wrote the archive and whoever restores it: past, pending, recurring and ended schedules go their way."""

    async def scenario(servers: dict[str, Server]) -> None:
        async with connected(servers[f"{KINDS[0]}-old"]) as one, connected(servers[f"{KINDS[1]}-old"]) as other:
            taken = await asyncio.gather(backup(one, "ONE"), backup(other, "OTHER"))
        await asyncio.gather(*(restored(servers[f"{kind}-new"], *one) for kind in KINDS for one in taken))

    with contextlib.ExitStack() as stack:
        servers = {
            f"{kind}-{age}": stack.enter_context(started(kind, tmp_path / f"{kind}-{age}"))
            for kind in KINDS
            for age in ("old", "new")
        }
        asyncio.run(scenario(servers))
