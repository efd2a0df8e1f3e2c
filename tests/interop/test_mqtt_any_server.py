"""A device with a session at any of three servers of a cluster, whichever of them keeps it: leafd and nats-server.

What comes when servers die is test_mqtt_replicas.py; messages of devices without sessions are test_mqtt_cluster.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import client
from tests.interop.test_meta_group import CONFIG, leader_of, three
from tests.interop.test_mqtt_replicas import taken
from tests.mqtt import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, Ended, Peer, Will, acknowledge
from tests.rig.waiting import eventually

MQTT = 'mqtt { listen: "127.0.0.1:{mqtt_port}", stream_replicas: 3 }\nno_auth_user: a\n'
ONE_USER = "{user: a, password: a}"
LIMITED = """{user: limited, password: l, permissions: {
  publish: { allow: ["for.>", "$MQTT.>"], deny: "for.nobody" }, subscribe: ["for.limited", "$MQTT.>"] } }"""


@contextlib.contextmanager
def cluster(kind: str, folder: Path) -> Iterator[list[servers.Server]]:
    """Three servers of which one has made the session of `device`, for `for/device` with QoS 2."""
    configuration = CONFIG.replace(ONE_USER, f"{ONE_USER}, {LIMITED}") + MQTT
    with three(kind, folder, configuration) as made:
        for server in made:
            server.start()
        leader_of(made)
        eventually(lambda: has_session(made[0]), "no session is made")
        yield made


def has_session(server: servers.Server) -> bool:
    with contextlib.suppress(AssertionError, OSError), client(server, "device", clean=False) as device:
        return device.subscribe(("for/device", 2)) == [2]
    return False


def acknowledged(server: servers.Server, topic: str, payload: bytes) -> bool:
    with contextlib.suppress(Ended), client(server) as one:
        id = one.publish(topic, payload, qos=1)
        return one.expect(PUBACK).id == id
    return False


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_session_is_served_at_each_server(kind: str, tmp_path: Path) -> None:
    """It is there at each one, has what was published while it was away, once, and publishes with QoS 1 and 2."""
    with cluster(kind, tmp_path) as made:
        for number, server in enumerate([*made, made[0]]):
            away = [b"%d %d" % (number, at) for at in range(3)]
            for at, payload in enumerate(away):
                eventually(partial(acknowledged, made[at], "for/device", payload))

            with client(server, "device", clean=False) as device:
                assert device.welcome.session_present
                found = taken(device, 3)
                # A busy nats-server was seen to deliver them in the order of 1, 2, 0.
                assert away == (found if kind == servers.LEAFD else sorted(found))
                assert [] == device.round_trip()
                once, twice = device.publish("for/all", b"1", qos=1), device.publish("for/all", b"2", qos=2)
                assert once == device.expect(PUBACK).id
                assert twice == device.expect(PUBREC).id
                device.send(acknowledge(PUBREL, twice))
                assert twice == device.expect(PUBCOMP).id


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_second_connection_ends_the_first_one_at_another_server(kind: str, tmp_path: Path) -> None:
    """And has its session; a nats-server lets it in when it has tried a few times."""
    with cluster(kind, tmp_path) as made:
        for first, second in ((0, 1), (1, 2), (2, 0), (1, 0)):
            with comes(made[first]) as older, comes(made[second]) as newer:
                assert newer.welcome.session_present
                assert older.ended_without_a_word()
                assert [] == newer.round_trip()


def comes(server: servers.Server) -> Peer:
    def tried() -> Peer | None:
        with contextlib.suppress(Ended):
            return client(server, "device", clean=False)
        return None

    found = tried() if server.kind == servers.LEAFD else eventually(tried, "the device is not let in")
    assert found is not None
    return found


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_device_has_its_rights_and_its_will_at_each_server(kind: str, tmp_path: Path) -> None:
    """Its will is published when its connection ends, and not when it takes leave; what it may not is refused."""
    with cluster(kind, tmp_path) as made, client(made[0]) as ear:
        ear.subscribe(("for/#", 0))
        login = {"user": "limited", "password": "l", "will": Will("for/all", b"will")}
        for server in made:
            with client(server, "limited", clean=False, **login) as device:
                device.send(mqtt.subscribe(1, ("for/device", 1), ("for/limited", 1)))
                assert [0x80, 1] == device.expect(SUBACK).reasons
                device.send(mqtt.disconnect())
                assert device.ended_without_a_word()
            with client(server, "limited", clean=False, **login) as device:
                assert device.welcome.session_present
                device.publish("for/nobody", b"not allowed")
                device.publish("for/all", b"allowed")
                device.round_trip()
            found = sorted({ear.expect(PUBLISH).payload for _ in range(2)})
            assert [b"allowed", b"will"] == found


def test_large_messages_and_many_pass_both_ways(tmp_path: Path) -> None:
    """Of a device at another server than its session's: 500 kB each, and 1,000 at once, in order."""
    with cluster(servers.LEAFD, tmp_path) as made:
        for server in made:
            with client(server, "device", clean=False) as device:
                large = [b"%d" % number * 500_000 for number in range(3)]
                for payload in large:
                    device.publish("for/device", payload, qos=1)
                echoed = [one for one in acknowledging(device, 6) if one.kind == PUBLISH]
                assert large == [one.payload for one in echoed]
                many = [b"%d" % number for number in range(1000)]
                for payload in many:
                    device.publish("for/device", payload, qos=1)
                echoed = [one for one in acknowledging(device, 2000) if one.kind == PUBLISH]
                assert many == [one.payload for one in echoed]


def acknowledging(device: Peer, count: int) -> list[mqtt.Packet]:
    """So many packets, the messages of QoS 1 among them acknowledged."""
    found: list[mqtt.Packet] = []
    while len(found) < count:
        one = device.packet()
        found.append(one)
        if one.kind == PUBLISH:
            device.send(acknowledge(PUBACK, one.id))
    return found
