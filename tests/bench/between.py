"""Core messages from a client of one server to clients of another, and what a client subscribes to until the other
server knows of it: over a route, and over a gateway, beside a pair of nats-servers. `python -m tests.bench.between
[messages [subscriptions]]`

Each pair is measured in turn, so that other work on the machine meets both. The processor time is that of both servers
together; where the load generator or other work has the processors, it says more than the rate. Not here: leaf links
(links.py), one server alone (rows.py).
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests import servers
from tests.bench.process import Process, running
from tests.bench.rows import LOAD_SECONDS_MAX, SIZE, load_program
from tests.rig.raw import RawClient

ROUNDS = 5
PATIENCE_S = 60.0
ASK_AGAIN_S = 0.005
HEAD = """
server_name: "{name}"
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
"""
BETWEEN = {
    "route": HEAD
    + 'cluster { name: C, listen: "127.0.0.1:{other_port}", routes: [ "nats-route://127.0.0.1:{first}" ] }\n',
    "gateway": HEAD
    + 'gateway { name: "{name}", listen: "127.0.0.1:{other_port}",\n'
    + '          gateways: [ { name: a, url: "nats://127.0.0.1:{first}" } ] }\n',
}


def met(process: Process) -> bool:
    """Whether the other server can be sent to."""
    base = f"http://127.0.0.1:{process.server.ports['monitor_port']}"
    with urllib.request.urlopen(f"{base}/gatewayz", timeout=PATIENCE_S) as answer:
        gateways = json.load(answer)["outbound_gateways"]
    with urllib.request.urlopen(f"{base}/routez", timeout=PATIENCE_S) as answer:
        return bool(gateways) or json.load(answer)["num_routes"] == 4


@contextlib.contextmanager
def pair(kind: str, way: str) -> Iterator[tuple[Process, Process]]:
    with tempfile.TemporaryDirectory(prefix="leafd-bench-") as directory:
        base, first = Path(directory), servers.free_port()
        text = BETWEEN[way].replace("{first}", str(first))
        with (
            running(kind, text, base / "a", name="a", other_port=first) as a,
            running(kind, text, base / "b", name="b") as b,
        ):
            until = time.monotonic() + PATIENCE_S
            while not (met(a) and met(b)):
                assert time.monotonic() < until, a.server.log + b.server.log
                time.sleep(0.05)
            yield a, b


def measure(both: tuple[Process, Process], scenario: str, messages: int, connections: int) -> tuple[float, float]:
    """Messages a second, and microseconds of both servers for each."""
    before = sum(one.cpu_seconds() for one in both)
    words = [str(load_program()), scenario, "--port", str(both[0].port), "--read-port", str(both[1].port)]
    words += ["--messages", str(messages), "--size", str(SIZE), "--connections", str(connections)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LOAD_SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    used = sum(one.settled_cpu_seconds() for one in both) - before
    return said["messages"] / said["seconds"], used / said["messages"] * 1e6


class Lean(RawClient):
    """A client that looks for bytes alone, and parses nothing: its own time must not be the server's."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.port, says={"no_responders": True}, patience_s=PATIENCE_S)

    def until(self, *wanted: bytes) -> bytes:
        """Which of these comes first; what came before it is forgotten."""
        deadline = self._deadline(None)
        while not any(one in self._received for one in wanted):
            self._more(deadline)
        first = min((one for one in wanted if one in self._received), key=self._received.index)
        del self._received[: self._received.index(first) + len(first)]
        return first


def measure_interest(both: tuple[Process, Process], subjects: int, number: int) -> tuple[float, float]:
    """Subscriptions a second, from the first line until the other server has the last one, and microseconds of both
    servers for each. What a client subscribes to is told in its order: the last one is answered when all are known."""
    lines = b"".join(b"SUB s%d.%d %d\r\n" % (number, one, one + 1) for one in range(subjects))
    asked = b"PUB s%d.%d inbox 0\r\n\r\n" % (number, subjects - 1)
    subscriber, asker = Lean(both[0]), Lean(both[1])
    asker.send(b"SUB inbox 1\r\n")
    before = sum(one.settled_cpu_seconds() for one in both)
    began = time.monotonic()
    subscriber.send(lines)
    while True:
        asker.send(asked + b"PING\r\n")
        if asker.until(b" 503\r\n", b"PONG\r\n") == b"PONG\r\n":
            break
        asker.until(b"PONG\r\n")
        time.sleep(ASK_AGAIN_S)
    subscriber.until(b"MSG s%d.%d " % (number, subjects - 1))
    took = time.monotonic() - began
    used = sum(one.settled_cpu_seconds() for one in both) - before
    subscriber.close()
    asker.close()
    return subjects / took, used / subjects * 1e6


def main(messages: int, subjects: int) -> None:
    for way in BETWEEN:
        with pair(servers.LEAFD, way) as ours, pair(servers.REFERENCE, way) as theirs:
            rates, costs = [], []
            for number in range(ROUNDS):
                one, other = (measure_interest(both, subjects, number) for both in (ours, theirs))
                rates.append((one[0], other[0]))
                costs.append((one[1], other[1]))
            print(
                f"{way}, {subjects:,} subscriptions until the other server has them: {told(rates, 1e-3, 'k/s')}; "
                f"both servers' processor time each {told(costs, 1, 'us')}",
                flush=True,
            )
            for scenario, connections in (("core", 1), ("fan", 8)):
                rates, costs = [], []
                for _ in range(ROUNDS):
                    one, other = (
                        measure(both, scenario, messages // connections, connections) for both in (ours, theirs)
                    )
                    rates.append((one[0], other[0]))
                    costs.append((one[1], other[1]))
                print(
                    f"{way}, 1:{connections}, {SIZE} B: {told(rates, 1e-3, 'k/s')}; "
                    f"both servers' processor time a message {told(costs, 1, 'us')}",
                    flush=True,
                )


def told(pairs: list[tuple[float, float]], scale: float, unit: str) -> str:
    """Medians of either side, and of their ratios, each of one round."""
    ours, theirs = (statistics.median(one[side] for one in pairs) * scale for side in (0, 1))
    ratios = sorted(one / other for one, other in pairs)
    return (
        f"{ours:.2f} {unit}, nats-server {theirs:.2f}, ratio {statistics.median(ratios):.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


if __name__ == "__main__":
    main(*(int(word) for word in [*sys.argv[1:3], *("1000000", "100000")[len(sys.argv[1:3]) :]]))
