#!/usr/bin/env python3
"""A box is put back from an old copy of its store while its hub has all of the newer one: what becomes of what it
stores next, for leafd and nats-server at either end.

    python -m tests.crash.put_back_boxes                    the four line-ups; a table, and 0 when a leafd lost nothing
    python -m tests.crash.put_back_boxes --lineups leafd+leafd --replicas 3    the hub is three leafds, each copy on all
    python -m tests.crash.put_back_boxes --ways behind ahead twice away    the same where more is wrong than that

MESSAGES are collected, the box is stopped and copied, MESSAGES more are collected, the copy is put back, and the box
stores MESSAGES and a few more: the first of these have the sequences of what the hub has. Streams with limits (P, D)
and work queues (W, V) are collected by plain sources and by durable ones (D, V):

    collected   messages stored after the box was put back that the hub has
    kept        those that it has not, and the box has, also after one more start
    lost        neither has them
    passed      the hub's next ones, behind the sequences that it had, that it has not
    said        by the log of box or hub, and by the box's page of alarms

Ways: the box's clock is a day behind, or ahead, from when it was put back; it is put back twice, each time with
messages, of which the first ones are judged where they were collected; or its hub is away for an hour, in which it
stores the first of its messages and is started once more.

Not here: the same as tests of a few messages (tests/interop/test_put_back.py).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import nats
from nats.aio.client import Client

from tests import servers
from tests.crash.histories import clocks
from tests.held import held_of
from tests.interop.test_meta_group import leader_of, three
from tests.interop.test_put_back import BOX, HUB, KINDS_OF_COPY, make_origins, publish_each, source_of

MESSAGES: Final = 60
FEW: Final = 10
DAY_S: Final = 24 * 3600
WAYS: Final = {"plain": 0, "behind": -DAY_S, "ahead": DAY_S, "twice": 0, "away": 3600}
"""By how much the box's clock steps."""
QUIET_S: Final = 3.0
MOST_S: Final = 240.0
"""A nats-server asks for a source ever more seldom, up to a minute."""
L: Final = servers.LEAFD
LINEUPS: Final = tuple(f"{hub}+{box}" for hub in servers.KINDS for box in servers.KINDS)
CLUSTER: Final = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
jetstream { store_dir: "{store}", domain: hub, {meta} }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
cluster {
  name: C
  listen: "127.0.0.1:{route_port}"
  routes: [ "nats-route://127.0.0.1:{first}" ]
}
"""


@contextlib.contextmanager
def hub_of(kind: str, replicas: int, folder: Path) -> Iterator[list[servers.Server]]:
    """One server, or three."""
    if replicas > 1:
        with three(kind, folder, CLUSTER) as made:
            for server in made:
                server.start()
            leader_of(made)
            yield made
        return
    hub = servers.make(kind, HUB, folder)
    hub.start()
    try:
        yield [hub]
    finally:
        hub.stop()


async def make_copies(hub: servers.Server, replicas: int) -> None:
    client = await nats.connect(hub.url)
    for name in KINDS_OF_COPY:
        body = {"name": name, "storage": "file", "num_replicas": replicas, "sources": [source_of(name)]}
        reply = await client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(body).encode(), timeout=60)
        assert b'"error"' not in reply.data, reply.data
    await client.close()


async def held_at(client: Client) -> dict[str, set[bytes]]:
    return {name: set(await held_of(client, name)) for name in KINDS_OF_COPY}


async def settled(hub: servers.Server, last: bytes) -> dict[str, set[bytes]]:
    """What it has once it has the last one of all, or for so long has not, and nothing has come for a while."""
    client = await nats.connect(hub.url)
    began = quiet = time.monotonic()
    found = await held_at(client)
    while (now_s := time.monotonic()) - began < MOST_S:
        if all(last in held for held in found.values()) and now_s - quiet > QUIET_S:
            break
        await asyncio.sleep(1)
        if (now := await held_at(client)) != found:
            found, quiet = now, time.monotonic()
    await client.close()
    return found


def uncollected(hub: servers.Server, wanted: list[bytes]) -> set[str]:
    """The streams of which the hub has something else than these."""
    found = asyncio.run(settled(hub, wanted[-1]))
    return {name for name in KINDS_OF_COPY if found[name] != set(wanted)}


async def at_the_box(box: servers.Server) -> dict[str, set[bytes]]:
    """By sequences: a work queue gives its messages to no second consumer."""
    client, found = await nats.connect(box.url), dict[str, set[bytes]]()
    for name in KINDS_OF_COPY:
        found[name] = set()
        for sequence in range(1, 3 * MESSAGES + FEW + 1):
            body = json.dumps({"seq": sequence}).encode()
            reply = await client.request(f"$JS.API.STREAM.MSG.GET.{name}", body, timeout=60)
            message = json.loads(reply.data).get("message")
            if message is not None:
                found[name].add(base64.b64decode(message["data"]))
    await client.close()
    return found


def said(hub: list[servers.Server], box: servers.Server, name: str) -> str:
    """Who says of that stream what happened."""
    logs = [line for one in hub for line in one.log.splitlines()]
    words = []
    if any(f"stream {name} was put back to an earlier state at its origin" in line for line in logs):
        words.append("hub's log")
    lines = [line for line in box.log.splitlines() if "put back to an earlier state" in line]
    if any(f" {name} " in line for line in lines):
        words.append("box's log")
    with urllib.request.urlopen(f"http://127.0.0.1:{box.ports['http_port']}/varz", timeout=60) as reply:
        alarms = json.load(reply).get("leafd", {}).get("passed_over", ())
    words += ["box's alarm" for one in alarms if f"stream {name} " in one]
    return ", ".join(words) or "nobody"


class PutBack:
    """A box, and an old copy of its store."""

    def __init__(self, kind: str, hub: list[servers.Server], folder: Path, needed: Path) -> None:
        self.hub, self.folder = hub, folder
        self.box = servers.make(kind, BOX.replace("HUB", str(hub[0].ports["leaf_port"])), folder / "box")
        self.clock = clocks.Clock(folder / "clock")
        self.before = clocks.before(kind, needed, self.clock)

    def start(self) -> None:
        self.box.start(before=self.before)

    def back(self) -> None:
        self.box.stop()
        shutil.rmtree(self.folder / "box" / "store")
        shutil.copytree(self.folder / "copy", self.folder / "box" / "store")

    def stores(self, way: str, again: list[bytes], new: list[bytes]) -> None:
        """It is put back, and stores these; `again` before it is put back once more."""
        self.back()
        self.clock.step_to(WAYS[way])
        if way == "away":
            self.hub[0].stop()
        self.start()
        if way == "twice":
            asyncio.run(publish_each(self.box, again))
            asyncio.run(settled(self.hub[0], again[-1]))
            self.back()
            self.start()
        first = FEW if way == "away" else len(new)
        asyncio.run(publish_each(self.box, new[:first]))
        if way == "away":
            self.box.stop()
            self.start()
            asyncio.run(publish_each(self.box, new[first:]))
            self.hub[0].start()


def play(lineup: str, replicas: int, folder: Path, way: str, needed: Path) -> int:
    """One line-up: a row for each stream; how many messages are lost of a leafd."""
    hub_kind, box_kind = lineup.split("+")
    early, late, again, new, few = (
        [b"%s-%d" % (word, number) for number in range(count)]
        for word, count in (
            *((b"early", MESSAGES), (b"late", MESSAGES), (b"again", MESSAGES // 2), (b"new", MESSAGES)),
            (b"few", FEW),
        )
    )
    for name in ("hub", "box"):
        (folder / name).mkdir(parents=True)
    with hub_of(hub_kind, replicas, folder / "hub") as hub:
        put_back = PutBack(box_kind, hub, folder, needed)
        box = put_back.box
        try:
            put_back.start()
            asyncio.run(make_origins(box))
            asyncio.run(make_copies(hub[0], replicas))
            asyncio.run(publish_each(box, early))
            lacks = uncollected(hub[0], early)
            box.stop()
            shutil.copytree(folder / "box" / "store", folder / "copy")
            put_back.start()
            asyncio.run(publish_each(box, late))
            lacks |= uncollected(hub[0], early + late)
            for name in sorted(lacks):
                print(f"{lineup:<24} {name}  is not collected any more since the box was started again", flush=True)
            assert not lacks or L not in lineup, f"{lineup}: {lacks} were not collected before"
            put_back.stores(way, again, new + few)
            there = asyncio.run(settled(hub[0], few[-1]))
            words = {name: said(hub, box, name) for name in KINDS_OF_COPY}
            box.stop()
            put_back.start()
            here = asyncio.run(at_the_box(box))
            return sum(
                row(lineup, name, [set(new), set(few)], there[name], here[name], words[name])
                for name in KINDS_OF_COPY
                if name not in lacks
            )
        finally:
            box.stop()


def row(lineup: str, name: str, stored: list[set[bytes]], there: set[bytes], here: set[bytes], words: str) -> int:
    """Prints it. How many messages are lost."""
    new, few = stored
    every = new | few
    kept, lost = (every - there) & here, every - there - here
    print(
        f"{lineup:<24} {name}  collected {len(every & there):3}  kept {len(kept):3}  lost {len(lost):3}  "
        f"passed {len(few - there):3}  said: {words}",
        flush=True,
    )
    return len(lost)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lineups", nargs="+", choices=LINEUPS, default=LINEUPS, help="hub+box")
    parser.add_argument("--replicas", type=int, choices=(1, 3), default=1)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["plain"])
    chosen = parser.parse_args()
    lost: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="leafd-back-") as folder:
        for way in chosen.ways:
            for lineup in chosen.lineups:
                print(f"-- {way}")
                needed = clocks.built(lineup.split("+")[1], Path(folder))
                it = Path(folder) / f"{way}-{lineup}"
                lost[lineup] = lost.get(lineup, 0) + play(lineup, chosen.replicas, it, way, needed)
    return 1 if any(count for lineup, count in lost.items() if L in lineup) else 0


if __name__ == "__main__":
    sys.exit(main())
