"""Accounts that a server of a cluster or supercluster has only after a reload: what the others wanted in them before
counts from then on.

nats-server does not keep such interest, so the server that reloads last is leafd here. Not here: what is
kept of how many (native/test_plane_route.c).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats.errors
import pytest

from tests import servers
from tests.interop import test_cluster as of_cluster, test_supercluster as of_supercluster
from tests.rig.official import connect, until_heard
from tests.rig.reloads import exchanged
from tests.rig.waiting import PATIENCE_S, until

L, R = servers.LEAFD, servers.REFERENCE
NEW = "N { users: [ {user: n, password: n} ] }\n  B {"


async def heard_later(first: servers.Server, last: servers.Server) -> None:
    exchanged(first, "B {", NEW)
    early = await connect(first, "n")
    got = await early.subscribe("news.*")
    served = await early.subscribe("svc", queue="g")
    await early.flush(30)
    # What was told before this was told before the account is there: both go by one connection, or one after the other.
    a, b = await connect(first), await connect(last)
    await until_heard([a, b], "told")
    exchanged(last, "B {", NEW)
    late = await connect(last, "n")

    async def answered() -> bool:
        try:
            await late.publish("news.x", b"hello")
            await asyncio.gather(late.request("svc", b"?", timeout=5), answer())
        except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
            return False
        return True

    async def answer() -> None:
        await (await served.next_msg(5)).respond(b"!")

    await until(answered, f"{first.log[-2000:]}\n{last.log[-2000:]}")
    assert (await got.next_msg(PATIENCE_S)).data == b"hello"
    for client in (a, b, early, late):
        await client.close()


@pytest.mark.parametrize("first", [L, R])
def test_a_route_has_told_of_it_before(first: str, tmp_path: Path) -> None:
    with of_cluster.started((first, L), tmp_path) as found:
        asyncio.run(heard_later(*found.servers))


@pytest.mark.parametrize("first", [L, R])
def test_a_gateway_has_told_of_it_before(first: str, tmp_path: Path) -> None:
    with of_supercluster.started((first, L), tmp_path) as found:
        asyncio.run(found.until_met())
        asyncio.run(heard_later(*found.servers))
