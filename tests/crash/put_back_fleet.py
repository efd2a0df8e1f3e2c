#!/usr/bin/env python3
"""Many boxes, each behind a slow line of its own, are put back from old copies at once, by clocks that are a year
behind what they were: their hub has to have each message once.

    python -m tests.crash.put_back_fleet 50                 [--rate 50000] [--trip 1] [--loss 0.02] [--messages 20]

Each box has four streams: with limits and as a work queue, collected by plain sources and by durable ones. Messages
are collected, all boxes are copied, as many more are collected, the copies are put back, and as many more are stored,
in two starts of each box. It needs root. Not here: nats-server at either end (put_back_boxes.py).
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests import servers
from tests.cell import HUB, HUB_ADDRESS, LEAF, Cell, Link, joined
from tests.crash.histories import clocks
from tests.interop.test_put_back import KINDS_OF_COPY, YEAR_S, is_durable
from tests.rig.raw import RawClient

AT_HUB: Final = (
    'listen: 127.0.0.1:{port}\nserver_name: hub\njetstream { store_dir: "{store}", domain: hub }\n'
    "leafnodes { listen: 0.0.0.0:{leaf_port} }\n"
)
AT_BOX: Final = (
    'listen: 127.0.0.1:{port}\nserver_name: box-NUMBER\njetstream { store_dir: "{store}", domain: box-NUMBER }\n'
    'leafnodes { remotes: [ { url: "nats-leaf://HUB" } ] }\n'
)
PATIENCE_S: Final = 600.0


class Fleet:
    """The hub, its boxes, and what they have stored."""

    def __init__(self, cell: Cell, folder: Path, count: int) -> None:
        self.cell, self.folder = cell, folder
        needed, self.clock = clocks.built(servers.LEAFD, folder), clocks.Clock(folder / "clock")
        self.before = clocks.before(servers.LEAFD, needed, self.clock)
        (folder / "hub").mkdir()
        self.hub = servers.make(servers.LEAFD, AT_HUB, folder / "hub")
        self.boxes = list[servers.Server]()
        for number in range(count):
            (folder / f"box-{number}").mkdir()
            to = f"{HUB_ADDRESS}:{self.hub.ports['leaf_port']}"
            text = AT_BOX.replace("NUMBER", str(number)).replace("HUB", to)
            self.boxes.append(servers.make(servers.LEAFD, text, folder / f"box-{number}"))
        self.stored = set[str]()
        self.next = 0

    def start(self, box: servers.Server) -> None:
        with self.cell.at(LEAF):
            box.start(before=self.before)

    def make(self) -> None:
        with self.cell.at(HUB):
            self.hub.start()
        for box in self.boxes:
            self.start(box)
            with self.cell.at(LEAF), RawClient(box, patience_s=PATIENCE_S) as client:
                for name in KINDS_OF_COPY:
                    make_origin(client, name, box.directory.name)
        with self.cell.at(HUB), RawClient(self.hub, patience_s=PATIENCE_S) as client:
            for name in KINDS_OF_COPY:
                sources = [source_of(name, box.directory.name) for box in self.boxes]
                client.must(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "storage": "file", "sources": sources})

    def publish(self, box: servers.Server, count: int) -> None:
        with self.cell.at(LEAF), RawClient(box, patience_s=PATIENCE_S) as client:
            for _ in range(count):
                for name in KINDS_OF_COPY:
                    text = f"{box.directory.name}-{name}-{self.next}"
                    client.must(f"{box.directory.name}.{name}", text)
                    self.stored.add(text)
                self.next += 1

    def copy(self, box: servers.Server) -> None:
        box.stop()
        shutil.copytree(box.directory / "store", box.directory / "copy")
        self.start(box)

    def put_back(self, box: servers.Server) -> None:
        shutil.rmtree(box.directory / "store")
        (box.directory / "copy").rename(box.directory / "store")
        self.start(box)

    def held(self) -> Counter[str]:
        """What the hub has, and how often."""
        found = Counter[str]()
        with self.cell.at(HUB), RawClient(self.hub, patience_s=PATIENCE_S) as client:
            for name in KINDS_OF_COPY:
                place = 1
                while "error" not in (answer := got(client, name, place)):
                    place = answer["message"]["seq"] + 1
                    found[base64.b64decode(answer["message"]["data"]).decode()] += 1
        return found

    def collected(self) -> float:
        """How many seconds the hub takes until it has all, or does not take it any more."""
        began, seen, quiet = time.monotonic(), 0, time.monotonic()
        while self.stored - (held := self.held()).keys():
            if len(held) != seen:
                seen, quiet = len(held), time.monotonic()
            if time.monotonic() - quiet > PATIENCE_S / 4:
                break
            time.sleep(2)
        return time.monotonic() - began


def make_origin(client: RawClient, name: str, box: str) -> None:
    retention = "workqueue" if name in "WV" else "limits"
    body = {"name": name, "subjects": [f"{box}.{name}"], "storage": "file", "retention": retention}
    client.must(f"$JS.API.STREAM.CREATE.{name}", body)
    if is_durable(name):
        config = {"durable_name": "c", "deliver_subject": f"d.{box}.{name}", "ack_policy": "flow_control"}
        consumer = {"stream_name": name, "config": {**config, "max_ack_pending": 100}}
        client.must(f"$JS.API.CONSUMER.CREATE.{name}.c", consumer)


def source_of(name: str, box: str) -> dict[str, Any]:
    source: dict[str, Any] = {"name": name, "external": {"api": f"$JS.{box}.API", "deliver": ""}}
    durable = {"consumer": {"name": "c", "deliver_subject": f"d.{box}.{name}"}}
    return source | (durable if is_durable(name) else {})


def got(client: RawClient, name: str, place: int) -> dict[str, Any]:
    return client.api(f"STREAM.MSG.GET.{name}", {"seq": place, "next_by_subj": ">"})


def play(fleet: Fleet, messages: int) -> bool:
    fleet.clock.step_to(YEAR_S)
    fleet.make()
    for box in fleet.boxes:
        fleet.publish(box, messages)
    print(f"collected after {fleet.collected():.0f} s", flush=True)
    for box in fleet.boxes:
        fleet.copy(box)
        fleet.publish(box, messages)
    print(f"and copied, and as many more after {fleet.collected():.0f} s", flush=True)
    for box in fleet.boxes:
        box.stop()
    fleet.clock.step_to(0)
    for box in fleet.boxes:
        fleet.put_back(box)
        fleet.publish(box, messages // 2)
    for box in fleet.boxes:
        box.kill()
        fleet.start(box)
        fleet.publish(box, messages // 2)
    print(f"put back, and all after {fleet.collected():.0f} s", flush=True)
    held = fleet.held()
    lost, twice = sorted(fleet.stored - held.keys()), sorted(one for one, count in held.items() if count > 1)
    kinds = [Counter(re.split("-", one)[-2] for one in some) for some in (lost, twice)]
    print(f"{len(fleet.stored)} messages; lost {len(lost)} {dict(kinds[0])}, twice {len(twice)} {dict(kinds[1])}")
    return not lost and not twice


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boxes", type=int)
    parser.add_argument("--messages", type=int, default=20)
    for name, default in (("rate", 50_000), ("trip", 1.0), ("loss", 0.02)):
        parser.add_argument(f"--{name}", type=float, default=default)
    chosen = parser.parse_args()
    line = Link(chosen.rate, delay=chosen.trip / 2, loss=chosen.loss, apart=True)
    with tempfile.TemporaryDirectory(prefix="leafd-fleet-") as folder, joined(line) as cell:
        fleet = Fleet(cell, Path(folder), chosen.boxes)
        try:
            return 0 if play(fleet, chosen.messages) else 1
        finally:
            for server in (*fleet.boxes, fleet.hub):
                with contextlib.suppress(Exception):
                    server.stop()


if __name__ == "__main__":
    sys.exit(main())
