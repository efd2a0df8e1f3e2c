"""What leafd's MQTT does otherwise than nats-server where a test of nats-server's own (server/mqtt_test.go) has it, and
that differences.md names: each on both servers, so that a line goes when there is no difference any more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import client
from tests.mqtt import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, Packet, Peer, Will
from tests.rig.reloads import exchanged

CONFIGURATION: Final = """
port: {port}
server_name: one
jetstream { store_dir: "{store}" }
mqtt { listen: "127.0.0.1:{mqtt_port}", ack_wait: 500ms }
accounts {
  A { jetstream: true, users: [ {user: a, password: a} ], exports: [ {stream: "told"}, {service: "asked"} ] }
  B {
    jetstream: true, users: [ {user: b, password: b} ]
    imports: [ {stream: {account: A, subject: "told"}}, {service: {account: A, subject: "asked"}, to: "ask"} ]
  }
  NOTHING_KEPT { users: [ {user: n, password: n} ] }
}
no_auth_user: a
"""
QUIET_S: Final = 1.5
"""Longer than ack_wait, twice."""
SPARKPLUG_METRIC: Final = bytes.fromhex("120b0a05626453657120045802")
"""A payload with the metric bdSeq, and without a time stamp."""


@pytest.fixture(scope="module", params=servers.KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.running(request.param, CONFIGURATION) as one:
        yield one


def ours(server: servers.Server) -> bool:
    return server.kind == servers.LEAFD


def messages(packets: list[Packet]) -> list[tuple[str, bytes, int]]:
    return [(one.topic, one.payload, one.qos) for one in packets if one.kind == PUBLISH]


def published(peer: Peer, topic: str, payload: bytes, qos: int = 1, *, retain: bool = False) -> None:
    id = peer.publish(topic, payload, qos=qos, retain=retain)
    if qos == 2:
        peer.expect(PUBREC)
        peer.send(mqtt.acknowledge(PUBREL, id))
    peer.expect(PUBACK if qos == 1 else PUBCOMP)


def test_a_message_of_qos_2_is_passed_on_at_publish(server: servers.Server) -> None:
    """nats-server passes it on at PUBREL: 3.1.1 has both (4.3.3)."""
    with client(server, "hears") as hears, client(server, "says") as says:
        hears.subscribe(("two", 0))
        id = says.publish("two", b"x", qos=2)
        says.expect(PUBREC)
        time.sleep(0.3)
        early = messages(hears.round_trip())
        says.send(mqtt.acknowledge(PUBREL, id))
        says.expect(PUBCOMP)
        time.sleep(0.3)
        late = messages(hears.round_trip())
        assert ([("two", b"x", 0)], []) == ((early, late) if ours(server) else (late, early))


def test_a_connection_whose_session_ends_with_it_hears_nothing_twice(server: servers.Server) -> None:
    """nats-server says a PUBLISH or PUBREL again when ack_wait is over."""
    with client(server, "hears", clean=True) as hears, client(server, "says") as says:
        hears.subscribe(("once", 2))
        published(says, "once", b"x", 2)
        first = hears.expect(PUBLISH)
        time.sleep(QUIET_S)
        again = messages(hears.round_trip())
        assert again == [] if ours(server) else ("once", b"x", 2) in again
        hears.send(mqtt.acknowledge(PUBREC, first.id))
        while (answer := hears.packet()).kind == PUBLISH:  # said before PUBREC came there
            assert answer.dup
            assert not ours(server)
        assert answer.kind == PUBREL
        time.sleep(QUIET_S)
        releases = [one for one in hears.round_trip() if one.kind == PUBREL]
        assert bool(releases) != ours(server)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_will_of_qos_2_is_refused_with_a_code_of_the_standard(kind: str) -> None:
    """Where publishers may not have QoS 2. nats-server says 16, which 3.1.1 does not have (3.2.2.3). What was retained
    with QoS 2 before that is sent; nats-server withholds it."""
    with servers.running(kind, CONFIGURATION) as server:
        with client(server, "says") as says:
            published(says, "kept", b"x", 2, retain=True)
            says.round_trip()
        server.stop()
        server.configuration = server.configuration.replace("mqtt {", "mqtt { reject_qos2_publish: true,")
        server.start()
        with Peer(server.ports["mqtt_port"], begin=False) as peer:
            peer.send(mqtt.connect(client="wills", will=Will("w", b"x", qos=2)))
            assert (3 if ours(server) else 16) == peer.expect(CONNACK).reason
        with client(server, "hears") as hears:
            hears.send(mqtt.subscribe(1, ("kept", 2)))
            hears.expect(SUBACK)
            time.sleep(0.5)
            assert ([("kept", b"x", 2)] if ours(server) else []) == messages(hears.round_trip())


def test_a_message_of_another_account_has_qos_0(server: servers.Server) -> None:
    """Of a stream or a service that is imported. nats-server withholds it where it was published with QoS 1 or 2 and
    the device asked for more than 0."""
    with client(server, "one") as one, client(server, "other", user="b", password="b") as other:
        one.subscribe(("asked", 2))
        other.subscribe(("told", 2))
        time.sleep(0.2)
        for says, topic, hears, heard in ((other, "ask", one, "asked"), (one, "told", other, "told")):
            says.publish(topic, b"0")
            for qos in (1, 2):
                published(says, topic, b"%d" % qos, qos)
            time.sleep(0.3)
            expected = [(heard, b"%d" % qos, 0) for qos in (range(3) if ours(server) else range(1))]
            assert expected == messages(hears.round_trip())


def test_sparkplug_messages_are_messages_like_others(server: servers.Server) -> None:
    """nats-server retains births once more, and puts the time into deaths."""
    with client(server, "hears") as hears, client(server, "says") as says:
        hears.subscribe(("spBv1.0/#", 0))
        published(says, "spBv1.0/g/NBIRTH/n", SPARKPLUG_METRIC)
        published(says, "spBv1.0/g/NDEATH/n", SPARKPLUG_METRIC)
        time.sleep(0.3)
        birth, death = messages(hears.round_trip())
        assert birth == ("spBv1.0/g/NBIRTH/n", SPARKPLUG_METRIC, 0)
        assert (death[1] == SPARKPLUG_METRIC) == ours(server)
        with client(server, "late") as late:
            late.subscribe(("$sparkplug/#", 0))
            time.sleep(0.3)
            births = messages(late.round_trip())
            assert births == [] if ours(server) else births[0][0] == "$sparkplug/certificates/spBv1.0/g/NBIRTH/n"


def test_identifiers_with_one_hash_have_a_session_each(server: servers.Server) -> None:
    """nats-server finds a session by a hash of its identifier, and these two have one: it refuses the second."""
    with client(server, "cid-03579431", clean=False) as one, client(server, begin=False) as other:
        one.subscribe(("hash/one", 1))
        other.send(mqtt.connect(4, "cid-09191235", user="a", password="a", clean=False))
        answer = other.packet()
        assert (CONNACK, 0 if ours(server) else 2) == (answer.kind, answer.reason)
        assert not answer.session_present


@pytest.mark.parametrize("kind", servers.KINDS)
def test_max_ack_pending_changes_for_kept_sessions(kind: str) -> None:
    """As for new ones. nats-server's consumers keep the max_ack_pending that they were made with."""
    text = CONFIGURATION.replace("ack_wait: 500ms", "max_ack_pending: 1")
    with servers.running(kind, text) as server:
        with client(server, "kept", clean=False) as hears:
            hears.subscribe(("pending", 1))
        exchanged(server, "max_ack_pending: 1", "max_ack_pending: 2")
        with client(server, "says") as says:
            for number in range(3):
                published(says, "pending", b"%d" % number)
        with client(server, "kept", clean=False) as hears:
            hears.expect(PUBLISH)
            time.sleep(0.3)
            assert (1 if ours(server) else 0) == len(messages(hears.round_trip()))


