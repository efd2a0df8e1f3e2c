"""The servers of a cluster and the other clusters, as the status page, `leafd status`, its JSON and /metrics show them:
those that are there, and a cluster that nobody answers for.

Not here: what nats-server's own reports have of them (test_cluster.py, test_supercluster.py).
"""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

from leafd.status import Server, servers as shown

from tests import servers
from tests.interop import test_supercluster as of_supercluster
from tests.rig.reports import page, report
from tests.rig.waiting import PATIENCE_S, eventually

L, R = servers.LEAFD, servers.REFERENCE


def told(server: servers.Server, *words: str) -> tuple[int, str]:
    """What `leafd status` says, and its exit status."""
    at = f"127.0.0.1:{server.ports['http_port']}"
    done = servers.leafd("status", "--url", at, *words)
    return done.returncode, done.stdout + done.stderr


def on_page(server: servers.Server) -> list[dict[str, Any]]:
    """What a browser is told first."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/events", timeout=PATIENCE_S) as feed:
        line = next(line for line in feed if line.startswith(b"data:"))
    found: list[dict[str, Any]] = json.loads(line.removeprefix(b"data:"))["servers"]
    return found


def rows(server: servers.Server) -> list[Server]:
    return list(shown(report(server, "varz")))


def test_a_cluster_and_another_one_that_goes_are_shown_everywhere(tmp_path: Path) -> None:
    """A route to one server by its name, a gateway by its cluster's; when that is gone, it is not shown any more."""
    with of_supercluster.started((L, R, R), tmp_path, clusters="AAB") as found:
        asyncio.run(found.until_met())
        first, second, other = found.servers
        whole = Server("A", "s1", True, 4)  # the pool, and the system account's connection
        eventually(lambda: rows(first)[:1] == [whole] and [one.cluster for one in rows(first)] == ["A", "B"])
        assert all(one.up for one in rows(first))
        assert rows(first)[1].connections in (1, 2)  # the other one's goes to either server of this cluster
        assert re.search(r"A +s1 +up +4\n *B +- +up +[12]\n", told(first)[1])
        metrics = page(first, "metrics").decode().replace(".0\n", "\n")
        assert 'leafd_server_up{cluster="A",server="s1"} 1' in metrics
        assert 'leafd_server_connections{cluster="A",server="s1"} 4' in metrics
        assert 'leafd_server_up{cluster="B",server=""} 1' in metrics
        assert [(one["cluster"], one["name"], one["up"]) for one in on_page(first)] == [
            ("A", "s1", True),
            ("B", "", True),
        ]
        assert not [text for text in json.loads(told(first, "--json")[1])["problems"] if "cluster" in text]

        ours, theirs = (report(one, "varz") for one in (first, second))
        assert ours["connect_urls"] == [f"127.0.0.1:{one.port}" for one in (first, second)]
        assert set(ours["connect_urls"]) == set(theirs["connect_urls"])
        assert [one["name"] for one in ours["gateway"]["gateways"]] == ["A"]  # as in the file, where it is itself
        assert [one["name"] for one in theirs["gateway"]["gateways"]] == ["A"]

        other.kill()  # it is not in the first one's file, so nobody misses it
        eventually(lambda: [one.name for one in rows(first)] == ["s1"])


def test_a_cluster_that_nobody_answers_for_is_a_problem(tmp_path: Path) -> None:
    """By its name, in the exit status, too."""
    text = of_supercluster.CONFIG.replace("{routes}", "")
    remote = of_supercluster.remote("FAR", servers.free_port())
    with servers.running(L, text.replace("{gateways}", remote), name="s0", cluster="A", more="") as server:
        assert rows(server) == [Server("FAR", "", False, 0)]
        code, said = told(server, "--json")
        found: dict[str, Any] = json.loads(said)
        assert code != 0
        assert "cluster FAR is not reached: none of its servers answers here" in found["problems"]
        assert 'leafd_server_up{cluster="FAR",server=""} 0' in page(server, "metrics").decode().replace(".0\n", "\n")
