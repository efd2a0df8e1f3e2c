"""MQTT 3.1.1 beside nats-server: what devices and NATS clients see of each other is the same with both; where leafd
keeps to the standard and nats-server does not, it is named here, too. What 5 adds is test_mqtt_five.py, how a device
logs in test_mqtt_logins.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import CONFIGURATION, WALKS, Nats, client, port, seen
from tests.mqtt import CONNACK, PUBACK, PUBLISH, SUBACK, Peer
from tests.rig.comparison import Pair, pair

NO_FILTERS = ["", "a/#/b", "a#", "#a", "a+", "+a", "a/b+", "a/#+"]
NAMES = ["with space", "dot.ted", "st*r", "ends>", "ü", "a/b"]


@pytest.fixture(scope="module")
def both() -> Iterator[Pair]:
    with pair(CONFIGURATION) as running:
        yield running


@pytest.fixture(scope="module")
def ours(both: Pair) -> servers.Server:
    return both.ours


@pytest.mark.parametrize("walk", WALKS)
def test_a_device_sees_what_it_sees_at_nats_server(walk: str, both: Pair, tmp_path: Path) -> None:
    """Topics, filters, logins, permissions, wills, take-over: each walk has the same outcome with both servers."""
    both.told_alike(WALKS[walk], tmp_path)


@pytest.mark.parametrize("text", NO_FILTERS)
def test_a_filter_that_the_standard_forbids_is_refused(text: str, ours: servers.Server) -> None:
    """SUBACK says so (0x80), and the connection goes on. nats-server grants most, and closes for an empty one."""
    with client(ours) as peer:
        peer.send(mqtt.subscribe(7, (text, 0), ("good", 0)))
        answer = peer.expect(SUBACK)
        assert [0x80, 0] == answer.reasons
        peer.publish("good", b"x")
        assert "good" == peer.expect(PUBLISH).topic


@pytest.mark.parametrize("topic", ["a/*/b", "a/>", "*", ">"])
def test_a_topic_with_a_wildcard_of_nats_is_refused(topic: str, ours: servers.Server) -> None:
    """`*` and `>` as a whole level are no subject that somebody could subscribe to alone: the connection ends.
    nats-server publishes them."""
    with Nats(ours) as nats, client(ours) as peer:
        nats.subscribe(">")
        peer.publish(topic, b"x")
        assert peer.ended() is None
        nats.publish("end", b"end")
        assert "end" == nats.message()[0]


@pytest.mark.parametrize("name", NAMES)
def test_any_text_is_a_client_s_identifier(name: str, ours: servers.Server) -> None:
    """As in the standard; nats-server refuses those that are no name of a consumer."""
    with client(ours, name) as first, client(ours, name) as second:
        assert first.ended() is None
        assert [] == second.round_trip()


def test_mqtt_three_is_told_that_its_version_is_not_spoken(ours: servers.Server) -> None:
    """By CONNACK's return code 1; nats-server closes without a word."""
    with Peer(port(ours), begin=False) as peer:
        peer.send(mqtt.packet(mqtt.CONNECT, mqtt.data("MQIsdp") + b"\x03\x02\x00\x3c" + mqtt.data("c")))
        assert (CONNACK, 1, False) == seen(peer.packet())
        assert peer.ended() is None


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.parametrize("topic", ["", "a/+", "#"])
def test_a_will_that_is_no_message_ends_the_connection_without_a_word(kind: str, topic: str, both: Pair) -> None:
    """3.1.1 has no return code for a CONNECT that breaks the protocol, and forbids to take another one
    (MQTT-3.1.4-1)."""
    with Peer(port(both.ours if kind == servers.LEAFD else both.theirs), begin=False) as peer:
        peer.send(mqtt.connect(4, "c", will=mqtt.Will(topic, b"x")))
        assert peer.ended_without_a_word()


def test_a_filter_of_a_tree_is_granted_without_its_root_where_that_is_denied(ours: servers.Server) -> None:
    """`down/#` stands for two subjects: who may hear `down.>` alone gets that, and nothing that is published to `down`.
    nats-server refuses the filter."""
    with Nats(ours) as nats, client(ours, user="limited", password="l") as peer:
        assert [0] == peer.subscribe("down/#")
        for subject in ("down", "down.secret", "down.a"):
            nats.publish(subject, subject.encode())
        nats.round_trip()
        assert ["down/a"] == [one.topic for one in peer.round_trip()]


@pytest.mark.parametrize("clean", [True, False])
def test_of_a_tree_without_its_root_nothing_is_retained_and_nothing_waits_of_the_root(
    ours: servers.Server, clean: bool
) -> None:
    """The same with QoS 1, for a session that is kept, and of what was retained."""
    topics = ("down", "down/secret", "down/a")
    with client(ours, "says") as says, client(ours, "tree", user="limited", password="l", clean=clean) as peer:
        assert [1] == peer.subscribe(("down/#", 1))
        for topic in topics:
            says.publish(topic, b"kept", qos=1, retain=True)
            says.expect(PUBACK)
        assert ["down/a"] == [peer.expect(PUBLISH).topic, *(one.topic for one in peer.round_trip())]
        peer.unsubscribe("down/#")
        for topic in (*topics, "down/z"):
            says.publish(topic, b"kept", qos=1, retain=True)
            says.expect(PUBACK)
        peer.send(mqtt.subscribe(9, ("down/#", 0)))
        peer.expect(SUBACK)
        found: list[str] = []
        while "down/z" not in found:  # all are read in the order in which they were said
            found.append(peer.expect(PUBLISH).topic)
        assert ["down/a", "down/z"] == found
        assert [] == peer.round_trip()
        for topic in (*topics, "down/z"):
            says.publish(topic, qos=1, retain=True)
            says.expect(PUBACK)
    with client(ours, "tree"):
        pass  # its session ends
