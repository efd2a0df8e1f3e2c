"""Two servers with one name: a cloned box or site, or the same one after a cut that ended no connection.

The machines that refuse and the log's lines are unit/links/test_routes.py's and test_gateways.py's. nats-server refuses
a server of its own name alone; a third one has routes and gateways with both, and their group changes its leader again
and again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.interop import test_placed_streams as placed
from tests.interop.test_cluster import CONFIG
from tests.interop.test_cluster_faults import OneWay, one_way
from tests.rig.reports import report
from tests.rig.waiting import eventually

L, R = servers.LEAFD, servers.REFERENCE
REFUSED = "Duplicate Server Name"


def member(kind: str, place: Path, name: str, first: int, **ports: int) -> servers.Server:
    place.mkdir()
    return servers.make(kind, CONFIG.replace("{first}", str(first)), place, name=name, more="", **ports)


@contextlib.contextmanager
def hub_and_first(kind: str, tmp_path: Path) -> Iterator[tuple[servers.Server, servers.Server, OneWay]]:
    """A leafd, and a server called `box` that dials it by a way that can be closed."""
    port = servers.free_port()
    with contextlib.ExitStack() as stack:
        way = stack.enter_context(one_way(port))
        hub = member(L, tmp_path / "hub", "hub", port, route_port=port)
        first = member(kind, tmp_path / "first", "box", way.port)
        for server in (hub, first):
            server.start()
            stack.callback(server.stop)
        eventually(lambda: len(peers(hub)) == 1)
        yield hub, first, way


def peers(server: servers.Server) -> set[str]:
    """The ids of the servers that it has routes with."""
    return {str(row["remote_id"]) for row in report(server, "routez")["routes"]}


def own_id(server: servers.Server) -> str:
    return str(report(server, "varz")["server_id"])


@pytest.mark.parametrize("kind", [L, R])
def test_a_cloned_server_does_not_take_the_place_of_the_first_one(kind: str, tmp_path: Path) -> None:
    """Its routes are refused for as long as the first one answers, and both it and the other server say why."""
    with hub_and_first(kind, tmp_path) as (hub, first, _):
        clone = member(kind, tmp_path / "clone", "box", hub.ports["route_port"])
        clone.start()
        try:
            eventually(lambda: clone.log.count(REFUSED) >= 3, lambda: clone.log)
            assert peers(hub) == {own_id(first)}
        finally:
            clone.stop()
        assert 'Remote server has a duplicate name: "box"' in hub.log


@pytest.mark.parametrize("kind", [L, R])
def test_a_server_that_comes_back_before_its_old_route_has_ended_is_taken(kind: str, tmp_path: Path) -> None:
    """After a power cut the old connections stay open, with nobody behind them: the hub asks, and does not wait for
    its pings of minutes."""
    with hub_and_first(kind, tmp_path) as (hub, _, way):
        for each in way.ways.values():
            each.clear()
        back = member(kind, tmp_path / "back", "box", hub.ports["route_port"])
        back.start()
        try:
            eventually(lambda: peers(hub) == {own_id(back)}, lambda: hub.log)
        finally:
            back.stop()


def outbound(server: servers.Server) -> dict[str, str]:
    """The ids of the servers that it sends to, by their clusters."""
    found = report(server, "gatewayz")["outbound_gateways"]
    return {cluster: str(one["connection"]["name"]) for cluster, one in found.items()}


def test_a_cloned_site_does_not_take_the_place_of_the_first_one(tmp_path: Path) -> None:
    """Of three clusters of one server each, the third comes a second time, with its name and a disk of its own: its
    gateways are refused, both sides say why, and the first keeps its place and its stream."""
    with placed.started(L, tmp_path) as three:
        east, central, west = three.servers
        made = ("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "placement": {"cluster": "west"}})
        assert "error" not in placed.members(asyncio.run(three.ask([(0, *made)]))[0])
        remotes = ", ".join(
            f'{{ name: "{name}", url: "nats://127.0.0.1:{server.ports["gateway_port"]}" }}'
            for name, server in zip(placed.CLUSTERS, (east, central), strict=False)
        )
        place = tmp_path / "clone"
        place.mkdir()
        text = placed.CONFIG.replace("{gateways}", remotes)
        clone = servers.make(L, text, place, name="n3", cluster="west", meta=placed.META[L])
        clone.start()
        try:
            eventually(lambda: clone.log.count(REFUSED) >= 4, lambda: clone.log)
            for server in (east, central):
                assert 'Remote server has a duplicate name: "n3"' in server.log
            wanted = [own_id(west)] * 2
            eventually(lambda: [outbound(server)["west"] for server in (east, central)] == wanted)
            three.whole()
            (told,) = asyncio.run(three.ask([(0, "STREAM.INFO.S", None)]))
            assert placed.members(told)["config"]["name"] == "S"
        finally:
            clone.stop()
