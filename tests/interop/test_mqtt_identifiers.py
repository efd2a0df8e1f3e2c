"""One connection has a client identifier, at whichever of three servers of a cluster: an older one ends, and a clean
start ends what is kept; leafd and nats-server.

Devices with a session at both times are test_mqtt_any_server.py; routes that come up later, and what servers say to
each other, are tests/native/test_plane_mqtt_names.c.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import client
from tests.interop.test_mqtt_any_server import acknowledged, cluster
from tests.interop.test_mqtt_replicas import taken
from tests.mqtt import PUBLISH, Ended, Peer, Will
from tests.rig.waiting import eventually


def let_in(server: servers.Server, name: str, *, clean: bool) -> Peer:
    """A connection; nats-server lets one in that takes over when it has tried a few times."""

    def tried() -> Peer | None:
        with contextlib.suppress(Ended):
            return client(server, name, clean=clean)
        return None

    found = tried() if server.kind == servers.LEAFD else eventually(tried, "the device is not let in")
    assert found is not None
    return found


def pairs(made: list[servers.Server]) -> Iterator[tuple[servers.Server, servers.Server]]:
    """Each server as the first one and as the second."""
    return iter([(made[0], made[1]), (made[1], made[2]), (made[2], made[0])])


def cluster_of(kind: str, folders: pytest.TempPathFactory) -> Iterator[list[servers.Server]]:
    with cluster(kind, folders.mktemp(kind)) as made:
        yield made


@pytest.fixture(scope="module")
def leafds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[servers.Server]]:
    """Three servers that all tests of this file share."""
    yield from cluster_of(servers.LEAFD, tmp_path_factory)


@pytest.fixture(scope="module", params=servers.KINDS)
def three(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[servers.Server]]:
    """Likewise, of either kind."""
    if request.param == servers.LEAFD:
        yield request.getfixturevalue("leafds")
    else:
        yield from cluster_of(request.param, tmp_path_factory)


def test_an_identifier_has_one_connection_in_a_cluster(three: list[servers.Server]) -> None:
    """The older one ends, be it with a session or not; another identifier's stays."""
    with client(three[1], "bystander") as bystander:
        for first, second in pairs(three):
            for before, after in ((True, True), (False, True), (True, False)):
                with (
                    let_in(first, "twin", clean=before) as older,
                    let_in(second, "twin", clean=after) as newer,
                ):
                    assert older.ended_without_a_word()
                    assert [] == newer.round_trip()
        assert [] == bystander.round_trip()


def test_a_clean_start_at_any_server_ends_the_session(three: list[servers.Server]) -> None:
    """With what waited for it; a session that is made behind that is a new one."""
    for first, second in pairs(three):
        with let_in(first, "device", clean=False) as device:
            assert [2] == device.subscribe(("for/device", 2))
        eventually(lambda: acknowledged(three[0], "for/device", b"waits"))
        with let_in(second, "device", clean=True) as device:
            assert not device.welcome.session_present
            assert [] == device.round_trip()
        with let_in(first, "device", clean=False) as device:
            assert not device.welcome.session_present
            assert [] == device.round_trip()


def test_a_client_of_5_goes_on_with_its_session_for_the_last_time_at_any_server(leafds: list[servers.Server]) -> None:
    """It begins not anew, and asks for no time: it has what waited, and its session ends with the connection."""
    asked = {"session_expiry": 600}
    for number, server in enumerate(leafds):
        name, topic = f"five-{number}", f"for/{number}"
        with client(server, name, level=5, clean=False, found=asked) as device:
            assert not device.welcome.session_present
            assert [1] == device.subscribe((topic, 1))
        assert acknowledged(server, topic, b"waits")
        with client(server, name, level=5, clean=False) as device:
            assert device.welcome.session_present
            assert [b"waits"] == taken(device, 1)
            device.send(mqtt.disconnect(5))
            assert device.ended_without_a_word()
        with client(server, name, level=5, clean=False, found=asked) as device:
            assert not device.welcome.session_present


@pytest.mark.parametrize("level", mqtt.LEVELS)
def test_the_one_that_is_taken_over_leaves_its_will_and_hears_why(level: int, leafds: list[servers.Server]) -> None:
    """At another server, too."""
    with client(leafds[0]) as ear:
        ear.subscribe("will/#")
        with (
            client(leafds[1], "twin", level=level, will=Will("will/twin", b"gone")) as older,
            client(leafds[2], "twin", level=level) as newer,
        ):
            said = older.ended()
            assert ([0x8E] if level == 5 else None) == (said.reasons if said else None)
            assert b"gone" == ear.expect(PUBLISH).payload
            assert [] == newer.round_trip()
