"""One hub and many boxes, each behind a slow line of its own (tests/cell.py, `apart`), and more for each of them than
its line carries:

    python -m tests.bench.slow_lines 1000 [--rate 50000] [--trip 1] [--loss 0.01] [--seconds 120] [--budget 300KB]

The boxes (simulated.py) are linked over a good line. Then theirs becomes slow, the hub asks each for what it has (one
stream of so many sources), and a client publishes to each box a fifth more than its line carries. Told is what the
lines carried, what waited in them at most, which links ended, what was stored of what the boxes have, what the hub took
of processor and memory, and how long a person's login took before and meanwhile. Needs root.
Not here: one line and two servers (cell.py, contacts.py), fleets over loopback (fleet.py).
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests import servers
from tests.bench.fleet import Hub, at_99, collect, logins
from tests.bench.identities import identities
from tests.bench.process import Api, Process
from tests.bench.simulated import Boxes, Seen, simulated
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link, joined

HUB_TEXT = """
server_name: hub
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", domain: hub, max_mem: 64MB, max_file: 1GB }
leafnodes { listen: "0.0.0.0:{leaf_port}", isolate_leafnode_interest: true LIMITS }
"""
GOOD = Link(rate=1e6, delay=0.02, apart=True)
BODY = 500
MORE = 1.2
"""Times what a line carries that is published to its box."""
QUIET_SECONDS = 20.0
SIZE = 200


@contextlib.contextmanager
def fleet(cell: Cell, count: int, messages: int, budget: str) -> Iterator[tuple[Hub, Boxes]]:
    """A hub, and so many boxes that are linked to it; all are ended when the block is left."""
    limits = f", limits {{ bytes_per_day: {budget} }}" if budget else ""
    with tempfile.TemporaryDirectory(prefix="leafd-slow-") as folder, contextlib.ExitStack() as ends:
        directory = Path(folder)
        (directory / "hub").mkdir()
        process = Process(servers.make(servers.LEAFD, HUB_TEXT.replace("LIMITS", limits), directory / "hub"))
        with cell.at(HUB):
            process.start()
        ends.callback(process.server.stop)
        hub = Hub(process, {}, identities("open", count, directory).connect)
        with cell.at(LEAF):
            boxes = ends.enter_context(
                simulated(
                    hub.leaf_port, count, address=HUB_ADDRESS, messages=messages, size=SIZE, subscriptions=1, dials=4
                )
            )
        boxes.wait(lambda seen: seen.up == count)
        yield hub, boxes


def flood(api: Api, count: int, rate: float, seconds: float) -> None:
    """To each box a fifth more than its line carries, a second's worth at a time, read before the next."""
    each = max(round(MORE * rate / 8 / BODY), 1)
    until = time.monotonic() + seconds
    while (began := time.monotonic()) < until:
        for _ in range(each):
            body = random.randbytes(BODY)
            for number in range(count):
                api.publish(f"commands.box-{number}.0", body)
        api.request("$SYS.REQ.USER.INFO")
        time.sleep(max(began + 1.0 - time.monotonic(), 0.0))


def spread(name: str, values: list[float]) -> str:
    if not values:
        return f"{name}: none"
    return f"{name}: least {min(values):.0f}, median {statistics.median(values):.0f}, most {max(values):.0f}"


def told(
    cell: Cell, options: argparse.Namespace, before: Seen, after: Seen, stored: int, took: tuple[list[float], ...]
) -> None:
    both = [(way, cell.apart[HUB][flow]) for flow, way in cell.apart[LEAF].items() if flow in cell.apart[HUB]]
    carries = options.rate / 8 * options.seconds / 100
    print(f"links ended: {after.closed - before.closed} of {options.count}, refused {after.refused - before.refused}")
    print(f"stored of what the boxes have: {stored} of {options.count * options.messages}")
    print(spread("down, % of what the line carries", [down.carried / carries for down, _ in both]))
    print(spread("up, % of what the line carries", [up.carried / carries for _, up in both]))
    print(spread("both ways, bytes", [down.carried + up.carried for down, up in both]))
    print(spread("most that waited in a line, down, bytes", [down.queued for down, _ in both]))
    for name, values in zip(("before", "meanwhile"), took, strict=True):
        print(f"logins {name}: {len(values)}, 99 % in {at_99(values):.0f} ms, longest {max(values):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    for name, default in (("rate", 50_000), ("trip", 1.0), ("loss", 0.01), ("seconds", 120.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    parser.add_argument("--messages", type=int, default=50, help="that each box has")
    parser.add_argument("--budget", default="", help="of each link a day, such as 300KB")
    options = parser.parse_args()
    with joined(GOOD) as cell, fleet(cell, options.count, options.messages, options.budget) as (hub, boxes):
        boxes.settled(2.0)
        with cell.at(HUB):
            person, publisher = Api(hub.process.port), Api(hub.process.port)
            with logins(hub) as quiet:
                time.sleep(QUIET_SECONDS)
        before, spent_s = boxes.wait(lambda _seen: True), hub.process.cpu_seconds()
        for ways in cell.apart:
            ways.clear()
        cell.change(Link(options.rate, delay=options.trip / 2, loss=options.loss, apart=True))
        began = time.monotonic()
        with cell.at(HUB), logins(hub) as busy:
            collect(person, options.count)
            flood(publisher, options.count, options.rate, options.seconds)
        options.seconds = time.monotonic() - began
        used = 100 * (hub.process.cpu_seconds() - spent_s) / options.seconds
        told(cell, options, before, boxes.wait(lambda _seen: True), person.messages_in("ALL"), (quiet, busy))
        print(f"hub: {used:.0f} % of a processor, {hub.process.private_mb():.0f} MB; {options.seconds:.0f} s")


if __name__ == "__main__":
    main()
