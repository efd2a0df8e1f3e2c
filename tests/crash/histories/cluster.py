"""Three servers of a cluster, each in a place of the network and with a disk of its own, and the faults they meet.

A disk is an ext4 in a file (tests/crash/disk.py), so that its power can be cut: what the server had not brought to the
disk is gone then. Faults come one after the other, from a thread; each ends before the next one begins. Not here: what
clients do meanwhile (workload.py), what they must have seen (judge.py).
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests import servers
from tests.crash.disk import Disk
from tests.crash.histories import clocks
from tests.crash.test_power import LOG_LOST, cut
from tests.rig.reports import report
from tests.rig.template import Process
from tests.switch import Switch, address, switched

CLIENTS: Final = 3
"""The place of the clients, behind those of the servers."""
PORT: Final = 4222
DISK_BYTES: Final = 768 << 20
CONFIG: Final = """
listen: "0.0.0.0:{port}"
http: "0.0.0.0:{http_port}"
server_name: "{name}"
accounts {
  A { users: [ {user: a, password: a} ], jetstream: enabled }
  SYS { users: [ {user: sys, password: sys} ] }
}
system_account: SYS
jetstream { store_dir: "{store}", max_file: 300M, max_mem: 16M, {meta} }
cluster { name: C, listen: "{address}:6222", routes: [ {routes} ] }
"""
META: Final = {"leafd": "meta_size: 3", "nats-server": "", "nats-server-always": "sync_interval: always"}
LASTS_S: Final = (1.0, 6.0)
REST_S: Final = (2.0, 5.0)
SLOW: Final = (0.4, 0.05)
STALL_S: Final = 0.4
ANSWERS_S: Final = 0.05
LONG_S: Final = 30.0
STEPS_S: Final = (-400 * 86_400, -7200, -3, 3, 7200, 30 * 86_400)
SEVERAL: Final = ("kill", "power", "stop", "clock", "restart-wrong")
"""Faults that several servers may have at once."""


@dataclass
class Cluster:
    """The servers, by their places."""

    switch: Switch
    servers: list[servers.Server]
    disks: list[Disk]
    clocks: list[clocks.Clock] = field(default_factory=list)
    """None: the servers have this machine's."""
    before: list[list[str]] = field(default_factory=lambda: [[], [], []])
    """The words before each server's command."""
    random: random.Random = field(default_factory=lambda: random.Random(1))
    helped: int = 0
    """Starts of servers that had given up their streams."""
    away: set[int] = field(default_factory=set)
    """Those that a fault has ended."""

    def start(self, number: int) -> None:
        """Raises ServerDied."""
        with self.switch.at(number):
            self.servers[number].start(before=self.before[number])
        self.away.discard(number)

    def kill(self, number: int) -> None:
        self.away.add(number)
        self.servers[number].kill()

    def cut_power(self, number: int) -> None:
        """What was not on the disk is gone, the file system's own journal included."""
        cut(self.disks[number], LOG_LOST)
        self.kill(number)
        self.disks[number].unmount()

    def restore_power(self, number: int) -> None:
        assert self.disks[number].mount()
        self.start(number)


@contextlib.contextmanager
def cluster(kind: str, folder: Path, clocked: Path | None = None) -> Iterator[Cluster]:
    """Three servers that run, in a mount namespace that belongs to the caller. kind: a key of META. clocked: what they
    need to have clocks that step (clocks.py)."""
    routes = ", ".join(f'"nats-route://{address(number)}:6222"' for number in range(3))
    program = servers.LEAFD if kind == servers.LEAFD else servers.REFERENCE
    with switched(4) as switch, contextlib.ExitStack() as stack:
        made = Cluster(switch, [], [])
        for number in range(3):
            place = folder / f"s{number}"
            place.mkdir()
            disk = Disk(place, DISK_BYTES)
            assert disk.mount(), "no loop devices"
            text = CONFIG.replace("{routes}", routes).replace("{meta}", META[kind])
            more = {"name": f"s{number}", "address": address(number), "port": PORT, "http_port": 8222}
            server = servers.make(program, text, place, store=disk.mounted / "store", **more)
            made.servers.append(server)
            made.disks.append(disk)
            if clocked is not None:
                made.clocks.append(clocks.Clock(place / "clock"))
                made.before[number] = clocks.before(program, clocked, made.clocks[number])
            stack.callback(_ended, server, disk)
        for number in range(3):
            made.start(number)
        yield made


def _ended(server: servers.Server, disk: Disk) -> None:
    if server.process is not None:
        server.process.send_signal(signal.SIGCONT)
        server.kill()
    disk.unmount()


# ---- faults ----------------------------------------------------------------------------------------------------------

Wait = Callable[[], None]


