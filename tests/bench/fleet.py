"""A fleet of simulated boxes and one hub, leafd and nats-server in turn:

    python -m tests.bench.fleet storm 100 400 1000        the hub dies by kill -9 and is back: until all is as before
    python -m tests.bench.fleet unreachable 1000          what sources cost whose origins are not there
    python -m tests.bench.fleet creation 250 500 1000     mirrors and sources are made
    python -m tests.bench.fleet interest 1000             each box subscribes to ten subjects
    python -m tests.bench.fleet enrol 1000                each box enrols itself with one token, all at once
    python -m tests.bench.fleet reports 500 5000          what a report costs where there are so many streams
    python -m tests.bench.fleet storing 300 --hubs 2      what boxes have is stored in one stream (in two)
    python -m tests.bench.fleet trickle 300               each box has a message a second
    python -m tests.bench.fleet silent 1000               all links say nothing more, until they are given up
    python -m tests.bench.fleet apart 1000                three servers: one has the links, another one the stream
    ... [--kinds leafd] [--isolate] [--rounds 3] [--subscriptions 10] [--login nkey|jwt|bcrypt] [--tls]

Boxes and servers share the machine, so times tell how two servers compare and how a figure grows, not what a hub with
processors of its own does. Not here: the boxes (simulated.py, boxes/), who they are (identities.py),
rows of other things (run).
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.identities import KINDS as LOGINS, identities, tls, unknown
from tests.bench.process import START_SECONDS_MAX, Api, Login, Process, api, running
from tests.bench.simulated import Boxes, Seen, simulated
from tests.hostile.wires import Wire
from tests.servers import KINDS, LEAFD, free_port

HUB: Final = """
server_name: hub
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", domain: hub, max_mem: 256MB, max_file: 4GB }
max_pending: 256MB
leafnodes { listen: "127.0.0.1:{leaf_port}" ISOLATE TLS }
LOGINS
"""
APART: Final = HUB.replace("server_name: hub", 'server_name: "{name}"\nserver_tags: [ "{name}" ]') + (
    'cluster { name: hub, listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:<first>" ] }\n'
)
SERVERS: Final = ("links", "stream", "third")
ASK_S: Final = 5.0
WAITING: Final = 10
"""Messages of each box before the hub dies, and as many while it is away."""
SECONDS_MAX: Final = 180.0
LOGIN_PAUSE_S: Final = 0.01
WARM_S: Final = 2.0
LOOK_S: Final = 10.0
LATER_S: Final = 45.0
REPORTS: Final = 50
STORED: Final = 200_000
STORED_EACH: Final = 200
"""Messages of all boxes together at least, and of each."""
TRICKLED: Final = 20
SILENT_SECONDS_MAX: Final = 400.0
Figures = dict[str, float]


@dataclass(frozen=True)
class Way:
    """How a case runs, beside its size."""

    isolate: bool = False
    subscriptions: int = 0
    login: str = "open"
    tls: bool = False
    hubs: int = 1
    """STORING: each has its part of the boxes, and its own stream."""


@dataclass(frozen=True)
class Hub:
    """A running hub, what its boxes are started with, and how a person logs in there."""

    process: Process
    boxes: dict[str, object]
    login: Login

    @property
    def leaf_port(self) -> int:
        return self.process.server.ports["leaf_port"]

    def api(self) -> contextlib.AbstractContextManager[Api]:
        """A person's connection for requests."""
        return api(self.process, self.login)


@contextlib.contextmanager
def hub_of(kind: str, way: Way, count: int) -> Iterator[Hub]:
    with tempfile.TemporaryDirectory(prefix="leafd-bench-") as folder:
        directory = Path(folder)
        who = identities(way.login, count, directory)
        configuration = HUB.replace("ISOLATE", ", isolate_leafnode_interest: true" if way.isolate else "")
        configuration = configuration.replace("TLS", f", {tls(directory)}" if way.tls else "")
        with running(kind, configuration.replace("LOGINS", who.configuration), directory / "hub") as process:
            yield Hub(process, who.boxes | ({"tls": True} if way.tls else {}), who.connect)


def source(number: int) -> dict[str, object]:
    return {"name": "T", "external": {"api": f"$JS.box-{number}.API"}}


