"""Sessions of MQTT while the server is killed with kill -9 again and again: what was acknowledged is there, in the
sessions of those who want it, and what has QoS 2 is there once. The clients are as strict as the standard allows: each
keeps the state of its session and begins where it was.

    python -m tests.crash.test_mqtt 200        so many kills

Not here: power cuts and damage (test_power.py, test_damage.py), which are the store's.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import CONFIGURATION, client
from tests.mqtt import CONNACK, LEVELS, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Ended, Packet, Peer
from tests.rig.waiting import eventually

KILLS: Final = 4
SPREAD_S: Final = 0.25
WINDOW: Final = 20


@dataclass
class Client:
    """A client with a session, in a thread of its own until it is told to stop; connects again and again."""

    server: servers.Server
    name: str
    level: int
    over: threading.Event = field(default_factory=threading.Event)
    faults: list[str] = field(default_factory=list)

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while not self.over.is_set():
            with contextlib.suppress(Ended, OSError), client(self.server, level=self.level, begin=False) as peer:
                found = {"session_expiry": 3600} if self.level == 5 else {}
                peer.send(mqtt.connect(self.level, self.name, clean=False, found=found))
                peer.welcome = peer.expect(CONNACK)
                self.begin(peer)
                peer.socket.settimeout(0.05)
                while not self.over.is_set():
                    with contextlib.suppress(TimeoutError):
                        self.take(peer, peer.packet())
                    self.go_on(peer)
            time.sleep(0.01)

    def begin(self, peer: Peer) -> None:
        raise NotImplementedError

    def take(self, peer: Peer, packet: Packet) -> None:
        raise NotImplementedError

    def go_on(self, peer: Peer) -> None:
        """Nothing comes, or something came."""


@dataclass
class Publisher(Client):
    """Publishes numbers, with QoS 1 and 2 in turn; one that was not acknowledged is sent again."""

    next_number: int = 0
    acknowledged: set[int] = field(default_factory=set)
    sent: dict[int, int] = field(default_factory=dict)  # identifier > number, up to PUBACK or PUBREC
    released: dict[int, int] = field(default_factory=dict)  # up to PUBCOMP
    pauses: bool = False

    def got_beyond(self, count: int) -> bool:
        return len(self.acknowledged) > count

    def _publish(self, peer: Peer, id: int, dup: bool) -> None:
        number = self.sent[id]
        peer.send(mqtt.publish("n/x", b"%d" % number, level=self.level, qos=1 + number % 2, id=id, dup=dup))

    def begin(self, peer: Peer) -> None:
        for id in self.released:
            peer.send(mqtt.acknowledge(PUBREL, id))
        for id in self.sent:
            self._publish(peer, id, dup=True)
        self.go_on(peer)

    def take(self, peer: Peer, packet: Packet) -> None:
        if packet.kind == PUBACK and packet.id in self.sent:
            self.acknowledged.add(self.sent.pop(packet.id))
        elif packet.kind == PUBREC and packet.id in self.sent:
            number = self.sent.pop(packet.id)
            self.acknowledged.add(number)
            self.released[packet.id] = number
            peer.send(mqtt.acknowledge(PUBREL, packet.id))
        elif packet.kind == PUBCOMP:
            self.released.pop(packet.id, None)

    def go_on(self, peer: Peer) -> None:
        while not self.pauses and len(self.sent) + len(self.released) < WINDOW:
            used = self.sent.keys() | self.released.keys()
            id = next(one for one in range(1, 100) if one not in used)
            self.sent[id] = self.next_number
            self.next_number += 1
            self._publish(peer, id, dup=False)


@dataclass
class Subscriber(Client):
    """Takes numbers: what has QoS 2 once, by the identifiers that it has not released."""

    taken: dict[int, int] = field(default_factory=dict)  # number > how often
    held: set[int] = field(default_factory=set)
    subscribed: threading.Event = field(default_factory=threading.Event)

    def begin(self, peer: Peer) -> None:
        if not self.subscribed.is_set():
            assert [2] == peer.subscribe(("n/#", 2))
            self.subscribed.set()
        elif not peer.welcome.session_present:
            self.faults.append(f"{self.name} has lost its session")

    def take(self, peer: Peer, packet: Packet) -> None:
        if packet.kind == PUBLISH:
            if packet.qos == 1 or packet.id not in self.held:
                number = int(packet.payload)
                self.taken[number] = self.taken.get(number, 0) + 1
            if packet.qos == 2:
                self.held.add(packet.id)
            peer.send(mqtt.acknowledge(PUBACK if packet.qos == 1 else PUBREC, packet.id))
        elif packet.kind == PUBREL:
            self.held.discard(packet.id)
            peer.send(mqtt.acknowledge(PUBCOMP, packet.id))


def walk(server: servers.Server, level: int, kills: int, seed: int) -> tuple[int, list[str]]:
    """So many kills. How many messages were acknowledged; what was not as it should be."""
    draw = random.Random(seed)
    publisher = Publisher(server, "publisher", level)
    subscriber = Subscriber(server, "subscriber", level)
    threads = [subscriber.start()]
    assert subscriber.subscribed.wait(servers.START_SECONDS_MAX)
    threads.append(publisher.start())
    for _ in range(kills):
        eventually(functools.partial(publisher.got_beyond, len(publisher.acknowledged)), "something is acknowledged")
        time.sleep(draw.random() * SPREAD_S)
        server.kill()
        server.start()
    publisher.pauses = True
    eventually(lambda: not publisher.sent and not publisher.released, "all is acknowledged")
    acknowledged = set(publisher.acknowledged)
    with contextlib.suppress(AssertionError):
        eventually(lambda: acknowledged <= subscriber.taken.keys(), "all has come")
    publisher.over.set()
    subscriber.over.set()
    for thread in threads:
        thread.join()
    faults = publisher.faults + subscriber.faults
    faults += [f"{number} was acknowledged and never came" for number in acknowledged - subscriber.taken.keys()]
    twice = [number for number, times in subscriber.taken.items() if times > 1 and number % 2 == 1]
    faults += [f"{number} has QoS 2 and came {subscriber.taken[number]} times" for number in twice]
    return len(acknowledged), faults


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_acknowledged_outlives_kills_and_qos_2_comes_once(level: int, tmp_path: Path) -> None:
    """A publisher of QoS 1 and 2 and a subscriber, both with sessions that outlive their connections."""
    server = servers.make(servers.LEAFD, CONFIGURATION, tmp_path)
    server.start()
    try:
        acknowledged, faults = walk(server, level, KILLS, seed=level)
    finally:
        server.stop()
    assert faults == []
    assert acknowledged > KILLS


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    for level in LEVELS:
        with servers.running(servers.LEAFD, CONFIGURATION) as server:
            acknowledged, faults = walk(server, level, kills, seed)
        print(f"level {level}, seed {seed}: {kills} kills, {acknowledged} acknowledged, {len(faults)} faults")
        for one in faults[:20]:
            print(f"    {one}")


if __name__ == "__main__":
    main()
