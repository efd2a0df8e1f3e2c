"""What TCP alone carries over a line that comes and goes: the bound for a link over the same line (cell.py).

    python -m tests.bench.bare [--rate 50000] [--trip 2] [--loss 0.05] [--up 60 --down 30] [--window 18600]
                               [--seconds 335] [--kernel]

One connection between two places (tests/cell.py), with the settings that a link has (native/plane/window.h, net/tcp.h),
and never more under way than the window. There is always more to send, nobody reads or answers it, and no bytes are
spent on a protocol. --kernel: with the kernel's own settings in place of a link's. Prints how much of the line each
contact used. packaging/doc/field-figures.md has what it showed.
Not here: what a link makes of its window, which is fixed here.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import itertools
import socket
import struct
import termios
import threading
import time
from dataclasses import dataclass

from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link, joined

PORT = 7422
STEP_SECONDS = 0.02
RTO_MAX_MS = 44
"""TCP_RTO_MAX_MS, which this version of Python does not name."""
RECOVERY = 3
"""TCP_CA_Recovery."""
DAY_MS = 86_400_000
OUTAGE_SECONDS = 2.5
SPARE_TRIPS = 3


@dataclass(frozen=True, slots=True)
class Look:
    """What the kernel knows of a connection."""

    recovers: bool
    packet: int
    beyond: int
    trip_s: float
    acked: int

    @classmethod
    def at(cls, sock: socket.socket) -> Look:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
        words = struct.unpack_from("<24I", info, 8)
        (acked,) = struct.unpack_from("<Q", info, 120)
        return cls(info[1] >= RECOVERY, words[2], words[5] * words[2], words[15] / 1e6, acked)


def held(sock: socket.socket) -> int:
    return int(struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0\0\0\0"))[0])


def anew(sock: socket.socket) -> None:
    """BBR begins anew, before it looks for a shorter round trip."""
    for name in (b"reno", b"bbr"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)


class Sender:
    """Keeps the window full, and the kernel told, as a link does."""

    def __init__(self, sock: socket.socket, options: argparse.Namespace) -> None:
        self._sock = sock
        self._options = options
        self.acked = 0
        self._heard, self._heard_s = 0, time.monotonic()
        self._back_s = self._spared_s = 0.0
        self._outage: bool | None = None
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DAY_MS)
        if not options.kernel:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")

    def step(self) -> None:
        look, now = Look.at(self._sock), time.monotonic()
        self.acked = look.acked
        arrived = look.acked + look.beyond
        outage = now - self._heard_s > 1.5 * min(look.trip_s, 2 * self._options.trip) + 1
        if moved := arrived > self._heard:
            self._back_s = now if outage else self._back_s
            self._heard, self._heard_s = arrived, now
        if not self._options.kernel:
            self._tell(look, now, moved=moved, outage=outage and not moved)
        room = self._options.window - (held(self._sock) - look.beyond)
        if room >= look.packet:
            with contextlib.suppress(BlockingIOError):
                self._sock.send(bytes(room))

    def _tell(self, look: Look, now: float, *, moved: bool, outage: bool) -> None:
        trip_s = self._options.trip
        if outage != self._outage:
            again_s = max(OUTAGE_SECONDS, trip_s) if outage else 3 * max(trip_s, 1.0)
            self._sock.setsockopt(socket.IPPROTO_TCP, RTO_MAX_MS, int(again_s * 1000))
            self._outage = outage
        after_s = 8.0 if look.recovers else 2.0
        if moved and now - self._back_s >= SPARE_TRIPS * trip_s and now - self._spared_s >= after_s:
            anew(self._sock)
            self._spared_s = now


def swallow(server: socket.socket) -> None:
    sock, _ = server.accept()
    while sock.recv(65536):
        pass


def connected(cell: Cell) -> socket.socket:
    with cell.at(HUB):
        server = socket.create_server((HUB_ADDRESS, PORT))
    threading.Thread(target=swallow, args=(server,), daemon=True).start()
    with cell.at(LEAF):
        return socket.create_connection((HUB_ADDRESS, PORT), 60)


def run(options: argparse.Namespace) -> None:
    line = Link(options.rate, delay=options.trip / 2, loss=options.loss, schedule=(options.up, options.down))
    with joined(Link(2e6, delay=options.trip / 2)) as cell:
        sender = Sender(connected(cell), options)
        cell.change(line)
        cell.carried[:] = [0, 0]
        began, marks = time.monotonic(), [0]
        while (passed := time.monotonic() - began) < options.seconds:
            sender.step()
            time.sleep(STEP_SECONDS)
            over = int((passed + options.down) // (options.up + options.down))
            marks += [cell.carried[HUB]] * (over + 1 - len(marks))
        for number, (before, after) in enumerate(itertools.pairwise(marks)):
            share = 800 * (after - before) / options.rate / options.up
            print(f"contact {number + 1}: {share:.0f} % of the line used", flush=True)
        print(f"up {cell.carried[HUB]} bytes, down {cell.carried[LEAF]}; sent, with what was lost: {cell.tried[HUB]}")
        print(f"{cell.carried[HUB] / max(sender.acked, 1):.2f} bytes on the wire for each that was acknowledged")


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("rate", 50e3), ("trip", 2.0), ("loss", 0.05), ("up", 60.0), ("down", 30.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    parser.add_argument("--window", type=int, default=18_600)
    parser.add_argument("--seconds", type=float, default=335.0)
    parser.add_argument("--kernel", action="store_true")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