def collect(connection: Api, count: int, **more: object) -> None:
    """One stream that takes from every box."""
    config = {"name": "ALL", "storage": "file", "sources": [source(number) for number in range(count)]} | more
    connection.must("$JS.API.STREAM.CREATE.ALL", config)


def wait_for_messages(connection: Api, count: int, seconds: float = SECONDS_MAX) -> float:
    """When ALL had so many."""
    deadline = time.monotonic() + seconds
    while (found := connection.messages_in("ALL")) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{found} of {count} messages")
        time.sleep(0.02)
    if found > count:
        raise RuntimeError(f"{found} messages where {count} were sent")
    return time.monotonic()


def wait_for_first(connection: Api, seconds: float = SECONDS_MAX) -> float:
    """When ALL's first message was there to be read. What asks for it costs next to nothing: the state of a stream
    with a thousand sources is an answer of 100 KB, which a server that is asked again and again has to write first."""
    deadline = time.monotonic() + seconds
    while "error" in connection.request("$JS.API.STREAM.MSG.GET.ALL", {"seq": 1}):
        if time.monotonic() > deadline:
            raise TimeoutError("no message")
        time.sleep(0.005)
    return time.monotonic()


@contextlib.contextmanager
def logins(hub: Hub) -> Iterator[list[float]]:
    """How long logins of a person take meanwhile, one after the other, in ms."""
    took: list[float] = []
    over = threading.Event()

    def again() -> None:
        while not over.wait(LOGIN_PAUSE_S):
            begun = time.monotonic()
            wire = Wire(hub.process.port, 60.0)
            connect = {"verbose": False, **hub.login(json.loads(wire.heard()[5:]).get("nonce", ""))}
            wire.send(b"CONNECT " + json.dumps(connect).encode() + b"\r\nPING\r\n")
            said = b""
            while (line := wire.heard()) and not line.startswith(b"PONG"):
                said = line
            wire.close()
            if not line:
                raise ConnectionError(f"a person could not log in: {said.decode()}")
            took.append((time.monotonic() - begun) * 1000)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


def at_99(values: list[float]) -> float:
    return sorted(values)[min(int(len(values) * 0.99), len(values) - 1)]


# ---- cases


def storm(kind: str, count: int, way: Way) -> Figures:
    """The hub dies by kill -9, boxes have messages for it, and it is started again."""
    with hub_of(kind, way, count) as hub, boxes_of(hub, count, way) as boxes:
        process = hub.process
        boxes.wait(lambda seen: seen.up == count)
        with hub.api() as connection:
            collect(connection, count)
            boxes.wait(lambda seen: seen.whole == count)
            boxes.tell(f"publish {WAITING}")
            wait_for_messages(connection, WAITING * count)
        process.server.kill()
        boxes.wait(lambda seen: seen.up == 0)
        before = boxes.tell(f"publish {WAITING}")
        begun = time.monotonic()
        process.start()
        figures = {"start s": process.start_seconds}
        with process.watched() as private, logins(hub) as took:
            figures["linked s"] = boxes.wait(lambda seen: seen.up == count).at - begun
            figures["running s"] = boxes.wait(lambda seen: seen.whole == count, SECONDS_MAX).at - begun
            with hub.api() as connection:
                figures["whole s"] = wait_for_messages(connection, 2 * WAITING * count) - begun
        seen = boxes.settled()
        figures |= {
            "consumers": seen.made - before.made,
            "told": seen.told - before.told,
            "untold": seen.untold - before.untold,
            "MB to boxes": (seen.bytes - before.bytes) / 1e6,
            "turned away": seen.away - before.away,
            "logins": len(took),
            "login median ms": statistics.median(took),
            "login p99 ms": at_99(took),
            "login max ms": max(took),
            "private MB": private[0],
            "CPU s": process.cpu_seconds(),
        }
    return figures


