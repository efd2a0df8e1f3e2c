"""Who may schedule: on both servers, what a user with few rights brings about later, on a denied subject or from one.

nats-server asks nobody. Links and what comes out of JetStream: tests/native/test_plane_names.c, without a daemon.
"""

from __future__ import annotations

import asyncio

import pytest
from nats.aio.client import Client

from tests.rig.official import ask, connect, must
from tests.servers import KINDS, Server, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 64M, max_mem: 16M }
authorization: {users: [
    {user: owner, password: p}
    {user: user, password: p, permissions: {
        publish: ["s.plan.>", "s.mine.>"], subscribe: ["_INBOX.>", "s.seen.>"]}}]}
"""
AT: dict[str, str] = {"Nats-Schedule": "@at 2100-01-01T00:00:00Z"}
ENDS: dict[str, str] = {"Nats-Schedule-Next": "purge"}
REFUSED: dict[int, dict[str, str]] = {
    10190: AT | {"Nats-Schedule-Target": "s.secret"},
    10203: AT | {"Nats-Schedule-Target": "s.mine.x", "Nats-Schedule-Source": "s.secret"},
    10212: ENDS | {"Nats-Scheduler": "s.owned"},
}
ALLOWED: tuple[dict[str, str], ...] = (
    AT | {"Nats-Schedule-Target": "s.mine.x"},
    AT | {"Nats-Schedule-Target": "s.mine.x", "Nats-Schedule-Source": "s.seen.x"},
    ENDS | {"Nats-Scheduler": "s.plan.gone"},
)


async def login(server: Server, name: str) -> Client:
    return await connect(server, name, password="p")


async def told(client: Client, headers: dict[str, str]) -> int:
    """The error of a PubAck; 0: it is stored."""
    return int((await ask(client, "s.plan.x", b"x", headers=headers)).get("error", {}).get("err_code", 0))


async def attacked(server: Server, metadata: dict[str, str]) -> tuple[list[int], list[int]]:
    """What the user is told of what he may not do himself, and of what he may."""
    owner, user = await login(server, "owner"), await login(server, "user")
    try:
        config = {"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True, "metadata": metadata}
        await must(owner, "$JS.API.STREAM.CREATE.S", config)
        await owner.jetstream().publish("s.owned", b"", headers=AT | {"Nats-Schedule-Target": "s.owned.x"})
        wrong = [await told(user, headers) for headers in REFUSED.values()]
        right = [await told(user, headers) for headers in ALLOWED]
        return wrong, right
    finally:
        await user.close()
        await owner.close()


@pytest.mark.parametrize("kind", KINDS)
def test_schedules_need_the_publishers_own_rights(kind: str) -> None:
    """Target, source and the schedule that is ended: each refused with its code by leafd, all taken by nats-server."""
    with running(kind, CONFIGURATION) as server:
        wrong, right = asyncio.run(attacked(server, {}))

    assert ([*REFUSED] if kind == "leafd" else [0, 0, 0]) == wrong
    assert [0, 0, 0] == right


@pytest.mark.parametrize("kind", KINDS)
def test_the_owner_may_grant_them(kind: str) -> None:
    """With a word in the stream's metadata."""
    with running(kind, CONFIGURATION) as server:
        found = asyncio.run(attacked(server, {"leafd.schedules": "any"}))

    assert ([0, 0, 0], [0, 0, 0]) == found
