"""Devices of a box whose hub is behind a cell modem: 50 kbit/s, a second of round trip, packets that get lost.

Where this machine lets nobody make namespaces, each test says so and is skipped. Not here: the line
(tests/cell.py), links of one machine (test_mqtt_links.py).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests import cell, mqtt, servers
from tests.bench.process import Api, Process
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link
from tests.certificates import Authority
from tests.mqtt import LEVELS, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Peer, acknowledge
from tests.rig.waiting import eventually

MISSING = cell.missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

FAR: Final = Link(rate=50_000, delay=0.5, loss=0.02)
SILENT: Final = Link(rate=50_000, delay=0.5, loss=1.0)
PATIENCE_S: Final = 180.0
COUNT: Final = 40
STORM: Final = 700
"""Devices that come at the same moment."""
RETAINED: Final = "$MQTT_rmsgs"
HUB_TEXT: Final = """
server_name: hub
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", domain: hub, max_mem: 64MB, max_file: 256MB }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
leafnodes { listen: "0.0.0.0:{leaf_port}", authorization { timeout: 20 } }
"""
BOX_TEXT: Final = f"""
server_name: box
listen: "127.0.0.1:{{port}}"
http: "127.0.0.1:{{monitor_port}}"
jetstream {{ store_dir: "{{store}}", domain: box, max_mem: 64MB, max_file: 256MB }}
mqtt {{ listen: "127.0.0.1:{{mqtt_port}}" }}
leafnodes {{ remotes: [ {{ url: "nats-leaf://{HUB_ADDRESS}:{{hub_leaf_port}}" }} ] }}
"""


@dataclass
class Place:
    """A server in one of the two places."""

    joined: Cell
    number: int
    process: Process

    def device(self, name: str, level: int = 5, clean: bool = True) -> Peer:
        with self.joined.at(self.number):
            sock = socket.create_connection(("127.0.0.1", self.process.server.ports["mqtt_port"]))
        sock.settimeout(PATIENCE_S)
        return Peer(sock, level=level, client=name, clean=clean, keep_alive=0)

    @contextlib.contextmanager
    def api(self) -> Iterator[Api]:
        with self.joined.at(self.number):
            made = Api(self.process.port)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def places() -> Iterator[tuple[Place, Place]]:
    with apart(servers.LEAFD, FAR) as both:
        yield both


@contextlib.contextmanager
def apart(kind: str, line: Link) -> Iterator[tuple[Place, Place]]:
    """A hub of that kind, and a leafd as the box."""
    with (
        cell.joined(line) as joined,
        tempfile.TemporaryDirectory(prefix="leafd-cell-") as folder,
        contextlib.ExitStack() as ends,
    ):
        found: list[Place] = []
        for number, text in ((HUB, HUB_TEXT), (LEAF, BOX_TEXT)):
            directory = Path(folder) / str(number)
            directory.mkdir()
            ports = {"hub_leaf_port": found[0].process.server.ports["leaf_port"]} if found else {}
            process = Process(servers.make(servers.LEAFD if found else kind, text, directory, **ports))
            with joined.at(number):
                process.start()
            ends.callback(process.server.stop)
            found.append(Place(joined, number, process))
        yield found[HUB], found[LEAF]


def until_held(api: Api, stream: str, count: int) -> None:
    eventually(lambda: api.messages_in(stream) >= count, lambda: api.messages_in(stream), seconds=PATIENCE_S)
    assert api.messages_in(stream) == count


def test_what_is_acknowledged_to_a_device_comes_to_the_hub_once_and_in_order(places: tuple[Place, Place]) -> None:
    """With QoS 1 and 2, while nothing passes; and a command of the hub, which its
    stream acknowledged, reaches the device by the box's mirror."""
    hub, box = places
    source = {"name": "TELE", "external": {"api": "$JS.box.API"}}
    mirror = {"name": "CMD", "external": {"api": "$JS.hub.API"}}
    with box.api() as at_box, hub.api() as at_hub, box.device("meter") as meter:
        meter.socket.settimeout(PATIENCE_S)
        meter.subscribe(("do/#", 1))
        at_hub.must("$JS.API.STREAM.CREATE.CMD", {"name": "CMD", "subjects": ["cmd.>"]})
        at_box.must("$JS.API.STREAM.CREATE.TELE", {"name": "TELE", "subjects": ["tele.>"]})
        at_box.must(
            "$JS.API.STREAM.CREATE.COPY",
            {"name": "COPY", "mirror": mirror, "republish": {"src": "cmd.>", "dest": "do.>"}},
        )
        at_hub.must("$JS.API.STREAM.CREATE.ALL", {"name": "ALL", "sources": [source]})
        meter.publish("tele/meter", b"first", qos=1)
        assert meter.expect(PUBACK).id == 2
        until_held(at_hub, "ALL", 1)
        hub.joined.change(SILENT)
        for number in range(COUNT):
            id = meter.publish("tele/meter", b"%03d" % number + b"x" * 200, qos=1 + number % 2)
            if number % 2:
                assert meter.expect(PUBREC).id == id
                meter.send(acknowledge(PUBREL, id))
            assert meter.expect(PUBCOMP if number % 2 else PUBACK).id == id
        at_hub.must("cmd.open", {"valve": 1})
        hub.joined.change(FAR)
        until_held(at_hub, "ALL", 1 + COUNT)
        command = meter.expect(PUBLISH)
        assert ("do/open", b'{"valve": 1}') == (command.topic, command.payload)
        assert [] == [one for one in meter.round_trip() if one.kind == PUBLISH]
        got = [at_hub.must("$JS.API.STREAM.MSG.GET.ALL", {"seq": one + 2})["message"] for one in range(COUNT)]
        assert ["tele.meter"] * COUNT == [one["subject"] for one in got]
        assert list(range(COUNT)) == [int(base64.b64decode(one["data"])[:3]) for one in got]


