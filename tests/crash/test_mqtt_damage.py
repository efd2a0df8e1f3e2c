"""A page of the records of MQTT's sessions is damaged, while the server is down or runs: each session is there, as it
was, and gets what comes meanwhile, since its records are kept twice.

Not here: a record that is damaged in both places (native/test_plane_mqtt_damaged.c).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests import mqtt, servers
from tests.crash.damaged import file_of
from tests.crash.pages import PAGE, kinds_of
from tests.interop.mqtt_walks import CONFIGURATION, port
from tests.mqtt import CONNACK, PUBACK, PUBLISH, Ended, Peer

DEVICES: Final = 120
PATIENCE_S: Final = 60.0


def comes(server: servers.Server, number: int) -> Peer:
    """A device that has its session, or wants one."""
    peer = Peer(port(server), begin=False)
    peer.send(mqtt.connect(4, f"device-{number:04}-of-the-works", clean=False, user="devices", password="d"))
    peer.welcome = peer.expect(CONNACK)
    return peer


def spoil(server: servers.Server, kind: str) -> int:
    """Zeros are what the second page of that kind has from now on. Returns how many there are."""
    path = file_of(server, "data.mdb")
    pages = kinds_of(path)[kind]
    with path.open("r+b") as file:
        file.seek(pages[len(pages) > 1] * PAGE)
        file.write(bytes(PAGE))
    return len(pages)


def patiently(server: servers.Server, work: Callable[[], None]) -> None:
    """The server may begin again meanwhile, to mend its store: then once more."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return work()
        except (Ended, OSError):
            assert time.monotonic() < end, server.log
            time.sleep(0.1)


def takes(server: servers.Server, number: int, word: bytes, told: set[int]) -> None:
    """The device has its session, and in it what was published to it alone. told: devices that have acknowledged it."""
    with comes(server, number) as peer:
        assert peer.welcome.session_present, f"{number}\n{server.log}"
        if number in told:
            return
        message = peer.expect(PUBLISH)
        while message.payload != word:  # one that it has acknowledged when the server ended
            peer.send(mqtt.acknowledge(PUBACK, message.id))
            message = peer.expect(PUBLISH)
        assert message.topic == f"d/{number}"
        peer.send(mqtt.acknowledge(PUBACK, message.id))
        told.add(number)
        peer.round_trip()


def sends(server: servers.Server, number: int, word: bytes) -> None:
    with Peer(port(server), client="sender", user="devices", password="d") as peer:
        peer.publish(f"d/{number}", word, qos=1)
        peer.expect(PUBACK)


def all_are_there(server: servers.Server, word: bytes) -> None:
    for number in range(DEVICES):
        patiently(server, partial(sends, server, number, word))
    told: set[int] = set()
    for number in range(DEVICES):
        patiently(server, partial(takes, server, number, word, told))


@pytest.mark.parametrize("kind", ["records leaf", "record_copies leaf"])
@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_sessions_outlive_a_damaged_page_of_their_records(tmp_path: Path, kind: str, running: bool) -> None:
    """Whichever of the two places has the page, and whether the server runs or not."""
    server = servers.make(servers.LEAFD, CONFIGURATION, tmp_path)
    server.start()
    try:
        for number in range(DEVICES):
            with comes(server, number) as peer:
                assert not peer.welcome.session_present
                assert [1] == peer.subscribe((f"d/{number}", 1))
        assert server.stop() == 0
        if not running:
            assert spoil(server, kind) > 1
        server.start()
        if running:
            assert spoil(server, kind) > 1
        all_are_there(server, b"first")
        assert server.stop() == 0
        server.start()
        all_are_there(server, b"second")
    finally:
        server.stop()
