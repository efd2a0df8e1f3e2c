"""A leaf below a hub of three servers, over a line that is slow, far and lossy (tests/cell.py): it learns of the
others, and finds the next one when its own goes.

Where this machine lets nobody make namespaces, each test says so and is skipped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from leafd import status

from tests import cell, servers
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link
from tests.interop.test_hub_servers import hub_of
from tests.rig.reports import report
from tests.rig.waiting import eventually

MISSING = cell.missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

SLOW = Link(rate=50_000, delay=1.0, loss=0.05)
PATIENCE_S = 180.0
HUB_TEXT = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
accounts { A { users: [ {user: a, password: a} ] } }
leafnodes {
  listen: "{hub_address}:{leaf_port}"
  authorization { user: a, password: a, account: A, timeout: 60 }
}
cluster { name: C, listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:{first}" ] }
"""
LEAF_TEXT = f"""
listen: "127.0.0.1:{{port}}"
http: "127.0.0.1:{{http_port}}"
server_name: leaf
leafnodes {{ remotes: [ {{ url: "nats-leaf://a:a@{HUB_ADDRESS}:{{hub_port}}" }} ] }}
"""
L, R = servers.LEAFD, servers.REFERENCE


@contextlib.contextmanager
def below(joined: Cell, kinds: tuple[str, ...], folder: Path) -> Iterator[tuple[list[servers.Server], servers.Server]]:
    """The hub's servers, and the leaf that knows the first of them."""
    made: list[servers.Server] = []
    with contextlib.ExitStack() as stack:
        for number, kind in enumerate(kinds):
            own = folder / f"s{number}"
            own.mkdir()
            first = str(made[0].ports["route_port"]) if made else "{route_port}"
            made.append(
                servers.make(kind, HUB_TEXT.replace("{first}", first), own, name=f"s{number}", hub_address=HUB_ADDRESS)
            )
        (folder / "leaf").mkdir()
        leaf = servers.make(L, LEAF_TEXT, folder / "leaf", hub_port=made[0].ports["leaf_port"])
        for place, server in (*((HUB, one) for one in made), (LEAF, leaf)):
            with joined.at(place):
                server.start()
            stack.callback(server.stop)
        yield made, leaf


@pytest.mark.parametrize("kinds", [(R, R, R), (L, L, L)], ids="-".join)
def test_over_a_slow_line_the_next_server_is_found(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """Twice; and where the link is, and where it could go, is shown."""
    with cell.joined(SLOW) as joined, below(joined, kinds, tmp_path) as (hub, leaf):
        places = {f"{HUB_ADDRESS}:{server.ports['leaf_port']}": server for server in hub}
        with joined.at(LEAF):
            eventually(lambda: set(hub_of(leaf)["learned"]) == set(places) - {next(iter(places))}, seconds=PATIENCE_S)
            eventually(lambda: hub_of(leaf)["connected"], seconds=PATIENCE_S)  # which comes after what INFO tells
        left: list[str] = []
        for _ in range(2):
            with joined.at(LEAF):
                left.append(hub_of(leaf)["server"])
                places[left[-1]].kill()
                eventually(
                    lambda: hub_of(leaf)["server"] not in ["", *left],
                    lambda: leaf.log[-3000:],
                    seconds=PATIENCE_S,
                )

        def shown() -> bool:
            (link,) = status.links(report(leaf, "varz"), report(leaf, "leafz"))
            return {link.address} == set(places) - set(left) and next(iter(places)) in link.others

        with joined.at(LEAF):
            eventually(shown, lambda: leaf.log[-3000:], seconds=PATIENCE_S)
