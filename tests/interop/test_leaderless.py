"""A stream of three servers of which two are gone: its info says what the third one has, as at nats-servers, and
whatever needs a leader is refused.

Not here: how such a stream goes on (test_rescued_streams.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import led
from tests.rig.comparison import told_alike
from tests.rig.official import connect, one_each, patiently, stored
from tests.rig.reports import report
from tests.rig.waiting import until

MESSAGES = 3
ASKED_S = 8.0
REFUSED = {"STREAM.PURGE.S": b"", "STREAM.MSG.GET.S": b'{"seq":1}', "STREAM.LEADER.STEPDOWN.S": b""}


async def answered(client: Client, subject: str, body: bytes = b"") -> dict[str, Any]:
    """The answer; empty: there is none in time, as from nats-servers at first."""
    with contextlib.suppress(nats.errors.TimeoutError):
        found: dict[str, Any] = json.loads((await client.request(f"$JS.API.{subject}", body, timeout=ASKED_S)).data)
        return found
    return {}


async def asked(made: list[servers.Server]) -> list[Any]:
    """What the last of three servers says of a stream that all of them keep."""
    async with one_each(made[:1]) as (client,):
        await patiently(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "num_replicas": 3})
        for number in range(MESSAGES):
            await stored(client, "s", b"x", str(number))
        await until(lambda: all_have_it(made), "not all have it")
    for server in made[:2]:
        server.kill()
    client, info = await connect(made[2]), dict[str, Any]()

    async def told() -> bool:
        info.clear()
        info.update(await answered(client, "STREAM.INFO.S"))
        return "state" in info and "leader" not in info["cluster"]

    await until(told, "the stream has no info")
    refused = [(await answered(client, subject, body))["error"]["err_code"] for subject, body in REFUSED.items()]
    await client.close()
    named = sorted(row["name"] for row in info["cluster"]["replicas"])
    return [info["state"]["messages"], info["config"]["name"], named, refused]


async def all_have_it(made: list[servers.Server]) -> bool:
    """Whether each server has stored all messages."""
    return all(messages_at(server) == MESSAGES for server in made)


def messages_at(server: servers.Server) -> int:
    found: int = report(server, "jsz").get("messages", 0)
    return found


def test_the_info_of_a_stream_that_nobody_leads_is_what_one_of_its_servers_has(tmp_path: Path) -> None:
    """It names no leader. A message is neither read nor removed."""

    def told(kind: str, folder: Path) -> list[Any]:
        with led(kind, folder) as made:
            return asyncio.run(asked(made))

    assert told_alike(told, tmp_path) == [MESSAGES, "S", ["s0", "s1", "s2"], [10008] * len(REFUSED)]
