"""How far a copy is behind, as both ends tell it, against what is stored at both ends: floods, stalls and cuts of a bad
line between two real daemons.

The oracle counts messages in both stores. A number that is told has an age, so it is held against what was true then:
within 5 %, or by what the line has under way. What nobody can know is null, and never 0.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import cell, servers
from tests.bench.process import Process
from tests.cell import HUB, LEAF, Cell, Link
from tests.interop.test_cell import COPY, HUB_TEXT, LEAF_TEXT, PATIENT
from tests.rig.raw import RawClient

MISSING = cell.missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

SIZE = 200
SLOW = Link(rate=50_000, delay=0.25, loss=0.01)
SILENT = Link(rate=50_000, delay=0.25, loss=1.0)
UNDER_WAY_S = 4.0
"""So old is a number at most when it arrives: round trips, what waits in the window, what is sent again."""
UNDER_WAY = 200
"""Messages in the window, and those of which the hub has not said that it stored them: 16 KB each at most."""
PART = 0.05
LOOK_S = 2.0
"""A look takes less."""
SAMPLE_S = 0.4
"""Between two counts, at most; meanwhile a block of a hundred messages may have come."""

PACE_SPAN_S = 2.0
"""Over which a pace is measured, at least."""

PAGE = "/jsz?accounts=1&streams=1&config=1"
ORIGIN = {"name": "T", "storage": "file", "subjects": ["t.>"]}


@dataclass
class Moment:
    """What was stored at both ends, and what both told, at one time."""

    at: float
    stored: int
    copied: int
    source: dict[str, Any] | None
    copier: dict[str, Any] | None


@dataclass
class World:
    """Hub and leaf, and what was seen of them."""

    joined: Cell
    hub: Process
    leaf: Process
    seen: list[Moment] = field(default_factory=list)
    silent: tuple[float, float] = (0.0, 0.0)
    published: list[tuple[float, float, int]] = field(default_factory=list)
    """Messages at the leaf: from when to when, and how many."""

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Nothing passes, and no connection ends."""
        self.joined.change(SILENT)
        began = time.monotonic()
        yield
        self.joined.change(SLOW)
        self.silent = began, time.monotonic()

    def under_way_s(self, then: float) -> float:
        """How old what arrived at that time can be: a silence is added to what it took before."""
        began, ended = self.silent
        return UNDER_WAY_S + (ended - began if began <= then <= ended + 2 * UNDER_WAY_S else 0)

    def ask(self, place: int, subject: str, body: object) -> dict[str, Any]:
        """A request to the API, whose answer is no error."""
        with self.joined.at(place), RawClient(self.server(place).port) as client:
            return client.must(subject, body)

    def publish(self, count: int) -> None:
        """At the leaf, all at once."""
        began = time.monotonic()
        with self.joined.at(LEAF), RawClient(self.leaf.port) as client:
            for number in range(count):
                body = f'{{"n":{number},"pad":"{"x" * SIZE}'[: SIZE - 2] + '"}'
                client.publish("t.a", body)
            client.lines()
        self.published.append((began, time.monotonic(), count))

    def age_of(self, sequence: int, at: float) -> tuple[float, float]:
        """How old a message of the leaf was then, at least and at most."""
        for began, ended, count in self.published:
            if sequence <= count:
                return at - ended - LOOK_S, at - began + LOOK_S
            sequence -= count
        raise AssertionError(sequence)

    def wait_for_api(self) -> None:
        """Until the hub knows that the leaf answers for its domain."""
        url = f"http://127.0.0.1:{self.hub.server.ports['monitor_port']}/leafz?subs=1"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with self.joined.at(HUB), urllib.request.urlopen(url, timeout=20) as answer:
                leafs = json.load(answer).get("leafs") or [{}]
            if any(subject.startswith("$JS.leaf.API") for subject in leafs[0].get("subscriptions_list") or ()):
                return
            time.sleep(0.1)
        raise AssertionError(leafs)

    def server(self, place: int) -> Process:
        return self.hub if place == HUB else self.leaf

    def stream(self, place: int, name: str) -> dict[str, Any]:
        """The stream's row of /jsz; empty: it is not there, or its server is not."""
        url = f"http://127.0.0.1:{self.server(place).server.ports['monitor_port']}{PAGE}"
        with contextlib.suppress(OSError), self.joined.at(place), urllib.request.urlopen(url, timeout=20) as answer:
            for account in json.load(answer).get("account_details", ()):
                for one in account.get("stream_detail", ()):
                    if one["name"] == name:
                        return dict(one)
        return {}

    def look(self) -> Moment:
        at_leaf, at_hub = self.stream(LEAF, "T"), self.stream(HUB, "COPY")
        copied = at_hub["state"]["messages"] if at_hub else self.seen[-1].copied if self.seen else 0
        copiers = at_leaf.get("leafd", {}).get("copiers", [None])
        source = at_hub["sources"][0] if at_hub else None
        self.seen.append(Moment(time.monotonic(), at_leaf["state"]["messages"], copied, source, copiers[0]))
        return self.seen[-1]

    def watch(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(0.2)

    def between(self, since: float, until: float) -> list[Moment]:
        return [one for one in self.seen if since <= one.at <= until + SAMPLE_S]

    def fastest(self, since: float) -> float:
        """Messages a second that came to be stored at the hub, in whichever two seconds or more it was fastest."""
        seen = [one for one in self.seen if one.at >= since]
        ends = ((one, next((two for two in seen if two.at >= one.at + PACE_SPAN_S), None)) for one in seen)
        return max((two.copied - one.copied) / (two.at - one.at) for one, two in ends if two is not None)

    def judge(self, since: float) -> None:
        """Everything that was told since then. Each end counts its own store as it is, and the other's as it was."""
        for one in self.seen:
            if one.at < since:
                continue
            told = (one.source or {}).get("leafd", {})  # which a nats-server does not tell
            if told.get("behind") is not None:
                then = one.at - told["told"] / 1e9
                copied = {one.copied} | {at.copied for at in self.between(then - SAMPLE_S, then)}
                stored = {was.stored for was in self.between(then - self.under_way_s(then), then)}
                truths = [there - here for there in stored for here in copied]
                near(one, told["behind"], truths, 10)
            if one.copier is not None:
                truths = [one.stored - was.copied for was in self.between(one.at - self.under_way_s(one.at), one.at)]
                near(one, one.copier["behind"], truths, UNDER_WAY)
                self.judge_age(one, one.copier)

    def judge_age(self, one: Moment, told: dict[str, Any]) -> None:
        """Of the first message that is not stored at the hub, by what the leaf says that is missing."""
        if not told["behind"]:
            assert told["oldest"] == told["behind"]
            return
        low, high = self.age_of(one.stored - told["behind"] + 1, one.at)
        assert told["oldest"] is not None
        assert low <= told["oldest"] / 1e9 <= high, (low, high, one)


def near(one: Moment, told: int | None, truths: list[int], slack: int) -> None:
    assert told is not None
    low, high = min(truths), max(truths)  # between two counts it was anything between them
    within = low - max(PART * low, slack) <= told <= high + max(PART * high, slack)
    assert within, (one.at, told, truths, one)


@contextlib.contextmanager
def world(hub_kind: str = servers.LEAFD, leaf_kind: str = servers.LEAFD) -> Iterator[World]:
    """Linked by a good line."""
    with (
        cell.joined(Link(rate=5e6, delay=SLOW.delay)) as joined,
        tempfile.TemporaryDirectory(prefix="leafd-lag-") as directory,
        contextlib.ExitStack() as ends,
    ):
        base = Path(directory)
        (base / "hub").mkdir()
        (base / "leaf").mkdir()
        hub = Process(servers.make(hub_kind, HUB_TEXT, base / "hub"))
        ends.callback(hub.server.stop)
        with joined.at(HUB):
            hub.start()
        port = hub.server.ports["leaf_port"]
        every, one = PATIENT[leaf_kind]
        leaf = Process(servers.make(leaf_kind, LEAF_TEXT, base / "leaf", hub_leaf_port=port, all=every, one=one))
        ends.callback(leaf.server.stop)
        with joined.at(LEAF):
            leaf.start()
        made = World(joined, hub, leaf)
        made.ask(LEAF, "$JS.API.STREAM.CREATE.T", ORIGIN)
        yield made


def test_both_ends_tell_what_is_missing_while_a_backlog_drains_is_flooded_and_stalls() -> None:
    """From the copy's first moment on: no end ever says 0 while messages are missing, and each number was true when it
    was said that it was. A line that is silent for a while makes it older, and no less true."""
    with world() as both:
        both.publish(3000)
        both.joined.change(SLOW)
        both.ask(HUB, "$JS.API.STREAM.CREATE.COPY", COPY)
        began = time.monotonic()
        both.watch(15)
        both.publish(2000)
        both.watch(8)
        with both.silence():
            both.watch(4)
            both.publish(500)
            both.watch(4)
        both.watch(15)
        both.judge(began)
        known = [one for one in both.seen if one.source and one.source["leafd"]["behind"] is not None]
        assert len(known) > 0.7 * len(both.seen)
        paces, fastest = [one.source["leafd"]["pace"] for one in known[-10:] if one.source], both.fastest(began)
        assert all(pace is not None and abs(pace) <= 1.2 * fastest + 10 for pace in paces), (fastest, paces)
        there = [one.copier for one in both.seen[-10:] if one.copier]
        steps = UNDER_WAY / PACE_SPAN_S  # by which answers tell it
        assert all(one["pace"] is not None and abs(one["pace"]) <= 1.2 * fastest + steps for one in there), there
        assert all(one["level_in"] is not None for one in there if one["pace"] > 0), there
        settled(both)


@pytest.mark.parametrize(
    ("hub_kind", "leaf_kind"), [(servers.LEAFD, servers.REFERENCE), (servers.REFERENCE, servers.LEAFD)]
)
def test_a_nats_server_at_the_other_end_is_told_of_as_truly(hub_kind: str, leaf_kind: str) -> None:
    """leafd says at the hub what it has still to get of it, and at the leaf what that has not taken: a number that was
    true, or null, and never 0 while messages are missing."""
    with world(hub_kind, leaf_kind) as both:
        both.wait_for_api()  # a nats-server asks seldom again where it could not at first
        both.publish(1000)
        both.joined.change(SLOW)
        both.ask(HUB, "$JS.API.STREAM.CREATE.COPY", COPY)
        began = time.monotonic()
        both.watch(15)
        both.publish(300)
        both.watch(4)
        with both.silence():
            both.watch(8)
        both.watch(12)
        both.judge(began)
        told = [(one.source or {}).get("leafd", {}).get("behind") for one in both.seen]
        if hub_kind == servers.REFERENCE:
            told = [one.copier["behind"] for one in both.seen if one.copier is not None]
        known = [one for one in told if one is not None]
        assert len(known) > 0.5 * len(both.seen)
        assert max(known) > 500


def settled(both: World) -> None:
    """Over a good line all of it arrives, and soon after both ends say so."""
    both.joined.change(Link(rate=5e6, delay=SLOW.delay))
    deadline = time.monotonic() + 60
    while (now := both.look()) and time.monotonic() < deadline:
        told = (now.source or {}).get("leafd", {}).get("behind"), (now.copier or {}).get("behind")
        if told == (0, 0) and now.copied == now.stored:
            return
        time.sleep(0.5)
    raise AssertionError(now)


def test_while_the_hub_is_gone_the_box_knows_what_it_has_not_taken_and_the_hub_says_that_it_does_not() -> None:
    """A box whose hub is away counts what waits for it. The hub, back and not linked yet, tells null."""
    with world() as both:
        both.publish(2000)
        both.joined.change(SLOW)
        both.ask(HUB, "$JS.API.STREAM.CREATE.COPY", COPY)
        both.watch(10)
        stopped = time.monotonic()
        both.hub.server.stop()
        copied = [one.copied for one in both.seen if one.at > both.seen[-1].at - 2 * UNDER_WAY_S]
        both.publish(1000)
        deadline = time.monotonic() + 30
        while (copier := both.look().copier) is not None and copier["asks"] and time.monotonic() < deadline:
            time.sleep(0.2)
        assert copier is not None
        assert not copier["asks"]
        # The hub's last words of what it has stored may have been under way, or not said yet.
        slack = max(PART * 3000, UNDER_WAY)
        assert 3000 - copied[-1] - slack <= copier["behind"] <= 3000 - copied[0] + slack
        assert copier["level_in"] is None
        both.judge_age(both.seen[-1], copier)
        (told_by_info,) = both.ask(LEAF, "$JS.API.STREAM.INFO.T", {})["leafd"]["copiers"]
        moving = ("oldest", "seen")
        assert {**told_by_info, **dict.fromkeys(moving)} == {**copier, **dict.fromkeys(moving)}
        both.joined.change(SILENT)
        with both.joined.at(HUB):
            both.hub.start()
        both.watch(3)
        told = both.seen[-1].source
        assert told is not None
        assert told["leafd"]["behind"] is None
        assert told["active"] == -1
        both.joined.change(SLOW)
        since = time.monotonic()
        # From the hub nothing has come in all that time, and what was under way when it went never came.
        both.silent = stopped - UNDER_WAY_S, since
        while both.look().source["leafd"]["behind"] is None and time.monotonic() < since + 90:  # type: ignore[index]
            time.sleep(0.2)
        both.watch(5)
        both.judge(since)
