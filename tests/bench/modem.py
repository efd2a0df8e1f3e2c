"""What a bad line does to two servers of one kind: rows of tests/bench/run that take minutes, and need root.

    tests/bench/run --modem                      all of them; --rounds 1 takes some 25 minutes
    tests/bench/run --modem --only modem-500     one

Hub and leaf stand in network namespaces that tests/cell.py joins: the kernels' own TCP over a line of 50 kbit/s each
way with a queue of 64 KB. A nats-server is told to be patient where a row needs a link at all; `modem-links` tells
whether one comes up with defaults. What was not reached within the row's time has that time as its figure.
Not here: the line (tests/cell.py), and one long run to look at (tests/bench/cell.py).
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator

from tests.bench.cell import COPY, SIZE, Listener, fill, links, pair
from tests.bench.process import Api, Process
from tests.bench.rows import DEFAULT, LEAFD, Figures, Goal, Row, Variant
from tests.cell import HUB, LEAF, Cell, Link, joined

RATE = 50_000
TRIP = 2.0
BAD = Link(RATE, delay=TRIP / 2, loss=0.05, schedule=(60, 30))
STEADY = Link(RATE, delay=TRIP / 2, loss=0.05)
GOOD = Link(2e6, delay=0.1)
"""Over which both are linked before it gets bad: at two seconds a nats-server often is not, whatever it was told."""
DISTANCES = ((0.5, 0.0), (1.0, 0.0), (1.5, 0.0), (2.0, 0.0), (5.0, 0.0), (5.0, 0.2))
"""Seconds there and back, and what is lost."""
LINK_SECONDS_MAX = 60.0
DRAIN_SECONDS_MAX = 600.0
DETECT_SECONDS_MAX = 180.0
IDLE_SECONDS = 120.0
COPIES = 10
PROBE_SECONDS = 5.0

Measure = Callable[[Variant, bool], Figures]


def _row(name: str, title: str, goals: tuple[Goal, ...], measure: Measure) -> Row:
    @contextlib.contextmanager
    def opened(variant: Variant, quick: bool) -> Iterator[Callable[[], Figures]]:
        yield lambda: measure(variant, quick)

    return Row(name, title, (LEAFD, DEFAULT), goals, opened)


def asked(cell: Cell, hub: Process, leaf: Process) -> tuple[Api, Api]:
    """A connection for requests to each, leaf and hub, in its place."""
    with cell.at(LEAF):
        at_leaf = Api(leaf.port)
    with cell.at(HUB):
        return at_leaf, Api(hub.port)


def link_up(variant: Variant, quick: bool) -> Figures:
    """How long until both ends have the link, with defaults, at some distances; at the last one also where a fifth of
    the packets is lost."""
    found: Figures = {}
    for trip, loss in DISTANCES[:1] if quick else DISTANCES:
        name = f"up_{trip:g}s" + ("_lossy" if loss else "")
        with joined(Link(RATE, delay=trip / 2, loss=loss)) as cell:
            began = time.monotonic()
            try:
                with pair(cell, variant.kind, variant.kind, patient=False, wait_s=LINK_SECONDS_MAX):
                    found[name] = time.monotonic() - began
            except RuntimeError:
                found[name] = LINK_SECONDS_MAX
    return found


def drained(messages: int) -> Measure:
    """A backlog over the line that comes and goes: until all is stored, and the wire's bytes for each of payload."""

    def measure(variant: Variant, quick: bool) -> Figures:
        with joined(GOOD) as cell, pair(cell, variant.kind, variant.kind) as (hub, leaf):
            at_leaf, at_hub = asked(cell, hub, leaf)
            count = messages // 10 if quick else messages
            fill(at_leaf, count)
            at_leaf.close()  # or what is answered at the hub would come down to it, too
            time.sleep(1 + 3 * TRIP)
            cell.change(BAD)
            cell.carried[:] = [0, 0]
            began = time.monotonic()
            at_hub.must("$JS.API.STREAM.CREATE.COPY", COPY)
            stored = 0
            while stored < count and time.monotonic() - began < DRAIN_SECONDS_MAX:
                time.sleep(0.5)
                stored = at_hub.messages_in("COPY")
            took = time.monotonic() - began
            return {"seconds": took, "stored": stored / count, "wire": cell.carried[HUB] / max(stored * SIZE, 1)}

    return measure


