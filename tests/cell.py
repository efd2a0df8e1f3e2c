"""Two places of this machine that are joined by nothing but a link as bad as it is described.

    with joined(Link(rate=50_000, delay=1.0, loss=0.05, queue=64 << 10, schedule=(60, 30))) as cell:
        with cell.at(HUB):  ...start a server, connect to one...
        with cell.at(LEAF): ...dial HUB_ADDRESS...
        cell.change(Link(...)); cell.carried

Each place is a network namespace with a loopback of its own and one end of a TUN device; packets between the ends are
read here and handed over late, seldom or not at all. So it is the kernels' real TCP that suffers. It needs the right to
make namespaces (missing() says what is in the way). Not here: servers and what they say.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final

HUB: Final = 0
LEAF: Final = 1
ADDRESSES: Final = ("10.203.7.1", "10.203.7.2")
HUB_ADDRESS: Final = ADDRESSES[HUB]
MTU: Final = 1500

_CLONE_NEWNET: Final = 0x40000000
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN_NO_PI: Final = 0x1001
Flow = frozenset[bytes]
"""Both ends of a connection."""
_libc: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Link:
    """One kind of link, the same in both directions but for its rate."""

    rate: float = 0.0
    """Bits a second; 0: as fast as they come."""
    _: KW_ONLY
    rate_up: float = 0.0
    """The lines to HUB, if they are others."""
    delay: float = 0.0
    """Seconds, one way."""
    loss: float = 0.0
    jitter: float = 0.0
    """Seconds that a packet may take more; none overtakes another."""
    queue: int = 64 << 10
    """Bytes that wait for their turn; what comes then is lost."""
    schedule: tuple[float, float] = (0.0, 0.0)
    """So many seconds it is there, and then for so many it is silent; from the moment it is set."""
    late: float = 0.0
    """The share of packets that come up to late_s later than they should, so that others overtake them."""
    late_s: float = 0.5
    doubled: float = 0.0
    """The share of packets that arrive twice."""
    packet: int = MTU
    """A larger packet is lost, and nobody is told."""
    forgets: float = 0.0
    """After so many seconds of silence a connection brings nothing any more, as behind a router that translates
    addresses; 0: never."""
    apart: bool = False
    """Each connection has such a link to itself: boxes far from each other, and one hub."""


@dataclass
class Way:
    """One direction, of all connections or of one."""

    free_at: float = 0.0
    """When the last packet will have been sent."""
    last_at: float = 0.0
    carried: int = 0
    """Bytes that arrived, as of Cell.carried."""
    queued: int = 0
    """The most bytes that waited for their turn at once."""


class Cell:
    """The two places, and what is carried between them until close()."""

    def __init__(self, link: Link, seed: int = 1) -> None:
        self._link = link
        self._since = time.monotonic()
        self._random = random.Random(seed)
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self._places = [-1, -1]
        self._ends = [-1, -1]
        self.carried = [0, 0]
        """Bytes that came to HUB and to LEAF, with the headers of IP."""
        self.lost = [0, 0]
        self.tried = [0, 0]
        """Bytes that were sent to HUB and to LEAF, whatever became of them."""
        self.first = 0.0
        """When the first packet was carried since this was set to 0."""
        self.deaf = [0.0, 0.0]
        """The share of packets to HUB and to LEAF that is lost besides."""
        self.apart: tuple[dict[Flow, Way], dict[Flow, Way]] = ({}, {})
        """To HUB and to LEAF, each connection since links are apart."""
        self._ways = (Way(), Way())
        self._underway: list[tuple[float, int, int, Way, bytes]] = []
        self._taken = itertools.count()
        self._flows: dict[Flow, float] = {}
        """When each was last used."""
        self._forgotten: set[Flow] = set()
        self._ended = threading.Event()
        for place in (HUB, LEAF):
            try:
                self._make(place)
            finally:
                enter(self._home)
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _make(self, place: int) -> None:
        self._places[place], self._ends[place] = new_place()
        for line in (
            "link set lo up",
            f"addr add {ADDRESSES[place]} peer {ADDRESSES[1 - place]} dev cell",
            f"link set cell mtu {MTU} txqueuelen 1000 up",
        ):
            subprocess.run(["ip", *line.split()], check=True)

    @contextlib.contextmanager
    def at(self, place: int) -> Iterator[None]:
        """This thread, and processes and sockets that it makes meanwhile, are in that place."""
        enter(self._places[place])
        try:
            yield
        finally:
            enter(self._home)

    def echoes(self, groups: str = "0 2147483647") -> None:
        """At LEAF processes of these groups may send echo requests, as systemd has it; a new place has none."""
        with self.at(LEAF):
            Path("/proc/sys/net/ipv4/ping_group_range").write_text(groups)

    def change(self, link: Link) -> None:
        """From now on it is another link; what is under way arrives. Its schedule begins now."""
        self._link, self._since = link, time.monotonic()

    def forget(self) -> None:
        """As a router does that translates addresses: connections that are there bring nothing any more, either way."""
        self._forgotten |= self._flows.keys()

    def longest_queues(self) -> tuple[int, int]:
        """The most bytes that waited for their turn at once, to HUB and to LEAF, since this was asked last."""
        longest = self._ways[HUB].queued, self._ways[LEAF].queued
        for way in self._ways:
            way.queued = 0
        return longest

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for one in (*self._ends, *self._places, self._home):
            os.close(one)

    def up(self, now: float) -> bool:
        """Does anything pass at that moment?"""
        there, away = self._link.schedule
        return away <= 0 or (now - self._since) % (there + away) < there

    def _is_forgotten(self, flow: Flow, now: float) -> bool:
        if self._link.forgets and now - self._flows.get(flow, now) > self._link.forgets:
            self._forgotten.add(flow)
        self._flows[flow] = now
        return flow in self._forgotten

    def _take(self, to: int, packet: bytes, now: float) -> None:
        link = self._link
        self.tried[to] += len(packet)
        loss = max(link.loss, self.deaf[to])
        rate = (link.rate_up or link.rate) if to == HUB else link.rate
        flow = _flow(packet)
        way = self.apart[to].setdefault(flow, Way()) if link.apart else self._ways[to]
        waits = max(way.free_at - now, 0.0) * rate / 8
        if (
            self._is_forgotten(flow, now)
            or not self.up(now)
            or len(packet) > link.packet
            or self._random.random() < loss
            or (rate and waits + len(packet) > link.queue)
        ):
            self.lost[to] += 1
            return
        self.first = self.first or now
        way.free_at = max(way.free_at, now) + (len(packet) * 8 / rate if rate else 0.0)
        arrives_at = max(way.last_at, way.free_at + link.delay + self._random.random() * link.jitter)
        way.queued = max(way.queued, int(waits) + len(packet))
        if self._random.random() < link.late:
            arrives_at += self._random.random() * link.late_s
        else:
            way.last_at = arrives_at
        for _ in range(2 if self._random.random() < link.doubled else 1):
            heapq.heappush(self._underway, (arrives_at, next(self._taken), to, way, packet))

    def _carry(self) -> None:
        underway = self._underway
        while not self._ended.is_set():
            now = time.monotonic()
            while underway and underway[0][0] <= now:
                _, _, to, way, packet = heapq.heappop(underway)
                if self.up(now):
                    self.carried[to] += len(packet)
                    way.carried += len(packet)
                    with contextlib.suppress(OSError):
                        os.write(self._ends[to], packet)
            due = min(now + 0.2, underway[0][0]) if underway else now + 0.2
            readable = select.select(self._ends, [], [], max(due - time.monotonic(), 0.0))[0]
            for end in readable:
                to = 1 - self._ends.index(end)
                with contextlib.suppress(BlockingIOError):
                    for _ in range(64):
                        self._take(to, os.read(end, 65536), time.monotonic())


def _flow(packet: bytes) -> Flow:
    """Both ends of a connection: the address and port of each, where it is TCP over IPv4 without options."""
    return frozenset((packet[12:16] + packet[20:22], packet[16:20] + packet[22:24]))


def new_place() -> tuple[int, int]:
    """A network namespace, in which this thread is then, and the end of its TUN device `cell`."""
    if _libc.unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", b"cell", _IFF_TUN_NO_PI))
    return namespace, end


def enter(place: int) -> None:
    """This thread is in that namespace from now on."""
    if _libc.setns(place, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def missing() -> str:
    """The things that this machine lacks for it; "": nothing."""
    if shutil.which("ip") is None:
        return "the command `ip` is missing (Debian's package iproute2)"
    try:
        Cell(Link()).close()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no namespaces with a TUN device: {error}"
    return ""


@contextlib.contextmanager
def joined(link: Link) -> Iterator[Cell]:
    """Both places, joined by that link."""
    cell = Cell(link)
    try:
        yield cell
    finally:
        cell.close()
