"""Where streams are: spread over a cluster's servers, whichever of them is asked. And where replicas may be: on servers
whose tags tell them apart (`unique_tag`), and on none that keeps as many streams with others as it may
(`limits.max_ha_assets`), as at nats-servers.

Not here: tags and clusters that a stream asks for (test_placed_streams.py), the choice itself (unit/cluster).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import CONFIG, L, leader_of, led, three
from tests.interop.test_replicated_streams import same_at_both
from tests.rig.comparison import told_alike
from tests.rig.official import ask, one_each, patiently
from tests.rig.reports import report

SPREAD = CONFIG.replace("{meta}", '{meta}, unique_tag: "RACK:", limits { max_ha_assets: 2 }').replace(
    'server_name: "{name}"', 'server_name: "{name}"\nserver_tags: ["rack:{name}", "rack:z"]'
)
RACKS = {"s0": "a", "s1": "a", "s2": "b"}


async def keepers(client: Client, name: str, replicas: int, verb: str = "CREATE", **more: Any) -> list[str] | str:
    """The servers that keep the stream from then on, or why not."""
    config = {"name": name, "subjects": [name], "num_replicas": replicas, **more}
    answer = await ask(client, f"$JS.API.STREAM.{verb}.{name}", config, seconds=20)
    if "error" in answer:
        return f"{answer['error']['err_code']} {answer['error']['description']}"
    group = answer["cluster"]
    return sorted([group["leader"], *(one["name"] for one in group.get("replicas", ()))])


async def walk(made: list[servers.Server]) -> list[object]:
    """What is refused, and in which racks the others are; s2 has a rack of its own."""
    async with one_each(made[:1]) as (client,):
        await patiently(client, "STREAM.CREATE.FIRST", {"name": "FIRST"})  # a nats-server may say nothing
        told: list[object] = [await keepers(client, "A", 3)]
        for name, tags in (("A", []), ("T", ["rack:a"]), ("B", [])):
            found = await keepers(client, name, 2, placement={"tags": tags})
            told.append(sorted(RACKS[one] for one in found))
        told.append(await keepers(client, "A", 3, "UPDATE"))
        told += [
            await keepers(client, "C", 2),
            len(await keepers(client, "D", 1)),
            await keepers(client, "D", 2, "UPDATE"),
        ]
        await patiently(client, "STREAM.DELETE.T")
        told.append(await keepers(client, "C", 2))
    about = report(made[2], "varz")["jetstream"]
    return [*told, about["config"]["unique_tag"], about["limits"]["max_ha_assets"]]


def test_replicas_are_spread_as_at_nats_servers(tmp_path: Path) -> None:
    """Over servers with different tags, as many together as each may keep; one alone is held to neither number."""

    def told(kind: str, folder: Path) -> list[object]:
        with three(kind, folder, SPREAD) as made:
            for server, rack in zip(made, RACKS.items(), strict=True):
                server.configuration = server.configuration.replace(f"rack:{rack[0]}", f"rack:{rack[1]}")
                server.start()
            leader_of(made)
            return asyncio.run(walk(made))

    told_alike(told, tmp_path)


TAGGED = CONFIG.replace('server_name: "{name}"', 'server_name: "{name}"\nserver_tags: ["{name}"]')
ONE_BY_ONE = 12
"""Streams, which make four a server."""


async def made_at_one(made: list[servers.Server]) -> list[str]:
    """What is refused. Many streams are made at one server, of which each has its part."""
    async with one_each(made[:1]) as (client,):
        await patiently(client, "STREAM.CREATE.FIRST", {"name": "FIRST"})  # a nats-server may say nothing
        await patiently(client, "STREAM.DELETE.FIRST")
        for replicas in (1, 2):
            counted = dict.fromkeys(("s0", "s1", "s2"), 0)
            for number in range(ONE_BY_ONE):
                found = await keepers(client, f"R{replicas}-{number}", replicas)
                assert isinstance(found, list), found
                for name in found:
                    counted[name] += 1
            part = ONE_BY_ONE * replicas // len(counted)
            assert all(abs(count - part) <= 1 for count in counted.values()), counted
        await keepers(client, "E", 3)
        refused = [await keepers(client, "E", 3, "UPDATE", placement={"tags": ["!s1"]})]
        refused.append(await keepers(client, "E", 3, "UPDATE", placement={"tags": ["s1"]}))
        refused.append(await keepers(client, "F", 3, placement={"tags": ["!s1"]}))
    assert all(isinstance(one, str) for one in refused), refused
    return [str(one) for one in refused]


def test_streams_are_spread_and_a_refused_place_is_explained_as_at_nats_servers(tmp_path: Path) -> None:
    """An update tells which tags are in the way, as the creation of a stream does."""
    same_at_both(made_at_one, tmp_path, TAGGED)


async def made_by_a_stranger(first: servers.Server) -> list[str]:
    """Where the streams are of an account that the other servers have not, or have without JetStream."""
    found: list[str] = []
    for user in ("b", "c"):
        async with one_each([first], user) as (client,):
            for number in range(3):
                found += await keepers(client, f"{user}{number}", 1)
    return found


def test_streams_of_an_account_that_others_do_not_have_are_made_by_who_has_it(tmp_path: Path) -> None:
    """As it is while servers are reloaded one after the other."""
    own = "{{ users: [ {{user: {0}, password: {0}}} ]{1} }}"
    with three(L, tmp_path) as made:
        for server in made:
            has = server is made[0]
            more = "C " + own.format("c", ", jetstream: enabled" if has else "")
            more += "\n  B " + own.format("b", ", jetstream: enabled") if has else ""
            server.configuration = server.configuration.replace("  SYS {", f"  {more}\n  SYS {{")
            server.start()
        leader_of(made)
        assert asyncio.run(made_by_a_stranger(made[0])) == ["s0"] * 6


GIGABYTE = 1 << 30
ROOMY = CONFIG.replace("{meta}", "{meta}, max_file: 2GB")


async def made_at_once(made: list[servers.Server]) -> None:
    """Six gigabytes are given away by the time that the servers tell of their room, and not a byte more."""

    async def one(client: Client, name: str, replicas: int) -> list[str] | str:
        return await keepers(client, name, replicas, max_bytes=GIGABYTE)

    async with one_each(made) as clients:
        for replicas, number in ((1, 6), (2, 3)):
            names = [f"R{replicas}-{at}" for at in range(number)]
            found = await asyncio.gather(*(one(clients[at % 2], name, replicas) for at, name in enumerate(names)))
            kept = [server for servers_of in found for server in servers_of]
            assert sorted(kept) == ["s0", "s0", "s1", "s1", "s2", "s2"], found
            for again in range(2):
                told = await one(clients[again], "MORE", replicas)
                assert told == "10005 no suitable peers for placement, insufficient storage"
                name = names[-1 - again]
                await patiently(clients[again], f"STREAM.DELETE.{name}")
                assert len(await one(clients[again], name, replicas)) == replicas
            for name in names:
                await patiently(clients[2], f"STREAM.DELETE.{name}")


def test_room_that_was_given_away_a_moment_ago_is_not_given_again(tmp_path: Path) -> None:
    """Whoever is asked, also at once; where the chosen server has no room any more another one is asked."""
    with led(L, tmp_path, ROOMY) as made:
        asyncio.run(made_at_once(made))
