"""What is measured with one server: the rows of the table, each with its variants and what it should reach.

A row is measured once a round for each variant; a measurement is a dictionary of figures. The first variant is
leafd, the second what it is held against. Not here: pairs of servers with a leaf link (links.py).
"""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import servers
from tests.bench.process import Process, api, running
from tests.certificates import Authority

Figures = dict[str, float]

HERE = Path(__file__).resolve().parent
LOAD_SECONDS_MAX = 600
LIBRARIES = ("-lssl", "-lcrypto", "-lz", "-lpthread")  # of the load generator
IDLE_SECONDS = 5
SIZE = 128

PLAIN = """
server_name: bench
listen: "127.0.0.1:{port}"
"""
STREAMS = (
    PLAIN
    + """
jetstream {{ store_dir: "{store}", max_mem: 256MB, max_file: 16GB {sync} }}
"""
)
KEY = "6d0f9a2e51c84b73a6e0d2f81795c34b8e1a7f60c92d5b34e7081fa6d35c9b12"


@dataclass(frozen=True)
class Variant:
    """One server as it is configured for a row."""

    kind: str
    sync_always: bool = False
    cipher: str = ""

    @property
    def name(self) -> str:
        return self.kind + (", sync always" if self.sync_always else "") + (f", {self.cipher}" if self.cipher else "")

    @property
    def configuration(self) -> str:
        # leafd has every message on disk before its ack without being told; nats-server by this line only.
        sync = ", sync_interval: always" if self.sync_always else ""
        key = f", key: {KEY}, cipher: {self.cipher}" if self.cipher else ""
        return STREAMS.replace("{sync}", sync + key).replace("{{", "{").replace("}}", "}")


LEAFD = Variant(servers.LEAFD)
DEFAULT = Variant(servers.REFERENCE)
ALWAYS = Variant(servers.REFERENCE, sync_always=True)
CHACHA, AES = (Variant(servers.LEAFD, cipher=cipher) for cipher in ("chacha", "aes"))
DEFAULT_CHACHA, DEFAULT_AES = (Variant(servers.REFERENCE, cipher=cipher) for cipher in ("chacha", "aes"))


@dataclass(frozen=True)
class Goal:
    """What a figure should reach: leafd's, divided by the other's when `ratio`, not below (or above) the bound."""

    figure: str
    unit: str
    bound: float
    at_most: bool = False
    ratio: bool = True


@dataclass(frozen=True)
class Row:
    """measure(variant, quick) is called once a round; rows that need a store filled do it in `opened` (once a run)."""

    name: str
    title: str
    variants: tuple[Variant, ...]
    goals: tuple[Goal, ...]
    opened: Callable[[Variant, bool], contextlib.AbstractContextManager[Callable[[], Figures]]]
    rounds_max: int | None = None


@functools.cache
def load_program() -> Path:
    """Compiles the load generator, once a run."""
    folder = Path(tempfile.mkdtemp(prefix="leafd-bench-load-"))
    program = folder / "load"
    sources = sorted(str(path) for path in (HERE / "load").glob("*.c"))
    subprocess.run(
        ["cc", "-D_GNU_SOURCE", "-std=gnu11", "-O2", "-o", str(program), *sources, *LIBRARIES],
        check=True,
    )
    return program


def load(process: Process, scenario: str, messages: int, **options: object) -> Figures:
    """Runs one scenario; the figures with the server's processor time and memory."""
    before, waited = process.cpu_seconds(), process.waited_seconds()
    words = [str(load_program()), scenario, "--port", str(process.port), "--messages", str(messages)]
    for name, value in options.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    with process.watched() as private:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LOAD_SECONDS_MAX)
    if done.returncode != 0:
        raise RuntimeError(f"{scenario} on {process.server.kind}: {done.stderr.strip()}\n{process.server.log[-2000:]}")
    said = json.loads(done.stdout)
    waited = process.waited_seconds() - waited
    cpu = process.settled_cpu_seconds() - before
    figures = {
        "rate": said["messages"] / said["seconds"],
        "cpu_us": cpu / said["messages"] * 1e6,
        "peak_mb": process.peak_mb(),
        "private_peak_mb": private[0],
        "load_busy": said["load_cpu_seconds"] / said["seconds"],
        "waited": waited / said["seconds"],
    }
    if said["p50_us"] > 0:
        figures |= {"p50_us": said["p50_us"], "p99_us": said["p99_us"], "p999_us": said["p999_us"]}
    return figures