def unreachable(kind: str, count: int, way: Way) -> Figures:
    """Sources of boxes that are not there: processor time, and the first message when one is."""

    def percent(process: Process) -> float:
        before = process.cpu_seconds()
        time.sleep(LOOK_S)
        return (process.cpu_seconds() - before) / LOOK_S * 100

    with hub_of(kind, way, count) as hub, hub.api() as connection:
        collect(connection, count)
        time.sleep(WARM_S)
        figures = {"first % of a processor": percent(hub.process)}
        time.sleep(LATER_S)
        figures["later %"] = percent(hub.process)
        with simulated(hub.leaf_port, 1, messages=1, reconnect=0.0, **hub.boxes) as boxes:
            linked = boxes.wait(lambda seen: seen.up == 1).at
            figures["first message s"] = wait_for_first(connection) - linked
    return figures


def boxes_of(hub: Hub, count: int, way: Way, **more: object) -> contextlib.AbstractContextManager[Boxes]:
    """So many boxes of that hub."""
    return simulated(hub.leaf_port, count, subscriptions=way.subscriptions, **hub.boxes, **more)


@contextlib.contextmanager
def linked(kind: str, way: Way, count: int) -> Iterator[tuple[Process, Boxes, Api]]:
    """A hub with so many boxes, which have told all that they have to tell, and a connection for requests."""
    with hub_of(kind, way, count) as hub, boxes_of(hub, count, way) as boxes, hub.api() as connection:
        boxes.wait(lambda seen: seen.up == count)
        boxes.settled()
        yield hub.process, boxes, connection


def creation(kind: str, count: int, way: Way) -> Figures:
    """Boxes are linked; then so many mirrors are made, one after the other; and one stream with as many sources."""
    figures: Figures = {}
    with linked(kind, way, count) as (hub, boxes, connection):
        begun, cpu = time.monotonic(), hub.cpu_seconds()
        for number in range(count):
            config = {"name": f"M{number}", "storage": "file", "mirror": source(number)}
            connection.must(f"$JS.API.STREAM.CREATE.M{number}", config)
        figures["mirrors made s"] = time.monotonic() - begun
        figures["all copy s"] = boxes.wait(lambda seen: seen.whole == count).at - begun
        figures["CPU s"] = hub.cpu_seconds() - cpu
    with linked(kind, way, count) as (hub, boxes, connection):
        begun, cpu = time.monotonic(), hub.cpu_seconds()
        collect(connection, count)
        figures["sources made s"] = time.monotonic() - begun
        figures["all taken from s"] = boxes.wait(lambda seen: seen.whole == count).at - begun
        figures["CPU of sources s"] = hub.cpu_seconds() - cpu
    return figures


def interest(kind: str, count: int, way: Way) -> Figures:
    """Boxes come, each with its subscriptions: what each is told of all others."""
    with hub_of(kind, way, count) as hub:
        process = hub.process
        idle = process.private_mb()
        with process.watched() as private, boxes_of(hub, count, way, reconnect=5.0) as boxes:
            begun = time.monotonic()
            linked = boxes.wait(lambda seen: seen.up == count).at - begun
            seen = boxes.settled(2.0)
            return {
                "linked s": linked,
                "told": seen.told / count,
                "bytes a link": seen.bytes / count,
                "KB private a box": (process.private_mb() - idle) * 1024 / count,
                "private peak MB": private[0],
                "CPU s": process.cpu_seconds(),
            }


