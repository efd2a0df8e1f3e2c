#!/usr/bin/env python3
"""A year of a box below its hub, in minutes: each day something happens to one of the two, by chance.

    python -m tests.crash.year                        365 days; 0 when the hub has each message once
    python -m tests.crash.year --days 60 --seed 7     fewer days, and those that had that number
    python -m tests.crash.year --without clock        where all is collected, whatever else happens

Both clocks go on by a day at each turn. The box stores MESSAGES in each of four streams a day, which the hub collects:
streams with limits (P, D) and work queues (W, V), by plain sources and by durable ones (D, V). What may happen:

    cut        the box, or the hub, loses its power and starts again
    away       the hub is away for some days
    clock      the box's clock steps by up to two years, and is set right some days later
    copy       the box's store is copied
    old        such a copy is put back: what the box had stored since then and the hub had not collected is gone with it
    renamed    the box has another server_name from then on

At the end the hub and the box are there, their clocks are right, and each message has to be at the hub exactly once, or
still at the box, which says that the hub passed it over. Of those that went with an old copy, each at most once. Not
here: disks that are full (test_full_disk.py) or damaged (damaged.py), power that takes what was not synced
(test_power.py).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import servers
from tests.crash.histories import clocks
from tests.interop.test_put_back import BOX, HUB, KINDS_OF_COPY, make_copies, make_origins
from tests.rig.raw import RawClient
from tests.rig.reports import report

MESSAGES: Final = 3
DAY_S: Final = 24 * 3600
YEAR_S: Final = 365 * DAY_S
COPIES_MAX: Final = 3
"""The oldest one goes when there is a further one."""
AWAY_MAX: Final = 4
PATIENCE_S: Final = 120.0
SETTLE_S: Final = 20.0
"""Until the hub has all before an old copy is put back."""
GET: Final = "STREAM.MSG.GET.{}"
Message = tuple[str, int]
"""Of which stream, and its number."""
EVENTS: Final = ("cut", "hub cut", "away", "clock", "copy", "old", "renamed")


@dataclass(frozen=True)
class Outcome:
    """What is wrong with the messages that were acknowledged."""

    lost: list[Message]
    """Neither the hub nor the box has them."""
    twice: list[Message]
    """The hub has them more than once."""
    kept: list[Message]
    """The hub passed them over, and the box has them."""
    untold: list[str]
    """The streams with kept ones of which nothing is said."""

    @property
    def good(self) -> bool:
        return not (self.lost or self.twice or self.untold)


class Year:
    """The two servers, and what is known of each message."""

    def __init__(self, folder: Path, seed: int, events: Sequence[str] = EVENTS) -> None:
        self.events = events
        self.chance = random.Random(seed)
        self.needed = clocks.built(servers.LEAFD, folder)
        for name in ("hub", "box"):
            (folder / name).mkdir()
        self.folder = folder
        self.hub = servers.make(servers.LEAFD, HUB, folder / "hub")
        text = BOX.replace("HUB", str(self.hub.ports["leaf_port"]))
        self.box = servers.make(servers.LEAFD, text, folder / "box")
        self.clocks = {one.directory.name: clocks.Clock(folder / f"{one.directory.name}.clock") for one in self.both}
        self.day = self.off_days = self.off_s = self.away_days = self.names = 0
        """off_s: by how much the box's clock is wrong."""
        self.next = 0
        """The number of the next message of each stream."""
        self.acknowledged: set[Message] = set()
        self.copies: list[tuple[Path, int]] = []
        self.lost: set[Message] = set()
        self.twice: set[Message] = set()
        self.kept: set[Message] = set()
        self.happened: Counter[str] = Counter()

    @property
    def both(self) -> tuple[servers.Server, servers.Server]:
        return self.hub, self.box

    def start(self, server: servers.Server) -> None:
        clock = self.clocks[server.directory.name]
        server.start(before=clocks.before(servers.LEAFD, self.needed, clock))

    def begin(self) -> None:
        self._set_clocks()
        self.start(self.hub)
        self.start(self.box)
        asyncio.run(make_origins(self.box))
        asyncio.run(make_copies(self.hub))

    # ---- a day

    def live(self) -> None:
        self.day += 1
        self.off_days, self.away_days = self.off_days - 1, self.away_days - 1
        self.off_s = self.off_s if self.off_days > 0 else 0
        self._set_clocks()
        if not self.hub.runs() and self.away_days <= 0:
            self.start(self.hub)
        what = self.chance.choice(self.events)
        self._work()
        self._happen(what)
        self._work()

    def _set_clocks(self) -> None:
        self.clocks["hub"].step_to(self.day * DAY_S)
        self.clocks["box"].step_to(self.day * DAY_S + self.off_s)

    def _work(self) -> None:
        with RawClient(self.box, patience_s=PATIENCE_S) as client:
            for _ in range(MESSAGES):
                for name in KINDS_OF_COPY:
                    client.must(f"{name}.x", str(self.next))
                    self.acknowledged.add((name, self.next))
                self.next += 1

    def _happen(self, what: str) -> None:
        match what:
            case "cut":
                self.box.kill()
                self.start(self.box)
            case "hub cut" if self.hub.runs():
                self.hub.kill()
                self.start(self.hub)
            case "away" if self.hub.runs():
                self.hub.stop()
                self.away_days = self.chance.randint(1, AWAY_MAX)
            case "clock":
                self.off_days = self.chance.randint(1, AWAY_MAX)
                self.off_s = self.chance.randint(-2 * YEAR_S, 2 * YEAR_S)
                self._set_clocks()
            case "copy":
                self._copy()
            case "old" if self.copies:
                self._put_back()
            case "renamed":
                self.names += 1
                self.box.stop()
                named = f"server_name: box-{self.names}\n"
                self.box.configuration = re.sub(r"server_name: .*\n", named, self.box.configuration)
                self.start(self.box)
            case _:
                return
        self.happened[what] += 1

    def _copy(self) -> None:
        self.box.stop()
        path = self.folder / f"copy-{self.day}"
        shutil.copytree(self.folder / "box" / "store", path)
        self.copies.append((path, self.next))
        if len(self.copies) > COPIES_MAX:
            shutil.rmtree(self.copies.pop(0)[0])
        self.start(self.box)

    def _put_back(self) -> None:
        """What the box had stored since the copy is gone, but for what the hub has."""
        path, number = self.chance.choice(self.copies)
        self.copies = [one for one in self.copies if one[1] <= number]
        if self.hub.runs():
            self._judge(SETTLE_S)
        self.box.stop()
        shutil.rmtree(self.folder / "box" / "store")
        shutil.copytree(path, self.folder / "box" / "store")
        collected = self.held(self.hub) if self.hub.runs() else Counter[Message]()
        self.acknowledged = {one for one in self.acknowledged if one[1] < number or one in collected}
        self.start(self.box)

    def held(self, server: servers.Server) -> Counter[Message]:
        """What it has, and how often."""
        found = Counter[Message]()
        with RawClient(server, patience_s=PATIENCE_S) as client:
            for name in KINDS_OF_COPY:
                place = 1
                while "error" not in (answer := client.api(GET.format(name), {"seq": place, "next_by_subj": ">"})):
                    place = answer["message"]["seq"] + 1
                    found[name, int(base64.b64decode(answer["message"]["data"]))] += 1
                assert answer["error"]["code"] == 404, answer
        return found

    # ---- the end

    def _judge(self, seconds: float) -> None:
        """Waits until the hub has all, and notes what it has not."""
        deadline = time.monotonic() + seconds
        while (missing := self.acknowledged - (held := self.held(self.hub)).keys()) and time.monotonic() < deadline:
            time.sleep(0.5)
        self.twice |= {one for one, count in held.items() if count > 1}
        if missing:
            kept = missing & self.held(self.box).keys()
            self.lost |= missing - kept
            self.kept |= kept

    def end(self) -> Outcome:
        """Both are there, and their clocks are right."""
        self.day, self.off_s = self.day + 1, 0
        self._set_clocks()
        if not self.hub.runs():
            self.start(self.hub)
        self._work()
        self._judge(PATIENCE_S)
        kept = self.kept - self.held(self.hub).keys()
        untold = {name for name, _ in kept} - self._told()
        return Outcome(sorted(self.lost), sorted(self.twice), sorted(kept), sorted(untold))

    def _told(self) -> set[str]:
        """The streams of which the log, or the box's page of alarms, says that they were put back."""
        alarms = report(self.box, "varz").get("leafd", {}).get("passed_over", ())
        lines = [line for server in self.both for line in server.log.splitlines() if "put back to an earlier" in line]
        return {name for name in KINDS_OF_COPY for text in (*alarms, *lines) if re.search(rf"\b{name}\b", text)}


def lived(days: int, seed: int, events: Sequence[str] = EVENTS) -> tuple[Outcome, Year]:
    """So many days, and what came of them."""
    with tempfile.TemporaryDirectory(prefix="leafd-year-") as folder:
        year = Year(Path(folder), seed, events)
        try:
            year.begin()
            for _ in range(days):
                year.live()
            return year.end(), year
        finally:
            for server in year.both:
                if server.runs():
                    server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--without", nargs="*", choices=EVENTS, default=[])
    given = parser.parse_args()
    outcome, year = lived(given.days, given.seed, [one for one in EVENTS if one not in given.without])
    happened = ", ".join(f"{count} x {what}" for what, count in sorted(year.happened.items()))
    print(f"seed {given.seed}: {given.days} days, {len(year.acknowledged)} messages; {happened}")
    print(f"lost {outcome.lost}\ntwice {outcome.twice}\nkept at the box {outcome.kept}\nuntold {outcome.untold}")
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
