"""A leaf with streams below a hub of three nats-servers with JetStream: a mirror down, a source up, while servers go.

    hub, domain "hub"      DOWN3 (three replicas), DOWN1 (one)     UP3, which sources UP of the leaf
    leaf, domain "leaf"    mirrors of both, M3 and M1              UP

Messages are published all the time, each until it is acknowledged. At the end each copy has what its origin has, and
each origin what was acknowledged, once. Not here: core messages (test_hub_servers.py).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.js.api import ExternalStream, Placement, StreamConfig, StreamSource

from tests import servers
from tests.interop.test_cluster import Cluster
from tests.interop.test_hub_servers import alive, linked
from tests.rig.official import ask, connect
from tests.rig.reports import report
from tests.rig.waiting import eventually, until

HUB = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
{jetstream}
accounts {
  A { users: [ {user: a, password: a} ], jetstream: enabled }
  SYS { users: [ {user: sys, password: sys} ] }
}
system_account: SYS
leafnodes { listen: "127.0.0.1:{leaf_port}" }
cluster { name: "{cluster}", listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:{first_route}" ] }
{gateway}
"""
JETSTREAM = 'jetstream { store_dir: "{store}", domain: hub, max_memory_store: 64MB, max_file_store: 1GB }'
GATEWAY = """
gateway {{ name: "{}", listen: "127.0.0.1:{{gateway_port}}", gateways: [ {{ name: E, url: "nats://127.0.0.1:{}" }} ] }}
"""
LEAF = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: leaf
jetstream { store_dir: "{store}", domain: leaf, max_file_store: 1GB }
leafnodes { reconnect: 1s, remotes: [ { url: "nats-leaf://a:a@127.0.0.1:{hub}" } ] }
debug: true
"""
L, R = servers.LEAFD, servers.REFERENCE
PATIENCE_S = 180.0


@contextlib.contextmanager
def hub(folder: Path, clusters: str = "EEE", kinds: Sequence[str] = ()) -> Iterator[Cluster]:
    """clusters: the name of each server's, one letter a server. kinds: theirs, if they are not all nats-servers; a
    leafd has no JetStream there."""
    made: list[servers.Server] = []
    with contextlib.ExitStack() as stack:
        for number, name in enumerate(clusters):
            place = folder / f"s{number}"
            place.mkdir()
            first = clusters.index(name)
            route = str(made[first].ports["route_port"]) if first < number else "{route_port}"
            gateway = ""
            if len(set(clusters)) > 1:
                gateway = GATEWAY.format(name, made[0].ports["gateway_port"] if made else "{gateway_port}")
            kind = kinds[number] if kinds else R
            text = HUB.replace("{first_route}", route).replace("{gateway}", gateway)
            text = text.replace("{jetstream}", JETSTREAM if kind == R else "")
            made.append(servers.make(kind, text, place, name=f"s{number}", cluster=name))
        for number, server in enumerate(made):
            if clusters[number] != clusters[0] and not kinds:
                eventually(lambda: has_a_leader(made[0]))
            server.start()
            stack.callback(server.stop)
        yield Cluster(made, folder)


def has_a_leader(server: servers.Server) -> bool:
    """Whether nats-server has founded its group: servers of two clusters that start at once found one each, which are
    one later, and may be none after the next outage."""
    return bool(report(server, "jsz").get("meta_cluster", {}).get("leader"))


@contextlib.contextmanager
def leaf_below(server: servers.Server, folder: Path, kind: str) -> Iterator[servers.Server]:
    place = folder / "leaf"
    place.mkdir()
    leaf = servers.make(kind, LEAF, place, hub=server.ports["leaf_port"])
    leaf.start()
    try:
        yield leaf
    finally:
        leaf.stop()


async def asked(client: Client, subject: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer of the API; {} without one."""
    with contextlib.suppress(nats.errors.Error):
        return await ask(client, subject, body or {}, seconds=5)
    return {}