def enrol(kind: str, count: int, way: Way) -> Figures:
    """Boxes that nobody knows bring one token for all of them, at once; then the hub dies and they come back; then what
    reports of them cost."""
    block = "accounts { A { jetstream: enabled, users: [ { user: person, password: person } ]\n"
    block += 'streams { ALL { sources: [ { boxes: "box-*", name: T } ] } } } }\nenrol { account: A }'
    with tempfile.TemporaryDirectory(prefix="leafd-bench-") as folder:
        configuration = HUB.replace("ISOLATE", ", isolate_leafnode_interest: true").replace("TLS", "")
        with running(kind, configuration.replace("LOGINS", block), Path(folder) / "hub") as process:
            words = [
                "enrol",
                "token",
                "--name",
                "box-*",
                "--uses",
                str(count),
                "-c",
                str(process.server.directory / "server.conf"),
            ]
            made = subprocess.run([sys.executable, "-m", "leafd", *words], capture_output=True, text=True, check=True)
            keys = unknown(count, Path(folder), made.stdout.strip())
            hub = Hub(process, keys, lambda nonce: {"user": "person", "pass": "person"})
            idle, cpu = process.private_mb(), process.cpu_seconds()
            with boxes_of(hub, count, way) as boxes:
                with process.watched() as private, logins(hub) as took:
                    begun = time.monotonic()
                    figures = {"enrolled s": boxes.wait(lambda seen: seen.up == count).at - begun}
                    figures["collected from s"] = boxes.wait(lambda seen: seen.whole == count).at - begun
                figures |= {"CPU s": process.cpu_seconds() - cpu, "login p99 ms": at_99(took)}
                figures |= {"private MB more": process.private_mb() - idle, "private peak MB": private[0]}
                kept = process.server.directory / "store" / "enrol" / "boxes"
                figures |= {"file KB": kept.stat().st_size / 1000, "syncs": len(kept.read_text().splitlines())}
                figures |= reported(hub, ("/boxz", "/metrics"))
                process.server.kill()
                boxes.wait(lambda seen: seen.up == 0)
                begun = time.monotonic()
                process.start()
                figures["start s"] = process.start_seconds
                figures["back s"] = boxes.wait(lambda seen: seen.up == count).at - begun
                figures["whole s"] = boxes.wait(lambda seen: seen.whole == count).at - begun
    return figures


def reported(hub: Hub, paths: Iterable[str]) -> Figures:
    """Processor time of these reports."""
    figures: Figures = {}
    for path in paths:
        monitor = http.client.HTTPConnection("127.0.0.1", hub.process.server.ports["monitor_port"], timeout=60)
        ask(monitor, path)
        cpu = hub.process.cpu_seconds()
        for _ in range(REPORTS):
            ask(monitor, path)
        figures[f"{path} CPU ms"] = (hub.process.cpu_seconds() - cpu) / REPORTS * 1000
        monitor.close()
    return figures


def reports(kind: str, count: int, way: Way) -> Figures:
    """So many streams with a message each: processor time of a report, and what a login takes meanwhile."""
    figures: Figures = {}
    with hub_of(kind, way, count) as hub, hub.api() as connection:
        for number in range(count):
            config = {"name": f"S{number}", "subjects": [f"s.{number}"], "storage": "file"}
            connection.must(f"$JS.API.STREAM.CREATE.S{number}", config)
            connection.publish(f"s.{number}", b"x")
        wanted = dict.fromkeys(("/varz", "/jsz", "/jsz?streams=1"))
        for path in [*wanted, *(["/metrics"] if kind == "leafd" else [])]:
            monitor = http.client.HTTPConnection("127.0.0.1", hub.process.server.ports["monitor_port"], timeout=60)
            ask(monitor, path)
            cpu, took = hub.process.cpu_seconds(), list[float]()
            for _ in range(REPORTS):
                begun = time.monotonic()
                ask(monitor, path)
                took.append(time.monotonic() - begun)
            figures[f"{path} CPU ms"] = (hub.process.cpu_seconds() - cpu) / REPORTS * 1000
            figures[f"{path} ms"] = statistics.median(took) * 1000
            with logins(hub) as logged_in:
                for _ in range(REPORTS):
                    ask(monitor, path)
            figures[f"{path} login max ms"] = max(logged_in, default=0.0)
            monitor.close()
    return figures


def storing(kind: str, count: int, way: Way) -> Figures:
    """Boxes that are linked have messages, which one stream of the hub takes from all of them: processor time of each,
    by thread, until all are stored."""
    part, each = count // way.hubs, max(STORED // count, STORED_EACH)
    with contextlib.ExitStack() as stack:
        hubs = [stack.enter_context(hub_of(kind, way, part)) for _ in range(way.hubs)]
        fleets = [stack.enter_context(boxes_of(hub, part, way)) for hub in hubs]
        callers = [stack.enter_context(hub.api()) for hub in hubs]
        for boxes, caller in zip(fleets, callers, strict=True):
            boxes.wait(lambda seen: seen.up == part)
            collect(caller, part)
        for boxes in fleets:
            boxes.wait(lambda seen: seen.whole == part)
        time.sleep(WARM_S)
        before, begun = [hub.process.threads_cpu_seconds() for hub in hubs], time.monotonic()
        for boxes in fleets:
            boxes.tell(f"publish {each}")
        took = max(wait_for_messages(caller, each * part) for caller in callers) - begun
        stored = each * part * way.hubs
        figures = {"s": took, "messages/s": stored / took} | spent(kind, hubs, before, stored)
        return figures | {"private MB": sum(hub.process.private_mb() for hub in hubs)}


