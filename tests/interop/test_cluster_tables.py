"""What people see of a supercluster with nats-server's own tool: each table of it, asked at each server, says the same
of mixed clusters as of nats-servers alone.

Addresses, times, sizes and numbers of connections are left out; who is there, and who is connected with whom, is not.
Needs `nats` on PATH. Not here: what the reports hold (test_report_parity.py).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests import servers
from tests.interop import test_supercluster as of_supercluster
from tests.rig.official import connect, until_known
from tests.rig.reports import report
from tests.rig.waiting import eventually

L, R = servers.LEAFD, servers.REFERENCE
MIXED = [(L, R, L), (R, L, R), (L, L, L)]
SHOWN = {
    "server list": ("Name", "Cluster", "JS", "Conns", "Routes", "GWs"),
    "server report routes": ("Server", "Cluster", "Name", "Account"),
    "server report gateways": ("Server", "Name", "Kind", "Accounts"),
    "server report jetstream": ("Server", "Cluster", "Streams", "Consumers", "Messages", "API Req"),
    "server report health": ("Server", "Cluster", "Domain", "Status", "Error"),
    "server report accounts": ("Account", "Connections", "Subs"),
}
"""By command: the columns that are compared."""
PINGED = "server ping 3"
Table = list[tuple[str, ...]]


@pytest.fixture(scope="module")
def tool() -> str:
    found = shutil.which("nats")
    if found is None:
        pytest.skip("nats is not on PATH: see https://github.com/nats-io/natscli")
    return found


def has_routes(server: servers.Server, number: int) -> bool:
    return len(report(server, "routez")["routes"]) == number


def said(tool: str, home: Path, server: servers.Server, command: str) -> str:
    words = [tool, "-s", f"nats://sys:sys@127.0.0.1:{server.port}", "--timeout", "10s", *command.split()]
    environment = {**os.environ, "HOME": str(home), "NO_COLOR": "1"}
    found = subprocess.run(words, capture_output=True, env=environment, timeout=120, check=False, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def table(text: str, columns: tuple[str, ...]) -> Table:
    """The rows of the first table that has these columns, in an order of their own."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    head = next(number for number, row in enumerate(rows) if set(columns) <= set(row))
    places = [rows[head].index(one) for one in columns]
    return sorted(tuple(row[place] for place in places) for row in rows[head + 1 :] if len(row) == len(rows[head]))


async def known(server: servers.Server) -> None:
    client = await connect(server, "sys")
    await until_known(client)
    await client.close()


def shown(tool: str, kinds: tuple[str, ...], folder: Path) -> dict[tuple[str, int], Table | list[str]]:
    """By command and the number of the server that is asked."""
    folder.mkdir()
    with of_supercluster.started(kinds, folder, clusters="AAB") as found:
        asyncio.run(found.until_met())
        for server in found.servers[:2]:
            eventually(partial(has_routes, server, 4))
        last = found.servers[2]
        eventually(lambda: len(report(last, "gatewayz")["inbound_gateways"].get("A", [])) == 2)
        asyncio.run(known(last))
        tables: dict[tuple[str, int], Table | list[str]] = {}
        for number, server in enumerate(found.servers):
            for command, columns in SHOWN.items():
                tables[command, number] = table(said(tool, folder, server, command), columns)
            text = said(tool, folder, server, PINGED)
            tables[PINGED, number] = sorted(line.split()[0] for line in text.splitlines() if "rtt=" in line)
        return tables


@pytest.fixture(scope="module")
def expected(tool: str, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Table | list[str]]:
    return shown(tool, (R, R, R), tmp_path_factory.mktemp("reference") / "servers")


@pytest.mark.parametrize("kinds", MIXED, ids="-".join)
def test_each_table_is_the_same(
    tool: str, expected: dict[tuple[str, int], Table | list[str]], kinds: tuple[str, ...], tmp_path: Path
) -> None:
    """Two clusters, of two servers and of one, joined by gateways."""
    assert expected[PINGED, 0] == ["s0", "s1", "s2"]
    found = shown(tool, kinds, tmp_path / "servers")
    for key, rows in expected.items():
        assert found[key] == rows, key
