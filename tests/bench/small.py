"""A store much larger than the memory that the process may have: python -m tests.bench.small [leafd | nats-server ..]

A stream is filled outside of any limit, its server stopped and its file put out of the page cache. Then the server
starts in a control group with a hard limit, in which the pages of files count too, and messages come at a steady rate,
each on a subject drawn by chance. Told are the rate that was acknowledged, the bytes that the process had the disk read
and write for each message (/proc/PID/io), its checkpoints, and the most that the group had. Needs root, and the
controller `memory` of control groups, version 1 or 2.

    --limit MB  --stored N  --subjects N  --size B  --rate N  --seconds N  --per-subject N  --settled

Not here: wear at low rates (bench_wear.py).
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from tests import servers
from tests.bench.process import Api

CONFIGURATION: Final = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", max_file: 8GB, max_mem: 16MB }
"""
GROUPS: Final = Path("/sys/fs/cgroup")
SLICE_S: Final = 0.01
IN_FLIGHT: Final = 2_000
FILL_IN_FLIGHT: Final = 8_000
QUIET_S: Final = 3.0
SETTLE_S_MAX: Final = 90.0
STALLED_S_MAX: Final = 60.0


class Group:
    """A control group with a limit of memory."""

    def __init__(self, limit: int) -> None:
        unified = (GROUPS / "cgroup.controllers").exists()
        self.path = (GROUPS if unified else GROUPS / "memory") / f"leafd-bench-{os.getpid()}"
        if unified:
            (GROUPS / "cgroup.subtree_control").write_text("+memory")
        self.path.mkdir()
        (self.path / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(limit))
        self._peak = self.path / ("memory.peak" if unified else "memory.max_usage_in_bytes")

    def entered(self) -> tuple[str, ...]:
        """What a command is put behind so that it begins in the group."""
        return ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.path / "cgroup.procs"))

    def peak(self) -> int:
        return int(self._peak.read_text())

    def remove(self) -> None:
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.05)