@pytest.mark.parametrize("kind", servers.KINDS)
def test_commands_and_states_of_the_hub_come_to_devices_that_are_away_over_a_line_that_was_cut(kind: str) -> None:
    """What the hub's stream acknowledged while nothing passes, and the box dies meanwhile: the device finds each
    command once and in order when it comes, with QoS 1. What was retained at the hub, which the box sources, is there
    for a new subscription, as it was last."""
    line = Link(rate=50_000, delay=1.0, loss=0.05)
    with apart(kind, line) as (hub, box), hub.api() as at_hub:
        with box.device("valve", level=4, clean=False) as valve, hub.device("panel", level=4) as panel:
            valve.subscribe(("do/#", 1))
            panel.round_trip()
        at_hub.must("$JS.API.STREAM.CREATE.CMD", {"name": "CMD", "subjects": ["cmd.>"]})
        with box.api() as at_box:
            external = {"api": "$JS.hub.API"}
            until_linked(at_box)
            republish = {"src": "cmd.>", "dest": "do.>"}
            copy = {"name": "COPY", "mirror": {"name": "CMD", "external": external}, "republish": republish}
            at_box.must("$JS.API.STREAM.CREATE.COPY", copy)
            config = at_box.must(f"$JS.API.STREAM.INFO.{RETAINED}", None)["config"]
            source = {"name": RETAINED, "filter_subject": "$MQTT.rmsgs.want.>", "external": external}
            at_box.must(f"$JS.API.STREAM.UPDATE.{RETAINED}", {**config, "sources": [source]})
            for number in range(10):
                at_hub.must("cmd.valve", {"step": number})
            want(hub, b"old", b"far")
            until_held(at_box, "COPY", 10)
            until_held(at_box, RETAINED, 2)
        hub.joined.change(SILENT)
        for number in range(10, 20):
            at_hub.must("cmd.valve", {"step": number})
        want(hub, b"new", b"")
        box.process.server.kill()
        with box.joined.at(box.number):
            box.process.start()
        with box.device("valve", level=4, clean=False) as valve:
            assert [b'{"step": %d}' % number for number in range(10)] == commands(valve, 10)
        hub.joined.change(line)
        with box.api() as at_box:
            until_held(at_box, "COPY", 20)
            outcomes = [{"want/open": b"new"}]
            if kind != servers.LEAFD:  # it removes the message, of which who was away may not hear
                outcomes.append({"want/open": b"new", "want/close": b"far"})
            eventually(lambda: states(box) in outcomes, lambda: states(box), seconds=PATIENCE_S)
        with box.device("valve", level=4, clean=False) as valve:
            assert [b'{"step": %d}' % number for number in range(10, 20)] == commands(valve, 10)
            assert [] == valve.round_trip()


