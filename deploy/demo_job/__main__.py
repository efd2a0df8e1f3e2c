"""The demo with one hub: its command line, its hub and leaves, what is broken."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .modem import ABOUT, LINES, Modem
from .nodes import HUB_DOMAIN, PROGRAMS, Hub, Link, Node, free_port
from .observations import STATIONS
from .report import Words
from .story import Faults, HubFaults, Plan, Watch
from .streams import create_streams, hub_streams
from .tale import World, common_options, play, read_options

CUT_STATION, KILLED_STATION = "JFK", "LGA"
SECONDS, SHORT_SECONDS = 25.0, 12.0


@dataclass(kw_only=True)
class OneHub(World):
    """A hub of one server, and a link to it that can be cut; perhaps a modem in between."""

    link: Link
    modem: Modem | None
    plan: Plan

    @property
    def hub(self) -> Node:
        return self.hubs[0].servers[0]

    async def open(self) -> None:
        await self.link.join()
        if self.modem is not None:
            for node in self.nodes:
                await self.modem.door(node.port, hub=node is self.hub)
                await self.modem.door(node.monitoring_port, hub=node is self.hub)

    async def make_hub_streams(self) -> None:
        await create_streams(self.hub_url, hub_streams())

    def linked(self, station: str) -> bool:
        return self.link.whole or station != CUT_STATION

    def faults(self, watch: Watch, say: Callable[[str], None]) -> Faults:
        return HubFaults(watch, say, self.plan, (CUT_STATION, self.link), self.leaves[KILLED_STATION], self.hub)

    def happened(self) -> list[tuple[str, str]]:
        if self.modem is None:
            return []
        up, down = self.modem.carried
        return [("on the wire", f"{up / 1e6:.1f} MB up, {down / 1e6:.1f} MB down")]

    def close(self) -> None:
        self.link.cut()
        if self.modem is not None:
            self.modem.close()


def make_world(directory: Path, given: argparse.Namespace) -> World:
    modem = Modem(given.link) if given.link else None
    hub = Node(HUB_DOMAIN, given.hub, directory / "hub", link_port=free_port())
    if modem is None:
        link = Link(hub.link_port)
    else:
        hub.hub_address, hub.enter = modem.address, modem.enter(hub=True)
        link = Link(hub.link_port, modem.address, partial(modem.socket, hub=True))
    leaves = {
        station: Node(
            station,
            given.leaf,
            directory / station,
            hub_links=[link.port if station == CUT_STATION else hub.link_port],
            hub_address=hub.hub_address,
            enter=modem.enter(hub=False) if modem is not None else None,
        )
        for station in STATIONS
    }
    world = OneHub(
        directory=directory,
        hubs=[Hub("hub", [hub])],
        leaves=leaves,
        words=Words(
            scene="a hub and three leaves",
            title=f"leafd demo: hub {given.hub}, leaves {given.leaf}",
            about="Three weather stations, each with a broker of its own, and a hub that collects what they measure, "
            "while a link is cut and brokers are killed.",
            broken="a cut link, kill -9 of a leaf and of the hub",
        ),
        spark=given.spark,
        sent_commands=given.commands,
        link=link,
        modem=modem,
        plan=Plan.of(given.seconds, given.seed),
    )
    world.facts.append(("hub, leaves", f"{given.hub}, {given.leaf}"))
    if given.link:
        world.facts.append(("between them", ABOUT[given.link]))
    return world


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="deploy/demo",
        description="Three leaves and a hub, real weather rows up and commands down, a cut link and two kill -9, "
        "a Spark job over the outcome; every row is checked. Exits non-zero if a check fails.",
    )
    parser.add_argument("--hub", choices=PROGRAMS, default="leafd", help="the program that is the hub (default: leafd)")
    parser.add_argument(
        "--leaf", choices=PROGRAMS, default="leafd", help="the program that is each leaf (default: leafd)"
    )
    parser.add_argument(
        "--link",
        choices=LINES,
        default="",
        help=f"what is between them: cell ({ABOUT['cell']}) or satellite"
        f" ({ABOUT['satellite']}); needs root (default: this machine's loopback)",
    )
    common_options(parser, SECONDS, SHORT_SECONDS)
    return read_options(parser, arguments)


def main(arguments: list[str] | None = None) -> int:
    return play(make_world, parse(arguments))


if __name__ == "__main__":
    sys.exit(main())
