"""Sessions of MQTT that three servers keep (`stream_replicas: 3`): a server dies with a device's connection, and
another one has its session; leafd and nats-server.

With leafd a session is served by the server that leads its account's stream, and the others send its device on; with
nats-server each serves it. Not here: sessions and retained messages that one server of a cluster keeps
(test_mqtt_cluster.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import client
from tests.interop.test_meta_group import CONFIG, leader_of, three
from tests.mqtt import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Ended, Peer, acknowledge
from tests.rig.waiting import eventually

MQTT = 'mqtt { listen: "127.0.0.1:{mqtt_port}", stream_replicas: 3 }\nno_auth_user: a\n'


@contextlib.contextmanager
def cluster(kind: str, folder: Path) -> Iterator[list[servers.Server]]:
    """Three servers that keep sessions together."""
    with three(kind, folder, CONFIG + MQTT) as made:
        for server in made:
            server.start()
        leader_of(made)
        yield made


def came(up: list[servers.Server], *, present: bool, name: str = "device") -> tuple[servers.Server, Peer]:
    """The device, at the first server that takes it; it tries one after the other. present: it has a session."""

    def tried() -> tuple[servers.Server, Peer] | None:
        for server in up:
            with contextlib.suppress(AssertionError, OSError):  # Ended is one, too
                return server, client(server, name, clean=False)
        return None

    found = eventually(tried, "no server takes the device")
    assert found is not None
    assert present == found[1].welcome.session_present
    return found


def published(server: servers.Server, payload: bytes, qos: int) -> bool:
    """Whether a client without a session is told that the server has its message."""
    with contextlib.suppress(Ended, TimeoutError, OSError), client(server) as one:
        id = one.publish("for/device", payload, qos=qos)
        if qos == 1:
            return one.expect(PUBACK).id == id
        if one.expect(PUBREC).id == id:
            one.send(acknowledge(PUBREL, id))
            return one.expect(PUBCOMP).id == id
    return False


def taken(device: Peer, count: int) -> list[bytes]:
    """The next messages' payloads, all of their acknowledgements said and heard."""
    found = [device.expect(PUBLISH) for _ in range(count)]
    for one in found:
        device.send(acknowledge(PUBACK if one.qos == 1 else PUBREC, one.id))
    for one in (one for one in found if one.qos == 2):
        assert one.id == device.expect(PUBREL).id
        device.send(acknowledge(PUBCOMP, one.id))
    return [one.payload for one in found]


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_session_gets_all_that_was_acknowledged_for_it_when_its_server_has_died(kind: str, tmp_path: Path) -> None:
    """At another server, once and in order, whichever server it was published at."""
    with cluster(kind, tmp_path) as made:
        home, device = came(made, present=False)
        with device:
            device.subscribe(("for/device", 2))
            eventually(lambda: published(home, b"first", 2), "no message is acknowledged")
            assert [b"first"] == taken(device, 1)
            assert [] == device.round_trip()
        sent = [b"%d" % number for number in range(8)]
        assert all(published(made[number % 3], payload, 1 + number % 2) for number, payload in enumerate(sent))
        home.kill()

        others = [one for one in made if one is not home]
        _, device = came(others, present=True)
        # On a busy machine nats-server may end the connection while its streams change their leaders.
        with device, contextlib.suppress(*(Ended,) * (kind == servers.REFERENCE)):
            assert sent == taken(device, len(sent))
            eventually(lambda: published(others[1], b"last", 1), "no message is acknowledged")
            assert [b"last"] == taken(device, 1)


def test_a_handshake_of_qos_2_goes_on_at_the_next_server(tmp_path: Path) -> None:
    """What the device has said that it has does not come again, and what it says again is not passed on again."""
    with cluster(servers.LEAFD, tmp_path) as made:
        home, device = came(made, present=False)
        with device:
            device.subscribe(("for/device", 2))
            half = device.publish("for/nobody", b"nobody", qos=2)
            assert half == device.expect(PUBREC).id
            own = device.publish("for/device", b"own", qos=2)
            found = {one.kind: one for one in (device.packet(), device.packet())}
            assert own == found[PUBREC].id
            came_as = found[PUBLISH].id
            device.send(acknowledge(PUBREC, came_as))
            assert came_as == device.expect(PUBREL).id
        home.kill()

        _, device = came([one for one in made if one is not home], present=True)
        with device:
            assert came_as == device.expect(PUBREL).id
            device.send(acknowledge(PUBCOMP, came_as))
            device.send(mqtt.publish("for/device", b"own", qos=2, id=own, dup=True))
            assert own == device.expect(PUBREC).id
            for id in (half, own):
                device.send(acknowledge(PUBREL, id))
                assert id == device.expect(PUBCOMP).id
            assert [] == device.round_trip()
