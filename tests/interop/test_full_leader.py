"""A stream of three servers whose leader's store is full, while the others have room: its lead goes to one of them.

Not here: to whom, and where all are full (tests/unit/daemon/test_handing.py); a full disk of a lone server
(tests/crash/test_full_disk.py).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import nats.errors

from tests import servers
from tests.interop.test_meta_group import L, leader_of, three
from tests.interop.test_replicated_streams import led_by, made_by
from tests.rig.official import ask, connect
from tests.rig.waiting import until

SMALL: Final = "s1"
PAYLOAD: Final = b"x" * 64_000
MANY: Final = 4_000
ANSWER_S: Final = 5.0
PATIENCE_S: Final = 60.0


async def led_by_the_small_one(server: servers.Server) -> None:
    client = await connect(server)

    async def leads() -> bool:
        if await led_by(client) != SMALL:
            await ask(client, "$JS.API.STREAM.LEADER.STEPDOWN.S", {"placement": {"preferred": SMALL}})
        return await led_by(client) == SMALL

    await until(leads, "the small one does not lead")
    await client.close()


async def filled(server: servers.Server) -> None:
    """Publishes until it is refused, and then until it is taken again; another one leads by then."""
    client = await connect(server)

    async def published() -> dict[str, Any]:
        try:
            return await ask(client, "s.a", PAYLOAD, seconds=ANSWER_S)
        except nats.errors.TimeoutError:  # the lead went over meanwhile
            return {"error": "no answer"}

    for _ in range(MANY):
        if "error" in await published():
            break
    else:
        raise AssertionError("nothing was refused")

    async def taken() -> bool:
        return "error" not in await published()

    await until(taken, "publishers stay refused")
    assert await led_by(client) != SMALL
    await client.close()


def test_a_leader_without_room_hands_over_to_one_that_has_it(tmp_path: Path) -> None:
    """Publishers get a refusal or no answer for some seconds, and go on."""
    with three(L, tmp_path) as made:
        made[1].configuration = made[1].configuration.replace("meta_size: 3", "meta_size: 3, max_file: 64MB")
        for server in made:
            server.start()
        leader_of(made)
        asyncio.run(made_by(made[0], {"s0", "s1", "s2"}))
        asyncio.run(led_by_the_small_one(made[0]))
        asyncio.run(filled(made[2]))
        assert "has reached its limit" in made[1].log
