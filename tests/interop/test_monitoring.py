"""packaging/monitoring: the alert rules and the dashboard, judged by Prometheus's own promtool, and against what a
daemon tells at /metrics.

promtool is taken from the path, or out of Debian's package `prometheus`, which is unpacked and not installed: to
install it starts a server on the machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from nats.js.api import StreamConfig, StreamSource
from prometheus_client.parser import text_string_to_metric_families

from tests import servers
from tests.interop import enrolment
from tests.interop.test_metrics import page
from tests.jwts import Key, Operator
from tests.mqtt import PUBACK, Peer
from tests.rig.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packaging" / "monitoring"
RULES = FOLDER / "leafd.rules.yml"
CASES = Path(__file__).with_name("alerts.yml")
KEPT = ROOT / "build" / "promtool"
NOT_OURS = {"up"}
"""Prometheus's own metrics."""
WORDS = {"and", "or", "on", "by", "bool", "sum", "unless", "offset"}
HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
LEAF = """
listen: "127.0.0.1:{{port}}"
http: "127.0.0.1:{{http_port}}"
server_name: box
jetstream {{ store_dir: "{{store}}", domain: box }}
mqtt {{ listen: "127.0.0.1:{{mqtt_port}}" }}
leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{hub}", limits {{ bytes_per_day: 16M }} }} ] }}
"""
OPERATED = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}" }
"""


@pytest.fixture(scope="module")
def promtool() -> Path:
    """Prometheus's tool, which is kept in the build folder once it was fetched."""
    found = shutil.which("promtool")
    if found:
        return Path(found)
    if not KEPT.exists():
        fetch()
    return KEPT


def fetch() -> None:
    """Takes promtool out of Debian's package."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(["apt-get", "-q", "download", "prometheus"], cwd=folder, check=True, timeout=120)
            (package,) = Path(folder).glob("prometheus_*.deb")
            subprocess.run(["dpkg-deb", "--extract", package, folder], check=True, timeout=120)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            pytest.skip(f"promtool is not on the path, and cannot be taken out of Debian's prometheus: {error}")
        KEPT.parent.mkdir(exist_ok=True)
        # Renamed into its place: other runs may look for it, or put theirs there, at the same time.
        new = KEPT.with_suffix(f".{os.getpid()}")
        shutil.copy2(Path(folder) / "usr" / "bin" / "promtool", new)
        new.rename(KEPT)


@pytest.fixture(scope="module")
def box() -> Iterator[servers.Server]:
    """A box with a link that is up, a stream with a consumer, a mirror and a source of it."""
    with (
        servers.running(servers.LEAFD, HUB) as hub,
        servers.running(servers.LEAFD, LEAF.format(hub=hub.ports["leaf_port"])) as box,
    ):
        asyncio.run(filled(box))
        yield box


async def filled(box: servers.Server) -> None:
    client = await nats.connect(box.url)
    stream = client.jetstream()
    await stream.add_stream(name="S", subjects=["s.>"])
    await stream.add_consumer("S", durable_name="C", ack_policy="explicit")
    await stream.add_stream(StreamConfig(name="M", mirror=StreamSource(name="S")))
    await stream.add_stream(StreamConfig(name="X", sources=[StreamSource(name="S")]))
    await client.close()
    await asyncio.to_thread(left_by_a_device, box.ports["mqtt_port"])


def left_by_a_device(port: int) -> None:
    """A session whose client is away, with a message that waits for it."""
    with Peer(port, client="away", clean=False) as peer:
        peer.subscribe(("waits", 1))
        peer.publish("waits", b"x", qos=1)
        peer.expect(PUBACK)


def until_linked(box: servers.Server) -> None:
    """The link is up, and its round-trip time was measured once."""
    eventually(lambda: any(one.get("rtt") for one in json.loads(page(box, "/leafz"))["leafs"]), lambda: box.log)


@pytest.fixture(scope="module")
def tiered() -> Iterator[servers.Server]:
    """A server with an account whose limits are by number of replicas, which only a JWT can say."""
    operator = Operator()
    operator.account("A", tiered_limits={"R1": {"disk_storage": 1000, "mem_storage": 1000}})
    with servers.running(servers.LEAFD, OPERATED + operator.configuration()) as server:
        yield server


@pytest.fixture(scope="module")
def fleet() -> Iterator[servers.Server]:
    """A hub with an enrolled box whose key another machine has, too."""
    key = Key("user")
    with servers.running(servers.LEAFD, enrolment.HUB) as hub:
        login = f"{enrolment.token(hub, 'box-1')}@"
        with servers.running(
            servers.LEAFD, enrolment.BOX, name="box-1", login=login, hub=hub.ports["leaf_port"], seed=key.seed
        ):
            enrolment.within(60, lambda: [one["behind"] for one in enrolment.report(hub)["boxes"]] == [0])
            other = enrolment.Login(hub, key, "box-1", server_id="another")
            assert "two machines have its key" in str(other.answer)
            yield hub
            enrolment.close_all()


GROUP = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "alone"
jetstream { store_dir: "{store}", meta_size: 1 }
cluster { name: C, listen: "127.0.0.1:{route_port}" }
"""