def spent(kind: str, hubs: list[Hub], before: list[dict[str, float]], messages: int) -> Figures:
    """Processor time of each message since then, in us, by thread where threads have one concern."""
    found: Figures = {}
    for hub, was in zip(hubs, before, strict=True):
        for name, seconds in hub.process.threads_cpu_seconds().items():
            thread = f"{name if kind == 'leafd' else 'all'} CPU us"
            found[thread] = found.get(thread, 0) + (seconds - was.get(name, 0)) / messages * 1e6
    return found


def trickle(kind: str, count: int, way: Way) -> Figures:
    """Each box has a message a second, which the hub stores: processor time of each, and before that of a quiet hub."""
    with hub_of(kind, way, count) as hub, boxes_of(hub, count, way) as boxes, hub.api() as caller:
        boxes.wait(lambda seen: seen.up == count)
        collect(caller, count)
        boxes.wait(lambda seen: seen.whole == count)
        time.sleep(WARM_S)
        cpu = hub.process.cpu_seconds()
        time.sleep(LOOK_S)
        figures = {"quiet %": (hub.process.cpu_seconds() - cpu) / LOOK_S * 100}
        before = [hub.process.threads_cpu_seconds()]
        for _ in range(TRICKLED):
            boxes.tell("publish 1")
            time.sleep(1)
        wait_for_messages(caller, TRICKLED * count)
        return figures | spent(kind, [hub], before, TRICKLED * count) | {"private MB": hub.process.private_mb()}


def silent(kind: str, count: int, way: Way) -> Figures:
    """All boxes say nothing any more, at the same moment, and each is the origin of a source: what that costs the hub
    until it has given all of them up, and logins of others meanwhile."""
    with hub_of(kind, way, count) as hub, boxes_of(hub, count, way, messages=1) as boxes, hub.api() as person:
        boxes.wait(lambda seen: seen.up == count)
        collect(person, count)
        wait_for_messages(person, count)
        boxes.settled(2.0)
        process = hub.process
        with logins(hub) as before_that:
            spent_s = process.cpu_seconds()
            time.sleep(LATER_S)
            quiet = process.cpu_seconds() - spent_s
        boxes.fall_silent()
        begun, spent_s, left = time.monotonic(), process.cpu_seconds(), count
        with logins(hub) as took:
            while left and time.monotonic() - begun < SILENT_SECONDS_MAX:
                time.sleep(1.0)
                left = process.leaf_links()
        lasted = time.monotonic() - begun
        return {
            "given up after s": lasted,
            "left": left,
            "CPU %": (process.cpu_seconds() - spent_s) / lasted * 100,
            "CPU % before": quiet / LATER_S * 100,
            "logins a second": len(took) / lasted,
            "logins a second before": len(before_that) / LATER_S,
            "login ms 99 %": at_99(took),
            "login ms 99 % before": at_99(before_that),
            "login ms longest": max(took),
        }


@contextlib.contextmanager
def three(kind: str, way: Way) -> Iterator[list[Process]]:
    """A hub of three servers, each with its name as its tag, whose streams can be made."""
    with tempfile.TemporaryDirectory(prefix="leafd-bench-") as folder, contextlib.ExitStack() as stack:
        first = free_port()
        text = APART.replace("ISOLATE", ", isolate_leafnode_interest: true" if way.isolate else "")
        text = text.replace("TLS", "").replace("LOGINS", "").replace("<first>", str(first))
        text = text.replace("jetstream {", "jetstream { meta_size: 3,") if kind == LEAFD else text
        servers = list[Process]()
        for name in SERVERS:
            port = {} if servers else {"route_port": first}
            servers.append(stack.enter_context(running(kind, text, Path(folder) / name, name=name, **port)))
        deadline = time.monotonic() + START_SECONDS_MAX
        while not makes_streams(servers[0]):
            if time.monotonic() > deadline:
                raise TimeoutError("three servers have no leader")
            time.sleep(0.1)
        yield servers


