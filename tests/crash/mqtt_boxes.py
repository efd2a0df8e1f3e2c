"""Many boxes, each with many devices of MQTT and a line of its own to the hub, while boxes and the hub are killed with
kill -9. What a device was acknowledged is in the box's stream and comes to the hub's, in the box's order. What has
QoS 2 is there once.

    python -m tests.crash.mqtt_boxes --boxes 10 --devices 50 --seconds 120

Each connection of a box to the hub is a line of 50 kbit/s, 200 ms of round trip and 1 % loss (tests/cell.py), so it
needs the right to make namespaces. Devices are as strict as the standard allows, and send at a pace that the line
bears. Not here: sessions that take messages while their server is killed (test_mqtt.py).
"""

from __future__ import annotations

import argparse
import contextlib
import random
import selectors
import socket
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests import cell, mqtt, servers
from tests.bench.process import Api
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link
from tests.crash.reading import Reader
from tests.crash.test_mqtt import Publisher
from tests.mqtt import CONNACK, Ended, Peer
from tests.rig.waiting import eventually

LINE: Final = Link(rate=50_000, delay=0.1, loss=0.01, apart=True)
PATIENCE_S: Final = 900.0
AGAIN_S: Final = 0.5
"""A device that was closed or not let in comes again after that."""
WINDOW: Final = 3
PADDING: Final = "." * 60
HUB_TEXT: Final = """
server_name: hub
listen: "127.0.0.1:{port}"
jetstream { store_dir: "{store}", domain: hub, max_mem: 64MB, max_file: 1GB }
leafnodes { listen: "0.0.0.0:{leaf_port}", authorization { timeout: 20 } }
"""
BOX_TEXT: Final = f"""
server_name: box-NUMBER
listen: "127.0.0.1:{{port}}"
jetstream {{ store_dir: "{{store}}", domain: box-NUMBER, max_mem: 64MB, max_file: 256MB }}
mqtt {{ listen: "127.0.0.1:{{mqtt_port}}" }}
leafnodes {{ remotes: [ {{ url: "nats-leaf://{HUB_ADDRESS}:{{hub_leaf_port}}" }} ] }}
"""
Text = bytes
"""The payload of a message, which is another one for each."""


@dataclass
class Device(Publisher):
    """Publishes a number after each pause, with QoS 1 and 2 in turn."""

    pause_s: float = 5.0
    topic: str = ""
    peer: Peer | None = None
    due: float = 0.0
    """When it comes again, or sends the next one."""
    known: bool = False
    """It was let in once, so there has to be a session."""

    def text(self, number: int) -> Text:
        return f"{self.name} {number} {PADDING}".encode()

    def _publish(self, peer: Peer, id: int, dup: bool) -> None:
        number = self.sent[id]
        qos = 1 + number % 2
        peer.send(mqtt.publish(self.topic, self.text(number), level=self.level, qos=qos, id=id, dup=dup))

    def go_on(self, peer: Peer) -> None:
        now = time.monotonic()
        if self.pauses or now < self.due or len(self.sent) + len(self.released) >= WINDOW:
            return
        self.due = now + self.pause_s
        used = self.sent.keys() | self.released.keys()
        id = next(one for one in range(1, 100) if one not in used)
        self.sent[id] = self.next_number
        self.next_number += 1
        self._publish(peer, id, dup=False)

    def come(self) -> None:
        """Asks to be let in."""
        self.due = time.monotonic() + AGAIN_S
        with contextlib.suppress(OSError):
            sock = socket.create_connection(("127.0.0.1", self.server.ports["mqtt_port"]), 1)
            self.peer = Peer(sock, level=self.level, begin=False)
            found = {"session_expiry": 36000} if self.level == 5 else {}
            self.peer.send(mqtt.connect(self.level, self.name, clean=False, keep_alive=0, found=found))
            sock.settimeout(0)

    def hear(self, peer: Peer) -> None:
        """Everything that has come."""
        try:
            while True:
                packet = peer.packet()
                if packet.kind != CONNACK:
                    self.take(peer, packet)
                    continue
                if packet.reason != 0:
                    raise Ended("not let in")
                if self.known and not packet.session_present:
                    self.faults.append(f"{self.name} has lost its session")
                self.known = True
                peer.welcome = packet
                self.begin(peer)
        except BlockingIOError:
            pass
        except (Ended, OSError):
            self.go()

    def step(self) -> None:
        """Comes, or sends, when it is time to."""
        peer = self.peer
        if peer is None and time.monotonic() >= self.due:
            self.come()
        elif peer is not None and peer.welcome.kind == CONNACK:
            try:
                self.go_on(peer)
            except OSError:
                self.go()

    def go(self) -> None:
        """Its connection ends."""
        if self.peer is not None:
            self.peer.socket.close()
        self.peer, self.due = None, time.monotonic() + AGAIN_S


