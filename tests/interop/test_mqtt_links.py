"""MQTT over leaf links: what devices of a box say and hear when their hub is behind a link, with leafd and nats-server
at either end.

    device -- box (domain box) -- wire -- hub (domain hub) -- device

Not here: links as such (test_leaf.py), a line of a modem (test_mqtt_cell.py), one server's MQTT
(test_mqtt.py, test_mqtt_five.py).
"""

from __future__ import annotations

import base64
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests import mqtt, narrow, servers
from tests.interop.mqtt_walks import Nats, client
from tests.mqtt import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet, Peer, acknowledge
from tests.rig.waiting import eventually

HUB: Final = """
listen: "127.0.0.1:{port}"
server_name: hub
jetstream { store_dir: "{store}", domain: hub, max_memory_store: 64MB, max_file_store: 1GB }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
BOX: Final = """
listen: "127.0.0.1:{port}"
server_name: box
jetstream { store_dir: "{store}", domain: box, max_memory_store: 64MB, max_file_store: 1GB }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
leafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:{wire}" } ], reconnect: 1 }
"""
PATIENCE_S: Final = 120.0
"""nats-server takes up a source or a mirror 40 s after some outages."""
LINE_UPS: Final = [
    (servers.LEAFD, servers.LEAFD), (servers.LEAFD, servers.REFERENCE), (servers.REFERENCE, servers.LEAFD),
]  # fmt: skip
READY: Final = b"ready"


@dataclass
class Pair:
    """A hub and a box that dials it through a wire."""

    hub: servers.Server
    box: servers.Server
    wire: narrow.Narrow

    @property
    def ours(self) -> bool:
        return self.hub.kind == self.box.kind == servers.LEAFD


@pytest.fixture(scope="module", params=LINE_UPS, ids=lambda kinds: f"hub {kinds[0]}, box {kinds[1]}")
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with tempfile.TemporaryDirectory(prefix="leafd-test-") as folder, contextlib.ExitStack() as stack:
        for name in ("hub", "box"):
            (Path(folder) / name).mkdir()
        hub = servers.make(request.param[0], HUB, Path(folder) / "hub")
        hub.start()
        stack.callback(hub.stop)
        wire = stack.enter_context(narrow.wire_to(hub.ports["leaf_port"]))
        box = servers.make(request.param[1], BOX, Path(folder) / "box", wire=wire.port)
        box.start()
        stack.callback(box.stop)
        yield Pair(hub, box, wire)


def until_heard(say: Callable[[], object], peer: Peer | Nats) -> None:
    """Says it until it is heard at the other end: the interest has to get there first."""

    def heard() -> object:
        say()
        if isinstance(peer, Peer):
            return [one for one in peer.round_trip() if one.kind == PUBLISH]
        return [line for line in peer.round_trip() if "MSG " in line]

    eventually(heard)


def messages(peer: Peer, count: int) -> list[Packet]:
    """The next ones that are not READY."""
    found: list[Packet] = []
    while len(found) < count:
        one = peer.expect(PUBLISH)
        if one.qos == 1:
            peer.send(acknowledge(PUBACK, one.id))
        if one.payload != READY:
            found.append(one)
    return found


def until_ready(peer: Peer) -> None:
    """The last message is READY, and nothing else was before it."""
    while (one := peer.expect(PUBLISH)).topic.rpartition("/")[2] != "end":
        assert READY == one.payload
    time.sleep(0.3)  # what a nats-server stores goes another way


def heard_by(nats: Nats) -> tuple[str, str, bytes, bytes]:
    """The next message that is not READY."""
    while (one := nats.message())[3] == READY:
        pass
    return one[:4]


def published(peer: Peer, topic: str, payload: bytes, qos: int, **more: Any) -> None:
    """Until the server has all that it wants of it."""
    number = peer.publish(topic, payload, qos=qos, **more)
    if qos == 1:
        peer.expect(PUBACK)
    if qos == 2:
        peer.expect(PUBREC)
        peer.send(acknowledge(PUBREL, number))
        peer.expect(PUBCOMP)


def api(server: servers.Server, subject: str, **body: Any) -> dict[str, Any]:
    """A request of JetStream's API, until it is not refused."""

    def answered() -> dict[str, Any]:
        with Nats(server) as nats:
            answer = nats.request(subject, **body)
        return {} if "error" in answer else answer

    return eventually(answered, seconds=PATIENCE_S)


