"""The demo with a hub that has outgrown one machine: two clusters of three nats-servers, joined by gateways.

    EWR, JFK --leaf links--> east-1 east-2 east-3 ==gateways== west-1 west-2 west-3 <--leaf link-- LGA

The hub's streams have three replicas in the first cluster, so LGA's rows cross a gateway. While the stations send, the
whole second cluster is killed, then the server that a leaf is linked to, then the one that leads the stream. What does
not live here: the order of things, the checks of the rows (tale.py).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import urllib.request
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .checks import Check, cut_was_felt
from .nodes import HUB_DOMAIN, Hub, Node, free_port
from .observations import STATIONS
from .report import Words
from .story import KILLED_SECONDS, Faults, Watch
from .streams import NO_ANSWER, create_streams, hub_streams, leader_of
from .tale import World, common_options, play, read_options

CLUSTERS = ("east", "west")
SERVERS = 3  # of each cluster
MOVED_STATION, FAR_STATION = "EWR", "LGA"
HOME = {station: CLUSTERS[station == FAR_STATION] for station in STATIONS}  # where each leaf is linked to
SECONDS, SHORT_SECONDS = 40.0, 30.0
SYSTEM = "accounts { SYS: { users: [ { user: sys, password: sys } ] } }\nsystem_account: SYS"  # others need no login
READY_SECONDS = 120.0  # until six servers have found each other and chosen a leader
DARK_SECONDS = 5.0  # without the second cluster


Who = Callable[[], Coroutine[Any, Any, str]]


def servers(directory: Path) -> list[Hub]:
    """The hub's clusters. Each server names all others: nats-server takes the number of addresses for the number of
    servers that have to be there before a leader of JetStream is chosen, and with too few there could be two."""
    ports = {
        cluster: {f"{cluster}-{n}": (free_port(), free_port()) for n in range(1, SERVERS + 1)} for cluster in CLUSTERS
    }
    remotes = ", ".join(
        f"{{ name: {cluster}, urls: {urls('nats', [gateway for _, gateway in ports[cluster].values()])} }}"
        for cluster in CLUSTERS
    )
    hubs = []
    for cluster in CLUSTERS:
        routes = urls("nats-route", [route for route, _ in ports[cluster].values()])
        made = []
        for name, (route, gateway) in ports[cluster].items():
            blocks = [
                SYSTEM,
                f"cluster {{ name: {cluster}, listen: 127.0.0.1:{route}, routes: {routes} }}",
                f"gateway {{ name: {cluster}, listen: 127.0.0.1:{gateway}, gateways: [ {remotes} ] }}",
            ]
            place = directory / name
            made.append(Node(name, "nats-server", place, domain=HUB_DOMAIN, link_port=free_port(), neighbours=blocks))
        hubs.append(Hub(cluster, made))
    return hubs


def urls(scheme: str, ports: list[int]) -> str:
    return "[ " + ", ".join(f'"{scheme}://127.0.0.1:{port}"' for port in ports) + " ]"


@dataclass(frozen=True, slots=True)
class Plan:
    """When which fault begins; fractions of the sending time, moved a little by the seed."""

    cluster_killed: float
    linked_killed: float
    leader_killed: float

    @staticmethod
    def of(seconds: float, seed: int) -> Plan:
        chance = random.Random(seed)
        return Plan(*(seconds * fraction * chance.uniform(0.93, 1.07) for fraction in (0.12, 0.4, 0.6)))


class ServerFaults(Faults):
    """Kills servers by the part that they play at that moment, and notes who played it afterwards."""

    def __init__(self, watch: Watch, say: Callable[[str], None], plan: Plan, world: Supercluster) -> None:
        super().__init__(watch, say)
        self._plan = plan
        self._world = world
        self._servers = {server.name: server for hub in world.hubs for server in hub.servers}
        self._led: list[str] = []  # before the kill, afterwards
        self._linked: list[str] = []

    def work(self) -> list[Coroutine[Any, Any, None]]:
        return [self._one_after_the_other()]

    async def _one_after_the_other(self) -> None:
        """In a row, each when its time has come: two servers of one cluster at a time would be a majority."""
        await self._wait(self._plan.cluster_killed)
        second = self._world.hubs[1]
        await self._kill(second.servers, FAR_STATION, f"cluster {second.name}", asyncio.sleep(DARK_SECONDS))
        await self._wait(self._plan.linked_killed)
        await self._replace(self._linked, self._server_of_leaf, MOVED_STATION, f"had {MOVED_STATION}'s link")
        await self._wait(self._plan.leader_killed)
        await self._replace(self._led, self._leader, "hub", "led the stream")

    async def _replace(self, seen: list[str], who: Who, station: str, part: str) -> None:
        """Kills the server that plays the part. It comes back when another one does: else it could be chosen again."""
        seen.append(await self._until(who, ""))
        victim = self._servers[seen[0]]
        self._say(f"{self._watch.now:5.1f} s  {victim.name} {part}")
        await self._kill([victim], station, victim.name, self._see_next(seen, who, part))

    async def _see_next(self, seen: list[str], who: Who, part: str) -> None:
        seen.append(await self._until(who, seen[0]))
        self._say(f"{self._watch.now:5.1f} s  {seen[-1]} {part} from then on")
        await asyncio.sleep(KILLED_SECONDS)

    async def _until(self, who: Who, before: str) -> str:
        """Somebody who is not the one before. Without an end of its own: the sending has one."""
        found = ""
        while not self._watch.ended and (not found or found == before):
            found = await who()
            await asyncio.sleep(0.1)
        return found

    async def _leader(self) -> str:
        with contextlib.suppress(*NO_ANSWER):
            return await leader_of(self._world.hub_url, "TELEMETRY")
        return ""

    async def _server_of_leaf(self) -> str:
        """The leaf's own report says where its link goes."""
        leaf = self._world.leaves[MOVED_STATION]
        return await asyncio.to_thread(linked_to, leaf.monitoring)

    def felt(self) -> list[Check]:
        led, linked = ", then ".join(self._led), ", then ".join(self._linked)
        return [
            Check("the stream's next leader went on", len(set(self._led)) == 2, led),
            Check(f"{MOVED_STATION}: the leaf went to the next server", len(set(self._linked)) == 2, linked),
            cut_was_felt(self._watch.record, FAR_STATION, *self._watch.pace(FAR_STATION)),
        ]


