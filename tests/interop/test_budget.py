"""What a link may carry in a day, with real daemons over loopback, and a nats-server at either end: what waits, what
goes all the same, what a reload, a restart and a power cut make of it, and that a link whose budget is gone lives on.

Not here: days, months and clocks (tests/unit/links/test_ledger.py), ranks (tests/native/test_budget.c).
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.interop.test_precedence import SIZE, Client
from tests.rig.waiting import eventually

HUB = """
server_name: hub
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", domain: hub }
leafnodes {
  listen: "127.0.0.1:{leaf_port}"
  LIMITS
}
"""
LEAF = """
server_name: leaf
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream { store_dir: "{store}", domain: leaf }
leafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:{hub_leaf_port}", compression: off
  LIMITS
} ] }
"""
RANKS = 'priority { high: ["alarm.>"], low: ["log.>"] }\n'
LIMIT = 200_000
GRAIN = LIMIT // 100
DAILY = f"{RANKS} limits {{ bytes_per_day: {LIMIT} }}"
MORE = f"{RANKS} limits {{ bytes_per_day: 20M }}"
LARGE = 1_000_000
"""Of which the twentieth between bulk and nothing is more than what is under way when bulk has to wait, and than what a
minute of questions takes, also at the day's beginning, when a quarter is kept for a quiet link."""
COUNT = 1500


class Pair:
    """A hub and a leaf, one of which has a limit."""

    def __init__(self, folder: Path, hub: str, leaf: str, *, limits: str, at_hub: bool) -> None:
        self.at_hub, self.limits = at_hub, limits
        for name in ("hub", "leaf"):
            (folder / name).mkdir()
        text = HUB.replace("LIMITS", limits if at_hub else "")
        self.hub = servers.make(hub, text, folder / "hub", store=folder / "hub" / "store")
        self.hub.start()
        text = LEAF.replace("LIMITS", "" if at_hub else limits)
        more = {"hub_leaf_port": self.hub.ports["leaf_port"], "store": folder / "leaf" / "store"}
        self.leaf = servers.make(leaf, text, folder / "leaf", **more)
        self.leaf.start()
        self.above, self.below = Client(self.hub), Client(self.leaf)
        self.limited = self.hub if at_hub else self.leaf
        self.sender, self.taker = (self.above, self.below) if at_hub else (self.below, self.above)

    def close(self) -> None:
        self.above.close()
        self.below.close()
        self.leaf.stop()
        self.hub.stop()

    def limit(self, limits: str) -> None:
        """A reload with other limits."""
        self.limited.configuration = self.limited.configuration.replace(self.limits, limits)
        self.limits = limits
        (self.limited.directory / "server.conf").write_text(self.limited.configuration)
        assert self.limited.process is not None
        self.limited.process.send_signal(signal.SIGHUP)

    def page(self, path: str) -> str:
        """Of the limited end."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.limited.ports['monitor_port']}{path}", timeout=10
        ) as answer:
            return str(answer.read(), "utf-8")

    def connection(self) -> int:
        """Its number."""
        return int(json.loads(self.page("/leafz"))["leafs"][0]["id"])

    def row(self) -> dict[str, Any]:
        """Of the link, as the limited end tells it."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                rows = json.loads(self.page("/leafz"))["leafs"]
                if rows:
                    return dict(rows[0]["leafd"])
            time.sleep(0.1)
        raise AssertionError("no link")

    def budget(self) -> dict[str, Any]:
        return dict(self.row()["budget"])

    def used(self) -> int:
        return int(self.budget()["day"]["used"])

    def hears(self, quiet_s: float = 1.5) -> Counter[str]:
        """Of each first token of a subject, how many messages come until nothing does for a while."""
        found: Counter[str] = Counter()
        with contextlib.suppress(TimeoutError):
            while True:
                subject, _ = self.taker.next(quiet_s)
                found[subject.partition(".")[0]] += 1
        return found

    def listen(self) -> None:
        for subject in ("alarm.>", "event.>", "log.>"):
            self.taker.subscribe(subject)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            self.sender.publish_one("alarm.ready")
            self.sender.lines()
            if self.hears(0.3):
                return
        raise AssertionError("no interest")

    def publish(self, subject: str, count: int) -> None:
        for _ in range(count):
            self.sender.publish_one(subject)
        self.sender.lines()


ENDS = [
    pytest.param(servers.LEAFD, servers.LEAFD, False, id="leaf-of-leafd"),
    pytest.param(servers.REFERENCE, servers.LEAFD, False, id="leaf-of-nats-server"),
    pytest.param(servers.LEAFD, servers.LEAFD, True, id="hub-of-leafd"),
    pytest.param(servers.LEAFD, servers.REFERENCE, True, id="hub-of-nats-server"),
]


