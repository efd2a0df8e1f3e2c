"""Three servers whose links take two seconds one way from their start, or come to take one: their routes join, their
groups elect, stay and serve, and are as quick as before when the links are.

Where this machine lets nobody make namespaces, each test says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import nats
import nats.errors
import pytest
from nats.aio.client import Client

from tests import cell, servers
from tests.rig.official import ask
from tests.rig.reports import report
from tests.rig.waiting import until
from tests.switch import Switch, address, switched

CLIENTS: Final = 3
"""The place of the clients, behind those of the servers."""
SETTLES_S: Final = 240.0
"""An election at two seconds one way takes 12 to 24 s, and the group of all comes first."""
STAYS_S: Final = 25.0
CONFIG: Final = """
listen: "0.0.0.0:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
accounts {
  A { users: [ {user: a, password: a} ], jetstream: enabled }
  SYS { users: [ {user: sys, password: sys} ] }
}
system_account: SYS
authorization { timeout: 60 }
jetstream { store_dir: "{store}", meta_size: 3 }
cluster { name: C, listen: "{address}:6222", routes: [ {routes} ] }
"""
MISSING = cell.missing()
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"no places here: {MISSING}"),
    pytest.mark.minutes(20),
]


def spread(switch: Switch, one_way_s: float) -> None:
    """Each way between two servers takes so long from now on, and that to a client half of it."""
    for number in range(3):
        switch.slow(number, one_way_s / 2, 0.0)


@contextlib.contextmanager
def three(folder: Path, one_way_s: float) -> Iterator[tuple[Switch, list[servers.Server]]]:
    """Three that have just been started, so far from each other."""
    routes = ", ".join(f'"nats-route://{address(number)}:6222"' for number in range(3))
    made: list[servers.Server] = []
    with switched(4) as switch, contextlib.ExitStack() as stack:
        spread(switch, one_way_s)
        for number in range(3):
            place = folder / f"s{number}"
            place.mkdir()
            more = {"name": f"s{number}", "address": address(number), "port": 4222, "http_port": 8222}
            made.append(servers.make(servers.LEAFD, CONFIG.replace("{routes}", routes), place, **more))
            stack.callback(made[number].kill)
            with switch.at(number):
                made[number].start()
        yield switch, made


@contextlib.asynccontextmanager
async def clients(switch: Switch, made: list[servers.Server]) -> AsyncIterator[list[Client]]:
    """One at each server, in a place of their own."""
    with switch.at(CLIENTS):
        found = [
            await nats.connect(
                f"nats://{address(number)}:4222",
                user="a",
                password="a",
                allow_reconnect=False,
                connect_timeout=30,
                ping_interval=600,
            )
            for number in range(len(made))
        ]
    try:
        yield found
    finally:
        for client in found:
            await client.close()


def leads(switch: Switch, made: list[servers.Server]) -> dict[str, set[tuple[int, str]]]:
    """The terms and leaders of the stream's group and of the group of all, as each server says; "": it knows none."""
    found: dict[str, set[tuple[int, str]]] = {}
    for number, server in enumerate(made):
        with switch.at(number):
            for account in ("A", "SYS"):
                rows: dict[str, Any] = report(server, f"raftz?acc={account}").get(account, {})
                said = {(int(row["term"]), str(row.get("leader") or "")) for row in rows.values()}
                found.setdefault(account, set()).update(said)
    return found


def settled(said: dict[str, set[tuple[int, str]]]) -> bool:
    """Do all servers name the same leader of each group?"""
    return all(len(found) == 1 and all(leader for _, leader in found) for found in said.values())


async def answers(client: Client, subject: str, body: object = None) -> bool:
    """The request is done, and the answer says nothing else. Nobody may be there to answer it."""
    with contextlib.suppress(nats.errors.Error):
        return "error" not in await ask(client, subject, body, seconds=15)
    return False


async def serves(switch: Switch, made: list[servers.Server], at: list[Client]) -> None:
    """Publishing and information go on at each server, and nobody else is elected meanwhile.

    Both groups may elect first. A stream serves without the group of all, so what it answers says nothing of that one's
    election."""

    async def one(client: Client) -> bool:
        return await answers(client, "$JS.API.STREAM.INFO.S") and await answers(client, "s.a", b"x")

    async def goes_on() -> bool:
        return all(await asyncio.gather(*map(one, at)))

    async def go_on_led() -> bool:
        return await goes_on() and settled(leads(switch, made))

    await until(go_on_led, "they do not serve", seconds=SETTLES_S)
    before, ends_at = leads(switch, made), time.monotonic() + STAYS_S
    assert settled(before)
    while time.monotonic() < ends_at:
        assert await goes_on()

    assert before == leads(switch, made)


def test_servers_that_are_far_from_the_start_elect_stay_and_serve(tmp_path: Path) -> None:
    """Both ends of each route dial, and keep the same connection of two; the group of all; a stream of three."""

    async def check() -> None:
        async with clients(switch, made) as at:
            stream = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}
            await until(
                lambda: answers(at[0], "$JS.API.STREAM.CREATE.S", stream), "no stream is made", seconds=SETTLES_S
            )
            await serves(switch, made, at)

    with three(tmp_path, 2.0) as (switch, made):
        asyncio.run(check())


def test_links_become_slow_and_quick_again(tmp_path: Path) -> None:
    """The group that was made on quick links goes on at a second one way with the leader that it has, though answers
    come later than an election's time from one moment on, and is quick again behind that."""

    async def led() -> bool:
        return settled(leads(switch, made))

    async def check() -> None:
        async with clients(switch, made) as at:
            stream = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}
            await until(lambda: answers(at[0], "$JS.API.STREAM.CREATE.S", stream), "no stream is made")
            await until(led, "the groups have no leaders")
            before = leads(switch, made)
            spread(switch, 1.0)
            await serves(switch, made, at)
            assert leads(switch, made) == before
            spread(switch, 0.0)
            await serves(switch, made, at)
            began = time.monotonic()
            assert await answers(at[0], "s.a", b"x")
            assert time.monotonic() - began < 1.0

    with three(tmp_path, 0.0) as (switch, made):
        asyncio.run(check())
