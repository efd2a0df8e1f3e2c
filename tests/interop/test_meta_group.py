"""The group of all servers of a cluster with JetStream: founded, led, and whole again after kills, as nats-server's.

A cluster of three nats-servers walks the same way, which proves the test. Not here: groups without a daemon
(tests/native/test_groups.c), founding as a machine (tests/unit/cluster).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.rig.official import ask, one_each
from tests.rig.reports import report
from tests.rig.waiting import eventually, logged

CONFIG = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
accounts {
  A { users: [ {user: a, password: a} ], jetstream: enabled }
  SYS { users: [ {user: sys, password: sys} ] }
}
system_account: SYS
jetstream { store_dir: "{store}", {meta} }
cluster {
  name: C
  listen: "127.0.0.1:{route_port}"
  routes: [ "nats-route://127.0.0.1:{first}" ]
}
"""
L, R = servers.LEAFD, servers.REFERENCE
META = {L: "meta_size: 3", R: "max_file: 1GB"}


def ended(server: servers.Server) -> None:
    if server.process is not None:
        server.stop()


@contextlib.contextmanager
def three(kind: str, folder: Path, config: str = CONFIG) -> Iterator[list[servers.Server]]:
    """Three servers that are not started yet."""
    made: list[servers.Server] = []
    with contextlib.ExitStack() as stack:
        for number in range(3):
            place = folder / f"s{number}"
            place.mkdir()
            first = made[0].ports["route_port"] if made else "{route_port}"
            text = config.replace("{first}", str(first))
            made.append(servers.make(kind, text, place, name=f"s{number}", meta=META[kind]))
        for server in made:
            stack.callback(ended, server)
        yield made


@contextlib.contextmanager
def led(kind: str, folder: Path, config: str = CONFIG) -> Iterator[list[servers.Server]]:
    """Three servers of that kind, in a folder of theirs, that are up and have a leader."""
    place = folder / kind
    place.mkdir()
    with three(kind, place, config) as made:
        for server in made:
            server.start()
        leader_of(made)
        yield made


def group_at(server: servers.Server) -> dict[str, Any]:
    """What a server says of the group."""
    found: dict[str, Any] = report(server, "jsz").get("meta_cluster", {})
    return found


def leader_of(up: list[servers.Server], *, but: str = "") -> str:
    """The leader that all of them name, once they do."""

    def agreed() -> str:
        named = {group_at(server).get("leader", "") for server in up}
        return next(iter(named)) if len(named) == 1 and named != {but} else ""

    return eventually(agreed, lambda: [group_at(server) for server in up])


def others_at(leader: servers.Server) -> dict[str, dict[str, Any]]:
    """The other members, by name, as the leader shows them."""
    return {row["name"]: row for row in group_at(leader).get("replicas", [])}


def are_current(leader: servers.Server, names: set[str]) -> bool:
    """Are the others these, and do they have all that the leader has?"""
    rows = others_at(leader)
    return set(rows) == names and all(row["current"] and not row.get("offline") for row in rows.values())


def walk(made: list[servers.Server]) -> dict[str, Any]:
    """Three servers found their group, the leader is killed and comes back. Returns what the last leader said."""
    names = {f"s{number}": server for number, server in enumerate(made)}
    for server in made:
        server.start()
    first = leader_of(made)
    eventually(lambda: are_current(names[first], names.keys() - {first}), lambda: group_at(names[first]))
    names[first].kill()
    up = [server for name, server in names.items() if name != first]
    second = leader_of(up, but=first)
    assert second != first
    eventually(lambda: not others_at(names[second])[first]["current"], lambda: group_at(names[second]))
    names[first].start()
    assert leader_of(made) == second
    eventually(lambda: are_current(names[second], names.keys() - {second}), lambda: group_at(names[second]))
    return group_at(names[second])


@pytest.mark.parametrize("kind", [R, L])
def test_a_killed_leader_is_replaced_and_comes_back_as_a_follower(kind: str, tmp_path: Path) -> None:
    """Members, their number and who leads are told in the reference's fields."""
    with three(kind, tmp_path) as made:
        said = walk(made)
        assert said["name"] == "C"
        assert said["cluster_size"] == 3
        assert said.keys() >= {"leader", "peer", "replicas"}
        assert all(row.keys() >= {"name", "current", "active", "peer"} for row in said["replicas"])
        if kind == R:
            return
        # The ids of servers are the reference's: of their names.
        wiped_disk(made, said)
        missed(made)
        rescued(made)


def wiped_disk(made: list[servers.Server], said: dict[str, Any]) -> None:
    """A server whose disk was wiped is another member; it says so, and is let in again in the old one's place."""
    leader = next(server for number, server in enumerate(made) if f"s{number}" == said["leader"])
    wiped = next(server for server in made if server is not leader)
    wiped.stop()
    shutil.rmtree(wiped.directory / "store")
    seen = len(wiped.log)
    wiped.start()
    logged(wiped, "without this server's disk", seen)
    names = {f"s{number}" for number in range(3)}
    eventually(lambda: are_current(leader, names - {said["leader"]}), lambda: group_at(leader))
    # It is a learner at first, which is not counted.
    eventually(lambda: group_at(leader)["cluster_size"] == 3, lambda: group_at(leader))


def missed(made: list[servers.Server]) -> None:
    """Who is there says who is away, and when there are too few, by varz, `leafd status` and the doctor."""
    stays, goes, last = made
    until_all_vote(stays)
    goes.kill()
    eventually(lambda: away_at(stays) == {"s1"}, lambda: away_at(stays))
    leader_of([stays, last], but="s1")
    assert "has no leader" not in told_by(stays, "status")
    last.kill()
    eventually(lambda: away_at(stays) == {"s1", "s2"}, lambda: away_at(stays))
    eventually(lambda: not group_at(stays).get("leader"), lambda: group_at(stays))
    for command in ("status", "doctor"):
        said = " ".join(told_by(stays, command).split())
        assert "1 are there, 2 are needed" in said
        assert "start s1, s2" in said


