"""The rows of rows.py once more with the `nats` command line as the load: `tests/bench/run --nats-cli PROGRAM`.

It is what many people measure with, and its clients are slower than the servers here: where the client is what limits
the rate, the server's processor time for a message tells more. Not here: links.py's rows, which have no
counterpart in `nats bench`.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator

from tests.bench.process import Process, api
from tests.bench.rows import (
    ALWAYS,
    DEFAULT,
    LEAFD,
    LOAD_SECONDS_MAX,
    RATE_AND_CPU,
    SIZE,
    STREAM,
    WEB_GOALS,
    Figures,
    Goal,
    Row,
    Variant,
    expect_stored,
    filled,
    fresh_each_time,
    make_stream,
)

RATE = re.compile(r"stats: ([\d,]+) msgs/sec")
MEDIAN = re.compile(r"P50:? ([\d.,]+)us")
SUBJECT = "bench.cli"
DURABLE = "nats-bench"  # the consumer that it makes and leaves behind
# `nats bench sub` says that it starts and then subscribes; nothing tells when it has.
SUBSCRIBES_SECONDS = 0.5

Opened = Callable[[Variant, bool], contextlib.AbstractContextManager[Callable[[], Figures]]]


class NatsBench:
    """`nats bench` against one server."""

    def __init__(self, program: str, process: Process, *, web: bool = False) -> None:
        self._program = program
        self._process = process
        self._url = f"ws://127.0.0.1:{process.server.ports['web_port']}" if web else f"nats://127.0.0.1:{process.port}"

    def words(self, *words: object) -> list[str]:
        return [self._program, "--server", self._url, "bench", *(str(word) for word in words), "--no-progress"]

    def run(self, messages: int, *words: object) -> Figures:
        """One benchmark to its end: rate and latency as it says, and the server's processor time for it."""
        before = self._process.cpu_seconds()
        done = subprocess.run(
            self.words(*words, "--msgs", messages), capture_output=True, text=True, timeout=LOAD_SECONDS_MAX
        )
        said = done.stdout + done.stderr
        rate, median = RATE.search(said), MEDIAN.search(said)
        if done.returncode != 0 or rate is None:
            raise RuntimeError(f"nats bench {' '.join(map(str, words))}: {said[-2000:]}")
        cpu = self._process.settled_cpu_seconds() - before
        figures = {
            "rate": float(rate[1].replace(",", "")),
            "cpu_us": cpu / messages * 1e6,
            "peak_mb": self._process.peak_mb(),
        }
        return figures | ({"p50_us": float(median[1].replace(",", ""))} if median else {})

    @contextlib.contextmanager
    def beside(self, *words: object) -> Iterator[subprocess.Popen[bytes]]:
        """Another one that runs meanwhile and has subscribed."""
        other = subprocess.Popen(self.words(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(SUBSCRIBES_SECONDS)
            yield other
        finally:
            other.kill()
            other.wait()


def core(bench: NatsBench, messages: int) -> Figures:
    with bench.beside("sub", SUBJECT, "--size", SIZE, "--msgs", messages) as subscriber:
        figures = bench.run(messages, "pub", SUBJECT, "--size", SIZE)
        subscriber.wait(LOAD_SECONDS_MAX)
    return figures


def request(bench: NatsBench, messages: int) -> Figures:
    with bench.beside("service", "serve", SUBJECT, "--size", SIZE):
        return bench.run(messages, "service", "request", SUBJECT, "--size", SIZE)


def fresh(program: str, messages: int, measure: Callable[[NatsBench, int], Figures]) -> Opened:
    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages // 10 if quick else messages
        return fresh_each_time(variant, lambda process: measure(NatsBench(program, process), count))

    return opened


def web_publish(program: str, messages: int) -> Opened:
    """Over WebSocket, to nobody."""
    text = 'server_name: bench\nlisten: "127.0.0.1:{port}"\nwebsocket { port: {web_port}, no_tls: true }\n'

    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages // 10 if quick else messages

        def measure(process: Process) -> Figures:
            return NatsBench(program, process, web=True).run(count, "pub", SUBJECT, "--size", SIZE)

        return fresh_each_time(variant, measure, text)

    return opened


def publish(program: str, clients: int, in_flight: int, messages: int, messages_always: int) -> Opened:
    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages_always if variant.sync_always else messages
        count = max(count // 10, clients) // clients * clients if quick else count
        way = ["sync"] if in_flight == 1 else ["async", "--batch", in_flight]

        def measure(process: Process) -> Figures:
            make_stream(process)
            options = ["--stream", STREAM, "--clients", clients, "--size", SIZE]
            figures = NatsBench(program, process).run(count, "js", "pub", *way, SUBJECT, *options)
            expect_stored(process, count)
            return figures

        return fresh_each_time(variant, measure)

    return opened


def consume(program: str, messages: int, way: str) -> Opened:
    def opened(variant: Variant, quick: bool) -> contextlib.AbstractContextManager[Callable[[], Figures]]:
        count = messages // 10 if quick else messages

        def measure(process: Process, number: int) -> Figures:
            figures = NatsBench(program, process).run(count, "js", way, "--stream", STREAM)
            with api(process) as connection:
                connection.request(f"$JS.API.CONSUMER.DELETE.{STREAM}.{DURABLE}")  # the ordered one leaves none
            return figures

        return filled(variant, count, measure)

    return opened


def cli_rows(program: str) -> tuple[Row, ...]:
    """The rows, with that program as their load."""

    def row(name: str, title: str, against: Variant, opened: Opened, *goals: Goal) -> Row:
        return Row(f"cli-{name}", f"{title} (nats bench)", (LEAFD, against), goals, opened)

    cpu = Goal("cpu_us", "us CPU/msg", 0.25, at_most=True)
    core_goals = (Goal("cpu_us", "us CPU/msg", 0.3, at_most=True), Goal("rate", "msgs/s", 1.3))
    in_flight = "JetStream publish, 1 client, 500 in flight"
    return (
        row("core", "core publish to one subscriber", DEFAULT, fresh(program, 2_000_000, core), *core_goals),
        row(
            "websocket",
            "core publish over WebSocket",
            DEFAULT,
            web_publish(program, 2_000_000),
            *WEB_GOALS,
        ),
        row(
            "request",
            "request and reply, median latency",
            DEFAULT,
            fresh(program, 20_000, request),
            Goal("p50_us", "us", 1.0, at_most=True),
        ),
        row("publish-500", in_flight, DEFAULT, publish(program, 1, 500, 300_000, 10_000), *RATE_AND_CPU),
        row(
            "publish-4x1000",
            "JetStream publish, 4 clients, 1,000 in flight each",
            DEFAULT,
            publish(program, 4, 1000, 400_000, 10_000),
            Goal("rate", "msgs/s", 2.0),
            cpu,
        ),
        row(
            "publish-500-always",
            in_flight,
            ALWAYS,
            publish(program, 1, 500, 300_000, 10_000),
            Goal("rate", "msgs/s", 40.0),
        ),
        row(
            "publish-1",
            "JetStream publish, 1 client, one in flight",
            ALWAYS,
            publish(program, 1, 1, 5_000, 5_000),
            Goal("rate", "msgs/s", 1.2),
        ),
        row(
            "publish-16x1",
            "JetStream publish, 16 clients, one in flight each",
            ALWAYS,
            publish(program, 16, 1, 32_000, 9_600),
            Goal("rate", "msgs/s", 4.5),
        ),
        row(
            "ordered",
            "ordered consumer",
            DEFAULT,
            consume(program, 500_000, "ordered"),
            Goal("rate", "msgs/s", 1.5),
        ),
        row(
            "pull",
            "durable pull consumer, 500 buffered, every message acked",
            DEFAULT,
            consume(program, 200_000, "consume"),
            Goal("rate", "msgs/s", 1.5),
        ),
    )