def test_a_server_alone_has_one_replica_of_what_it_keeps() -> None:
    """Whatever stream_replicas says, as the same block is for the servers of a cluster; nats-server lets nobody in."""
    for kind in servers.KINDS:
        text = CONFIGURATION.replace("ack_wait: 500ms", "stream_replicas: 3")
        with servers.running(kind, text) as server, client(server, begin=False) as peer:
            peer.send(mqtt.connect(4, "kept", user="a", password="a", clean=False))
            if ours(server):
                assert 0 == peer.expect(CONNACK).reason
            else:
                assert peer.ended_without_a_word()


def test_an_account_without_jetstream_has_devices_whose_sessions_end(server: servers.Server) -> None:
    """Messages of QoS 0 and 1 pass between them. nats-server closes the connection of each."""
    if not ours(server):
        with client(server, begin=False) as refused:
            refused.send(mqtt.connect(4, "d", user="n", password="n"))
            assert refused.ended_without_a_word()
        return
    with client(server, "d", user="n", password="n") as hears, client(server, "s", user="n", password="n") as says:
        hears.subscribe(("kept/by/nobody", 1))
        published(says, "kept/by/nobody", b"x")
        assert [("kept/by/nobody", b"x", 1)] == messages(hears.round_trip())


def test_a_message_for_several_subscriptions_says_which() -> None:
    """5: 3.3.4: once for each where the session ends with its connection, else once with all identifiers."""
    with servers.running(servers.LEAFD, CONFIGURATION) as server:
        for name, found in (("passes", None), ("stays", {"session_expiry": 60})):
            with client(server, name, level=5, found=found) as peer:
                for number, (topic, qos) in enumerate((("i/#", 1), ("i/b", 2)), 1):
                    peer.send(mqtt.subscribe(number, (topic, qos), level=5, found={"subscription_id": number}))
                    peer.expect(SUBACK)
                peer.publish("i/b", b"x", qos=1)
                time.sleep(0.3)
                heard = [one.properties["subscription_id"] for one in peer.round_trip() if one.kind == PUBLISH]
                assert sorted(heard) == ([[1], [2]] if found is None else [[1, 2]])