def held(server: servers.Server, stream: str) -> int:
    return int(api(server, f"$JS.API.STREAM.INFO.{stream}")["state"]["messages"])


def stored(server: servers.Server, stream: str, sequence: int) -> tuple[str, bytes, bytes]:
    """Subject, headers and payload of a message."""
    found = api(server, f"$JS.API.STREAM.MSG.GET.{stream}", seq=sequence)["message"]
    header, data = (base64.b64decode(found.get(name, "")) for name in ("hdrs", "data"))
    return found["subject"], header, data


@pytest.mark.parametrize("upward", [True, False], ids=["up", "down"])
def test_a_message_of_a_device_is_heard_at_the_other_end(pair: Pair, upward: bool) -> None:
    """By a NATS client and by a device with a filter, once each, with every quality of service and in order."""
    here, there = (pair.box, pair.hub) if upward else (pair.hub, pair.box)
    with client(here, "says") as peer, client(there, "hears") as other, Nats(there) as nats:
        other.subscribe("core/+/x")
        nats.subscribe("core.*.x")
        until_heard(lambda: peer.publish("core/0/x", READY), other)
        until_heard(lambda: peer.publish("core/0/x", READY), nats)
        for qos in (0, 1, 2):
            published(peer, f"core/{qos}/x", b"%d" % qos, qos)
        assert [(f"core/{qos}/x", b"%d" % qos, 0) for qos in (0, 1, 2)] == [
            (one.topic, one.payload, one.qos) for one in messages(other, 3)
        ]
        assert [(f"core.{qos}.x", b"%d" % qos) for qos in (0, 1, 2)] == [
            (subject, payload) for subject, _, _, payload in (heard_by(nats) for _ in range(3))
        ]
        assert [] == other.round_trip()


@pytest.mark.parametrize("kept", [False, True], ids=["ends with its connection", "is kept"])
@pytest.mark.parametrize("upward", [True, False], ids=["up", "down"])
def test_the_quality_of_service_of_a_filter_costs_no_message(pair: Pair, upward: bool, kept: bool) -> None:
    """What comes over a link has QoS 0 for a device that asked for more, and comes once. A nats-server would withhold
    it if the line said QoS 1 or 2, and sends each of those twice itself."""
    here, there = (pair.box, pair.hub) if upward else (pair.hub, pair.box)
    name = f"asked{upward:d}{kept:d}"
    with client(here, "says") as peer, client(there, name, clean=not kept) as other:
        other.subscribe((f"{name}/#", 2))
        until_heard(lambda: peer.publish(f"{name}/0", READY), other)
        for qos in (2, 1, 0):
            published(peer, f"{name}/{qos}", b"%d" % qos, qos)
        assert [b"2", b"1", b"0"] == [one.payload for one in messages(other, 3)]
        peer.publish(f"{name}/end", READY)
        until_ready(other)
        assert [] == [one for one in other.round_trip() if one.kind == PUBLISH]


def test_what_devices_publish_while_the_link_is_down_is_collected_once_and_in_order(pair: Pair) -> None:
    """The hub sources the box's stream: what was acknowledged to a device of QoS 1 is on the box's disk, and comes."""
    api(pair.box, "$JS.API.STREAM.CREATE.TELE", name="TELE", subjects=["tele.>"])
    source = {"name": "TELE", "external": {"api": "$JS.box.API", "deliver": "deliver.tele"}}
    with client(pair.box, "meter") as meter:
        published(meter, "tele/meter", b"0", 1)
        api(pair.hub, "$JS.API.STREAM.CREATE.ALL", name="ALL", sources=[source])
        eventually(lambda: held(pair.hub, "ALL") == 1, seconds=PATIENCE_S)
        pair.wire.cut()
        for number in range(1, 21):
            published(meter, "tele/meter", b"%d" % number, 1 + number % 2)
        pair.wire.mend()
    eventually(lambda: held(pair.hub, "ALL") >= 21, seconds=PATIENCE_S)
    rows = [stored(pair.hub, "ALL", sequence) for sequence in range(1, 22)]
    assert [("tele.meter", b"%d" % number) for number in range(21)] == [(subject, data) for subject, _, data in rows]
    assert 21 == held(pair.hub, "ALL")


