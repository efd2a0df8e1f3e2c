"""What was retained reaches each new subscription, however short a time ago that was ("MQTT Version 3.1.1", 3.3.1.3; 5:
3.3.1.3). leafd and mosquitto, where it is on the path.

A disk whose sync takes long is not here: every sync leaves the same gap, and a client that publishes and subscribes in
one segment always meets it. Not here: what retained messages carry, expiry, bounds (test_mqtt_five.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests import mqtt, servers
from tests.interop.test_mqtt_sessions import CONFIGURATION, KINDS, broker
from tests.mqtt import LEVELS, PUBACK, PUBLISH, SUBACK, Peer
from tests.rig.reloads import exchanged
from tests.rig.waiting import eventually

KEEPS: Final = [kind for kind in KINDS if kind != servers.REFERENCE]
"""nats-server sends what its stream has by then: it misses most of these."""
SPOKEN: Final = {servers.REFERENCE: (4,)}
"""Levels, where not all are."""
ROUNDS: Final = 20


@pytest.fixture(scope="module", params=KEEPS)
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with broker(request.param) as found:
        yield found


def retained(peer: Peer, count: int) -> list[tuple[str, bytes]]:
    """So many PUBLISH packets, sorted, that come behind SUBACK."""
    peer.expect(SUBACK)
    return sorted((one.topic, one.payload) for one in (peer.expect(PUBLISH) for _ in range(count)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_was_retained_a_moment_ago_reaches_a_new_subscription(port: int, level: int, qos: int) -> None:
    """One segment has PUBLISH and SUBSCRIBE, with a filter each for the topic, its level, and all below another one."""
    answers: dict[int, list[int]] = {0: [], 1: [mqtt.PUBACK], 2: [mqtt.PUBREC, mqtt.PUBCOMP]}
    for number in range(ROUNDS):
        top = f"{level}-{qos}-{number}"
        with Peer(port, level=level, client=f"a{top}") as peer:
            said = []
            for id, leaf in enumerate(("a/b", "c"), 10):
                said.append(mqtt.publish(f"{top}/{leaf}", leaf.encode(), level=level, qos=qos, id=id, retain=True))
                said += [mqtt.acknowledge(mqtt.PUBREL, id)] if qos == 2 else []
            said.append(mqtt.subscribe(1, (f"{top}/a/#", 0), (f"{top}/c", 0), level=level))
            peer.send(b"".join(said))
            found = [peer.packet() for _ in range(3 + 2 * len(answers[qos]))]
            heard = sorted((one.topic, one.payload) for one in found if one.kind == PUBLISH)
            assert [(f"{top}/a/b", b"a/b"), (f"{top}/c", b"c")] == heard
            assert sorted([SUBACK, PUBLISH, PUBLISH, *answers[qos] * 2]) == sorted(one.kind for one in found)


@pytest.mark.parametrize("level", LEVELS)
def test_a_topic_that_changes_all_the_time_always_has_a_value(port: int, level: int) -> None:
    """Each subscriber gets one at once, which is never older than what its publisher said before it came."""
    topic = f"often/{level}"
    with Peer(port, level=level, client="often") as publisher:
        for number in range(ROUNDS):
            for value in range(50 * number, 50 * (number + 1)):
                publisher.publish(topic, b"%d" % value, retain=True)
            publisher.round_trip()
            with Peer(port, level=level, client=f"reader{number}") as reader:
                reader.send(mqtt.subscribe(1, (topic, 0), level=level))
                assert [(topic, b"%d" % (50 * number + 49))] == retained(reader, 1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("wild", ["", "/#"])
def test_what_changes_meanwhile_begins_with_what_was_retained(port: int, level: int, qos: int, wild: str) -> None:
    """The value of that moment comes first, and as one that is retained (MQTT-3.3.1-6, -8); each later one comes once,
    and as any other message (3.3.1-9)."""
    topic = f"changes/{level}/{qos}/{len(wild)}"
    with Peer(port, level=level, client="changes") as publisher:
        publisher.publish(topic, b"0", retain=True)
        publisher.round_trip()
        for number in range(ROUNDS // 4):
            values = range(100 * number + 1, 100 * (number + 1))
            said = [mqtt.publish(topic, b"%d" % value, level=level, retain=True) for value in values]
            with Peer(port, level=level, client=f"reader{number}") as reader:
                publisher.send(b"".join(said[:10]))
                reader.send(mqtt.subscribe(1, (topic + wild, qos), level=level))
                publisher.send(b"".join(said[10:]))
                publisher.round_trip()
                reader.expect(SUBACK)
                found = [reader.expect(PUBLISH)]
                while found[-1].payload != b"%d" % values[-1]:
                    found.append(reader.expect(PUBLISH))
                begin = int(found[0].payload)
                assert [(b"%d" % value, value == begin) for value in range(begin, values[-1] + 1)] == [
                    (one.payload, one.retain) for one in found
                ]
                assert [] == [one for one in reader.round_trip() if one.kind == PUBLISH]
                publisher.publish(topic, b"%d" % (values[-1] + 1), retain=True)
                publisher.round_trip()


@pytest.mark.parametrize("level", LEVELS)
def test_what_was_cleared_a_moment_ago_reaches_nobody(port: int, level: int) -> None:
    """One segment has PUBLISH without payload and SUBSCRIBE."""
    for number in range(ROUNDS):
        topic = f"cleared/{level}/{number}"
        with Peer(port, level=level, client=f"c{number}") as peer:
            peer.publish(topic, b"x", retain=True)
            peer.send(mqtt.publish(topic, retain=True, level=level) + mqtt.subscribe(1, (topic, 0), level=level))
            peer.expect(SUBACK)
            # What a later subscription gets comes behind all that the first one gets.
            peer.publish(f"{topic}/end", b"x", retain=True)
            peer.send(mqtt.subscribe(2, (f"{topic}/end", 0), level=level))
            assert [(f"{topic}/end", b"x")] == retained(peer, 1)


@pytest.mark.parametrize(("kind", "level"), [(kind, level) for kind in KINDS for level in SPOKEN.get(kind, LEVELS)])
def test_the_will_of_the_first_client_is_retained(kind: str, level: int) -> None:
    """Its connection breaks as soon as it is welcome, while the server makes what retained messages are kept in."""
    with broker(kind) as port:
        Peer(port, level=level, client="first", will=mqtt.Will("gone", b"bye", qos=1, retain=True)).socket.close()

        def heard() -> list[bytes]:
            with Peer(port, level=level, client="late") as late:
                late.subscribe(("gone", 0))
                return [one.payload for one in late.round_trip() if one.kind == PUBLISH and one.retain]

        eventually(lambda: heard() == [b"bye"], seconds=10)


@pytest.mark.parametrize(("kind", "left"), [(servers.LEAFD, [b"said"]), (servers.REFERENCE, [])])
def test_what_was_retained_stays_when_its_publisher_may_not_say_it_any_more(kind: str, left: list[bytes]) -> None:
    """Behind a reload. nats-server removes it, also when the right is given back. mosquitto, with
    `check_retain_source true` and not without, withholds it."""
    users = """