def want(hub: Place, *payloads: bytes) -> None:
    """Retained at the hub, a topic each, and acknowledged."""
    with hub.device("panel", level=4) as panel:
        for topic, payload in zip(("want/open", "want/close"), payloads, strict=True):
            panel.publish(topic, payload, qos=1, retain=True)
            panel.expect(PUBACK)


def commands(valve: Peer, count: int) -> list[bytes]:
    """So many, acknowledged."""
    found = []
    for _ in range(count):
        one = valve.expect(PUBLISH)
        assert (one.topic, one.qos) == ("do/valve", 1)
        valve.send(acknowledge(PUBACK, one.id))
        found.append(one.payload)
    valve.round_trip()
    return found


def states(box: Place) -> dict[str, bytes]:
    """What is retained, for a device that is new."""
    with box.device("shows", level=4) as shows:
        shows.subscribe(("want/#", 1))
        time.sleep(0.3)
        return {one.topic: one.payload for one in shows.round_trip() if one.kind == PUBLISH}


def until_linked(at_box: Api) -> None:
    eventually(lambda: "error" not in at_box.request("$JS.hub.API.INFO"), seconds=PATIENCE_S)


@contextlib.contextmanager
def secured(line: Link, folder: Path, more: str = "") -> Iterator[tuple[Cell, int, ssl.SSLContext]]:
    """A hub with TLS behind that line: its MQTT port, and what trusts it."""
    own = (authority := Authority(folder)).issue("hub")
    text = f"""
server_name: hub
listen: "127.0.0.1:{{port}}"
http: "127.0.0.1:{{monitor_port}}"
jetstream {{ store_dir: "{{store}}" }}
mqtt {{ listen: "0.0.0.0:{{mqtt_port}}", tls {{ cert_file: "{own.certificate}", key_file: "{own.key}" }} }}
{more}
"""
    with cell.joined(line) as joined:
        (folder / "hub").mkdir()
        process = Process(servers.make(servers.LEAFD, text, folder / "hub"))
        with joined.at(HUB):
            process.start()
        try:
            trusting = ssl.create_default_context(cafile=str(authority.certificate))
            yield joined, process.server.ports["mqtt_port"], trusting
        finally:
            process.server.stop()


@pytest.mark.parametrize("level", LEVELS)
def test_a_device_far_away_has_the_time_to_log_in(level: int, tmp_path: Path) -> None:
    """Its TLS handshake takes three round trips of 2 s, and its CONNECT is lost twice. With nats-server each of the two
    has 2 s."""
    line = Link(rate=50_000, delay=1.0)
    with secured(line, tmp_path) as (joined, port, trusting):
        with joined.at(LEAF):
            raw = socket.create_connection((HUB_ADDRESS, port))
        raw.settimeout(PATIENCE_S)
        sock = trusting.wrap_socket(raw, server_hostname="localhost")
        sock.settimeout(PATIENCE_S)
        joined.change(SILENT)
        timer = threading.Timer(4.0, joined.change, (line,))
        timer.start()
        with Peer(sock, level=level, client="far") as peer:
            peer.publish("tele/far", b"x", qos=1)
            peer.expect(PUBACK)
        timer.join()


def test_more_devices_far_away_than_may_shake_hands_at_once_all_log_in(tmp_path: Path) -> None:
    """They come at the same moment, 2 s of round trip away, to a server with 512 seats for handshakes: those who stand
    in line put nobody out whose answer may be under way, and none of them is closed."""

    async def log_in(number: int, port: int, trusting: ssl.SSLContext) -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(
            HUB_ADDRESS, port, ssl=trusting, server_hostname="localhost", ssl_handshake_timeout=PATIENCE_S
        )
        writer.write(mqtt.connect(4, f"far{number}"))
        assert 0 == (await reader.readexactly(4))[3]
        return writer

    async def storm(port: int, trusting: ssl.SSLContext) -> None:
        for writer in await asyncio.gather(*(log_in(number, port, trusting) for number in range(STORM))):
            writer.transport.abort()

    line = Link(delay=1.0, queue=STORM << 16)
    with secured(line, tmp_path, "memory_limit: 64MB") as (joined, port, trusting), joined.at(LEAF):
        asyncio.run(storm(port, trusting))
