"""Three clusters, half a second apart by modems: one of three servers and two of one. Their group is founded, streams
are placed from anywhere, a cluster that is cut off serves its own, and all is as before when it is back.

Where this machine lets nobody make namespaces, each test says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import nats
import nats.errors
import pytest
from nats.aio.client import Client

from tests import cell, servers
from tests.rig.official import ask
from tests.rig.waiting import until
from tests.switch import Switch, address, switched

SITES: Final = {"A": 3, "B": 1, "C": 1}
NAMES: Final = tuple(SITES)
ONE_WAY_S: Final = 0.5
MODEM: Final = 50_000
"""Bits a second of each site, each way."""
CUT_S: Final = 20.0
"""The others know after 12 s that they have lost the leader of their group."""
SETTLES_S: Final = 240.0
ASKED_S: Final = 20.0
"""An answer takes a second, and the modem may have more to do."""
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
jetstream { store_dir: "{store}", meta_size: 5 }
cluster { name: {site}, listen: "{address}:{route}", routes: [ {routes} ] }
gateway { name: {site}, listen: "{address}:{gateway}", gateways: [ {gateways} ] }
"""
MISSING = cell.missing()
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"no places here: {MISSING}"),
    pytest.mark.minutes(20),
]


def urls(place: int, count: int, scheme: str, port: int) -> str:
    """Those of that many servers of a site, as a list has them."""
    return ", ".join(f'"{scheme}://{address(place)}:{port + number}"' for number in range(count))


def made_folder(folder: Path, name: str) -> Path:
    """A server's own."""
    place = folder / name
    place.mkdir()
    return place


@contextlib.contextmanager
def sites(folder: Path) -> Iterator[Switch]:
    """All servers, just started."""
    gateways = ", ".join(
        f"{{name: {name}, urls: [ {urls(place, count, 'nats', 7222)} ]}}"
        for place, (name, count) in enumerate(SITES.items())
    )
    with switched(len(SITES)) as switch, contextlib.ExitStack() as stack:
        for place, (site, count) in enumerate(SITES.items()):
            switch.slow(place, ONE_WAY_S / 2, 0.0, MODEM)
            config = CONFIG.replace("{routes}", urls(place, count, "nats-route", 6222)).replace("{gateways}", gateways)
            for number in range(count):
                name = f"{site}{number}"
                made = servers.make(
                    servers.LEAFD,
                    config.replace("{site}", site),
                    made_folder(folder, name),
                    name=name,
                    address=address(place),
                    port=4222 + number,
                    http_port=8222 + number,
                    route=6222 + number,
                    gateway=7222 + number,
                )
                stack.callback(made.kill)
                with switch.at(place):
                    made.start()
        yield switch


@contextlib.asynccontextmanager
async def clients(switch: Switch) -> AsyncIterator[dict[str, Client]]:
    """One in each site, at its first server."""
    found: dict[str, Client] = {}
    try:
        for place, name in enumerate(NAMES):
            with switch.at(place):
                found[name] = await nats.connect(
                    f"nats://{address(place)}:4222",
                    user="a",
                    password="a",
                    allow_reconnect=False,
                    connect_timeout=30,
                    ping_interval=600,
                )
        yield found
    finally:
        for client in found.values():
            await client.close()


async def answers(client: Client, subject: str, body: object = b"") -> bool:
    """The request is done, and the answer says nothing else."""
    with contextlib.suppress(nats.errors.Error):
        return "error" not in await ask(client, subject, body, seconds=ASKED_S)
    return False


async def is_made(client: Client, name: str) -> bool:
    """That cluster's stream, on each of its servers; or it is there."""
    place = {"num_replicas": SITES[name], "placement": {"cluster": name}}
    stream = {"name": name, "subjects": [f"s.{name}"]} | place
    return await answers(client, f"$JS.API.STREAM.CREATE.{name}", stream)


async def all_answer(at: dict[str, Client]) -> bool:
    """Each stream tells of itself, and takes a message, from each site; so does who listens in A."""
    wanted = [("core.a", b"x")] + [
        one for name in NAMES for one in ((f"$JS.API.STREAM.INFO.{name}", b""), (f"s.{name}", b"x"))
    ]
    for client in at.values():
        if not all(await asyncio.gather(*(answers(client, subject, body) for subject, body in wanted))):
            return False
    return True


async def published_apart(at: dict[str, Client], seconds: float) -> list[float]:
    """Publishes to A's stream in A for so long; when it began and ended, and when each was acknowledged."""
    acknowledged, ends_at = [time.monotonic()], time.monotonic() + seconds
    while time.monotonic() < ends_at:
        if await answers(at["A"], "s.A", b"x"):
            acknowledged.append(time.monotonic())
        await asyncio.sleep(0.2)
    return [*acknowledged, time.monotonic()]


def test_a_cluster_that_is_cut_off_serves_its_own_and_comes_back(tmp_path: Path) -> None:
    """Its group of three never waits for the others; they do for it, and for no longer than the way takes."""

    async def respond(message: Any) -> None:
        await message.respond(b"{}")

    async def check() -> None:
        async with clients(switch) as at:
            await at["A"].subscribe("core.a", cb=respond)
            for name, by in (("A", "B"), ("B", "A"), ("C", "B")):
                await until(partial(is_made, at[by], name), f"{name} is not made", seconds=SETTLES_S)
            await until(lambda: all_answer(at), "they do not serve", seconds=SETTLES_S)
            for other in (1, 2):
                switch.cut(0, other)
                switch.cut(other, 0)
            acknowledged = await published_apart(at, CUT_S)
            switch.mend()
            assert max(later - one for one, later in itertools.pairwise(acknowledged)) < 3.0
            await until(lambda: all_answer(at), "they do not serve again", seconds=SETTLES_S)

    with sites(tmp_path) as switch:
        asyncio.run(check())