def linked_to(monitoring: str) -> str:
    """The name of the server at the other end of a leaf's link; nothing while there is none."""
    try:
        with urllib.request.urlopen(f"{monitoring}leafz", timeout=2) as answer:
            return str(next((leaf.get("name", "") for leaf in json.load(answer).get("leafs") or []), ""))
    except (OSError, ValueError):
        return ""


@dataclass(kw_only=True)
class Supercluster(World):
    """Two clusters that are the hub together."""

    plan: Plan

    async def open(self) -> None:
        """Does nothing: there is nothing in between."""

    async def make_hub_streams(self) -> None:
        placed = {"num_replicas": SERVERS, "placement": {"cluster": CLUSTERS[0]}}
        await create_streams(self.hub_url, hub_streams(**placed), READY_SECONDS)

    def linked(self, station: str) -> bool:
        home = next(hub for hub in self.hubs if hub.name == HOME[station])
        return len(home.down) < len(home.servers)

    def faults(self, watch: Watch, say: Callable[[str], None]) -> Faults:
        return ServerFaults(watch, say, self.plan, self)

    def happened(self) -> list[tuple[str, str]]:
        return []

    def close(self) -> None:
        """Does nothing: there is nothing in between."""


def make_world(directory: Path, given: argparse.Namespace) -> World:
    hubs = servers(directory)
    links = {hub.name: [server.link_port for server in hub.servers] for hub in hubs}
    leaves = {
        station: Node(station, "leafd", directory / station, hub_links=links[HOME[station]]) for station in STATIONS
    }
    world = Supercluster(
        directory=directory,
        hubs=hubs,
        leaves=leaves,
        words=Words(
            scene="two clusters of three nats-servers, and three leaves",
            title="leafd demo: a supercluster as the hub",
            about="Three weather stations, each with a leafd of its own. Two clusters of three nats-servers, joined by "
            "gateways, are the hub together: its streams have three replicas in the first cluster, and collect what "
            "the stations measure, while servers are killed.",
            broken="kill -9 of a whole cluster, of a leaf's server, of the stream's leader",
        ),
        spark=given.spark,
        sent_commands=given.commands,
        plan=Plan.of(given.seconds, given.seed),
    )
    world.facts.append(("hub, leaves", "six nats-servers in two clusters, three leafd"))
    return world


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="deploy/supercluster",
        description="Two clusters of three nats-servers, joined by gateways, are the hub of three leafd: real weather "
        "rows go up and commands down while a whole cluster, a leaf's server and the stream's leader are killed, and a "
        "Spark job reads the outcome from the cluster; every row is checked. Exits non-zero if a check fails.",
    )
    common_options(parser, SECONDS, SHORT_SECONDS)
    return read_options(parser, arguments)


def main(arguments: list[str] | None = None) -> int:
    return play(make_world, parse(arguments))


if __name__ == "__main__":
    sys.exit(main())
