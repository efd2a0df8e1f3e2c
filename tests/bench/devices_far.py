"""Devices of MQTT behind one slow line that loses packets (tests/cell.py): a thousand log in at the same moment, and
each publishes with QoS 1, the next message when the one before was acknowledged.

    python -m tests.bench.devices_far [SERVER ...] [--devices 1000] [--messages 5] [--rate 500000] [--trip 0.6]
                                      [--loss 0.01] [--rounds 1]

Told is when all were let in, when all was acknowledged, how long an acknowledgement took (median and 99 %), how many
bytes went over the line each way for each message, and the server's processor time and memory. A connection that ends
counts as lost, and its device does not come again. Needs root. Not here: rows over loopback (devices.py).
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import selectors
import shutil
import socket
import statistics
import time
from dataclasses import dataclass, field
from typing import Final

from tests import mqtt, servers
from tests.bench.devices import MOSQUITTO, PAYLOAD, Broker, Setup, running
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link, joined

PATIENCE_S: Final = 300.0
"""All of it, beyond which it has not come to its end."""
CONNACK_SIZE: Final = 4
PUBACK_SIZE: Final = 4
KEEP_ALIVE_S: Final = 0


@dataclass
class Device:
    """One that has been dialled."""

    number: int
    sock: socket.socket
    here: bool = False
    due: int = 0
    """Bytes of the answer that it waits for."""
    acknowledged: int = 0
    sent_at: float = 0.0


@dataclass
class Seen:
    """What became of all of them."""

    devices: int
    messages: int
    begin: float = field(default_factory=time.monotonic)
    here: int = 0
    ended: int = 0
    lost: int = 0
    here_s: float = 0.0
    took_s: list[float] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.ended + self.lost == self.devices


def dial(number: int, port: int) -> Device:
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    code = sock.connect_ex((HUB_ADDRESS, port))
    assert code in (0, errno.EINPROGRESS), os.strerror(code)
    return Device(number, sock)


def say(device: Device, packet: bytes, answer: int) -> None:
    assert device.sock.send(packet) == len(packet)
    device.due, device.sent_at = answer, time.monotonic()


def publish(device: Device) -> None:
    topic = f"kept/{device.number}"
    say(device, mqtt.publish(topic, PAYLOAD, qos=1, id=1 + device.acknowledged), PUBACK_SIZE)


def greet(device: Device) -> None:
    say(device, mqtt.connect(4, f"far{device.number}", clean=True, keep_alive=KEEP_ALIVE_S), CONNACK_SIZE)


def answered(device: Device, seen: Seen) -> None:
    """The whole answer has come: what it says next, if anything."""
    now = time.monotonic()
    if not device.here:
        device.here = True
        seen.here += 1
        seen.here_s = now - seen.begin
    else:
        device.acknowledged += 1
        seen.took_s.append(now - device.sent_at)
    if device.acknowledged == seen.messages:
        seen.ended += 1
    else:
        publish(device)


def heard(device: Device, seen: Seen) -> bool:
    """Reads what came. False: its connection has ended."""
    try:
        size = len(device.sock.recv(4096))
    except OSError:
        size = 0
    if size == 0:
        return False
    device.due -= size
    assert device.due >= 0, "more than was to come"
    if device.due == 0:
        answered(device, seen)
    return True


def walk(port: int, devices: int, messages: int) -> Seen:
    """Called in the devices' place."""
    seen = Seen(devices, messages)
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        for number in range(devices):
            device = dial(number, port)
            stack.callback(device.sock.close)
            selector.register(device.sock, selectors.EVENT_WRITE, device)
        while not seen.over and time.monotonic() - seen.begin < PATIENCE_S:
            for key, ready in selector.select(1.0):
                device = key.data
                if ready & selectors.EVENT_WRITE and device.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    greet(device)
                    selector.modify(device.sock, selectors.EVENT_READ, device)
                elif ready & selectors.EVENT_WRITE or not heard(device, seen):
                    selector.unregister(device.sock)
                    seen.lost += device.acknowledged < messages
    return seen


def told(kind: str, cell: Cell, broker: Broker, seen: Seen, cpu_s: float) -> str:
    took = sorted(seen.took_s) or [float("nan")]
    count = max(len(seen.took_s), 1)
    return (
        f"{kind:12} here {seen.here} after {seen.here_s:.1f} s, all acknowledged to {seen.ended} after "
        f"{time.monotonic() - seen.begin:.1f} s, lost {seen.lost}; an acknowledgement {statistics.median(took):.2f} s, "
        f"99 % {took[len(took) * 99 // 100]:.2f}; bytes a message up {cell.carried[HUB] / count:.0f}, down "
        f"{cell.carried[LEAF] / count:.0f}; cpu {(broker.cpu_s() - cpu_s) * 1e6 / count:.0f} us a message, memory "
        f"{broker.memory() / 1e6:.1f} MB; load {os.getloadavg()[0]:.1f}"
    )


def measured(kind: str, link: Link, devices: int, messages: int) -> None:
    with joined(link) as cell, cell.at(HUB), running(kind, Setup(address="0.0.0.0")) as broker:
        cell.carried[:] = [0, 0]
        cpu_s = broker.cpu_s()
        with cell.at(LEAF):
            seen = walk(broker.port, devices, messages)
        print(told(kind, cell, broker, seen, cpu_s), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    kinds = [*servers.KINDS, *([MOSQUITTO] if shutil.which(MOSQUITTO) else [])]
    parser.add_argument("servers", nargs="*", default=kinds, metavar="SERVER", help=", ".join(kinds))
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=5)
    parser.add_argument("--rate", type=float, default=500_000.0, help="bits a second, of all together")
    parser.add_argument("--trip", type=float, default=0.6, help="seconds there and back")
    parser.add_argument("--loss", type=float, default=0.01)
    parser.add_argument("--rounds", type=int, default=1)
    chosen = parser.parse_args()
    link = Link(rate=chosen.rate, delay=chosen.trip / 2, loss=chosen.loss, queue=256 << 10)
    for number in range(chosen.rounds):
        for kind in chosen.servers if number % 2 == 0 else chosen.servers[::-1]:
            measured(kind, link, chosen.devices, chosen.messages)


if __name__ == "__main__":
    main()