@pytest.mark.parametrize(("hub", "leaf", "at_hub"), ENDS)
def test_bulk_waits_first_then_the_rest_and_a_larger_budget_wakes_all(
    hub: str, leaf: str, at_hub: bool, tmp_path: Path
) -> None:
    """Sent by the end that has the limit: 400 logs stop at nine tenths but for what keeps the link, events go on, then
    alarms alone; the link stays up; what waits goes when a reload gives more, on the same connection."""
    pair = Pair(tmp_path, hub, leaf, limits=DAILY, at_hub=at_hub)
    try:
        pair.listen()
        begun = pair.connection()
        pair.publish("log.x", 400)
        heard = pair.hears()
        spare = LIMIT - LIMIT // 4 - LIMIT // 10
        told = pair.budget()
        assert spare - 2 * GRAIN - SIZE < told["day"]["used"] < spare + 2 * GRAIN + 2 * SIZE
        assert told["goes"] == "normal"
        assert told["waiting"] > 200 * SIZE
        assert abs(heard["log"] * SIZE - spare) < 0.15 * spare
        pair.publish("event.x", 3)
        assert pair.hears()["event"] == 3
        pair.publish("event.x", 20)
        pair.publish("alarm.x", 3)
        heard = pair.hears()
        assert heard["alarm"] == 3
        assert 3 < heard["event"] < 12
        pair.publish("alarm.x", 40)
        heard = pair.hears()
        assert heard["alarm"] < 20
        assert set(heard) == {"alarm"}
        told = pair.budget()
        assert told["goes"] == "none"
        used = told["day"]["used"]
        assert used < LIMIT - LIMIT // 4 + 2 * GRAIN + 2 * SIZE
        time.sleep(20)  # pings of both ends
        assert pair.used() < used + 3_000
        metrics = pair.page("/metrics")
        assert re.search(rf'^leafd_link_budget_bytes{{.*period="day".*}} {LIMIT}', metrics, re.MULTILINE)
        assert re.search(r"^leafd_link_held{.*} 3$", metrics, re.MULTILINE)
        pair.limit(MORE)
        heard = pair.hears(3)
        assert heard["log"] > 200
        assert heard["event"] > 5
        assert heard["alarm"] > 20
        assert pair.budget()["day"]["used"] > LIMIT
        assert pair.connection() == begun
    finally:
        pair.close()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_gives_no_budget_again(how: str, tmp_path: Path) -> None:
    """Nor does a kill: what the record does not know to the byte counts as used."""
    pair = Pair(tmp_path, servers.LEAFD, servers.LEAFD, limits=DAILY, at_hub=False)
    try:
        pair.listen()
        pair.publish("alarm.x", 60)
        assert pair.hears()["alarm"] == 60
        time.sleep(6)  # records are 5 s apart at least
        used = pair.used()
        assert used > 60 * SIZE
        pair.below.close()
        pair.leaf.stop() if how == "stop" else pair.leaf.kill()
        pair.leaf.start()
        pair.below = Client(pair.leaf)
        again = pair.used()
        assert used - (GRAIN if how == "kill" else 0) <= again < used + 2 * GRAIN + 6_000
    finally:
        pair.close()


def stream(server: servers.Server, name: str) -> dict[str, Any]:
    """Its state."""
    with Client(server) as client:
        return client.must(f"$JS.API.STREAM.INFO.{name}")


def stream_row(server: servers.Server, name: str) -> dict[str, Any]:
    """Of /jsz."""
    url = f"http://127.0.0.1:{server.ports['monitor_port']}/jsz?accounts=1&streams=1&config=1"
    with urllib.request.urlopen(url, timeout=10) as answer:
        accounts = json.load(answer)["account_details"]
    return next(dict(one) for account in accounts for one in account["stream_detail"] if one["name"] == name)


@pytest.mark.parametrize("hub", [servers.LEAFD, servers.REFERENCE])
def test_a_stream_waits_in_its_box_without_noise_and_comes_whole(hub: str, tmp_path: Path) -> None:
    """The hub's source takes most of it; what it has still to get waits in the box's stream, its consumer is not made
    anew again and again, and with another day's budget each message is there once."""
    daily = DAILY.replace(str(LIMIT), str(LARGE))
    pair = Pair(tmp_path, hub, servers.LEAFD, limits=daily, at_hub=False)
    try:
        pair.below.must("$JS.API.STREAM.CREATE.T", {"name": "T", "subjects": ["t.>"], "storage": "file"})
        source = {"name": "T", "external": {"api": "$JS.leaf.API", "deliver": ""}}
        pair.row()
        for _ in range(COUNT):
            pair.below.publish_one("t.x")
        pair.below.lines()
        pair.above.must("$JS.API.STREAM.CREATE.COPY", {"name": "COPY", "storage": "file", "sources": [source]})
        eventually(lambda: pair.budget()["goes"] != "all", lambda: pair.budget())
        time.sleep(3)
        used, stored = pair.used(), stream(pair.hub, "COPY")["state"]["messages"]
        assert 0.5 * LARGE < stored * SIZE < 0.9 * LARGE
        (copier,) = stream_row(pair.leaf, "T")["leafd"]["copiers"]
        assert copier["held"] in ("normal", "high")
        assert copier["behind"] > 0
        if hub == servers.LEAFD:  # which is told by the box
            assert stream(pair.hub, "COPY")["sources"][0]["leafd"]["held"] in ("normal", "high")
        time.sleep(30)
        assert stream(pair.hub, "COPY")["state"]["messages"] <= stored + 20
        assert pair.used() - used < 30 * 600
        pair.limit(MORE)
        eventually(lambda: stream(pair.hub, "COPY")["state"]["messages"] >= COUNT, lambda: stream(pair.hub, "COPY"))
        state = stream(pair.hub, "COPY")["state"]
        assert (state["messages"], state["last_seq"]) == (COUNT, COUNT)
        assert stream_row(pair.leaf, "T")["leafd"]["copiers"][0]["held"] == "all"
        if hub == servers.LEAFD:
            assert stream(pair.hub, "COPY")["sources"][0]["leafd"]["held"] == "all"
    finally:
        pair.close()