def makes_streams(server: Process) -> bool:
    """Whether it has the others that a stream of three needs. Without a leader a nats-server answers nothing."""
    with contextlib.suppress(TimeoutError), api(server, patience=ASK_S) as connection:
        return "error" not in connection.request("$JS.API.STREAM.CREATE.NONE", {"name": "NONE", "num_replicas": 3})
    return False


def apart(kind: str, count: int, way: Way) -> Figures:
    """Boxes are linked to one of three servers, and another one has the stream that takes from all of them. Then the
    server with the links dies and is started. Lines are those that a box is told."""
    figures: Figures = {}
    with three(kind, way) as (links, stream, _), contextlib.ExitStack() as stack:
        boxes = stack.enter_context(simulated(links.server.ports["leaf_port"], count, subscriptions=way.subscriptions))
        boxes.wait(lambda seen: seen.up == count)
        before, cpu = boxes.settled(), links.cpu_seconds()
        connection = stack.enter_context(api(stream))
        begun = time.monotonic()
        collect(connection, count, placement={"tags": [SERVERS[1]]})
        figures["whole s"] = boxes.wait(lambda seen: seen.whole == count, SECONDS_MAX).at - begun
        figures |= lines(boxes, before, count) | {"CPU s": links.cpu_seconds() - cpu}
        boxes.tell(f"publish {WAITING}")
        wait_for_messages(connection, WAITING * count)
        links.server.kill()
        boxes.wait(lambda seen: seen.up == 0)
        before = boxes.tell(f"publish {WAITING}")
        begun = time.monotonic()
        links.start()
        figures["back: linked s"] = boxes.wait(lambda seen: seen.up == count).at - begun
        figures["back: whole s"] = wait_for_messages(connection, 2 * WAITING * count) - begun
        figures |= {f"back: {name}": value for name, value in lines(boxes, before, count).items()}
        return figures | {"back: CPU s": links.cpu_seconds()}


def lines(boxes: Boxes, before: Seen, count: int) -> Figures:
    """Lines of interest that a box was told since then."""
    seen = boxes.settled()
    told, untold = seen.told - before.told, seen.untold - before.untold
    return {"LS+": told / count, "LS-": untold / count, "KB": (seen.bytes - before.bytes) / count / 1000}


def ask(monitor: http.client.HTTPConnection, path: str) -> None:
    """One report, to its end."""
    monitor.request("GET", path)
    answer = monitor.getresponse()
    answer.read()
    if answer.status != 200:
        raise ConnectionError(f"{path}: {answer.status}")


Case = Callable[[str, int, Way], Figures]
CASES: Final[dict[str, Case]] = {
    one.__name__: one
    for one in (storm, unreachable, creation, interest, enrol, reports, storing, trickle, silent, apart)
}
DEFAULT_SUBSCRIPTIONS: Final = {"interest": 10}


def main() -> None:
    """Prints a line for each case, size and server: medians of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("sizes", nargs="+", type=int)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--isolate", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--subscriptions", type=int)
    parser.add_argument("--login", choices=LOGINS, default="open")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--hubs", type=int, default=1)
    chosen = parser.parse_args()
    subscriptions = chosen.subscriptions
    if subscriptions is None:
        subscriptions = DEFAULT_SUBSCRIPTIONS.get(chosen.case, 0)
    way = Way(chosen.isolate, subscriptions, chosen.login, chosen.tls, chosen.hubs)
    for size in chosen.sizes:
        for kind in chosen.kinds.split(","):
            rounds: list[Figures] = []
            try:
                for _ in range(chosen.rounds):
                    rounds.append(CASES[chosen.case](kind, size, way))
            except (TimeoutError, RuntimeError, ConnectionError) as problem:
                print(f"{chosen.case} {size} {kind}: failed: {problem}", flush=True)
                continue
            found = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
            shown = {name: round(value, 3 if value < 100 else 0) for name, value in found.items()}
            print(f"{chosen.case} {size} {kind}: {json.dumps(shown)}", flush=True)


if __name__ == "__main__":
    main()
