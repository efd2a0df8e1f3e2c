"""Several links of one box over one line: an account each, with a backlog in each of them (tests/cell.py).

    python -m tests.bench.beside KIND [--links 10] [--rate 50000] [--trip 1] [--loss 0.02] [--messages 300]
                                     [--down]

KIND: leafd or nats-server, at both ends. --down: the hub has the backlogs, and the box the copies of them. The line has
its round trip from the beginning. Prints what is stored of each account while it drains, the bytes on the wire for each
byte of payload, the longest queue of each step, and how long a command down and an event up take meanwhile.
packaging/doc/field-figures.md has what it showed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests import servers
from tests.bench.cell import COPY, HUB_PATIENCE, LEAF_PATIENCE, SIZE, STEP_SECONDS, Listener, delays, fill, links
from tests.bench.process import Api, Process
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link, joined

LINK_SECONDS_MAX = 180.0
ENDS = """
server_name: NAME
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", domain: NAME, max_mem: 64MB, max_file: 1GB }
accounts { ACCOUNTS }
"""


def text(name: str, count: int) -> str:
    accounts = ", ".join(
        f"A{one} {{ jetstream: enabled, users: [ {{ user: u{one}, password: p }} ] }}" for one in range(count)
    )
    return ENDS.replace("NAME", name).replace("ACCOUNTS", accounts)


def started(cell: Cell, kind: str, count: int, base: Path) -> tuple[Process, Process]:
    """Both, linked count times. Raises TimeoutError."""
    for name in ("hub", "leaf"):
        (base / name).mkdir()
    accepts = f'leafnodes {{ listen: "0.0.0.0:{{leaf_port}}" {HUB_PATIENCE[kind]} }}\n'
    hub = Process(servers.make(kind, text("hub", count) + accepts, base / "hub"))
    with cell.at(HUB):
        hub.start()
    more, less = LEAF_PATIENCE[kind]
    to = f"{HUB_ADDRESS}:{hub.server.ports['leaf_port']}"
    remotes = ", ".join(f'{{ url: "nats-leaf://u{one}:p@{to}", account: A{one} {less} }}' for one in range(count))
    dials = f"leafnodes {{ reconnect: 1s, {more} remotes: [ {remotes} ] }}\n"
    leaf = Process(servers.make(kind, text("leaf", count) + dials, base / "leaf"))
    with cell.at(LEAF):
        leaf.start()
    began = time.monotonic()
    while links(cell, LEAF, leaf) < count:
        if time.monotonic() - began > LINK_SECONDS_MAX:
            raise TimeoutError(f"not all links within {LINK_SECONDS_MAX} s")
        time.sleep(0.2)
    return hub, leaf


def user(port: int, number: int) -> Api:
    return Api(port, lambda nonce: {"user": f"u{number}", "pass": "p"})


def drain(options: argparse.Namespace, cell: Cell, hub: Process, leaf: Process) -> None:
    ends = {HUB: hub, LEAF: leaf}
    origin, place = (HUB, LEAF) if options.down else (LEAF, HUB)
    for number in range(options.links):
        with cell.at(origin):
            filling = user(ends[origin].port, number)
            fill(filling, options.messages)
            filling.close()
    with cell.at(LEAF):
        below = Listener(leaf.port, "command.>", "u0")
    with cell.at(HUB):
        above = Listener(hub.port, "event.>", "u0")
    with cell.at(place):
        copies = [user(ends[place].port, number) for number in range(options.links)]
    time.sleep(20)  # nothing stands in the line any more
    cell.change(Link(options.rate, delay=options.trip / 2, loss=options.loss))
    cell.carried[:] = [0, 0]
    began = time.monotonic()
    for copy in copies:
        source = {"name": "T", "external": {"api": f"$JS.{'hub' if options.down else 'leaf'}.API"}}
        copy.must("$JS.API.STREAM.CREATE.COPY", {**COPY, "sources": [source]})
    sent: dict[int, float] = {}
    stored = [0]
    while sum(stored) < options.links * options.messages and time.monotonic() - began < options.seconds:
        sent[len(sent)] = time.monotonic()
        above.publish("command.x", len(sent) - 1)
        below.publish("event.x", len(sent) - 1)
        time.sleep(STEP_SECONDS)
        stored = [copy.messages_in("COPY") for copy in copies]
        wire = cell.carried[place] / max(sum(stored) * SIZE, 1)
        queue = cell.longest_queues()[place]
        print(f"{time.monotonic() - began:6.1f} s  stored {stored}  wire/payload {wire:.2f}  queue {queue}", flush=True)
    delays("command down", sent, below.came)
    delays("event up", sent, above.came)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=servers.KINDS)
    parser.add_argument("--links", type=int, default=10)
    for name, default in (("rate", 50_000), ("trip", 1.0), ("loss", 0.02), ("seconds", 420.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--down", action="store_true")
    options = parser.parse_args()
    calm = Link(options.rate, delay=options.trip / 2)
    with tempfile.TemporaryDirectory(prefix="leafd-beside-") as directory, joined(calm) as cell:
        hub, leaf = started(cell, options.kind, options.links, Path(directory))
        try:
            drain(options, cell, hub, leaf)
        finally:
            leaf.server.stop()
            hub.server.stop()


if __name__ == "__main__":
    main()
