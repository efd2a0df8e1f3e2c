"""Many boxes, each behind a slow line of its own from its first dial on, below a hub of three servers whose one stream
has three replicas and takes from all of them:

    python -m tests.bench.far_fleet 1000 [--kinds leafd,nats-server] [--rate 50000] [--trip 1] [--jitter 0.5]
                                         [--loss 0.05] [--away 600]

The boxes (simulated.py) come all at once, with messages. Then the server that leads the stream is killed, is away for
so long, and is started again; boxes have more messages each time. In the end each box's messages are counted. Told is
when all boxes are linked, and when all they have is stored; what each server took of processor and memory; and when a
message of one of ten boxes that are near is delivered from the stream meanwhile. Needs root.
Not here: the line (tests/cell.py), one hub and what its lines carry (slow_lines.py), fleets over loopback (fleet.py).
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests import servers
from tests.bench.fleet import at_99, collect, makes_streams
from tests.bench.process import START_SECONDS_MAX, Api, Process
from tests.bench.simulated import Boxes, Seen, simulated
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link, joined
from tests.hostile.wires import Wire
from tests.servers import KINDS, LEAFD, free_port

TEXT: Final = """
server_name: "{name}"
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { META store_dir: "{store}", domain: hub, max_mem: 64MB, max_file: 1GB }
max_pending: 256MB
leafnodes { listen: "0.0.0.0:{leaf_port}", isolate_leafnode_interest: true, authorization { timeout: 60 } }
cluster { name: hub, listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:<first>" ] }
"""
NAMES: Final = ("one", "two", "three")
WAITING: Final = 10
"""Messages of each box at first, and as many at each step."""
NEAR: Final = 10
PROBE_S: Final = 1.0
QUIET_S: Final = 60.0
STEP_S: Final = 900.0
"""What is not reached by then is told as that."""
POLL_S: Final = 0.1
LISTEN_S: Final = 0.5
NOTICED_S: Final = 20.0
SETTLED_S: Final = 60.0
SIZE: Final = 200


class Hub:
    """Three servers in HUB, and questions to those that run."""

    def __init__(self, cell: Cell, kind: str, folder: Path) -> None:
        first = free_port()
        text = TEXT.replace("META", "meta_size: 3," if kind == LEAFD else "").replace("<first>", str(first))
        self._cell, self.servers = cell, dict[str, Process]()
        for name in NAMES:
            port = {} if self.servers else {"route_port": first}
            (folder / name).mkdir()
            self.servers[name] = Process(servers.make(kind, text, folder / name, name=name, **port))
        self._apis: dict[str, Api] = {}
        self._cpu: dict[str, float] = {}

    def start(self, name: str) -> None:
        with self._cell.at(HUB):
            self.servers[name].start()

    def kill(self, name: str) -> None:
        self._apis.pop(name, None)
        self.servers[name].server.kill()

    def stop(self) -> None:
        for one in self.servers.values():
            one.server.stop()

    def api(self, *, but: str = "") -> Api:
        """A connection to one of them."""
        name = next(name for name in NAMES if name != but)
        if name not in self._apis:
            with self._cell.at(HUB):
                self._apis[name] = Api(self.servers[name].port)
        return self._apis[name]

    def forget(self) -> None:
        """Connections that answer nobody for long are closed: others are made."""
        self._apis.clear()

    def wire(self, *, but: str = "") -> Wire:
        """A connection to one of them, for lines."""
        with self._cell.at(HUB):
            return Wire(self.servers[next(name for name in NAMES if name != but)].port, LISTEN_S)

    def cpu(self) -> str:
        """Processor seconds of each that runs, since this was asked last; and their private memory."""
        found: list[str] = []
        for name, one in self.servers.items():
            if one.server.process is not None and one.server.process.poll() is None:
                now = one.cpu_seconds()
                found.append(f"{name} {now - self._cpu.get(name, 0.0):.2f} s {one.private_mb():.0f} MB")
                self._cpu[name] = now
            else:
                self._cpu.pop(name, None)
        return ", ".join(found)


class Probes:
    """Each second the near boxes have a message each: how long until the last of these is delivered from the stream."""

    def __init__(self, hub: Hub, boxes: Boxes) -> None:
        self._hub, self._boxes = hub, boxes
        self.sent = 0
        """Messages of each."""
        self._delivered: set[int] = set()
        """By their sequences of the stream."""
        self._heard = threading.Condition()

    @property
    def delivered(self) -> int:
        """Messages of all of them."""
        return len(self._delivered)

    def _listen(self, wire: Wire, over: threading.Event) -> None:
        while not over.is_set() and not wire.closed:
            line = wire.heard()
            if line.startswith(b"PING"):
                wire.send(b"PONG\r\n")
            elif line.startswith(b"MSG"):
                with self._heard:
                    self._delivered.add(int(line.split()[3].split(b".")[5]))
                    self._heard.notify_all()

    def _probe(self, over: threading.Event, took: list[float]) -> None:
        while not over.is_set():
            begun = time.monotonic()
            self._boxes.tell("publish 1")
            self.sent += 1
            with self._heard:
                self._heard.wait_for(lambda: len(self._delivered) >= self.sent * NEAR or over.is_set())
            took.append(time.monotonic() - begun)
            over.wait(max(begun + PROBE_S - time.monotonic(), 0.0))

    @contextlib.contextmanager
    def running(self, *, but: str = "") -> Iterator[list[float]]:
        """The times meanwhile, in s, as heard at a server but that one."""
        over, took = threading.Event(), list[float]()
        wire = self._hub.wire(but=but)
        wire.send(b'CONNECT {"verbose":false,"protocol":1}\r\nSUB near 1\r\n')
        threads = [threading.Thread(target=self._listen, args=(wire, over))]
        threads.append(threading.Thread(target=self._probe, args=(over, took)))
        for one in threads:
            one.start()
        try:
            yield took
        finally:
            over.set()
            with self._heard:
                self._heard.notify_all()
            for one in threads:
                one.join()
            wire.close()


def until(reached: Callable[[], bool], seconds: float = STEP_S) -> float:
    """How long that took; seconds, if it was not reached."""
    begun = time.monotonic()
    while not reached() and time.monotonic() - begun < seconds:
        time.sleep(POLL_S)
    return min(time.monotonic() - begun, seconds)


def has(api: Api, count: int) -> bool:
    """Whether the stream has so many messages; no info is asked for, which is long with so many sources."""
    return "error" not in api.request("$JS.API.STREAM.MSG.GET.ALL", {"seq": count})


def leader(api: Api) -> str:
    return str(api.must("$JS.API.STREAM.INFO.ALL").get("cluster", {}).get("leader", ""))


def counted(api: Api, boxes: int, each: int, near: int) -> tuple[int, dict[str, int]]:
    """The messages that are not there, and boxes with others than they had, each with how many."""
    found: dict[str, int] = {}
    while True:
        body = {"subjects_filter": ">", "offset": len(found)}
        state = api.must("$JS.API.STREAM.INFO.ALL", body)["state"]
        if not (more := state.get("subjects")):
            break
        found |= more
    wanted = {f"t.box-{number}": each if number < boxes else near for number in range(boxes + NEAR)}
    wrong = {name: found.get(name, 0) for name, count in wanted.items() if found.get(name, 0) != count}
    return sum(wanted.values()) - sum(found.values()), wrong


def told(title: str, hub: Hub, took: list[float], said: str) -> None:
    some = sorted(took) or [0.0]
    near = (
        f"near boxes: median {some[len(some) // 2]:.2f}, 99 % {at_99(some):.2f}, longest {some[-1]:.2f} s, {len(took)}"
    )
    print(f"{title}: {said}; {near}; {hub.cpu()}", flush=True)


class Run:
    """All of it for one kind of server, told line by line."""

    def __init__(self, cell: Cell, hub: Hub, ends: contextlib.ExitStack, count: int) -> None:
        self._cell, self._hub, self._count, self._each = cell, hub, count, WAITING
        self._dead = ""
        ports = [one.server.ports["leaf_port"] for one in hub.servers.values()]
        with cell.at(HUB):
            near = ends.enter_context(simulated(ports, NEAR, first_number=count, size=SIZE))
        near.wait(lambda seen: seen.up == NEAR)
        self._probes = Probes(hub, near)
        hub.cpu()
        self.idle("before there are others", QUIET_S / 2)
        with cell.at(LEAF):
            self._boxes = ends.enter_context(simulated(ports, count, address=HUB_ADDRESS, messages=WAITING, size=SIZE))

    @property
    def _seen(self) -> Seen:
        return self._boxes.wait(lambda _seen: True)

    @property
    def _api(self) -> Api:
        return self._hub.api(but=self._dead)

    def idle(self, title: str, seconds: float) -> None:
        """Only near boxes have anything."""
        self._hub.forget()
        self._cell.carried[:] = [0, 0]
        with self._probes.running(but=self._dead) as took:
            time.sleep(max(seconds, 0.0))
        an_hour = sum(self._cell.carried) / self._count * 3600 / max(seconds, 1.0) / 1000
        told(title, self._hub, took, f"{an_hour:.0f} KB an hour and box")

    def step(self, title: str) -> None:
        """Until all boxes are linked, are copied from, and have all stored; and when half and 99 % of them were."""
        before, parts = self._seen, {0.5: 0.0, 0.99: 0.0}
        linked = began = time.monotonic()

        def is_whole() -> bool:
            nonlocal linked
            seen, now = self._seen, time.monotonic()
            linked = now if seen.up < self._count else linked
            for part in parts:
                parts[part] = now - began if seen.whole < part * self._count else parts[part]
            return seen.whole == self._count

        with self._probes.running(but=self._dead) as took:
            until(is_whole)
            whole = time.monotonic() - began
            until(lambda: has(self._api, self._count * self._each + self._probes.delivered))
            stored = time.monotonic() - began
        said = f"all linked {linked - began:.1f}, half whole {parts[0.5]:.1f}, 99 % {parts[0.99]:.1f}, all {whole:.1f}"
        told(title, self._hub, took, f"{said}, stored {stored:.1f} s")
        names = ("made", "deleted", "expired", "unwanted", "told", "closed", "refused", "away")
        more = {name: getattr(self._seen, name) - getattr(before, name) for name in names}
        print(f"  {more}", flush=True)

    def kill(self, away: float) -> None:
        """The server that leads the stream is away for so long, and back. Boxes have more messages both times."""
        self._dead = leader(self._api)
        self._hub.kill(self._dead)
        until(lambda: self._seen.up < self._count, NOTICED_S)
        self._more()
        self.step(f"{self._dead} is killed")
        self.idle("it is away", away - QUIET_S)
        self._more()
        self._hub.start(self._dead)
        self.step("it is started")
        current = until(lambda: is_current(self._api))
        until(lambda: not self.counted()[1], SETTLED_S)
        missing, wrong = self.counted()
        print(
            f"  current {current:.1f} s later; {missing} are missing, wrong {dict(list(wrong.items())[:5])}", flush=True
        )

    def _more(self) -> None:
        self._boxes.tell(f"publish {WAITING}")
        self._each += WAITING

    def counted(self) -> tuple[int, dict[str, int]]:
        """As counted(), of all of them."""
        return counted(self._api, self._count, self._each, self._probes.sent)


def fleet(cell: Cell, kind: str, folder: Path, options: argparse.Namespace) -> None:
    """All of it for one kind of server."""
    hub = Hub(cell, kind, folder)
    with contextlib.ExitStack() as ends:
        ends.callback(hub.stop)
        for name in NAMES:
            hub.start(name)
        until(lambda: makes_streams_at(cell, hub), START_SECONDS_MAX)
        collect(hub.api(), options.count + NEAR, num_replicas=3)
        subjects = [f"t.box-{options.count + number}" for number in range(NEAR)]
        consumer = {
            "durable_name": "NEAR",
            "deliver_subject": "near",
            "ack_policy": "none",
            "filter_subjects": subjects,
        }
        hub.api().must("$JS.API.CONSUMER.CREATE.ALL.NEAR", {"stream_name": "ALL", "config": consumer})
        run = Run(cell, hub, ends, options.count)
        run.step("all come")
        run.idle(f"quiet for {QUIET_S:.0f} s", QUIET_S)
        run.kill(options.away)


def is_current(api: Api) -> bool:
    """Whether all three have the stream as its leader has it."""
    cluster = api.must("$JS.API.STREAM.INFO.ALL").get("cluster", {})
    return bool(cluster.get("leader")) and [one.get("current") for one in cluster.get("replicas", ())] == [True, True]


def makes_streams_at(cell: Cell, hub: Hub) -> bool:
    with cell.at(HUB):
        return makes_streams(hub.servers[NAMES[0]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--kinds", default=",".join(KINDS))
    for name, default in (("rate", 50_000.0), ("trip", 1.0), ("jitter", 0.5), ("loss", 0.05), ("away", 600.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    options = parser.parse_args()
    line = Link(options.rate, delay=options.trip / 2, jitter=options.jitter, loss=options.loss, apart=True)
    for kind in options.kinds.split(","):
        print(f"{options.count} boxes, {kind}, {line}", flush=True)
        with joined(line) as cell, tempfile.TemporaryDirectory(prefix="leafd-far-") as folder:
            fleet(cell, kind, Path(folder), options)


if __name__ == "__main__":
    main()