@dataclass
class Box:
    """A leaf and its devices, which are served by a thread until it is told to stop."""

    joined: Cell
    number: int
    server: servers.Server
    devices: list[Device]
    over: threading.Event = field(default_factory=threading.Event)
    kills: int = 0

    def serve(self) -> None:
        with self.joined.at(LEAF):
            while not self.over.is_set():
                for device in self.devices:
                    device.step()
                with selectors.DefaultSelector() as here:
                    for device in self.devices:
                        if device.peer is not None:
                            here.register(device.peer.socket, selectors.EVENT_READ, device)
                    for key, _ in here.select(0.1):
                        key.data.hear(key.data.peer)
            for device in self.devices:
                device.go()

    def start(self) -> None:
        with self.joined.at(LEAF):
            self.server.start()

    def waits(self) -> int:
        """How many of its messages are not acknowledged."""
        return sum(len(one.sent) + len(one.released) for one in self.devices)

    def held(self) -> list[Text]:
        """What its stream has."""
        with self.joined.at(LEAF), Reader(self.server, 60) as reader:
            return [text for _, text in reader.all("T")]


def made(joined: Cell, chosen: argparse.Namespace, folder: Path) -> tuple[servers.Server, list[Box]]:
    """The hub, whose stream has those of the boxes as its sources, and the boxes, all started."""

    def place(name: str, text: str, **more: object) -> servers.Server:
        (folder / name).mkdir()
        return servers.make(servers.LEAFD, text, folder / name, **more)

    hub = place("hub", HUB_TEXT)
    with joined.at(HUB):
        hub.start()
    boxes: list[Box] = []
    for number in range(chosen.boxes):
        text = BOX_TEXT.replace("NUMBER", str(number))
        server = place(f"box-{number}", text, hub_leaf_port=hub.ports["leaf_port"])
        devices = [
            Device(server, f"{number}-{each}", 4 + each % 2, pause_s=chosen.pause, topic=f"t/{number}/{each}")
            for each in range(chosen.devices)
        ]
        for each, device in enumerate(devices):
            device.due = time.monotonic() + chosen.pause * each / len(devices)
        boxes.append(Box(joined, number, server, devices))
        boxes[-1].start()
        with joined.at(LEAF):
            api = Api(server.port)
            api.must("$JS.API.STREAM.CREATE.T", {"name": "T", "subjects": [f"t.{number}.>"], "allow_direct": True})
            api.close()
    with joined.at(HUB):
        api = Api(hub.port)
        sources = [{"name": "T", "external": {"api": f"$JS.box-{one.number}.API"}} for one in boxes]
        api.must("$JS.API.STREAM.CREATE.ALL", {"name": "ALL", "sources": sources, "allow_direct": True})
        api.close()
    return hub, boxes


