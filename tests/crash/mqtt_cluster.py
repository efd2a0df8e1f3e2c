"""Three servers that keep sessions of MQTT together, while one after the other is killed with kill -9. Clients
without a session publish at all three of them. A device with a session takes what comes, at the server that serves it.
What was acknowledged to a publisher comes to the device, and what has QoS 2 comes once.

    python -m tests.crash.mqtt_cluster leafd nats-server --seconds 60 --seed 7

A message of QoS 2 counts as acknowledged with PUBCOMP: a publisher without a session that is closed before has no
promise. Not here: one server whose publishers have sessions (test_mqtt.py), boxes behind lines (mqtt_boxes.py).
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests import mqtt, servers
from tests.interop.mqtt_walks import client
from tests.interop.test_mqtt_replicas import cluster
from tests.mqtt import PUBACK, PUBCOMP, PUBREC, PUBREL, Peer, acknowledge
from tests.rig.waiting import eventually

PUBLISHERS: Final = 3
HEARD_S: Final = 1.0
ANSWER_S: Final = 15.0
QUIET_S: Final = 12.0
"""So long nothing comes any more: then all has come that will come."""
AGAIN_S: Final = 0.02
OFTEN: Final = 0.7
"""The chance that the server dies that has the device."""
SUBSCRIPTION: Final = 60_000
"""An identifier that no message of the device has."""


@dataclass
class Device:
    """Has a session for all that is published, and goes from server to server."""

    made: list[servers.Server]
    over: threading.Event
    home: servers.Server | None = None
    came: int = 0
    """How often it was let in."""
    heard: float = 0.0
    """When the last message came."""
    taken: list[tuple[int, bytes]] = field(default_factory=list)
    """Quality and payload of each; one of QoS 2 that comes again within its handshake is the same one."""
    open: set[int] = field(default_factory=set)
    """The identifiers of QoS 2 that were not released yet, which outlive a connection."""
    faults: list[str] = field(default_factory=list)

    def serve(self) -> None:
        while not self.over.is_set():
            for server in self.made:
                try:
                    with client(server, "device", clean=False) as peer:
                        self._begin(server, peer)
                        self._take(peer)
                except (AssertionError, OSError):  # not let in, closed (Ended is an AssertionError), or it is not up
                    time.sleep(AGAIN_S)

    def _begin(self, server: servers.Server, peer: Peer) -> None:
        if self.came and not peer.welcome.session_present:
            self.faults.append("the device has lost its session")
        self.home, self.came = server, self.came + 1
        peer.send(mqtt.subscribe(SUBSCRIPTION, ("for/device", 2)))
        peer.socket.settimeout(HEARD_S)

    def _take(self, peer: Peer) -> None:
        while not self.over.is_set():
            try:
                found = peer.packet()
            except TimeoutError:
                peer.send(mqtt.packet(mqtt.PINGREQ, b""))
                continue
            match found.kind:
                case mqtt.PUBLISH:
                    self._message(peer, found)
                case mqtt.PUBREL:
                    self.open.discard(found.id)
                    peer.send(acknowledge(PUBCOMP, found.id))
                case mqtt.SUBACK | mqtt.PINGRESP:
                    pass
                case _:
                    self.faults.append(f"the device was sent {found}")

    def _message(self, peer: Peer, found: mqtt.Packet) -> None:
        self.heard = time.monotonic()
        if found.qos != 2 or found.id not in self.open:
            self.taken.append((found.qos, found.payload))
        if found.qos == 2:
            self.open.add(found.id)
        peer.send(acknowledge(PUBREC if found.qos == 2 else PUBACK, found.id))


@dataclass
class Publisher:
    """Publishes with QoS 1 and 2 in turn, each message once, at one server after the other."""

    made: list[servers.Server]
    number: int
    over: threading.Event
    acknowledged: list[bytes] = field(default_factory=list)
    next: int = 0

    def serve(self) -> None:
        while not self.over.is_set():
            try:
                with client(self.made[(self.number + self.next) % len(self.made)]) as peer:
                    peer.socket.settimeout(ANSWER_S)
                    while not self.over.is_set():
                        self._publish(peer)
            except (AssertionError, OSError):
                self.next += 1
                time.sleep(AGAIN_S)

    def _publish(self, peer: Peer) -> None:
        self.next += 1
        text, qos = b"%d %d" % (self.number, self.next), 1 + self.next % 2
        id = peer.publish("for/device", text, qos=qos)
        if qos == 2:
            assert peer.expect(PUBREC).id == id
            peer.send(acknowledge(PUBREL, id))
        assert peer.expect(PUBACK if qos == 1 else PUBCOMP).id == id
        self.acknowledged.append(text)


def harm(device: Device, seconds: float, draw: random.Random) -> tuple[int, list[float]]:
    """Servers die and are back. How often, and after how many seconds the device was served again, where it was its
    server and that was before the server was back."""
    ends, kills, waits = time.monotonic() + seconds, 0, list[float]()
    while time.monotonic() < ends:
        time.sleep(draw.uniform(2, 5))
        home, before = device.home, device.came
        victim = home if home is not None and draw.random() < OFTEN else draw.choice(device.made)
        victim.kill()
        died, kills = time.monotonic(), kills + 1
        until = died + draw.uniform(1, 5)
        while victim is home and device.came == before and time.monotonic() < until:
            time.sleep(0.01)
        if victim is home and device.came > before:
            waits.append(time.monotonic() - died)
        time.sleep(max(0.0, until - time.monotonic()))
        victim.start()
        time.sleep(3)
    return kills, waits


def judge(device: Device, publishers: list[Publisher]) -> list[str]:
    """What is not as it was promised."""
    times = Counter(text for _, text in device.taken)
    lost = [text for one in publishers for text in one.acknowledged if text not in times]
    strict = Counter(text for qos, text in device.taken if qos == 2)
    twice = [text for text, count in strict.items() if count > 1]
    return [
        *device.faults,
        *(f"{text.decode()} was acknowledged and did not come" for text in lost),
        *(f"{text.decode()} has QoS 2 and came {strict[text]} times" for text in twice),
    ]


def walk(kind: str, seconds: float, seed: int, folder: Path) -> list[str]:
    with cluster(kind, folder) as made:
        gone, over = threading.Event(), threading.Event()
        device = Device(made, gone)
        publishers = [Publisher(made, number, over) for number in range(PUBLISHERS)]
        first = _begun(device.serve)
        eventually(lambda: device.came, "no server takes the device")
        time.sleep(1)  # its subscription
        others = [_begun(one.serve) for one in publishers]
        kills, waits = harm(device, seconds, random.Random(seed))
        over.set()
        for one in others:
            one.join()
        device.heard = time.monotonic()
        eventually(lambda: time.monotonic() - device.heard > QUIET_S, "it does not come to an end", seconds=600)
        gone.set()
        first.join()
    acknowledged = sum(len(one.acknowledged) for one in publishers)
    back = f"; the device was at another server after {statistics.median(waits):.2f} s in the median" if waits else ""
    print(f"{kind}, seed {seed}: {kills} kills, {acknowledged} acknowledged, {len(device.taken)} taken{back}")
    return judge(device, publishers)


def _begun(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=servers.KINDS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    chosen = parser.parse_args()
    count = 0
    for kind in chosen.kinds:
        with tempfile.TemporaryDirectory(prefix="leafd-mqtt-") as folder:
            faults = walk(kind, chosen.seconds, chosen.seed, Path(folder))
        print(f"{len(faults)} faults")
        for one in faults[:20]:
            print(f"    {one}")
        count += len(faults)
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main())