def test_commands_of_the_hub_reach_a_device_by_way_of_a_mirror(pair: Pair) -> None:
    """The box mirrors the hub's stream of commands and publishes what comes: a device that listens gets each command
    once and in order, those of the time without a link too, whoever published it."""
    api(pair.hub, "$JS.API.STREAM.CREATE.CMD", name="CMD", subjects=["cmd.>"])
    mirror = {"name": "CMD", "external": {"api": "$JS.hub.API", "deliver": "deliver.cmd"}}
    api(pair.box, "$JS.API.STREAM.CREATE.COPY", name="COPY", mirror=mirror, republish={"src": "cmd.>", "dest": "do.>"})
    with client(pair.box, "valve") as valve, client(pair.hub, "panel") as panel, Nats(pair.hub) as nats:
        valve.subscribe(("do/#", 1))
        nats.publish("cmd.valve", b"0")
        assert [("do/valve", b"0")] == [(one.topic, one.payload) for one in messages(valve, 1)]
        pair.wire.cut()
        for number in range(1, 11):
            if number % 2:
                nats.publish("cmd.valve", b"%d" % number)
                nats.round_trip()
            else:
                published(panel, "cmd/valve", b"%d" % number, 1 if pair.ours else 0)
                panel.round_trip()
        pair.wire.mend()
        expected = [("do/valve", b"%d" % number) for number in range(1, 11)]
        valve.socket.settimeout(PATIENCE_S)  # behind a long outage nats-server begins again after 40 s
        assert expected == [(one.topic, one.payload) for one in messages(valve, 10)]
        assert [] == valve.round_trip()


def test_what_devices_publish_waits_at_the_hub_for_a_session_that_is_away(pair: Pair) -> None:
    """A stream of the hub has the box's as its source and publishes what comes. A session of the hub whose client is
    away finds each message once, in order and with QoS 1, those of the time without a link too. What goes over the
    link by itself is for who is here. At a nats-server nothing waits, as what a stream republishes has QoS 0 there."""
    with client(pair.hub, "away", clean=False) as office:
        office.subscribe(("got/#", 1), ("raw/#", 1))
        office.send(mqtt.disconnect())
        office.ended()
    api(pair.box, "$JS.API.STREAM.CREATE.RISE", name="RISE", subjects=["rise.>"])
    source = {"name": "RISE", "external": {"api": "$JS.box.API", "deliver": "deliver.rise"}}
    with client(pair.box, "gauge") as gauge:
        published(gauge, "rise/gauge", b"0", 1)
        again = {"src": "rise.>", "dest": "got.>"}
        api(pair.hub, "$JS.API.STREAM.CREATE.GOT", name="GOT", sources=[source], republish=again)
        eventually(lambda: held(pair.hub, "GOT") == 1, seconds=PATIENCE_S)
        published(gauge, "raw/gauge", b"straight", 1)
        pair.wire.cut()
        for number in range(1, 11):
            published(gauge, "rise/gauge", b"%d" % number, 1 + number % 2)
        pair.wire.mend()
    eventually(lambda: held(pair.hub, "GOT") >= 11, seconds=PATIENCE_S)
    expected = [("got/gauge", b"%d" % number, 1) for number in range(11)] if pair.hub.kind == servers.LEAFD else []
    with client(pair.hub, "away", clean=False) as office:
        assert expected == [(one.topic, one.payload, one.qos) for one in messages(office, len(expected))]
        assert [] == office.round_trip()


