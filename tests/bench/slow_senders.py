"""Honest senders behind slow lines that lose packets, beside others that begin a message and stall on purpose:

    python -m tests.bench.slow_senders 200 --stalled 200 [--size 15000] [--rate 10000] [--trip 1] [--loss 0.02]
                                       [--seconds 60] [--kind leafd] [--limit 32MB]

Each sender publishes messages one after the other, as fast as a line of its own carries them (tests/cell.py, `apart`).
Who stalls is at the hub, sends all of a message but its end, and comes again when it is closed. Told is how many
connections of each were closed, how many messages of the senders came, how long a message of a third one takes
meanwhile, and the hub's memory. Needs root. Not here: slow readers (slow_lines.py).
"""

from __future__ import annotations

import argparse
import contextlib
import select
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests import servers
from tests.bench.process import Process
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link, joined

HUB_TEXT: Final = """
server_name: hub
listen: "0.0.0.0:{port}"
max_connections: 10000
authorization { timeout: 60 }
MEMORY
"""
CONNECT: Final = b'CONNECT {"verbose":false}\r\n'
PROBE_PAUSE_S: Final = 0.2
PROBE: Final = b"PUB probe 12000\r\n" + b"p" * 12_000 + b"\r\n"


class Senders:
    """Connections of one kind from one place, each of which is made again when it is closed."""

    def __init__(self, cell: Cell, place: int, port: int, count: int) -> None:
        self._cell, self._place, self._port = cell, place, port
        self.closed = 0
        self.sockets: dict[int, socket.socket] = {}
        self.left: dict[int, memoryview] = {}
        self.poll = select.epoll()
        for _ in range(count):
            self.come()

    def come(self) -> None:
        with self._cell.at(self._place):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        one.setblocking(False)
        one.connect_ex((HUB_ADDRESS, self._port))
        self.sockets[one.fileno()] = one
        self.left[one.fileno()] = memoryview(CONNECT)
        self.poll.register(one.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def gone(self, fd: int) -> None:
        self.closed += 1
        self.poll.unregister(fd)
        self.sockets.pop(fd).close()
        self.come()

    def turn(self, wait_s: float, following: bytes, again: bool) -> None:
        """Who can send goes on; following: what comes behind what is sent. again: as often as it can, else once."""
        for fd, event in self.poll.poll(wait_s):
            try:
                if event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                    said = self.sockets[fd].recv(1 << 16)
                    if not said:
                        raise ConnectionResetError
                    if b"PING" in said:
                        self.left[fd] = memoryview(bytes(self.left[fd]) + (b"PONG\r\n" if again else b""))
                if event & select.EPOLLOUT:
                    self._send(fd, following, again)
            except BlockingIOError:
                pass
            except OSError:
                self.gone(fd)

    def _send(self, fd: int, following: bytes, again: bool) -> None:
        whole = bytes(self.left[fd]) == CONNECT
        self.left[fd] = self.left[fd][self.sockets[fd].send(self.left[fd]) :]
        if not self.left[fd] and (again or whole):
            self.left[fd] = memoryview(following)
        elif not self.left[fd]:
            self.poll.modify(fd, select.EPOLLIN)


class Heard:
    """What comes of the senders' messages, and how long one of a third client takes."""

    def __init__(self, cell: Cell, port: int) -> None:
        with cell.at(HUB):
            self._reads, self._asks = (socket.create_connection(("127.0.0.1", port), 60) for _ in range(2))
        self.messages, self.took = 0, list[float]()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._read, self._ask)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        self._reads.settimeout(0.5)
        self._reads.sendall(CONNECT + b"SUB slow 1\r\n")
        tail = b""
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                said = tail + self._reads.recv(1 << 16)
                self.messages += said.count(b"MSG slow 1 ")
                tail = b"" if said.endswith(b"\n") else said[-10:]
                if b"PING\r\n" in said:
                    self._reads.sendall(b"PONG\r\n")

    def _ask(self) -> None:
        self._asks.sendall(CONNECT + b"SUB probe 2\r\n")
        lines = self._asks.makefile("rb")
        while not self._over.wait(PROBE_PAUSE_S):
            began = time.monotonic()
            with contextlib.suppress(OSError):
                self._asks.sendall(PROBE)
                while (line := lines.readline()) and not line.startswith(b"MSG probe"):
                    continue
                lines.read(12_002)
            self.took.append(time.monotonic() - began)

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def hub(cell: Cell, kind: str, limit: str) -> Iterator[Process]:
    with tempfile.TemporaryDirectory(prefix="leafd-slow-") as folder:
        memory = f"memory_limit: {limit}" if kind == servers.LEAFD else ""
        process = Process(servers.make(kind, HUB_TEXT.replace("MEMORY", memory), Path(folder)))
        with cell.at(HUB):
            process.start()
        try:
            yield process
        finally:
            process.server.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    for name, default in (("rate", 10_000), ("trip", 1.0), ("loss", 0.02), ("seconds", 60.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    for name, size in (("stalled", 200), ("size", 15_000)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--kind", default=servers.LEAFD)
    parser.add_argument("--limit", default="32MB")
    options = parser.parse_args()
    message = b"PUB slow %d\r\n" % options.size + b"x" * options.size + b"\r\n"
    line = Link(options.rate, delay=options.trip / 2, loss=options.loss, apart=True)
    with joined(line) as cell, hub(cell, options.kind, options.limit) as process:
        heard = Heard(cell, process.port)
        senders = Senders(cell, LEAF, process.port, options.count)
        stalled = Senders(cell, HUB, process.port, options.stalled)
        until, most = time.monotonic() + options.seconds, 0.0
        while time.monotonic() < until:
            senders.turn(0.01, message, True)
            stalled.turn(0.01, message[:-100].replace(b"slow", b"half"), False)
            most = max(most, process.private_mb())
        heard.end()
        print(f"closed: {senders.closed} of the senders, {stalled.closed} of those that stall")
        print(f"messages of the senders: {heard.messages}, which are {heard.messages / options.count:.1f} of each")
        print(f"a message of 12 KB of a third one: {len(heard.took)}, the longest {max(heard.took):.2f} s")
        print(f"memory: {most:.0f} MB")


if __name__ == "__main__":
    main()
