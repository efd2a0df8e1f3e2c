"""A budget on a line that is slow, far and lossy, against what the line has carried: the emulator counts each packet.

Not here: what waits in which order (test_budget.py).
"""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests import cell, servers
from tests.bench.process import Process
from tests.cell import HUB, LEAF, Cell, Link
from tests.interop.test_cell import COPY, HUB_TEXT, LEAF_TEXT
from tests.interop.test_lag import ORIGIN, World

MISSING = cell.missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

LIMIT = 400_000
FAR = Link(rate=100_000, delay=0.5, loss=0.02)


def row(joined: Cell, leaf: Process) -> dict[str, Any]:
    """Of the leaf's link."""
    url = f"http://127.0.0.1:{leaf.server.ports['monitor_port']}/leafz"
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with joined.at(LEAF), urllib.request.urlopen(url, timeout=20) as answer:
            rows = json.load(answer)["leafs"]
        if rows:
            return dict(rows[0]["leafd"])
        time.sleep(0.2)
    raise AssertionError("no link")


def at_the_leaf(joined: Cell) -> int:
    """Bytes of all packets that it has sent, and of those that have come to it."""
    return joined.tried[HUB] + joined.carried[LEAF]


def test_what_is_counted_is_what_the_line_carried_and_a_used_up_budget_makes_no_noise() -> None:
    """Within 5 % of the packets that passed, headers and what was sent again included, though some of it was lost on
    the way; bulk stops; and for a minute after that both ends cost no more than a quiet link does."""
    with (
        cell.joined(FAR) as joined,
        tempfile.TemporaryDirectory(prefix="leafd-budget-") as directory,
    ):
        base = Path(directory)
        (base / "hub").mkdir()
        (base / "leaf").mkdir()
        hub = Process(servers.make(servers.LEAFD, HUB_TEXT, base / "hub"))
        limits = f", compression: off, limits {{ bytes_per_day: {LIMIT} }}"
        with joined.at(HUB):
            hub.start()
        port = hub.server.ports["leaf_port"]
        leaf = Process(servers.make(servers.LEAFD, LEAF_TEXT, base / "leaf", hub_leaf_port=port, all="", one=limits))
        try:
            with joined.at(LEAF):
                leaf.start()
            both = World(joined, hub, leaf)
            both.ask(LEAF, "$JS.API.STREAM.CREATE.T", ORIGIN)
            row(joined, leaf)
            both.publish(4000)
            both.ask(HUB, "$JS.API.STREAM.CREATE.COPY", COPY)
            until = time.monotonic() + 90
            while row(joined, leaf)["budget"]["goes"] == "all" and time.monotonic() < until:
                time.sleep(0.5)
            time.sleep(10)
            told, carried = row(joined, leaf)["budget"], at_the_leaf(joined)
            stored = both.stream(HUB, "COPY")["state"]["messages"]
            assert told["goes"] in ("normal", "high")  # what was under way when bulk stopped may use that part, too
            assert abs(told["day"]["used"] - carried) < 0.05 * carried + 3_000, (told, carried)
            assert 0 < stored < 4000
            time.sleep(60)
            after = at_the_leaf(joined)
            print(
                f"budget: {told['day']['used']} told, {carried} carried, {stored} stored, {after - carried} in a minute"
            )
            assert after - carried < 60 * 200
            assert both.stream(HUB, "COPY")["state"]["messages"] <= stored + 80
            assert row(joined, leaf)["heard"] < 40e9
        finally:
            leaf.server.stop()
            hub.server.stop()
