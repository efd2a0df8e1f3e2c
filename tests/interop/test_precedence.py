"""What goes first over a leaf link, and a link that is kept to a pace, with real daemons over loopback."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.rig.raw import RawClient

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


class Client(RawClient):
    """One that remembers what came when."""

    def publish_one(self, subject: str) -> None:
        """A message of the tests' size."""
        self.publish(subject, b"x" * SIZE)

    def next(self, seconds: float = 30) -> tuple[str, float]:
        """The subject of the next message, and when it came."""
        return self.message(seconds).subject, time.monotonic()


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
        above, below = Client(hub), Client(leaf)
        try:
            for subject in ("alarm.>", "event.>", "log.>"):
                above.subscribe(subject)
            until = time.monotonic() + 10
            below.subscribe("ready")
            while time.monotonic() < until:  # the interest has come when a message passes
                below.publish_one("alarm.ready")
                below.lines()
                time.sleep(0.2)
                try:
                    above.next(0.2)
                    break
                except TimeoutError:
                    pass
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
        below.publish_one("log.x")
    below.publish_one("event.x")
    below.publish_one("alarm.x")
    below.lines()
    came = [above.next() for _ in range(MESSAGES + 2)]
    order = [subject for subject, _ in came if subject != "alarm.ready"]
    assert order.index("alarm.x") < 8
    assert order.index("event.x") < 12
    took = came[-1][1] - began
    assert MESSAGES * SIZE / 8192 * 0.7 < took < MESSAGES * SIZE / 8192 * 3
