#!/usr/bin/env python3
"""What a message takes of the disk in a stream without and with `compression: s2`, and of the server's processor time
when it is stored and read, in leafd and in nats-server: the table of packaging/doc/figures.md.

    python -m tests.bench.compressed [COUNT]        messages of each kind (120000; of 1 KB a quarter)

What comes back is compared with what was sent. Not here: the rows that are held to a goal (rows.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.process import Api
from tests.servers import LEAFD, REFERENCE, Server, running

CONFIGURATION = 'listen: "127.0.0.1:{port}"\njetstream { store_dir: "{store}" }\n'
STREAM = "S"
COUNT = 120_000
WINDOW = 2_000  # messages that a server has not stored yet; nats-server drops what comes faster
SETTLE_SECONDS = 4
READ_SECONDS_MAX = 120

Message = tuple[str, bytes, bytes]  # subject, header, payload


def stamp(number: int, chance: random.Random) -> str:
    return f"2026-11-22T11:{number // 600 % 60:02d}:{number // 10 % 60:02d}.{chance.randrange(1000):03d}Z"


def reading(number: int, chance: random.Random) -> Message:
    box = f"box-{chance.randrange(40):04d}"
    fields = {"box": box, "time": stamp(number, chance), "sensor": "engine", "rpm": chance.randrange(4000)}
    more = {"temperature": chance.randrange(1200) / 10, "pressure": chance.randrange(800) / 100, "ok": True}
    return f"t.{box}.engine", b"", json.dumps(fields | more, separators=(",", ":")).encode()


def identified(number: int, chance: random.Random) -> Message:
    subject, _, payload = reading(number, chance)
    name = uuid.UUID(int=chance.getrandbits(128))
    return subject, f"NATS/1.0\r\nMessage-Key: {name}\r\nContent-Type: application/json\r\n\r\n".encode(), payload


def drifting(number: int, chance: random.Random) -> Message:
    sensor = number % 8
    fields = {"id": f"sensor-{sensor:02d}", "ts": 1763852345000 + number * 100, "temp": round(20 + number / 9e3, 2)}
    more = {"hum": round(45 + chance.gauss(0, 1), 1), "bat": 3.712, "fw": "1.4.2", "state": "ok", "seq": number}
    return f"t.{sensor}.env", b"", json.dumps(fields | more, separators=(",", ":")).encode()


def collected(number: int, chance: random.Random) -> Message:
    box = f"box-{chance.randrange(40):04d}"
    kinds = {"temperature": 60, "pressure": 4, "rpm": 2000, "current": 12, "voltage": 230, "vibration": 3, "flow": 33}
    readings = [
        {"sensor": f"{box}/{kind}", "kind": kind, "value": round(chance.gauss(usual, usual / 9), 2)}
        | {"time": stamp(number, chance), "quality": chance.choice(["good", "good", "good", "poor"])}
        for kind, usual in (kinds | {"humidity": 50}).items()
    ]
    return f"t.{box}.engine", b"", json.dumps(readings, separators=(",", ":")).encode()


KINDS: dict[str, tuple[Callable[[int, random.Random], Message], int]] = {
    "readings of 40 boxes": (reading, 1),
    "of 8 sensors, drifting": (drifting, 1),
    "with a random id": (identified, 1),
    "eight readings in one": (collected, 4),
}


def cpu_seconds(server: Server) -> float:
    assert server.process is not None
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connected(server: Server) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.ports["port"]), READ_SECONDS_MAX)
    connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n')
    return connection


def publication(subject: str, header: bytes, payload: bytes) -> bytes:
    if not header:
        return f"PUB {subject} {len(payload)}\r\n".encode() + payload + b"\r\n"
    head = f"HPUB {subject} {len(header)} {len(header) + len(payload)}\r\n"
    return head.encode() + header + payload + b"\r\n"


def store_all(server: Server, messages: list[Message], compression: str) -> float:
    """Returns the processor time."""
    before = cpu_seconds(server)
    with contextlib.closing(Api(server.ports["port"])) as api, connected(server) as publisher:
        config = {"name": STREAM, "subjects": ["t.>"], "compression": compression}
        api.must(f"$JS.API.STREAM.CREATE.{STREAM}", config)
        for first in range(0, len(messages), WINDOW):
            some = messages[first : first + WINDOW]
            publisher.sendall(b"".join(publication(*message) for message in some))
            while api.messages_in(STREAM) < first + len(some):
                time.sleep(0.005)
    time.sleep(SETTLE_SECONDS)
    return cpu_seconds(server) - before


def read_all(server: Server, messages: list[Message]) -> float:
    """Returns the processor time."""
    before = cpu_seconds(server)
    with (
        contextlib.closing(Api(server.ports["port"])) as api,
        connected(server) as reader,
        reader.makefile("rb") as file,
    ):
        reader.sendall(b"SUB read 1\r\nPING\r\n")
        while file.readline() != b"PONG\r\n":
            pass
        config = {"deliver_subject": "read", "ack_policy": "none", "deliver_policy": "all"}
        api.must(f"$JS.API.CONSUMER.CREATE.{STREAM}", {"stream_name": STREAM, "config": config})
        for _, header, payload in messages:
            head = file.readline().split()
            while head[0] not in (b"MSG", b"HMSG"):
                head = file.readline().split()
            if file.read(int(head[-1]) + 2)[:-2] != header + payload:
                raise AssertionError("a message came back as another one")
    return cpu_seconds(server) - before


def file_size(server: Server) -> int:
    """Of what has the messages; without leafd's log, whose size is fixed."""
    found = server.directory / "store"
    return sum(file.stat().st_size for name in ("*.blk", "data.mdb") for file in found.rglob(name))


def measure(kind: str, messages: list[Message]) -> Iterator[float]:
    """Bytes plain and compressed, us to store, us to read."""
    figures = []
    for compression in ("none", "s2"):
        with running(kind, CONFIGURATION) as server:
            stored = store_all(server, messages, compression)
            server.stop()
            size = file_size(server)
            server.start()
            figures.append((size, stored * 1e6, read_all(server, messages) * 1e6))
    return (figure / len(messages) for pair in zip(*figures, strict=True) for figure in pair)


def main(count: int) -> None:
    columns = ("messages", "server", "stored plain", "compressed", "of it", "us to store, plain", "compressed")
    print("| " + " | ".join((*columns, "us to read, plain", "compressed")) + " |")
    print("|" + "---|" * 9)
    for name, (make, part) in KINDS.items():
        chance = random.Random(7)
        messages = [make(number, chance) for number in range(count // part)]
        size = sum(len(subject) + len(header) + len(payload) for subject, header, payload in messages) // len(messages)
        for kind in (LEAFD, REFERENCE):
            plain, packed, *times = measure(kind, messages)
            row = [f"{name}, {size} bytes", kind, f"{plain:.1f}", f"{packed:.1f}", f"{packed / plain:.2f}"]
            print("| " + " | ".join([*row, *(f"{figure:.2f}" for figure in times)]) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT)