STREAM = "BENCH"


def stream_config(name: str = STREAM, subjects: str = "bench.>") -> dict[str, object]:
    return {
        "name": name,
        "subjects": [subjects],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "num_replicas": 1,
        "allow_direct": True,
    }


def make_stream(process: Process) -> None:
    with api(process) as connection:
        connection.must(f"$JS.API.STREAM.CREATE.{STREAM}", stream_config())


def expect_stored(process: Process, messages: int) -> None:
    """A rate at which messages get lost is none."""
    with api(process) as connection:
        stored = connection.messages_in(STREAM)
    if stored != messages:
        raise RuntimeError(f"{process.server.kind} stored {stored} of {messages} messages that it acknowledged")


@contextlib.contextmanager
def fresh_each_time(
    variant: Variant, measure: Callable[[Process], Figures], configuration: str = ""
) -> Iterator[Callable[[], Figures]]:
    """A new server with an empty store for each measurement, of the variant's configuration unless one is given."""
    with tempfile.TemporaryDirectory(prefix="leafd-bench-") as directory:
        count = 0

        def once() -> Figures:
            nonlocal count
            count += 1
            with running(variant.kind, configuration or variant.configuration, Path(directory) / str(count)) as process:
                return measure(process)

        yield once


def core(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
    messages = 300_000 if quick else 3_000_000
    return fresh_each_time(variant, lambda process: load(process, "core", messages, size=SIZE))


def request(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
    messages = 3_000 if quick else 30_000
    return fresh_each_time(variant, lambda process: load(process, "request", messages, size=SIZE))


WEB = """
server_name: bench
listen: "127.0.0.1:{port}"
websocket { port: {web_port}, no_tls: true, compression: true }
"""


def web(
    scenario: str, messages: int, *, deflate: bool = False
) -> Callable[[Variant, bool], contextlib.AbstractContextManager[Callable[[], Figures]]]:
    """Over WebSocket: `blind`, the publisher; `core`, the subscriber. The payload is JSON, so that it compresses."""

    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages // 10 if quick else messages

        def measure(process: Process) -> Figures:
            port = process.server.ports["web_port"]
            return load(process, scenario, count, size=SIZE, web_port=port, deflate=int(deflate))

        return fresh_each_time(variant, measure, WEB)

    return opened


SECURE = """
server_name: bench
listen: "127.0.0.1:{{port}}"
tls {{ cert_file: "{folder}/server.pem", key_file: "{folder}/server.key" }}
"""


@contextlib.contextmanager
def secure(
    variant: Variant, measure: Callable[[Process, Path], Figures], key: str = "ec"
) -> Iterator[Callable[[], Figures]]:
    """A new server with TLS (a certificate with a P-256 key, or with another one) for each measurement."""
    with tempfile.TemporaryDirectory(prefix="leafd-bench-") as folder:
        authority = Authority(Path(folder))
        authority.issue("server", key=key)
        configuration = SECURE.format(folder=folder)
        with fresh_each_time(variant, lambda process: measure(process, authority.certificate), configuration) as once:
            yield once


def secure_core(
    size: int, messages: int
) -> Callable[[Variant, bool], contextlib.AbstractContextManager[Callable[[], Figures]]]:
    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages // 10 if quick else messages
        return secure(variant, lambda process, ca: load(process, "core", count, size=size, tls=ca))

    return opened


def hold_idle(process: Process, count: int, *options: str) -> Figures:
    """Memory of a server that holds so many connections, which have logged in and do nothing."""
    before = process.private_mb()
    words = [str(load_program()), "idle", "--port", str(process.port), "--messages", str(count), *options]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        said = holder.stdout.readline()
        if not said:
            raise RuntimeError(f"idle on {process.server.kind}:\n{process.server.log[-2000:]}")
        time.sleep(IDLE_SECONDS)
        after = process.private_mb()
        holder.stdin.close()
    return {"private_mb": after, "each_kb": (after - before) * 1024 / count, "peak_mb": process.peak_mb()}


def idle_connections(
    connections: int,
) -> Callable[[Variant, bool], contextlib.AbstractContextManager[Callable[[], Figures]]]:
    """Over TLS."""

    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = connections // 10 if quick else connections
        return secure(variant, lambda process, ca: hold_idle(process, count, "--tls", str(ca)))

    return opened


def handshakes(
    scenario: str, key: str = "ec"
) -> Callable[[Variant, bool], contextlib.AbstractContextManager[Callable[[], Figures]]]:
    """Four at a time: one alone shows how long each side waits for the other, not what the server can do."""

    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = 400 if quick else 4_000
        return secure(variant, lambda process, ca: load(process, scenario, count, tls=ca, connections=4), key)

    return opened


def publish(
    connections: int, in_flight: int, messages: int, messages_always: int
) -> Callable[[Variant, bool], contextlib.AbstractContextManager[Callable[[], Figures]]]:
    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages_always if variant.sync_always else messages
        count = max(count // 10, connections) // connections * connections if quick else count

        def measure(process: Process) -> Figures:
            make_stream(process)
            figures = load(process, "publish", count, size=SIZE, connections=connections, in_flight=in_flight)
            expect_stored(process, count)
            return figures

        return fresh_each_time(variant, measure)

    return opened


def fill(process: Process, messages: int) -> None:
    make_stream(process)
    load(process, "publish", messages, size=SIZE, in_flight=1000)
    expect_stored(process, messages)


@contextlib.contextmanager
def filled(
    variant: Variant, messages: int, measure: Callable[[Process, int], Figures]
) -> Iterator[Callable[[], Figures]]:
    """One server for all rounds, its stream filled before the first."""
    with (
        tempfile.TemporaryDirectory(prefix="leafd-bench-") as directory,
        running(variant.kind, variant.configuration, Path(directory) / "one") as process,
    ):
        fill(process, messages)
        count = 0

        def once() -> Figures:
            nonlocal count
            count += 1
            return measure(process, count)

        yield once


def ordered(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
    messages = 100_000 if quick else 1_000_000

    def measure(process: Process, count: int) -> Figures:
        config = {
            "deliver_subject": "bench_deliver",
            "deliver_policy": "all",
            "ack_policy": "none",
            "replay_policy": "instant",
            "flow_control": True,
            "idle_heartbeat": 5_000_000_000,
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
        }
        body = json.dumps({"stream_name": STREAM, "config": config})
        subject = f"$JS.API.CONSUMER.CREATE.{STREAM}"
        return load(process, "push", messages, subject="bench_deliver", api_subject=subject, api_body=body)

    return filled(variant, messages, measure)


def pull(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
    messages = 50_000 if quick else 500_000

    def measure(process: Process, count: int) -> Figures:
        name = f"C{count}"
        config = {
            "durable_name": name,
            "name": name,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "max_ack_pending": 10_000,
        }
        with api(process) as connection:
            connection.must(f"$JS.API.CONSUMER.CREATE.{STREAM}.{name}", {"stream_name": STREAM, "config": config})
            figures = load(process, "pull", messages, stream=STREAM, consumer=name, batch=500)
            connection.must(f"$JS.API.CONSUMER.DELETE.{STREAM}.{name}")
        return figures

    return filled(variant, messages, measure)


def start_empty(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
    # An editable install looks for changes in each start: `pip install .` is what a box has. The bound of processor
    # time is for a machine on which `python3 -c pass` takes 0.015 s.
    def measure(process: Process) -> Figures:
        return {
            "seconds": process.start_seconds,
            "cpu_seconds": process.start_cpu_seconds,
            "peak_mb": process.peak_mb(),
        }

    return fresh_each_time(variant, measure)


@contextlib.contextmanager
def start_full(variant: Variant, quick: bool) -> Iterator[Callable[[], Figures]]:
    """Start after kill -9, with messages stored just before it; each round is one more kill."""
    messages = 200_000 if quick else 5_000_000
    with (
        tempfile.TemporaryDirectory(prefix="leafd-bench-") as directory,
        running(variant.kind, variant.configuration, Path(directory) / "one") as process,
    ):
        empty = process.start_seconds
        fill(process, messages)

        def once() -> Figures:
            process.server.kill()
            process.start()
            expect_stored(process, messages)
            return {
                "seconds": process.start_seconds,
                "longer": process.start_seconds - empty,
                "peak_mb": process.peak_mb(),
            }

        yield once


WEB_GOALS = (Goal("rate", "msgs/s", 1.3), Goal("cpu_us", "us CPU/msg", 0.5, at_most=True))
SECURE_GOALS = (Goal("rate", "a second", 1.3), Goal("cpu_us", "us CPU each", 0.5, at_most=True))
SEALED_GOALS = (Goal("rate", "msgs/s", 1.3), Goal("cpu_us", "us CPU/msg", 0.5, at_most=True))
SEALED_COST = (Goal("cpu_us", "us CPU/msg", 1.3, at_most=True),)
RATE_AND_CPU = (Goal("rate", "msgs/s", 1.7), Goal("cpu_us", "us CPU/msg", 0.25, at_most=True))

ROWS = (
    Row(
        "core",
        "core publish to one subscriber",
        (LEAFD, DEFAULT),
        (Goal("cpu_us", "us CPU/msg", 0.3, at_most=True), Goal("rate", "msgs/s", 1.3)),
        core,
    ),
    Row(
        "request",
        "request and reply, median latency",
        (LEAFD, DEFAULT),
        (Goal("p50_us", "us", 1.0, at_most=True),),
        request,
    ),
    Row(
        "tls-128",
        "core publish over TLS to one subscriber, 128 B",
        (LEAFD, DEFAULT),
        SECURE_GOALS,
        secure_core(128, 2_000_000),
    ),
    Row(
        "tls-16k",
        "core publish over TLS to one subscriber, 16 KB",
        (LEAFD, DEFAULT),
        SECURE_GOALS,
        secure_core(16_384, 200_000),
    ),
    Row(
        "tls-handshake",
        "TLS handshakes with login, P-256 key, 4 at a time",
        (LEAFD, DEFAULT),
        SECURE_GOALS,
        handshakes("handshake"),
    ),
    Row(
        "tls-handshake-rsa",
        "TLS handshakes with login, RSA-2048 key, 4 at a time",
        (LEAFD, DEFAULT),
        SECURE_GOALS,
        handshakes("handshake", "rsa"),
    ),
    Row(
        "tls-resumed",
        "TLS handshakes with login, sessions taken up again, 4 at a time",
        (LEAFD, DEFAULT),
        SECURE_GOALS,
        handshakes("resumed"),
    ),
    Row(
        "web-publish",
        "core publish over WebSocket to nobody",
        (LEAFD, DEFAULT),
        WEB_GOALS,
        web("blind", 6_000_000),
    ),
    Row(
        "web-publish-deflate",
        "core publish over WebSocket, compressed, to nobody",
        (LEAFD, DEFAULT),
        WEB_GOALS,
        web("blind", 3_000_000, deflate=True),
    ),
    Row(
        "web-deliver",
        "core publish to one subscriber over WebSocket",
        (LEAFD, DEFAULT),
        WEB_GOALS,
        web("core", 3_000_000),
    ),
    Row(
        "web-deliver-deflate",
        "core publish to one subscriber over WebSocket, compressed",
        (LEAFD, DEFAULT),
        WEB_GOALS,
        web("core", 2_000_000, deflate=True),
    ),
    Row(
        "tls-idle",
        "10,000 idle connections over TLS",
        (LEAFD, DEFAULT),
        (Goal("private_mb", "MB private", 0.5, at_most=True), Goal("each_kb", "KB each", 0.5, at_most=True)),
        idle_connections(10_000),
    ),
    Row(
        "publish-500",
        "JetStream publish, 1 client, 500 in flight",
        (LEAFD, DEFAULT),
        RATE_AND_CPU,
        publish(1, 500, 300_000, 10_000),
    ),
    Row(
        "publish-4x1000",
        "JetStream publish, 4 clients, 1,000 in flight each",
        (LEAFD, DEFAULT),
        (Goal("rate", "msgs/s", 2.0), Goal("cpu_us", "us CPU/msg", 0.25, at_most=True)),
        publish(4, 1000, 600_000, 10_000),
    ),
    Row(
        "publish-500-chacha",
        "JetStream publish with encryption at rest (chacha), 1 client, 500 in flight",
        (CHACHA, DEFAULT_CHACHA),
        SEALED_GOALS,
        publish(1, 500, 300_000, 10_000),
    ),
    Row(
        "publish-500-aes",
        "JetStream publish with encryption at rest (aes), 1 client, 500 in flight",
        (AES, DEFAULT_AES),
        SEALED_GOALS,
        publish(1, 500, 300_000, 10_000),
    ),
    Row(
        "cost-chacha",
        "JetStream publish with encryption at rest (chacha) and without, 1 client, 500 in flight",
        (CHACHA, LEAFD),
        SEALED_COST,
        publish(1, 500, 300_000, 10_000),
    ),
    Row(
        "cost-aes",
        "JetStream publish with encryption at rest (aes) and without, 1 client, 500 in flight",
        (AES, LEAFD),
        SEALED_COST,
        publish(1, 500, 300_000, 10_000),
    ),
    Row(
        "publish-500-always",
        "JetStream publish, 1 client, 500 in flight",
        (LEAFD, ALWAYS),
        (Goal("rate", "msgs/s", 40.0),),
        publish(1, 500, 300_000, 10_000),
    ),
    Row(
        "publish-1",
        "JetStream publish, 1 client, one in flight",
        (LEAFD, ALWAYS),
        (Goal("rate", "msgs/s", 1.2),),
        publish(1, 1, 5_000, 5_000),
    ),
    Row(
        "publish-16x1",
        "JetStream publish, 16 clients, one in flight each",
        (LEAFD, ALWAYS),
        (Goal("rate", "msgs/s", 4.5),),
        publish(16, 1, 32_000, 10_000),
    ),
    Row("ordered", "ordered consumer", (LEAFD, DEFAULT), (Goal("rate", "msgs/s", 1.5),), ordered),
    Row(
        "pull",
        "pull consumer, batches of 500, every message acked",
        (LEAFD, DEFAULT),
        (Goal("rate", "msgs/s", 1.5),),
        pull,
    ),
    Row(
        "start",
        "start until it accepts, empty store",
        (LEAFD, DEFAULT),
        (
            Goal("seconds", "s", 0.6, at_most=True, ratio=False),
            Goal("cpu_seconds", "s CPU", 0.25, at_most=True, ratio=False),
        ),
        start_empty,
    ),
    Row(
        "start-5m",
        "start after kill -9 with 5 M messages stored",
        (LEAFD, DEFAULT),
        (Goal("longer", "s longer than empty", 0.3, at_most=True, ratio=False),),
        start_full,
    ),
)