class Publisher:
    """One connection whose messages are acknowledged; the acknowledgements are counted by a thread."""

    def __init__(self, port: int, size: int, subjects: int, seed: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._socket.settimeout(None)
        self._socket.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB acks.* 1\r\n')
        self._random = random.Random(seed)
        self._payload = self._random.randbytes(size // 2).hex().encode()
        self._tail = b" acks.1 %d\r\n" % size + self._payload + b"\r\n"
        self._subjects = subjects
        self.acknowledged = 0
        self.refused = 0
        self.gone = False
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError), self._socket.makefile("rb", buffering=1 << 18) as file:
            for line in file:
                if line.startswith(b'{"stream"'):
                    self.acknowledged += 1
                elif line.startswith(b"{"):
                    self.refused += 1
                elif line.startswith(b"PING"):
                    self._socket.sendall(b"PONG\r\n")
        self.gone = True

    def draw(self) -> int:
        return self._random.randrange(self._subjects)

    def send(self, numbers: list[int]) -> None:
        self._socket.sendall(b"".join(b"PUB t.site.%06d.level" % number + self._tail for number in numbers))

    def send_each(self, messages: list[tuple[str, bytes]]) -> None:
        """In one piece, each on its subject."""
        lines = (b"PUB %s acks.1 %d\r\n%s\r\n" % (name.encode(), len(text), text) for name, text in messages)
        self._socket.sendall(b"".join(lines))

    def waits(self, sent: int, in_flight: int) -> None:
        """Until no more than that are not acknowledged."""
        last, since = self.acknowledged, time.monotonic()
        while sent - self.acknowledged - self.refused > in_flight:
            if self.gone:
                raise servers.ServerDied("the server closed the connection")
            if self.acknowledged != last:
                last, since = self.acknowledged, time.monotonic()
            if time.monotonic() - since > STALLED_S_MAX:
                raise servers.ServerDied("nothing is acknowledged any more")
            time.sleep(0.001)


@dataclass(frozen=True)
class Disk:
    read: int
    written: int
    checkpoints: int
    journal: int  # of what was written

    def since(self, before: Disk) -> Disk:
        now, then = astuple(self), astuple(before)
        return Disk(*(mine - its for mine, its in zip(now, then, strict=True)))


def disk(server: servers.Server) -> Disk:
    assert server.process is not None
    lines = (line.split(": ") for line in Path(f"/proc/{server.process.pid}/io").read_text().splitlines())
    figures = {name: int(value) for name, value in lines}
    return Disk(figures["read_bytes"], figures["write_bytes"], *counted(server))


def counted(server: servers.Server) -> tuple[int, int]:
    """Checkpoints, and bytes of the journal: leafd alone has them."""
    if server.kind != servers.LEAFD:
        return 0, 0
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["monitor_port"], timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/varz")
        store = json.loads(connection.getresponse().read())["store"]
        return int(store["checkpoints"]), int(store["journal_bytes"])


def settled(server: servers.Server) -> None:
    """Nothing is written any more, what was put off included."""
    deadline = time.monotonic() + SETTLE_S_MAX
    before, since = disk(server).written, time.monotonic()
    while time.monotonic() < deadline and time.monotonic() - since < QUIET_S:
        time.sleep(0.2)
        now = disk(server).written
        if now != before:
            before, since = now, time.monotonic()


def put_out(store: Path) -> None:
    """The page cache has nothing of these files, so that what is read is read from the disk."""
    for path in store.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fill(server: servers.Server, given: argparse.Namespace) -> None:
    api = Api(server.port)
    config = {"name": "T", "subjects": ["t.>"], "storage": "file", "max_msgs_per_subject": given.per_subject}
    api.must("$JS.API.STREAM.CREATE.T", config)
    api.close()
    publisher = Publisher(server.port, given.size, given.subjects, 1)
    order = list(range(given.subjects))  # each subject once, then by chance
    random.Random(1).shuffle(order)
    for sent in range(0, given.stored, 1_000):
        publisher.send([order[n] if n < given.subjects else publisher.draw() for n in range(sent, sent + 1_000)])
        publisher.waits(sent + 1_000, FILL_IN_FLIGHT)
    publisher.waits(given.stored, 0)
    publisher.close()


@contextlib.contextmanager
def filled(kind: str, given: argparse.Namespace) -> Iterator[servers.Server]:
    """A server with what is stored, stopped."""
    with tempfile.TemporaryDirectory(prefix="leafd-small-", dir=given.directory) as directory:
        server = servers.make(kind, CONFIGURATION, Path(directory))
        server.start()
        try:
            fill(server, given)
        finally:
            server.stop()
        put_out(Path(directory))
        yield server


def publish(server: servers.Server, given: argparse.Namespace) -> tuple[int, float]:
    """How many were acknowledged, and in how long a time."""
    publisher = Publisher(server.port, given.size, given.subjects, 2)
    began = time.monotonic()
    sent = 0
    while (now := time.monotonic() - began) < given.seconds:
        due = int(now * given.rate) - sent
        if due > 0:
            due = min(due, IN_FLIGHT)
            publisher.waits(sent + due, IN_FLIGHT)
            publisher.send([publisher.draw() for _ in range(due)])
            sent += due
        time.sleep(SLICE_S)
    publisher.waits(sent, 0)
    publisher.close()
    return publisher.acknowledged, time.monotonic() - began


def measure(server: servers.Server, given: argparse.Namespace) -> str:
    group = Group(given.limit << 20)
    try:
        try:
            server.start(before=group.entered())
            if given.settled:
                publish(server, given)
            settled(server)
            before = disk(server)
            count, seconds = publish(server, given)
            settled(server)
            did = disk(server).since(before)
            return (
                f"| {server.kind} | {count / seconds:,.0f} | {did.read / count:,.0f} | {did.written / count:,.0f} |"
                f" {did.journal / count:,.0f} | {did.checkpoints} | {group.peak() / (1 << 20):.0f} |"
            )
        except servers.ServerDied as error:
            return f"| {server.kind} | {str(error).splitlines()[0].removesuffix(':')} |"
        finally:
            server.stop()
    finally:
        group.remove()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", default=[servers.LEAFD])
    parser.add_argument("--limit", type=int, default=64)
    parser.add_argument("--stored", type=int, default=2_000_000)
    parser.add_argument("--subjects", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--rate", type=float, default=10_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--per-subject", type=int, default=-1)
    parser.add_argument("--settled", action="store_true", help="the same load once before it is measured")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"), help="on the disk that is measured")
    given = parser.parse_args()
    print("| server | msgs/s | bytes read a message | bytes written a message | journal | checkpoints | most MB |")
    print("|---|---|---|---|---|---|---|")
    for kind in given.kinds:
        with filled(kind, given) as server:
            print(measure(server, given), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
