"""Several places of this machine and a switch between them, which can lose what one place sends to another.

    with switched(4) as switch:
        with switch.at(0): ...start a server on address(0)...
        switch.cut(0, 1)            what 0 sends to 1 is lost; what 1 sends to 0 arrives
        switch.slow(2, 0.3, 0.05)   all that 2 sends or receives takes 0.3 s more, and 5 % of it is lost
        switch.slow(2, 0.3, 0.05, 50_000)   .. by a modem of so many bits a second each way
        switch.mend(); switch.heal()   no way is cut any more; nor is any slow

Each place is a network namespace as in tests/cell.py, which joins two by one link as bad as it is described; here there
are more places, and each way between two of them is there or not. Not here: servers and what they say.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import random
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Final

from tests import cell

PREFIX: Final = "10.203.8."
_QUEUE: Final = 64 << 10
"""Bytes that wait for their turn at a modem."""
_PACKETS: Final = 64
"""As many are taken from one place before the others are looked at."""


def address(place: int) -> str:
    """The address at which the others reach that place."""
    return f"{PREFIX}{place + 1}"


class Switch:
    """The places, and what is carried between them until close()."""

    def __init__(self, places: int, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self._places: list[int] = []
        self._ends: list[int] = []
        self._cut: frozenset[tuple[int, int]] = frozenset()
        self._slow: dict[int, tuple[float, float, float]] = {}
        """Delay in seconds, share of lost packets and bits a second, by place; 0: as fast as they come."""
        self._free_at: dict[tuple[int, bool], float] = {}
        """When the last packet to a place, or of it, will be through its modem."""
        self.lost = 0
        self._underway: list[tuple[float, int, int, bytes]] = []
        self._taken = itertools.count()
        self._ended = threading.Event()
        for place in range(places):
            try:
                self._make(place)
            finally:
                cell.enter(self._home)
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _make(self, place: int) -> None:
        namespace, end = cell.new_place()
        self._places.append(namespace)
        self._ends.append(end)
        for line in (
            "link set lo up",
            f"addr add {address(place)}/24 dev cell",
            f"link set cell mtu {cell.MTU} txqueuelen 1000 up",
        ):
            subprocess.run(["ip", *line.split()], check=True)

    @contextlib.contextmanager
    def at(self, place: int) -> Iterator[None]:
        """This thread, and processes and sockets that it makes meanwhile, are in that place."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        cell.enter(self._places[place])
        try:
            yield
        finally:
            cell.enter(before)
            os.close(before)

    def cut(self, sender: int, receiver: int) -> None:
        """Packets of one to the other are lost from now on."""
        self._cut |= {(sender, receiver)}

    def slow(self, place: int, delay: float, loss: float, rate: float = 0.0) -> None:
        """Packets from and to that place take so many seconds more from now on, and that share of it is lost. Of
        so many bits a second, what does not fit the modem's queue is lost, too."""
        self._slow[place] = (delay, loss, rate)

    def mend(self) -> None:
        """The way that was cut carries again, as slowly as before."""
        self._cut = frozenset()

    def heal(self) -> None:
        """All packets arrive again, at once."""
        self._cut = frozenset()
        self._slow.clear()
        self._free_at.clear()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for one in (*self._ends, *self._places, self._home):
            os.close(one)

    def _take(self, sender: int, packet: bytes) -> None:
        if packet[0] >> 4 != 4 or not packet[16:20].startswith(bytes((10, 203, 8))):
            return
        receiver = packet[19] - 1
        arrives_at: float | None = time.monotonic()
        for place, down in ((sender, False), (receiver, True)):
            arrives_at = self._through(place, down, len(packet), arrives_at)
        if arrives_at is None or (sender, receiver) in self._cut or not 0 <= receiver < len(self._ends):
            self.lost += 1
            return
        heapq.heappush(self._underway, (arrives_at, next(self._taken), receiver, packet))

    def _through(self, place: int, down: bool, size: int, at: float | None) -> float | None:
        """When a packet that is there at that time is through the place's modem; None: it is lost."""
        if at is None or place not in self._slow:
            return at
        delay, loss, rate = self._slow[place]
        if self._random.random() < loss:
            return None
        if rate:
            begins_at = max(self._free_at.get((place, down), 0.0), at)
            if (begins_at - at) * rate / 8 > _QUEUE:
                return None
            at = self._free_at[place, down] = begins_at + size * 8 / rate
        return at + delay

    def _deliver(self) -> None:
        now = time.monotonic()
        while self._underway and self._underway[0][0] <= now:
            _, _, receiver, packet = heapq.heappop(self._underway)
            with contextlib.suppress(OSError):
                os.write(self._ends[receiver], packet)

    def _carry(self) -> None:
        while not self._ended.is_set():
            self._deliver()
            wait = min(0.2, self._underway[0][0] - time.monotonic()) if self._underway else 0.2
            for end in select.select(self._ends, [], [], max(wait, 0.0))[0]:
                sender = self._ends.index(end)
                with contextlib.suppress(BlockingIOError):
                    for _ in range(_PACKETS):
                        self._take(sender, os.read(end, 65536))


@contextlib.contextmanager
def switched(places: int) -> Iterator[Switch]:
    """So many places, joined by a switch."""
    switch = Switch(places)
    try:
        yield switch
    finally:
        switch.close()
