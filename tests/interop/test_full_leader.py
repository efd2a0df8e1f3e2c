"""A stream of three servers whose stores are full. Where the leader's is, and the others have room, one of them leads.
Where a majority's are, every publisher is told so at once, and a purge makes room.

Not here: to whom the lead goes, and that it stays where all are full (tests/unit/daemon/test_handing.py); a full disk
of a lone server (tests/crash/test_full_disk.py).
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import nats.errors
import pytest
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import L, leader_of, three
from tests.interop.test_replicated_streams import led_by, made_by
from tests.rig.official import ask, connect, must
from tests.rig.waiting import until

SMALL: Final = "s1"
PAYLOAD: Final = b"x" * 64_000
MANY: Final = 4_000
ANSWER_S: Final = 5.0
PATIENCE_S: Final = 60.0
FULL: Final = 10023
FLYING: Final = 100
"""Messages whose answers are waited for at a time."""
REFUSED_S: Final = 6.0
"""Publishers stay refused so long: a lead would have gone over by then."""


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
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):  # the lead went over meanwhile
            await asyncio.sleep(0.1)
            return {"error": "no answer"}

    for _ in range(MANY):
        if "error" in await published():
            break
    else:
        raise AssertionError("nothing was refused")

    async def taken_by_another() -> bool:
        """One that was full may have room again for some more, when its log is in LMDB."""
        return "error" not in await published() and await led_by(client) != SMALL

    await until(taken_by_another, "publishers stay refused, or the full one leads")
    await client.close()


async def said(client: Client) -> int:
    """The code with which a message is refused; 0: it is stored. Each gets one of the two."""
    answer = await ask(client, "s.a", PAYLOAD, seconds=ANSWER_S)
    return int(answer.get("error", {}).get("err_code", 0))


async def refused_until_purged(server: servers.Server) -> None:
    """Many publish at a time until they are refused, and stay so until there is room again."""
    client = await connect(server)

    async def taken() -> bool:
        return await said(client) == 0

    taken_at, ends_at = time.monotonic(), time.monotonic() + PATIENCE_S
    while time.monotonic() < taken_at + REFUSED_S:  # what is in the rings may find more room when it is checkpointed
        codes = set(await asyncio.gather(*(said(client) for _ in range(FLYING))))
        assert codes <= {0, FULL}
        assert time.monotonic() < ends_at
        if 0 in codes:
            taken_at = time.monotonic()
        if FULL in codes:
            await asyncio.sleep(0.2)
    stored = (await must(client, "$JS.API.STREAM.INFO.S"))["state"]["messages"]
    purged = await must(client, "$JS.API.STREAM.PURGE.S")
    assert purged["purged"] == stored
    await until(taken, "publishers stay refused")
    assert await led_by(client) == SMALL
    await client.close()


@pytest.mark.parametrize("full", [("s0", "s1", "s2"), ("s0", "s2")], ids=["all", "both followers"])
def test_a_majority_without_room_refuses_at_once_and_goes_on_when_purged(tmp_path: Path, full: tuple[str, ...]) -> None:
    """Each publisher is answered. What was agreed on before is applied, or the purge behind it in the log never is."""
    with three(L, tmp_path) as made:
        for number, server in enumerate(made):
            if f"s{number}" in full:
                server.configuration = server.configuration.replace("meta_size: 3", "meta_size: 3, max_file: 64MB")
            server.start()
        leader_of(made)
        asyncio.run(made_by(made[0], {"s0", "s1", "s2"}))
        asyncio.run(led_by_the_small_one(made[0]))
        asyncio.run(refused_until_purged(made[2]))


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
