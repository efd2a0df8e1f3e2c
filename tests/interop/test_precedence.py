"""What goes first over a leaf link, and a link that is kept to a pace, with real daemons over loopback."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers

HUB = """
server_name: hub
listen: "127.0.0.1:{port}"
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
LEAF = """
server_name: leaf
listen: "127.0.0.1:{port}"
leafnodes { remotes: [ {
    url: "nats-leaf://127.0.0.1:{hub_leaf_port}"
    compression: off
    priority { high: ["alarm.>"], low: ["log.>"] }
    limits { bytes_per_second: 8KB }
} ] }
"""
SIZE = 1000
MESSAGES = 40


class Client:
    """One that remembers what came when."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 5)
        self._file = self._socket.makefile("rb")
        self._send("CONNECT {}")

    def _send(self, line: str) -> None:
        self._socket.sendall(f"{line}\r\n".encode())

    def subscribe(self, subject: str) -> None:
        self._send(f"SUB {subject} {subject}")
        self.flush()

    def flush(self) -> None:
        self._send("PING")
        while (line := self._file.readline()) and not line.startswith(b"PONG"):
            pass

    def publish(self, subject: str) -> None:
        self._send(f"PUB {subject} {SIZE}\r\n{'x' * SIZE}")

    def next(self) -> tuple[str, float]:
        line = self._file.readline()
        while not line.startswith(b"MSG"):
            assert line, "the server closed"
            if line.startswith(b"PING"):
                self._send("PONG")
            line = self._file.readline()
        self._file.read(SIZE + 2)
        return line.split()[1].decode(), time.monotonic()

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.fixture
def pair() -> Iterator[tuple[Client, Client]]:
    """A client of the hub, which hears everything of both kinds, and one of the leaf."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hub").mkdir()
        (Path(folder) / "leaf").mkdir()
        hub = servers.make(servers.LEAFD, HUB, Path(folder) / "hub")
        hub.start()
        leaf = servers.make(servers.LEAFD, LEAF, Path(folder) / "leaf", hub_leaf_port=hub.ports["leaf_port"])
        leaf.start()
        above, below = Client(hub.port), Client(leaf.port)
        try:
            for subject in ("alarm.>", "event.>", "log.>"):
                above.subscribe(subject)
            until = time.monotonic() + 10
            below.subscribe("ready")
            while time.monotonic() < until:  # the interest has come when a message passes
                below.publish("alarm.ready")
                below.flush()
                time.sleep(0.2)
                above._socket.settimeout(0.2)
                try:
                    above.next()
                    break
                except TimeoutError:
                    above._file = above._socket.makefile("rb")
            above._socket.settimeout(30)
            yield above, below
        finally:
            above.close()
            below.close()
            leaf.stop()
            hub.stop()


def test_what_is_named_goes_first_and_the_pace_is_kept(pair: tuple[Client, Client]) -> None:
    """An alarm behind 40 KB of logs is there before nearly all of them, and these take the time that the limit says."""
    above, below = pair
    began = time.monotonic()
    for _ in range(MESSAGES):
        below.publish("log.x")
    below.publish("event.x")
    below.publish("alarm.x")
    below.flush()
    came = [above.next() for _ in range(MESSAGES + 2)]
    order = [subject for subject, _ in came if subject != "alarm.ready"]
    assert order.index("alarm.x") < 8
    assert order.index("event.x") < 12
    took = came[-1][1] - began
    assert MESSAGES * SIZE / 8192 * 0.7 < took < MESSAGES * SIZE / 8192 * 3
