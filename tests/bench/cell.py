"""A backlog over a cell modem: two servers in places of their own, joined by nothing but a bad line (tests/cell.py).

    python -m tests.bench.cell HUB LEAF [--rate 50000] [--trip 2] [--loss 0.05] [--up 60 --down 30] [--messages 5000]
                                        [--telemetry] [--compression off] [--far]

HUB and LEAF: leafd or nats-server. Prints what is stored at the hub while it drains, the bytes on the wire for each
byte of payload, how long a command down and an event up take meanwhile, and whether each message is stored once. It
takes minutes, and so is no row of tests/bench/run; packaging/doc/field-figures.md has what it showed.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import itertools
import json
import random
import re
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests import servers
from tests.bench.process import Api, Process
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link, joined

SIZE = 200
STEP_SECONDS = 5.0
LINK_SECONDS_MAX = 120.0

HUB_TEXT = """
server_name: hub
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", domain: hub, max_mem: 64MB, max_file: 1GB }
leafnodes { listen: "0.0.0.0:{leaf_port}" MORE }
"""
LEAF_TEXT = f"""
server_name: leaf
listen: "127.0.0.1:{{port}}"
http: "127.0.0.1:{{monitor_port}}"
jetstream {{ store_dir: "{{store}}", domain: leaf, max_mem: 64MB, max_file: 1GB }}
leafnodes {{ reconnect: 1s, MORE remotes: [ {{ url: "nats-leaf://{HUB_ADDRESS}:{{hub_leaf_port}}" LESS }} ] }}
"""
# nats-server has to be told to be patient, or no link comes up at all.
HUB_PATIENCE = {servers.LEAFD: "", servers.REFERENCE: "\n authorization { timeout: 60 }"}
LEAF_PATIENCE = {servers.LEAFD: ("", ""), servers.REFERENCE: ('dial_timeout: "30s",', ', first_info_timeout: "60s"')}
COPY = {"name": "COPY", "storage": "file", "sources": [{"name": "T", "external": {"api": "$JS.leaf.API"}}]}


class Listener:
    """A client that remembers when each numbered message came."""

    def __init__(self, port: int, subject: str, user: str = "") -> None:
        """user: of the password p."""
        login = f',"user":"{user}","pass":"p"' if user else ""
        self._socket = socket.create_connection(("127.0.0.1", port), 5)
        self._socket.settimeout(None)
        self._socket.sendall(f'CONNECT {{"verbose":false{login}}}\r\nSUB {subject} 1\r\n'.encode())
        self.came: dict[int, float] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def publish(self, subject: str, number: int) -> None:
        self._socket.sendall(f"PUB {subject} 100\r\n{number:0100d}\r\n".encode())

    def _listen(self) -> None:
        file = self._socket.makefile("rb")
        for line in file:
            words = line.split()
            if words[:1] == [b"PING"]:
                self._socket.sendall(b"PONG\r\n")
            elif words[:1] == [b"MSG"]:
                self.came[int(file.read(int(words[-1]) + 2))] = time.monotonic()


@contextlib.contextmanager
def pair(
    cell: Cell,
    hub_kind: str,
    leaf_kind: str,
    *,
    patient: bool = True,
    wait_s: float = LINK_SECONDS_MAX,
    compression: str = "",
    remote: Sequence[str] = (),
) -> Iterator[tuple[Process, Process]]:
    """Both, linked. patient: who needs it is told to be. remote: settings of the leaf's remote. Raises RuntimeError
    when there is no link within that time."""
    with tempfile.TemporaryDirectory(prefix="leafd-cell-") as directory, contextlib.ExitStack() as ends:
        base = Path(directory)
        (base / "hub").mkdir()
        (base / "leaf").mkdir()
        at_hub = HUB_PATIENCE[hub_kind] if patient else ""
        packed = f"\n compression: {compression}" if compression else ""
        hub = Process(servers.make(hub_kind, HUB_TEXT.replace("MORE", at_hub + packed), base / "hub"))
        with cell.at(HUB):
            hub.start()
        ends.callback(hub.server.stop)
        more, less = LEAF_PATIENCE[leaf_kind] if patient else ("", "")
        settings = (*([packed.strip()] if packed else []), *remote)
        text = LEAF_TEXT.replace("MORE", more).replace("LESS", "".join((less, *(f", {one}" for one in settings))))
        leaf = Process(servers.make(leaf_kind, text, base / "leaf", hub_leaf_port=hub.server.ports["leaf_port"]))
        with cell.at(LEAF):
            leaf.start()
        ends.callback(leaf.server.stop)
        began = time.monotonic()
        while not (links(cell, HUB, hub) and links(cell, LEAF, leaf)):
            if time.monotonic() - began > wait_s:
                raise RuntimeError(f"no link within {wait_s} s")
            time.sleep(0.05)
        print(f"link up after {time.monotonic() - began:.1f} s", flush=True)
        yield hub, leaf


def links(cell: Cell, place: int, process: Process) -> int:
    with cell.at(place):
        return process.leaf_links()


def telemetry(number: int) -> str:
    """What a box measures: the same names in each, and numbers of which the first digits stay."""
    drawn = random.Random(number)
    body = {"box": "box-0001", "n": number, "t": 1_732_370_000 + number, "state": "running", "site": "plant-7"}
    for name, usual in (("temperature", 21.5), ("humidity", 48.0), ("pressure", 1013.2), ("voltage", 3.71)):
        body[name] = round(usual + drawn.gauss(0, 0.05 * usual), 2)
    return json.dumps(body | {"ok": True, "note": ""})


def fill(api: Api, messages: int, *, real: bool = False) -> None:
    """JSON of which half is drawn by chance, and hardly compresses; real: what a box would send."""
    api.must("$JS.API.STREAM.CREATE.T", {"name": "T", "storage": "file", "subjects": ["t.>"]})
    for number in range(messages):
        if real:
            api.publish("t.a", telemetry(number).encode().ljust(SIZE)[:SIZE])
            continue
        pad = base64.b64encode(random.randbytes(SIZE)).decode()
        body = json.dumps({"box": "box-0001", "n": number, "t": 1_732_370_000 + number, "v": random.random(), "p": pad})
        api.publish("t.a", body[:SIZE].encode())
    while api.messages_in("T") < messages:
        time.sleep(0.1)


def delays(name: str, sent: dict[int, float], came: dict[int, float]) -> None:
    took = [came[number] - at for number, at in sent.items() if number in came]
    if took:
        print(f"{name}: {len(took)} of {len(sent)}, median {statistics.median(took):.2f} s, longest {max(took):.2f} s")


def drain(options: argparse.Namespace, calm: Link, line: Link) -> None:
    """One run. calm: while both are linked and filled, and line from then on."""
    with joined(calm) as cell, pair(cell, options.hub, options.leaf, compression=options.compression) as (hub, leaf):
        with cell.at(LEAF):
            at_leaf, below = Api(leaf.port), Listener(leaf.port, "command.>")
        with cell.at(HUB):
            at_hub, above = Api(hub.port), Listener(hub.port, "event.>")
        fill(at_leaf, options.messages, real=options.telemetry)
        time.sleep(1 + 6 * line.delay)
        cell.change(line)
        changed = time.monotonic()
        time.sleep(options.idle)
        cell.carried[:], cell.tried[:] = [0, 0], [0, 0]
        began = time.monotonic()
        at_hub.must("$JS.API.STREAM.CREATE.COPY", COPY)
        sent: dict[int, float] = {}
        marks, (there, away) = [0], line.schedule
        stored = 0
        while stored < options.messages and time.monotonic() - began < options.seconds:
            sent[len(sent)] = time.monotonic()
            above.publish("command.x", len(sent) - 1)
            below.publish("event.x", len(sent) - 1)
            time.sleep(STEP_SECONDS)
            stored = at_hub.messages_in("COPY")
            wire = cell.carried[HUB] / max(stored * SIZE, 1)
            over = int((time.monotonic() - changed + away) // (there + away)) if away else 0
            marks += [cell.carried[HUB]] * (over + 1 - len(marks))
            print(f"{time.monotonic() - began:6.1f} s  stored {stored}  wire/payload {wire:.2f}", flush=True)
        print(f"up {cell.carried[HUB]} bytes, down {cell.carried[LEAF]}; packets lost {cell.lost}")
        print(f"sent up, with what was lost: {cell.tried[HUB]} bytes")
        for number, (before, after) in enumerate(itertools.pairwise(marks)):
            print(f"contact {number + 1}: {800 * (after - before) / line.rate / there:.0f} % of the line used")
        delays("command down", sent, below.came)
        delays("event up", sent, above.came)
        for one in (hub, leaf):
            print("\n".join(re.findall(r".*(?:connection closed|Slow Consumer).*", one.server.log)))
        found = at_hub.must("$JS.API.STREAM.INFO.COPY")["state"]
        print(f"stored {found['messages']}, last sequence {found['last_seq']}, of {options.messages}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("hub", choices=servers.KINDS)
    parser.add_argument("leaf", choices=servers.KINDS)
    for name, default in (("rate", 50_000), ("trip", 2.0), ("loss", 0.05), ("up", 60.0), ("down", 30.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--telemetry", action="store_true", help="JSON as boxes send it")
    parser.add_argument("--compression", default="", help="of the link, at both ends")
    parser.add_argument("--far", action="store_true", help="the line has its round trip from the beginning")
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--idle", type=float, default=0.0, help="so long nothing is sent at first")
    options = parser.parse_args()
    line = Link(options.rate, delay=options.trip / 2, loss=options.loss, schedule=(options.up, options.down))
    # A nats-server's leaf gives its hub two seconds to answer.
    near = options.trip / 2 if options.far else min(options.trip / 2, 0.1)
    drain(options, Link(rate=2e6, delay=near), line)


if __name__ == "__main__":
    main()
