"""What a link costs that has nothing to carry, and how soon one is used that comes back: two servers in places of their
own, joined by nothing but a bad line (tests/cell.py).

    python -m tests.bench.contacts idle HUB LEAF [--copies 10] [--seconds 600]
    python -m tests.bench.contacts reconnect HUB LEAF [--trip 2]       from the first packet to the first message
    python -m tests.bench.contacts used HUB LEAF [--away 30 120 240]   when the first and the last copy have what waits
    python -m tests.bench.contacts silent HUB LEAF [--away 600]        what dialling costs while nothing gets through
    python -m tests.bench.contacts noticed HUB LEAF                    when each end tells that the other one is gone
    python -m tests.bench.contacts kept HUB LEAF [--profile cell]      whether a live link is closed, however much waits

HUB and LEAF: leafd or nats-server. Bytes are those of IP packets, headers included, both ways together.
packaging/doc/field-figures.md has what it showed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import random
import re
import time
from collections.abc import Iterator

from leafd.cli.init import PROFILES

from tests import servers
from tests.bench.cell import links, pair
from tests.bench.process import Api, Process
from tests.cell import HUB, LEAF, Cell, Link, joined

CONTACT_SECONDS = 60.0
RATE = 50e3
CUT = Link(loss=1.0)
POLL_SECONDS = 0.05
BURST_SECONDS = 5.0
FILLING_SIZE = 500
LATE_SECONDS = 25.0  # then one wants to know what the two said
LATE_LINES = 25
LINES = {
    "modem": Link(rate=50_000, delay=1.0, loss=0.05),
    "lossy": Link(rate=50_000, delay=2.5, loss=0.2),
    "cell": Link(rate=1e6, delay=0.1, loss=0.01, jitter=0.02),
    "satellite": Link(rate=2e6, delay=0.3, loss=0.005),
    "lan": Link(rate=20e6, delay=0.0005),
}
"""The names are those of `leafd init --link`, whose settings the leaf then has, but for the first two, the line of the
figures and the worst of all."""


def copies(at_hub: Api, at_leaf: Api, count: int) -> None:
    """So many streams at the leaf, of each of which the hub has a copy."""
    for number in range(count):
        config = {"name": f"T{number}", "storage": "file", "subjects": [f"t{number}.>"]}
        at_leaf.must(f"$JS.API.STREAM.CREATE.T{number}", config)
    for number in range(count):
        source = {"name": f"T{number}", "external": {"api": "$JS.leaf.API"}}
        at_hub.must(f"$JS.API.STREAM.CREATE.C{number}", {"name": f"C{number}", "storage": "file", "sources": [source]})
        at_leaf.publish(f"t{number}.x", b"first")
    wait_until(lambda: all(at_hub.messages_in(f"C{number}") == 1 for number in range(count)), 120)


def wait_until(true: object, seconds: float) -> float:
    """How long it took. Raises TimeoutError."""
    assert callable(true)
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


@contextlib.contextmanager
def linked(options: argparse.Namespace, count: int) -> Iterator[tuple[Cell, Process, Process, Api, Api]]:
    """Both, with copies; the line is good."""
    calm = Link(rate=2e6, delay=options.trip / 2)
    with contextlib.ExitStack() as stack:
        cell = stack.enter_context(joined(calm))
        if options.echoes:
            cell.echoes()
        profile = PROFILES.get(options.profile) if options.what == "kept" and options.leaf == servers.LEAFD else None
        settings = profile.remote if profile else ()
        hub, leaf = stack.enter_context(pair(cell, options.hub, options.leaf, remote=settings))
        with cell.at(LEAF):
            at_leaf = Api(leaf.port)
        with cell.at(HUB):
            at_hub = Api(hub.port)
        copies(at_hub, at_leaf, count)
        time.sleep(2 + 3 * options.trip)
        yield cell, hub, leaf, at_hub, at_leaf


def idle(options: argparse.Namespace) -> None:
    with linked(options, options.copies) as (cell, *_):
        time.sleep(75)  # what was taken last is told a minute later
        cell.carried[:] = [0, 0]
        time.sleep(options.seconds)
        an_hour = sum(cell.carried) * 3600 / options.seconds
        print(f"idle, {options.copies} copies: {an_hour / 1000:.0f} KB an hour, {cell.carried} in {options.seconds} s")


def reconnect(options: argparse.Namespace) -> None:
    with linked(options, options.copies) as (cell, hub, leaf, at_hub, at_leaf):
        for number in range(options.times):
            cell.change(CUT)
            wait_until(lambda: links(cell, HUB, hub) == links(cell, LEAF, leaf) == 0, 600)
            at_leaf.publish("t0.x", b"a first message")
            time.sleep(1)
            cell.carried[:], cell.first = [0, 0], 0.0
            cell.change(Link(rate=options.rate or RATE, delay=options.trip / 2))
            wait_until(lambda wanted=number + 2: at_hub.messages_in("C0") == wanted, 300)
            first = time.monotonic() - cell.first
            used = sum(cell.carried)
            wait_until(lambda: links(cell, LEAF, leaf) == 1, 60)
            print(
                f"reconnect, {options.trip:g} s round trip: {first:.1f} s, {first / max(options.trip, 0.001):.1f} round"
                f" trips, {used / 1000:.1f} KB {cell.carried} to the first message",
                flush=True,
            )
            time.sleep(4 * options.trip)


def used(options: argparse.Namespace) -> None:
    """In each outage a message is stored in every stream of the leaf: when the first and the last of them is copied."""
    with linked(options, options.copies) as (cell, hub, leaf, *_):
        line = Link(rate=options.rate or RATE, delay=options.trip / 2, loss=options.loss)
        stored = 1
        for away in options.away * options.times:
            cell.change(line)
            time.sleep(CONTACT_SECONDS)
            cell.change(CUT)
            time.sleep(away)
            with cell.at(LEAF):  # who was silent for so long has been closed
                at_leaf = Api(leaf.port)
            with cell.at(HUB):
                at_hub = Api(hub.port)
            for number in range(options.copies):
                at_leaf.must(f"t{number}.x", {"what": "waits"})
            stored += 1
            cell.change(line)
            try:
                first, last = first_and_last(at_hub, stored, 300)
            except TimeoutError:
                print(f"away {away:g} s: not all in 300 s", flush=True)
                continue
            share = 1 - first / CONTACT_SECONDS
            said = f"first message after {first:.1f} s, {100 * share:.0f} % of a contact, last after {last:.1f} s"
            print(f"away {away:g} s: {said}", flush=True)
            if last > LATE_SECONDS:
                for one in (hub, leaf):
                    print("\n".join(one.server.log.splitlines()[-LATE_LINES:]), flush=True)


def first_and_last(at_hub: Api, wanted: int, seconds: float) -> tuple[float, float]:
    """How long it took until one of the copies had so many messages, and until all had. Raises TimeoutError."""

    def counts() -> list[int]:
        return [one["state"]["messages"] for one in at_hub.must("$JS.API.STREAM.LIST")["streams"]]

    first = wait_until(lambda: wanted in counts(), seconds)
    return first, first + wait_until(lambda: set(counts()) == {wanted}, seconds)


def silent(options: argparse.Namespace) -> None:
    with linked(options, options.copies) as (cell, *_):
        for away in options.away:
            cell.change(Link(rate=2e6, delay=options.trip / 2))
            time.sleep(20 + 20 * options.trip)
            cell.tried[:] = [0, 0]
            cell.change(CUT)
            time.sleep(away)
            said = f"{cell.tried[HUB] / 1000:.1f} KB by the leaf, {cell.tried[LEAF] / 1000:.1f} KB by the hub"
            print(f"silent for {away:g} s: {said}", flush=True)


def noticed(options: argparse.Namespace) -> None:
    with linked(options, options.copies) as (cell, hub, leaf, *_):
        calm = Link(rate=2e6, delay=options.trip / 2)
        cases = {"nothing passes": (1.0, 1.0), "nothing to the hub": (1.0, 0.0), "nothing to the leaf": (0.0, 1.0)}
        for name, deaf in cases.items():
            wait_until(lambda: links(cell, HUB, hub) == links(cell, LEAF, leaf) == 1, 300)
            time.sleep(25)
            cell.deaf[:] = deaf
            began, took = time.monotonic(), {HUB: 0.0, LEAF: 0.0}
            while not all(took.values()) and time.monotonic() - began < options.seconds:
                for place, process in ((HUB, hub), (LEAF, leaf)):
                    if not took[place] and links(cell, place, process) == 0:
                        took[place] = time.monotonic() - began
                time.sleep(0.2)
            print(
                f"{name}: noticed by the hub after {took[HUB]:.0f} s, by the leaf after {took[LEAF]:.0f} s", flush=True
            )
            cell.deaf[:] = [0.0, 0.0]
            cell.change(calm)


def kept(options: argparse.Namespace) -> None:
    """Which links are closed that live: more than the line carries is published at both ends, all the time. With --up
    and --down the line is silent for some time again and again, less than what makes a link dead."""
    line = dataclasses.replace(LINES[options.profile], schedule=(options.up, options.down))
    line = dataclasses.replace(line, rate=options.rate or line.rate)
    burst = max(round(1.2 * line.rate / 8 * BURST_SECONDS / FILLING_SIZE), 1)
    with linked(options, options.copies) as (cell, hub, leaf, at_hub, at_leaf):
        for api, name in ((at_hub, "up"), (at_leaf, "down")):
            api.must(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "max_msgs": 1000})
        time.sleep(2)
        cell.change(line)
        cell.carried[:] = [0, 0]
        began = time.monotonic()
        while time.monotonic() - began < options.seconds:
            for place, process, subject in ((LEAF, leaf, "up.x"), (HUB, hub, "down.x")):
                with cell.at(place), contextlib.closing(Api(process.port)) as api:
                    for _ in range(burst):
                        api.publish(subject, random.randbytes(FILLING_SIZE))  # which nothing compresses
                    api.request("$SYS.REQ.USER.INFO")  # all before it has been read
            time.sleep(BURST_SECONDS - (time.monotonic() - began) % BURST_SECONDS)
        ends = [re.findall(r".*Leafnode connection closed.*", one.server.log) for one in (hub, leaf)]
        print("\n".join(ends[HUB] + ends[LEAF]))
        closed = [len(one) for one in ends]
        rate = [round(8 * one / options.seconds / 1000) for one in cell.carried]
        print(
            f"{options.profile}: {closed} links closed by hub and leaf in {options.seconds:g} s, {rate} kbit/s carried"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    runs = {"idle": idle, "reconnect": reconnect, "used": used, "silent": silent, "noticed": noticed, "kept": kept}
    parser.add_argument("what", choices=runs)
    parser.add_argument("hub", choices=servers.KINDS)
    parser.add_argument("leaf", choices=servers.KINDS)
    parser.add_argument("--profile", choices=LINES, default="cell")
    parser.add_argument("--rate", type=float, help="bits a second; else 50,000, and of kept the profile's")
    parser.add_argument("--trip", type=float, default=0.2)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--up", type=float, default=0.0, help="of kept: the line is there for so many seconds")
    parser.add_argument("--down", type=float, default=0.0, help="of kept: and then silent for so many")
    parser.add_argument("--echoes", action="store_true", help="the leaf may send echo requests, as with systemd")
    parser.add_argument("--away", type=float, nargs="+", default=[30.0, 120.0, 240.0])
    options = parser.parse_args()
    runs[options.what](options)


if __name__ == "__main__":
    main()