def rescued(made: list[servers.Server]) -> None:
    """Of three whose majority is lost one goes on alone, with the streams that it knows; those that come back with
    their old disks, which are a majority of the old group, are let in again."""
    stays, *others = made
    before = group_at(stays)["cluster_size"]
    refused = servers.leafd("cluster", "rescue", "--store", str(stays.directory / "store"), "--yes")
    assert "has this store open: its group is not rescued" in refused.stderr
    stays.stop()
    asked = servers.leafd("cluster", "rescue", "--store", str(stays.directory / "store"), "--yes")
    assert asked.returncode == 0, asked.stderr
    stays.start()
    assert leader_of([stays]) == "s0"
    assert (before, group_at(stays)["cluster_size"]) == (3, 1)
    assert asyncio.run(made_stream(stays, "ALONE"))["config"]["name"] == "ALONE"
    for server in others:
        server.start()
    until_all_vote(stays)
    assert leader_of(made) == "s0"
    assert asyncio.run(made_stream(others[0], "LATER"))["config"]["name"] == "LATER"
    names = [asyncio.run(asked_of(one, "STREAM.NAMES", b""))["streams"] for one in made]
    assert names == [["ALONE", "LATER"]] * 3
    stays.kill()
    assert leader_of(others, but="s0")


async def asked_of(server: servers.Server, what: str, body: bytes) -> dict[str, Any]:
    async with one_each([server]) as (client,):
        return await ask(client, f"$JS.API.{what}", body)


async def made_stream(server: servers.Server, name: str) -> dict[str, Any]:
    body = json.dumps({"name": name, "subjects": [name]}).encode()
    return await asked_of(server, f"STREAM.CREATE.{name}", body)


def members_at(server: servers.Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report(server, "varz")["leafd"]["group"]["servers"]
    return found


def until_all_vote(server: servers.Server) -> None:
    """All three are members; one that is let in becomes one when it has the table."""
    eventually(lambda: [row["voter"] for row in members_at(server)] == [True] * 3, lambda: members_at(server))


def away_at(server: servers.Server) -> set[str]:
    return {row["name"] for row in members_at(server) if row["away"] is not None}


def told_by(server: servers.Server, command: str) -> str:
    done = servers.leafd(command, "--url", f"127.0.0.1:{server.ports['http_port']}", "--json")
    return done.stdout + done.stderr


def test_one_server_founds_nothing_and_says_who_is_missing(tmp_path: Path) -> None:
    """Without the servers that are expected there is no group, no leader and no stream."""

    with three(L, tmp_path) as made:
        made[0].start()
        with pytest.raises(urllib.error.HTTPError) as unwell:
            report(made[0], "healthz")
        assert "2 of 3 servers are missing to found the group" in json.loads(unwell.value.read())["error"]
        assert "leader" not in group_at(made[0])
        error = asyncio.run(made_stream(made[0], "S"))["error"]
        assert (error["code"], error["err_code"]) == (503, 10008)


@pytest.mark.parametrize("links", ["routes", "gateways"])
def test_a_server_without_jetstream_is_named(links: str, tmp_path: Path) -> None:
    """Routes or gateways name three servers, and one of them is to have no streams."""
    lone = 'cluster { name: "NAME", listen: "127.0.0.1:{route_port}", routes: [ "nats://127.0.0.1:{route_port}" ] }\n'
    gateway = 'gateway { name: "NAME", listen: "127.0.0.1:{gateway_port}", gateways: [ OTHERS ] }\n'
    apart = CONFIG[: CONFIG.index("cluster {")] + lone + gateway
    with contextlib.ExitStack() as stack:
        made: list[servers.Server] = []
        for number in range(3):
            place = tmp_path / f"s{number}"
            place.mkdir()
            text = CONFIG.replace('"nats-route://127.0.0.1:{first}"', "OTHERS") if links == "routes" else apart
            made.append(
                servers.make(L, text.replace("NAME", f"c{number}"), place, name=f"s{number}", meta="enabled: true")
            )
            stack.callback(ended, made[-1])
        if links == "routes":
            others = ", ".join(f'"nats-route://127.0.0.1:{one.ports["route_port"]}"' for one in made)
        else:
            ports = [one.ports["gateway_port"] for one in made]
            others = ", ".join(f'{{name: c{at}, url: "nats://127.0.0.1:{port}"}}' for at, port in enumerate(ports))
        for server in made:
            server.configuration = server.configuration.replace("OTHERS", others)
        lines = made[2].configuration.split("\n")
        made[2].configuration = "\n".join(line for line in lines if not line.startswith("jetstream {"))
        for server in made:
            server.start()

        def idle() -> list[str]:
            found: list[str] = report(made[0], "varz")["leafd"]["group"].get("idle", [])
            return found

        eventually(lambda: idle() == ["s2"] and report(made[0], "varz")["leafd"]["group"]["missing"] == 1, idle)
        with pytest.raises(urllib.error.HTTPError) as unwell:
            report(made[0], "healthz")
        why = '1 of 3 servers are missing to found the group; without JetStream "s2": meta_size is how many have it'
        assert why in json.loads(unwell.value.read())["error"]
        assert "without JetStream s2" in told_by(made[0], "doctor")
        for server in made[:2]:
            server.stop()
            server.configuration = server.configuration.replace("enabled: true", "meta_size: 2")
            server.start()
        assert leader_of(made[:2]) in ("s0", "s1")
        assert asyncio.run(made_stream(made[2], "S"))["config"]["name"] == "S"  # its clients use that of the others