authorization { users: [
  { user: says, password: s, permissions: { publish: [ "kept", "$MQTT.>" ] } }
  { user: hears, password: h }
] }
"""
    with servers.running(kind, CONFIGURATION + users) as server:
        port = server.ports["mqtt_port"]
        with Peer(port, level=4, client="says", user="says", password="s") as peer:
            peer.publish("kept", b"said", qos=1, retain=True)
            peer.expect(mqtt.PUBACK)

        def heard() -> list[bytes]:
            """Of one that is always there, too; both come before what answers later packets."""
            with Peer(port, level=4, client="hears", user="hears", password="h") as peer:
                peer.publish("mark", b"mark", qos=1, retain=True)
                peer.expect(mqtt.PUBACK)
                peer.send(mqtt.subscribe(1, ("kept", 0), ("mark", 0), level=4))
                peer.expect(SUBACK)
                found = [peer.expect(PUBLISH).payload]
                found += [peer.expect(PUBLISH).payload] if found[0] != b"mark" else []
                return [one for one in (*found, *(more.payload for more in peer.round_trip())) if one != b"mark"]

        assert [b"said"] == heard()
        for before, after in (('"kept"', '"other"'), ('"other"', '"kept"')):
            exchanged(server, before, after)
            eventually(lambda: heard() == left)


@pytest.mark.parametrize("limit", ["max_retained: 1", "max_retained_bytes: 1500"])
def test_who_cannot_be_told_that_no_more_is_retained_is_closed(limit: str) -> None:
    """With QoS 1 and 3.1.1; with QoS 0 nobody is told. MQTT 5 is test_mqtt_five.py's."""
    text = CONFIGURATION.replace('mqtt_port}"', f'mqtt_port}}", {limit}')
    with servers.running(servers.LEAFD, text) as server, Peer(server.ports["mqtt_port"], level=4, client="s") as peer:
        peer.publish("k/0", bytes(900), qos=1, retain=True)
        peer.expect(PUBACK)
        peer.publish("k/1", bytes(900), retain=True)
        peer.round_trip()
        peer.publish("k/1", bytes(900), qos=1, retain=True)
        assert peer.ended_without_a_word()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("qos", [0, 1])
def test_what_is_retained_comes_as_fast_as_its_device_reads(port: int, level: int, qos: int) -> None:
    """Each part of it is more than may wait in a queue, and goes when the one before has gone. With one part in each
    look at all connections, two a second, it took 32 s."""
    size, count, top = 20_000, 200, f"large-{level}-{qos}"
    topics = [f"{top}/{number}" for number in range(count)]
    with Peer(port, level=level, client="says") as says:
        for topic in topics:
            says.publish(topic, bytes(size), qos=1, retain=True)
            says.expect(PUBACK)
        with Peer(port, level=level, client="reads") as peer:
            began = time.monotonic()
            peer.send(mqtt.subscribe(1, (f"{top}/#", qos), level=level))
            assert qos == peer.expect(SUBACK).reason
            found: set[str] = set()
            while len(found) < count:
                one = peer.expect(PUBLISH)
                assert (True, size) == (one.retain, len(one.payload))
                found.add(one.topic)
                if one.qos:
                    peer.send(mqtt.acknowledge(PUBACK, one.id))
            assert time.monotonic() - began < 10
        for topic in topics:
            says.publish(topic, b"", qos=1, retain=True)
            says.expect(PUBACK)