def harm(hub: servers.Server, boxes: list[Box], joined: Cell, seconds: float, draw: random.Random) -> int:
    """Boxes die and are back, the hub as well now and then, or the lines are silent. How often the hub died."""
    ends, hub_kills = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        time.sleep(draw.uniform(0.5, 3))
        match draw.randrange(8):
            case 0:
                hub.kill()
                hub_kills += 1
                time.sleep(draw.uniform(0, 8))
                with joined.at(HUB):
                    hub.start()
            case 1:
                joined.change(Link(rate=50_000, delay=0.1, loss=1.0, apart=True))
                time.sleep(draw.uniform(1, 10))
                joined.change(LINE)
            case _:
                box = draw.choice(boxes)
                box.server.kill()
                box.kills += 1
                time.sleep(draw.uniform(0, 2))
                box.start()
    return hub_kills


def at_hub(hub: servers.Server, joined: Cell) -> list[Text]:
    with joined.at(HUB), Reader(hub, 60) as reader:
        return [text for _, text in reader.all("ALL")]


def judge(boxes: list[Box], everything: list[Text]) -> list[str]:
    """What is not as it was promised."""
    faults = [fault for box in boxes for device in box.devices for fault in device.faults]
    of_box: dict[str, list[Text]] = {str(box.number): [] for box in boxes}
    for text in everything:
        of_box[text.split(b"-")[0].decode()].append(text)
    for box in boxes:
        held = box.held()
        if held != of_box[str(box.number)]:
            found = len(of_box[str(box.number)])
            faults.append(f"the hub has {found} messages of box {box.number}, which has {len(held)}, or another order")
        times = Counter(held)
        for device in box.devices:
            lost = [number for number in device.acknowledged if device.text(number) not in times]
            faults += [f"{device.name} {number} was acknowledged and is not there" for number in lost]
            twice = [one for one in range(1, device.next_number, 2) if times[device.text(one)] > 1]
            faults += [f"{device.name} {one} has QoS 2 and is there {times[device.text(one)]} times" for one in twice]
    return faults


def walk(chosen: argparse.Namespace, folder: Path) -> list[str]:
    draw = random.Random(chosen.seed)
    with cell.joined(LINE) as joined, contextlib.ExitStack() as ends:
        hub, boxes = made(joined, chosen, folder)
        for server in (hub, *(box.server for box in boxes)):
            ends.callback(server.stop)
        threads = [threading.Thread(target=box.serve, daemon=True) for box in boxes]
        for thread in threads:
            thread.start()
        hub_kills = harm(hub, boxes, joined, chosen.seconds, draw)
        for box in boxes:
            for device in box.devices:
                device.pauses = True

        def waits() -> int:
            return sum(box.waits() for box in boxes)

        eventually(lambda: waits() == 0, lambda: f"{waits()} messages are not acknowledged", seconds=PATIENCE_S)
        begun = time.monotonic()
        count = sum(len(box.held()) for box in boxes)
        with joined.at(HUB):
            api = Api(hub.port)
        with contextlib.suppress(AssertionError), contextlib.closing(api):
            eventually(lambda: api.messages_in("ALL") >= count, seconds=PATIENCE_S)
        level_s = time.monotonic() - begun
        for box in boxes:
            box.over.set()
        for thread in threads:
            thread.join()
        everything = at_hub(hub, joined)
        acknowledged = sum(len(device.acknowledged) for box in boxes for device in box.devices)
        kills = sum(box.kills for box in boxes)
        print(
            f"seed {chosen.seed}: {len(boxes)} boxes with {chosen.devices} devices each, {kills} kills of boxes and "
            f"{hub_kills} of the hub; {acknowledged} acknowledged, {len(everything)} at the hub, level {level_s:.0f} s "
            "after the last one"
        )
        return judge(boxes, everything)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, default=10)
    parser.add_argument("--devices", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--pause", type=float, default=5, help="seconds between two messages of a device")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    with tempfile.TemporaryDirectory(prefix="leafd-boxes-") as folder:
        faults = walk(parser.parse_args(), Path(folder))
    print(f"{len(faults)} faults")
    for one in faults[:20]:
        print(f"    {one}")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