def killed(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """kill -9."""
    for number in numbers:
        one.kill(number)
    wait()
    for number in numbers:
        one.start(number)


def stopped(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """The process stands still, and goes on as if no time had passed."""
    for number in numbers:
        _process(one, number).send_signal(signal.SIGSTOP)
    wait()
    for number in numbers:
        _process(one, number).send_signal(signal.SIGCONT)


def unpowered(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """The power fails."""
    for number in numbers:
        one.cut_power(number)
    wait()
    for number in numbers:
        one.restore_power(number)


def apart(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """Those and the others do not hear each other; clients hear all of them."""
    for number in numbers:
        for other in set(range(3)) - set(numbers):
            one.switch.cut(other, number)
    one_way(one, numbers, wait)


def one_way(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """The others do not hear those, which hear everything."""
    for number in numbers:
        for other in set(range(3)) - set(numbers):
            one.switch.cut(number, other)
    wait()
    one.switch.heal()


def slowed(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """A far and lossy link leads there."""
    for number in numbers:
        one.switch.slow(number, *SLOW)
    wait()
    one.switch.heal()


def filled(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """The disk is full. A server that has given up its streams for that (nats-server does, until its next start) is
    started again once there is room, as its operator would."""
    files = [one.disks[number].mounted / "filler" for number in numbers]
    for file in files:
        _fill(file)
    wait()
    for file in files:
        file.unlink(missing_ok=True)
    for number in numbers:
        with one.switch.at(number):
            given_up = "account_details" not in report(one.servers[number], "jsz?accounts=true")
        if given_up:
            one.helped += 1
            one.servers[number].stop()
            one.start(number)


def stuck(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """The disk does not answer: who writes to it waits, and what was written is there afterwards."""
    with contextlib.ExitStack() as thawed:
        for number in numbers:
            one.disks[number].freeze()
            thawed.callback(one.disks[number].thaw)
        wait()


def slow_disk(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """The disk answers for a moment now and then, as a worn card does that tidies up."""
    over = threading.Event()

    def now_and_then() -> None:
        while not over.is_set():
            for number in numbers:
                one.disks[number].freeze()
            over.wait(STALL_S)
            for number in numbers:
                one.disks[number].thaw()
            time.sleep(ANSWERS_S)

    thread = threading.Thread(target=now_and_then)
    thread.start()
    wait()
    over.set()
    thread.join()


def stopped_long(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """The process stands still for half a minute, whatever is left of the run."""
    stopped(one, numbers, lambda: time.sleep(LONG_S))


def stepped(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """Their wall clocks are wrong by hours, this way or that, and are put right."""
    for number in numbers:
        one.clocks[number].step_to(one.random.choice(STEPS_S))
    wait()
    for number in numbers:
        one.clocks[number].step_to(0)


def restarted_wrong(one: Cluster, numbers: list[int], wait: Wait) -> None:
    """kill -9, and a start with a clock that is wrong by hours, as of a box without a battery, until a time server is
    heard."""
    for number in numbers:
        one.kill(number)
        one.clocks[number].step_to(one.random.choice(STEPS_S))
        one.start(number)
    wait()
    for number in numbers:
        one.clocks[number].step_to(0)


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as filler:
        for size in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while filler.write(bytes(size)) == size:
                    pass


def _process(one: Cluster, number: int) -> Process:
    process = one.servers[number].process
    assert process is not None
    return process


FAULTS: Final = {
    "kill": killed,
    "stop": stopped,
    "power": unpowered,
    "apart": apart,
    "one-way": one_way,
    "slow": slowed,
    "full": filled,
    "stuck-disk": stuck,
    "slow-disk": slow_disk,
    "stop-long": stopped_long,
    "clock": stepped,
    "restart-wrong": restarted_wrong,
}
ASKED_FOR: Final = ("stop-long",)
"""Those that come only where they are asked for: they take half of a run."""
CLOCKS: Final = ("clock", "restart-wrong")
"""Those that need clocks that step."""
AFTER_S: Final = 10.0
"""So long after a fault what clients see is counted as its own."""


class Faults(threading.Thread):
    """One fault after the other until end(). several: see there."""

    def __init__(self, one: Cluster, names: list[str], seed: int) -> None:
        super().__init__(daemon=True)
        self._cluster, self._names, self._random = one, names, random.Random(seed)
        self._ended = threading.Event()
        self._began = time.monotonic()
        self.several: list[tuple[float, float]] = []
        """When more than one server was at fault, and right after it."""
        self.failed: BaseException | None = None

    def end(self) -> None:
        """The fault that is there ends. Raises what a server failed with that could not start again."""
        self._ended.set()
        self.join()
        if self.failed is not None:
            raise self.failed

    def run(self) -> None:
        try:
            while self._names and not self._ended.wait(self._random.uniform(*REST_S)):
                name = self._random.choice(self._names)
                some = [1, 1, 1, 2, 3] if name in SEVERAL else [1]
                numbers = sorted(self._random.sample(range(3), self._random.choice(some)))
                began = time.monotonic()
                print(f"{began - self._began:7.1f} s  {name} {numbers}", flush=True)
                FAULTS[name](self._cluster, numbers, self._wait)
                if len(numbers) > 1:
                    self.several.append((began, time.monotonic() + AFTER_S))
        except BaseException as error:
            self.failed = error

    def _wait(self) -> None:
        self._ended.wait(self._random.uniform(*LASTS_S))