@pytest.fixture(scope="module")
def member() -> Iterator[servers.Server]:
    """A server that is a group of all servers by itself."""
    with servers.running(servers.LEAFD, GROUP) as server:
        eventually(lambda: json.loads(page(server, "/varz"))["leafd"]["group"]["servers"], lambda: server.log)
        yield server


@pytest.fixture(scope="module")
def told(
    box: servers.Server, tiered: servers.Server, fleet: servers.Server, member: servers.Server
) -> dict[str, set[str]]:
    """What /metrics has: the names of all samples, each with its labels."""
    until_linked(box)
    found: dict[str, set[str]] = {}
    for server in (box, tiered, fleet, member):
        for family in text_string_to_metric_families(page(server, "/metrics").decode()):
            for one in family.samples:
                found.setdefault(one.name, set()).update(one.labels)
    return found


def names(expression: str) -> set[str]:
    """The metrics that an expression of PromQL asks for."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]|\b(?:by|on) *\([^)]*\)', " ", expression)
    return set(re.findall(r"\b[a-z_]\w*\b(?! *\()", bare)) - WORDS


def labels(expression: str, text: str) -> set[str]:
    """The labels that an expression asks for, and those that a text about its result names."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    lists = re.findall(r"\b(?:by|on) *\(([^)]*)\)", bare)
    matched = re.findall(r"(\w+) *[=!]=?~?\"\"", bare)
    shown = re.findall(r"\{\{ *(?:\$labels\.)?([a-z]\w*)", text)
    return {one.strip() for part in lists for one in part.split(",")} | set(matched) | set(shown)


def alerts() -> list[tuple[str, str, str]]:
    """Name, expression and what is told of each."""
    found = []
    for block in RULES.read_text().split("- alert: ")[1:]:
        name, _, rest = block.partition("\n")
        expression, _, told = re.sub(r"^ *expr: *(?:>-)?", "", rest).partition(" labels: ")
        found.append((name, re.sub(r"\n *for: .*", "", expression), told))
    assert found
    return found


def queries() -> list[tuple[str, str, str]]:
    """Title, expression and legend of everything that the dashboard shows."""
    board = json.loads((FOLDER / "leafd-dashboard.json").read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    found = [(panel["title"], one["expr"], one["legendFormat"]) for panel in panels for one in panel["targets"]]
    assert found
    return found


def test_alerts_are_sound(promtool: Path) -> None:
    """promtool reads all of them, and finds nothing to complain about."""
    subprocess.run([promtool, "check", "rules", RULES], check=True, timeout=60)


def test_each_fault_makes_its_alert_and_a_sound_box_none(promtool: Path) -> None:
    """As alerts.yml has them, which leaves out none."""
    subprocess.run([promtool, "test", "rules", CASES], check=True, timeout=60)
    assert set(re.findall(r'alertname="(\w+)"', CASES.read_text())) == {name for name, _, _ in alerts()}


def test_each_alert_says_what_is_wrong_and_what_to_do() -> None:
    """In a line for the list, and in a text for who opens it."""
    for name, _, told in alerts():
        assert re.search(r"summary: .*?description: >-\n +\S.{40}", told, re.DOTALL), name


def test_metrics_are_as_prometheus_wants_them(promtool: Path, box: servers.Server) -> None:
    """promtool reads the page, and has nothing against our own names; those of the exporter are the exporter's."""
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page(box, "/metrics"), capture_output=True, timeout=60, check=False
    )
    complaints = (checked.stdout + checked.stderr).decode().splitlines()
    assert [line for line in complaints if not line.startswith(("gnatsd_", "jetstream_"))] == []


@pytest.mark.parametrize("where", ["alerts", "dashboard"])
def test_only_what_is_told_is_asked_for(where: str, told: dict[str, set[str]]) -> None:
    """Every metric and every label of rules and dashboard is there."""
    for title, expression, text in alerts() if where == "alerts" else queries():
        wanted = names(expression) - NOT_OURS
        assert wanted <= told.keys(), title
        has = set().union({"job", "instance"}, *(told[name] for name in wanted))
        # (Of an alert's text also the words of its templates.)
        assert labels(expression, text) - {"humanizeDuration", "humanizePercentage"} <= has, title