def small_beside_bulk(variant: Variant, quick: bool) -> Figures:
    """A command down and an event up, each some seconds, while a backlog goes up."""
    with joined(GOOD) as cell, pair(cell, variant.kind, variant.kind) as (hub, leaf):
        with cell.at(LEAF):
            at_leaf, below = Api(leaf.port), Listener(leaf.port, "command.>")
        with cell.at(HUB):
            at_hub, above = Api(hub.port), Listener(hub.port, "event.>")
        fill(at_leaf, 5_000)
        at_leaf.close()
        time.sleep(1 + 3 * TRIP)
        cell.change(STEADY)
        at_hub.must("$JS.API.STREAM.CREATE.COPY", COPY)
        time.sleep(10)
        sent: list[float] = []
        for number in range(4 if quick else 24):
            sent.append(time.monotonic())
            above.publish("command.x", number)
            below.publish("event.x", number)
            time.sleep(PROBE_SECONDS)
        time.sleep(4 * PROBE_SECONDS)
        until = time.monotonic()
        figures: Figures = {}
        for name, listener in (("down", below), ("up", above)):
            took = [listener.came.get(number, until) - at for number, at in enumerate(sent)]
            figures |= {f"{name}_median": statistics.median(took), f"{name}_longest": max(took)}
        return figures


def silence_noticed(variant: Variant, quick: bool) -> Figures:
    """A line that brings nothing any more: how long until each end takes its link for dead."""
    with joined(GOOD) as cell, pair(cell, variant.kind, variant.kind) as (hub, leaf):
        time.sleep(5)
        cell.change(Link(RATE, delay=TRIP / 2, loss=1.0))
        began, until = time.monotonic(), (60.0 if quick else DETECT_SECONDS_MAX)
        found = {"hub_seconds": until, "leaf_seconds": until}
        ends = {"hub_seconds": (HUB, hub), "leaf_seconds": (LEAF, leaf)}
        while ends and time.monotonic() - began < until:
            for name, (place, server) in list(ends.items()):
                if not links(cell, place, server):
                    found[name] = time.monotonic() - began
                    del ends[name]
            time.sleep(0.5)
        return dict(found)


def idle_bytes(variant: Variant, quick: bool) -> Figures:
    """Ten copies of empty streams and nothing to say: bytes an hour, both ways, with the headers of IP."""
    with joined(GOOD) as cell, pair(cell, variant.kind, variant.kind) as (hub, leaf):
        at_leaf, at_hub = asked(cell, hub, leaf)
        for number in range(COPIES):
            name = f"T{number}"
            at_leaf.must(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [f"t{number}.>"]})
            source = {"name": name, "external": {"api": "$JS.leaf.API"}}
            at_hub.must(f"$JS.API.STREAM.CREATE.C{number}", {"name": f"C{number}", "sources": [source]})
        at_leaf.close()
        time.sleep(30)
        cell.carried[:] = [0, 0]
        seconds = 20 if quick else IDLE_SECONDS
        time.sleep(seconds)
        return {"kb_an_hour": sum(cell.carried) * 3600 / seconds / 1000}


MODEM_ROWS = (
    _row(
        "modem-links",
        "a link comes up with defaults over 50 kbit/s, 0.5 to 5 s away",
        (
            *(Goal(f"up_{trip:g}s", f"s at {trip:g} s", 60, True, ratio=False) for trip, _ in DISTANCES[:-1]),
            Goal("up_5s_lossy", "s at 5 s, 20 % lost", 60, at_most=True, ratio=False),
        ),
        link_up,
    ),
    _row(
        "modem-500",
        "500 messages of 200 B drain: 50 kbit/s, 2 s, 5 % lost, there for 60 s of each 90",
        (Goal("seconds", "s", 60, at_most=True, ratio=False), Goal("wire", "bytes sent for each", 1.1, True, False)),
        drained(500),
    ),
    _row(
        "modem-5000",
        "5,000 messages drain over the same line",
        (
            Goal("seconds", "s", 400, at_most=True, ratio=False),
            Goal("stored", "of them stored", 1, ratio=False),
            Goal("wire", "bytes sent for each", 1.1, True, False),
        ),
        drained(5_000),
    ),
    _row(
        "modem-small",
        "100 B down and up while bulk goes up: 50 kbit/s, 2 s, 5 % lost",
        (
            Goal("down_median", "s down, median", 2 * TRIP, at_most=True, ratio=False),
            Goal("down_longest", "s down, longest", 5 * TRIP, at_most=True, ratio=False),
            Goal("up_median", "s up, median", 2 * TRIP, at_most=True, ratio=False),
            Goal("up_longest", "s up, longest", 5 * TRIP, at_most=True, ratio=False),
        ),
        small_beside_bulk,
    ),
    _row(
        "modem-silent",
        "a line that is silent from a moment on is noticed",
        (
            Goal("leaf_seconds", "s at the leaf", 60, at_most=True, ratio=False),
            Goal("hub_seconds", "s at the hub", 60, at_most=True, ratio=False),
        ),
        silence_noticed,
    ),
    _row(
        "modem-idle",
        "an idle link with ten copies, 2 s away",
        (Goal("kb_an_hour", "kB an hour", 100, at_most=True, ratio=False),),
        idle_bytes,
    ),
)