@dataclass
class Walk:
    """A hub and a leaf with their streams."""

    hub: Cluster
    leaf: servers.Server
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    """By stream: the messages that their publisher knows to be stored."""

    def there(self) -> list[servers.Server]:
        """The hub's servers that serve."""
        return alive(self.hub)

    @contextlib.asynccontextmanager
    async def at_hub(self) -> AsyncIterator[Client]:
        client = await connect(self.there()[0])
        try:
            yield client
        finally:
            await client.close()

    @contextlib.asynccontextmanager
    async def at_leaf(self) -> AsyncIterator[Client]:
        client = await connect(self.leaf, user="", password="")
        try:
            yield client
        finally:
            await client.close()

    async def make_streams(self, places: str = "EE", most: int = 3) -> None:
        """places: the clusters of the streams with many replicas (most), and of that with one."""
        there = Placement(cluster=places[0])
        async with self.at_hub() as client:
            for name, replicas, place in (("DOWN3", most, places[0]), ("DOWN1", 1, places[1])):
                placement = Placement(cluster=place)
                config = StreamConfig(name, subjects=[f"{name}.>"], num_replicas=replicas, placement=placement)
                await self._add(client, config)
        async with self.at_leaf() as client:
            await self._add(client, StreamConfig("UP", subjects=["UP.>"]))
            for name, origin in (("M3", "DOWN3"), ("M1", "DOWN1")):
                mirror = StreamSource(origin, external=ExternalStream("$JS.hub.API"))
                await self._add(client, StreamConfig(name, mirror=mirror))
        async with self.at_hub() as client:
            source = StreamSource("UP", external=ExternalStream("$JS.leaf.API"))
            await self._add(client, StreamConfig("UP3", sources=[source], num_replicas=most, placement=there))

    async def _add(self, client: Client, config: StreamConfig) -> None:
        async def added() -> bool:
            with contextlib.suppress(nats.errors.Error):
                await client.jetstream(timeout=10).add_stream(config)
                return True
            return False

        await until(added, f"{config.name}", seconds=PATIENCE_S)

    async def leader(self, stream: str) -> servers.Server | None:
        """Who leads it; None: nobody, or nobody says."""
        async with self.at_hub() as client:
            found = await asked(client, f"$JS.API.STREAM.INFO.{stream}")
        name = found.get("cluster", {}).get("leader", "")
        return self.hub.servers[int(name[1:])] if name else None

    async def until_led(self, stream: str) -> servers.Server:
        await until(lambda: self.leader(stream), f"nobody leads {stream}", seconds=PATIENCE_S)
        found = await self.leader(stream)
        return found if found is not None else await self.until_led(stream)

    async def publish(self, stream: str, count: int = 100) -> None:
        """At any server that is there, each until it is acknowledged. Its id makes a second attempt harmless."""
        done = self.acknowledged.setdefault(stream, [])
        for _ in range(count):
            text = f"{stream}-{len(done)}"
            async with asyncio.timeout(PATIENCE_S):
                while not await self._published(stream, text):
                    await asyncio.sleep(0.2)
            done.append(text)

    async def _published(self, stream: str, text: str) -> bool:
        client = self._clients.get(stream)
        if client is None or not client.is_connected:
            at = self.leaf if stream == "UP" else self.there()[-1]
            login: dict[str, Any] = {"user": "", "password": ""} if stream == "UP" else {}
            with contextlib.suppress(nats.errors.Error, OSError):
                client = self._clients[stream] = await connect(at, **login)
        with contextlib.suppress(nats.errors.Error, nats.js.errors.Error, OSError):
            if client is not None:
                await client.jetstream().publish(f"{stream}.x", text.encode(), timeout=2, headers={"Nats-Msg-Id": text})
                return True
        return False

    _clients: dict[str, Client] = field(default_factory=dict)

    async def publish_all(self, count: int = 100) -> None:
        async with asyncio.TaskGroup() as group:
            for stream in ("DOWN3", "DOWN1", "UP"):
                group.create_task(self.publish(stream, count))

    async def held(self, client: Client, stream: str) -> list[str]:
        """What a stream has, in its order."""
        answer: dict[str, Any] = {}

        async def told(subject: str, body: dict[str, Any], key: str) -> bool:
            # Over gateways a hub may answer for a moment that there is no such stream.
            nonlocal answer
            answer = await asked(client, subject, body)
            return key in answer

        await until(lambda: told(f"$JS.API.STREAM.INFO.{stream}", {}, "state"), stream, seconds=PATIENCE_S)
        found, state = [], answer["state"]
        for sequence in range(state["first_seq"], state["last_seq"] + 1):
            read = partial(told, f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": sequence}, "message")
            await until(read, lambda: answer, seconds=PATIENCE_S)
            found.append(base64.b64decode(answer["message"]["data"]).decode())
        return found

    async def until_even(self) -> None:
        """Each copy has what was acknowledged to its origin's publisher, once and in order."""

        async def behind() -> str:
            async with self.at_hub() as there, self.at_leaf() as here:
                for client, copy, origin in ((here, "M3", "DOWN3"), (here, "M1", "DOWN1"), (there, "UP3", "UP")):
                    state = (await asked(client, f"$JS.API.STREAM.INFO.{copy}")).get("state", {})
                    if state.get("messages") != len(self.acknowledged[origin]):
                        return f"{copy}: {state} of {len(self.acknowledged[origin])}"
            return ""

        last = ""

        async def even() -> bool:
            nonlocal last
            last = await behind()
            return not last

        await until(even, lambda: f"{last}\n{self.leaf.log[-3000:]}", seconds=PATIENCE_S)
        async with self.at_hub() as there, self.at_leaf() as here:
            assert await self.held(here, "M3") == self.acknowledged["DOWN3"]
            assert await self.held(here, "M1") == self.acknowledged["DOWN1"]
            assert await self.held(there, "UP3") == self.acknowledged["UP"]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


def play(folder: Path, story: Callable[[Walk], Awaitable[None]], clusters: str = "EEE", at: int = 0) -> None:
    """The story, with a leafd that knows the hub's server of that number."""

    async def all_of_it(walk: Walk) -> None:
        await walk.make_streams()
        try:
            await walk.publish_all()
            await walk.until_even()
            await story(walk)
            await walk.publish_all(20)
            await walk.until_even()
        finally:
            await walk.close()

    with hub(folder, clusters) as cluster, leaf_below(cluster.servers[at], folder, L) as leaf:
        asyncio.run(all_of_it(Walk(cluster, leaf)))


def test_a_server_that_a_leaf_is_linked_to_is_killed_and_comes_back(tmp_path: Path) -> None:
    """Twice, while messages go both ways."""

    async def story(walk: Walk) -> None:
        for _ in range(2):
            server = await linked(walk.hub, walk.leaf)
            async with asyncio.TaskGroup() as group:
                group.create_task(walk.publish_all())
                await asyncio.sleep(0.3)
                server.kill()
                assert await linked(walk.hub, walk.leaf) is not server
                server.start()
            await walk.until_even()

    play(tmp_path, story)


@pytest.mark.parametrize("how", ["steps down", "is killed"])
def test_a_streams_leader_goes_and_its_copies_go_on(how: str, tmp_path: Path) -> None:
    """Also where that is no server that the leaf is linked to: then nothing but the stream's own news tells of it."""

    async def story(walk: Walk) -> None:
        for _ in range(2):
            leader = await walk.until_led("DOWN3")
            async with asyncio.TaskGroup() as group:
                group.create_task(walk.publish_all())
                await asyncio.sleep(0.3)
                if how == "is killed":
                    leader.kill()
                    await asyncio.sleep(1)
                    leader.start()
                else:
                    async with walk.at_hub() as client:
                        await asked(client, "$JS.API.STREAM.LEADER.STEPDOWN.DOWN3")
            await walk.until_even()

    play(tmp_path, story)


def test_a_whole_hub_is_killed_and_comes_back(tmp_path: Path) -> None:
    async def story(walk: Walk) -> None:
        for _ in range(2):
            async with asyncio.TaskGroup() as group:
                group.create_task(walk.publish("UP"))
                for server in walk.hub.servers:
                    server.kill()
                await asyncio.sleep(1)
                for server in walk.hub.servers:
                    server.start()
            await walk.publish_all()
            await walk.until_even()

    play(tmp_path, story)


@pytest.mark.parametrize("victim", "EW")
def test_a_whole_cluster_of_a_supercluster_is_killed_and_comes_back(victim: str, tmp_path: Path) -> None:
    """The leaf is linked to W. E has the streams."""

    async def story(walk: Walk) -> None:
        dying = [server for number, server in enumerate(walk.hub.servers) if "EEEWW"[number] == victim]
        async with asyncio.TaskGroup() as group:
            group.create_task(walk.publish("UP"))
            for server in dying:
                server.kill()
            await asyncio.sleep(2)
            for server in dying:
                server.start()
        await walk.publish_all()
        await walk.until_even()

    play(tmp_path, story, "EEEWW", at=3)


async def lone(walk: Walk, client: Client) -> servers.Server:
    """A stream with one replica, at a server that the leaf is not linked to: which one."""
    while True:
        await walk._add(client, StreamConfig("LONE", subjects=["LONE.>"]))
        leader = await walk.until_led("LONE")
        if leader is not await linked(walk.hub, walk.leaf):
            return leader
        assert await asked(client, "$JS.API.STREAM.DELETE.LONE")


async def copied(walk: Walk, leaf: Client) -> bool:
    found = await asked(leaf, "$JS.API.STREAM.INFO.MLONE")
    return bool(found["state"]["messages"] == len(walk.acknowledged["LONE"]))


async def lost(leaf: Client) -> bool:
    return "error" in (await asked(leaf, "$JS.API.STREAM.INFO.MLONE"))["mirror"]


def test_the_copy_of_a_stream_with_one_replica_goes_on_when_its_server_is_back(tmp_path: Path) -> None:
    """While the link to another server lives. That its consumer is gone is told by the hub, not by a minute's
    silence."""

    async def story(walk: Walk) -> None:
        async with walk.at_hub() as client, walk.at_leaf() as leaf:
            leader = await lone(walk, client)
            mirror = StreamSource("LONE", external=ExternalStream("$JS.hub.API"))
            await walk._add(leaf, StreamConfig("MLONE", mirror=mirror))
            await walk.publish("LONE", 20)
            await until(lambda: copied(walk, leaf), lambda: walk.leaf.log[-3000:], seconds=PATIENCE_S)
            leader.kill()
            await until(lambda: lost(leaf), lambda: walk.leaf.log[-3000:], seconds=PATIENCE_S)
            leader.start()
            await walk.publish("LONE", 20)
            await until(lambda: copied(walk, leaf), lambda: walk.leaf.log[-3000:], seconds=PATIENCE_S)
            assert await walk.held(leaf, "MLONE") == walk.acknowledged["LONE"]
        about = [line for line in walk.leaf.log.splitlines() if "<mirror MLONE of LONE" in line]
        assert [line for line in about if "gap at" in line]
        assert not [line for line in about if "silent at" in line]

    play(tmp_path, story)


def test_the_copy_of_a_stream_in_another_cluster_goes_on_when_its_server_is_back(tmp_path: Path) -> None:
    """Nobody tells the leaf that the server is gone, nor that it is back. Heartbeats that are 25 s apart would tell so
    after a minute."""

    async def story(walk: Walk) -> None:
        async with walk.at_hub() as client, walk.at_leaf() as leaf:
            await walk._add(client, StreamConfig("LONE", subjects=["LONE.>"], placement=Placement(cluster="W")))
            mirror = StreamSource("LONE", external=ExternalStream("$JS.hub.API"))
            await walk._add(leaf, StreamConfig("MLONE", mirror=mirror))
            await walk.publish("LONE", 20)
            await until(lambda: copied(walk, leaf), lambda: walk.leaf.log[-3000:], seconds=PATIENCE_S)
            leader = await walk.until_led("LONE")
            leader.kill()
            await asyncio.sleep(5)
            leader.start()
            await walk.publish("LONE", 20)
            begun = time.monotonic()
            await until(lambda: copied(walk, leaf), lambda: walk.leaf.log[-3000:], seconds=PATIENCE_S)
            assert time.monotonic() - begun < 30
            assert await walk.held(leaf, "MLONE") == walk.acknowledged["LONE"]

    play(tmp_path, story, "EEEW")