def retained(server: servers.Server, filter: str) -> list[tuple[str, bytes, int, bool]]:
    """What a new subscription gets, in the order of topics, when nothing has come for a moment."""
    with client(server) as peer:
        peer.send(mqtt.subscribe(1, (filter, 1)))
        deadline, found = time.monotonic() + 0.5, []
        while time.monotonic() < deadline:
            found += [one for one in peer.round_trip() if one.kind == PUBLISH]
            time.sleep(0.05)
    return sorted((one.topic, one.payload, one.qos, one.retain) for one in found)


def test_retained_messages_are_at_the_hub_by_a_source(pair: Pair) -> None:
    """The hub's stream of retained messages sources that of the box: a device of the hub gets the states of the box's
    devices with its subscription, and none that was cleared; of a leafd also behind an outage."""
    with client(pair.box, "lamp") as lamp, client(pair.hub):  # both have their streams
        published(lamp, "state/lamp/a", b"on", 1, retain=True)
        published(lamp, "state/lamp/b", b"off", 1, retain=True)
        name = "$MQTT_rmsgs"
        config = api(pair.hub, f"$JS.API.STREAM.INFO.{name}")["config"]
        source = {"name": name, "filter_subject": "$MQTT.rmsgs.state.>",
                  "external": {"api": "$JS.box.API", "deliver": "deliver.kept"}}  # fmt: skip
        api(pair.hub, f"$JS.API.STREAM.UPDATE.{name}", **{**config, "sources": [source]})
        both = [("state/lamp/a", b"on", 1, True), ("state/lamp/b", b"off", 1, True)]
        eventually(
            lambda: retained(pair.hub, "state/#") == both, lambda: retained(pair.hub, "state/#"), seconds=PATIENCE_S
        )
        published(lamp, "state/lamp/a", b"", 1, retain=True)
        published(lamp, "state/lamp/b", b"on", 1, retain=True)
        one = [("state/lamp/b", b"on", 1, True)]
        eventually(
            lambda: retained(pair.hub, "state/#") == one, lambda: retained(pair.hub, "state/#"), seconds=PATIENCE_S
        )
        pair.wire.cut()
        published(lamp, "state/lamp/b", b"", 1, retain=True)
        published(lamp, "state/lamp/c", b"on", 1, retain=True)
        time.sleep(2.5)
        pair.wire.mend()
        last = [("state/lamp/c", b"on", 1, True)]
        outcomes = [last]
        if pair.box.kind != servers.LEAFD:  # it removes the message, of which who was away may not hear
            outcomes.append(one + last)
        eventually(
            lambda: retained(pair.hub, "state/#") in outcomes, lambda: retained(pair.hub, "state/#"), seconds=PATIENCE_S
        )


def test_what_a_server_says_to_itself_for_its_devices_stays_there(pair: Pair) -> None:
    """Who listens to everything at the hub hears what the box's devices publish, and nothing of how the box keeps it;
    nats-server says some of that."""
    with Nats(pair.hub) as nats, client(pair.box, "quiet") as peer, client(pair.box, "near") as other:
        nats.subscribe(">")
        until_heard(lambda: peer.publish("said", READY), nats)
        other.subscribe(("said/#", 1))
        published(peer, "said/kept", b"1", 1, retain=True)
        published(peer, "said/twice", b"2", 2)
        published(peer, "said/kept", b"", 1, retain=True)
        peer.publish("end", b"3")
        heard: list[str] = []
        while not heard or heard[-1] != "end":
            subject, _, _, payload, _ = nats.message()
            heard += [subject] if payload != READY else []
        own: tuple[str, ...] = ("$SYS.",) if pair.box.kind == servers.LEAFD else ("$SYS.", "$MQTT.", "$JS.")
        if pair.hub.kind != servers.LEAFD:
            # What it was asked before, of which it may tell only now, and the heartbeats of the sources that it has.
            own += ("$JS.EVENT.", "deliver.")
        assert ["said.kept", "said.twice", "said.kept", "end"] == [one for one in heard if not one.startswith(own)]
