"""The order of a demo: start, send while things break, catch up, compute, check, report; and its common options.

Not here: which hub it is and what is broken (__main__.py: one hub; supercluster.py: two clusters).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import webbrowser
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from . import checks, observations
from .computing import Computing, NoComputing
from .nodes import Hub, Node, NodeError
from .observations import STATIONS
from .record import Record
from .report import Words, write_report
from .screen import Row, Screen
from .story import Faults, Watch
from .streams import create_streams, leaf_streams, read_all
from .traffic import Publisher, note

CATCH_UP_SECONDS = 240.0  # nats-server may take 40 s to take up a source again, and several may follow each other
SETTLE_SECONDS = 3.0  # after the last row: time for a row too many to show up
REFRESHED_A_SECOND = 6.0


@dataclass(kw_only=True)
class World(ABC):
    """The running servers, and the facts known so far. Each kind of hub adds its own."""

    directory: Path
    hubs: list[Hub]  # the first has the streams that collect
    leaves: dict[str, Node]
    words: Words
    spark: bool
    sent_commands: int  # to each station
    checks: list[checks.Check] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    daily: dict[tuple[str, str], observations.Aggregate] = field(default_factory=dict)
    record: Record = field(default_factory=Record)

    def __post_init__(self) -> None:
        self.rows = observations.read_rows()
        self.telemetry = {station: observations.telemetry(self.rows, station) for station in STATIONS}
        self.commands = {station: observations.commands(station, self.sent_commands) for station in STATIONS}
        log = self.directory / "spark.log"
        self.computing = Computing(self.hub_url, self.tables, log) if self.spark else NoComputing()

    @property
    def hub_url(self) -> str:
        """For a client: each server of the hub will do."""
        return ",".join(hub.url for hub in self.hubs)

    @property
    def nodes(self) -> list[Node]:
        return [*(server for hub in self.hubs for server in hub.servers), *self.leaves.values()]

    @property
    def tables(self) -> Path:
        return self.directory / "tables"

    @abstractmethod
    async def open(self) -> None:
        """Makes the parts that have to be there before the nodes start."""

    @abstractmethod
    async def make_hub_streams(self) -> None:
        """As soon as the hub can."""

    @abstractmethod
    def linked(self, station: str) -> bool:
        """Whether there is a hub at the other end of the station's line."""

    @abstractmethod
    def faults(self, watch: Watch, say: Callable[[str], None]) -> Faults:
        """The faults meanwhile."""

    @abstractmethod
    def happened(self) -> list[tuple[str, str]]:
        """Facts of this kind of hub, at the end."""

    @abstractmethod
    def close(self) -> None:
        """After the nodes have ended."""


async def start(world: World, console: Console) -> None:
    for node in world.nodes:
        node.configure()
    await world.open()
    await asyncio.gather(*(start_one(node, console) for node in world.nodes))
    await world.make_hub_streams()
    await asyncio.gather(*(create_streams(leaf.url, leaf_streams(name)) for name, leaf in world.leaves.items()))


async def start_one(node: Node, console: Console) -> None:
    began = time.monotonic()
    await node.start()
    process = node.process and node.process.pid
    took = time.monotonic() - began
    console.print(f"  {node.name}: {node.program}, process {process}, up in {took:.2f} s, {node.monitoring}")


async def take_in_early(computing: Computing) -> None:
    """Spark's first run, over what is at the hub by then. It may fail when the hub is killed meanwhile: the run at the
    end goes on from its checkpoint."""
    await computing.start()
    await computing.run()


async def send_while_things_break(world: World, given: argparse.Namespace, console: Console) -> None:
    """Rows up, commands down, faults and Spark beside it, until all has arrived, been read back and computed."""
    publishers = {
        station: Publisher(f"{station}: rows", leaf.url, world.telemetry[station], given.seconds)
        for station, leaf in world.leaves.items()
    }
    senders = [
        Publisher(f"{station}: commands", world.hub_url, world.commands[station], given.seconds) for station in STATIONS
    ]
    watch = Watch(world.hub_url, world.leaves, publishers)
    screen = Screen(
        [
            Row(leaf, partial(world.linked, station), publishers[station], len(world.commands[station]))
            for station, leaf in world.leaves.items()
        ],
        world.hubs,
        watch,
        world.computing,
    )
    early = asyncio.create_task(take_in_early(world.computing))
    counting = [asyncio.create_task(watch.count())]
    counting += [asyncio.create_task(watch.count_commands(station)) for station in STATIONS]
    with Live(screen, console=console, refresh_per_second=REFRESHED_A_SECOND):
        try:
            faults = world.faults(watch, lambda line: console.print(f"  {line}"))
            screen.doing = "sending, while things break"
            await send(world, given, watch, [*publishers.values(), *senders], faults)
            screen.doing = "catching up"
            await arrive(world, watch)
            screen.doing = also("Spark takes in the rest; every row is read back", world)
            await early
            await asyncio.gather(settle_and_check(world, watch, screen), world.computing.run())
            if world.computing.wanted:
                world.checks.append(await world.computing.end())
            screen.doing = "done"
        finally:
            watch.ended = True
            for task in (early, *counting):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
            await watch.close()
            world.record = watch.record
            note_what_happened(world, [*publishers.values(), *senders])


def also(doing: str, world: World) -> str:
    """The line about Spark's work, or about what is done in its place."""
    return doing if world.computing.wanted else "every row is read back"


async def send(
    world: World, given: argparse.Namespace, watch: Watch, publishers: list[Publisher], faults: Faults
) -> None:
    """Publishes all rows and commands, with the faults, until they are acknowledged."""
    work = [publisher.run() for publisher in publishers]
    work += faults.work()
    sending = asyncio.gather(*work)
    try:
        if not await watch.until(sending.done, given.seconds + CATCH_UP_SECONDS):
            behind = [publisher.name for publisher in publishers if not publisher.done]
            raise NodeError(f"not everything was acknowledged within the time: {', '.join(behind)}")
        await sending
    finally:
        for publisher in publishers:
            publisher.give_up()
        watch.ended = watch.ended or not sending.done()
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await sending
    world.facts.append(("all rows and commands acknowledged after", f"{watch.now:.1f} s"))
    world.checks += faults.felt()


async def arrive(world: World, watch: Watch) -> None:
    """Wait until the hub has every row and each leaf its commands, or the time is up; the checks say what lacks."""
    for what, counts, wanted in (
        ("all rows at the hub", watch.at_hub, world.telemetry),
        ("all commands at their leaves", watch.at_leaf, world.commands),
    ):
        arrived = await watch.until(partial(complete, counts, wanted), CATCH_UP_SECONDS)
        world.facts.append((f"{what} after" if arrived else f"gave up waiting for {what} after", f"{watch.now:.1f} s"))


def complete(counts: dict[str, int], wanted: dict[str, list[observations.Outgoing]]) -> bool:
    return all(counts[station] >= len(wanted[station]) for station in STATIONS)


async def settle_and_check(world: World, watch: Watch, screen: Screen) -> None:
    await watch.until(lambda: False, SETTLE_SECONDS)
    await check_messages(world, screen)


def note_what_happened(world: World, publishers: list[Publisher]) -> None:
    world.facts += [(f"Spark's run {n} took", f"{s:.1f} s") for n, s in enumerate(world.computing.seconds, 1)]
    world.facts += [
        ("sent again, their acknowledgement lost", f"{sum(p.resent for p in publishers):,}"),
        ("of these stored already and recognised", f"{sum(p.duplicates for p in publishers):,}"),
        ("rows of a leaf that waited at most, while something was broken", f"{world.record.worst():,}"),
    ]
    world.facts += world.happened()
    world.facts += [(fault.label, f"from {fault.began:.1f} s to {fault.ended:.1f} s") for fault in world.record.faults]


async def check_messages(world: World, screen: Screen) -> None:
    """Read everything back with the official client and compare."""
    messages, *commands = await asyncio.gather(
        read_all(world.hub_url, "TELEMETRY"), *(read_all(leaf.url, "COMMANDS") for leaf in world.leaves.values())
    )
    screen.doing = also("every row is read back; Spark takes in the rest", world)
    for station in STATIONS:
        got = checks.arrived(messages, f"weather.{station}.")
        what = f"{station}: every row at the hub exactly once, in order"
        world.checks.append(checks.exactly_once_in_order(what, world.telemetry[station], got))
    known = sum(len(rows) for rows in world.telemetry.values())
    strays = [m for m in messages if m.subject not in {f"weather.{station}.observation" for station in STATIONS}]
    world.checks.append(
        checks.Check("nothing else in the hub's stream", not strays, f"{known:,} rows, {len(strays)} strays")
    )
    for station, held in zip(world.leaves, commands, strict=True):
        got = checks.arrived(held, "")
        what = f"{station}: every command at its leaf exactly once, in order"
        world.checks.append(checks.exactly_once_in_order(what, world.commands[station], got))


async def check_aggregates(world: World) -> None:
    wanted = observations.expected_daily(world.rows)
    if (gold := world.tables / "gold" / "observations").is_dir():
        world.daily = checks.table_aggregates(gold)
    world.checks.append(
        checks.aggregates_equal("daily aggregates in the table equal the CSV file's", wanted, world.daily)
    )
    published = checks.stream_aggregates(await read_all(world.hub_url, "DAILY"))
    what = "daily aggregates in the hub's stream equal the CSV file's"
    world.checks.append(checks.aggregates_equal(what, wanted, published))


def summary(world: World, console: Console) -> None:
    console.print()  # a live view that went to a file ends without a line feed
    table = Table(title="What was checked", title_justify="left")
    table.add_column("check")
    table.add_column("found")
    table.add_column("")
    for check in world.checks:
        table.add_row(
            check.what, check.found, "[green]passed[/green]" if check.passed else "[bold red]FAILED[/bold red]"
        )
    console.print(table)
    run = Table(title="The run", title_justify="left", show_header=False)
    for name, value in world.facts:
        run.add_row(name, value)
    console.print(run)


async def tell(world: World, given: argparse.Namespace, console: Console) -> None:
    console.print(f"[bold]Starting {world.words.scene}[/bold]")
    await start(world, console)
    console.print(
        f"[bold]Sending {observations.ROWS:,} rows and {3 * given.commands} commands "
        f"over {given.seconds:g} s, while things break[/bold]"
    )
    await send_while_things_break(world, given, console)
    if world.computing.wanted:
        await check_aggregates(world)


async def perform(world: World, given: argparse.Namespace, console: Console) -> bool:
    """The whole of it; whether all checks passed."""
    asyncio.get_running_loop().set_exception_handler(note)
    began = time.monotonic()
    try:
        try:
            await tell(world, given, console)
        except (NodeError, OSError, RuntimeError) as error:
            world.checks.append(checks.Check("the demo ran to its end", False, f"{type(error).__name__}: {error}"))
        world.facts.append(("the whole demo took", f"{time.monotonic() - began:.0f} s"))
        conclude(world, given, console)
        if given.stay:
            await stay(world, console)
    finally:
        await world.computing.kill()
        await asyncio.gather(*(node.stop() for node in world.nodes))
        world.close()
    return all(check.passed for check in world.checks)


def conclude(world: World, given: argparse.Namespace, console: Console) -> None:
    """The tables and the report; where somebody sits at a screen, the report opens."""
    report = (given.report or world.directory / "report.html").resolve()
    write_report(report, world.words, world.checks, world.facts, world.record, world.daily)
    summary(world, console)
    console.print(f"report: {report.as_uri()}", soft_wrap=True)
    screen = sys.platform == "darwin" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if console.is_terminal and screen and not given.no_open:
        webbrowser.open(report.as_uri())


async def stay(world: World, console: Console) -> None:
    """Hub and leaves go on until ^C."""
    console.print(f"[bold]They go on until ^C[/bold]; configurations and logs: {world.directory}", soft_wrap=True)
    for node in world.nodes:
        console.print(f"  {node.name}: {node.monitoring} to look at, {node.url} for clients", soft_wrap=True)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()


def common_options(parser: argparse.ArgumentParser, seconds: float, seconds_without_spark: float) -> None:
    """Adds the options of every demo."""
    parser.add_argument(
        "--no-spark",
        dest="spark",
        action="store_false",
        help="leave the Spark job out: no 450 MB to install, and it takes half the time",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        help=f"how long the stations send (default: {seconds:g}, without Spark {seconds_without_spark:g})",
    )
    parser.add_argument("--commands", type=int, default=100, help="commands for each station (default: 100)")
    parser.add_argument(
        "--seed", type=int, default=None, help="moves the faults a little (default: another one each time)"
    )
    parser.add_argument(
        "--report", type=Path, help="where to write the HTML report (default: a new temporary directory)"
    )
    parser.add_argument("--no-open", action="store_true", help="do not open the report in the browser")
    parser.add_argument("--stay", action="store_true", help="keep hub and leaves running, to be looked at, until ^C")
    parser.add_argument("--keep", action="store_true", help="keep stores, logs and tables")
    parser.set_defaults(lasting=(seconds, seconds_without_spark))


def read_options(parser: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    given = parser.parse_args(arguments)
    if given.seconds is None:
        given.seconds = given.lasting[not given.spark]
    if given.seconds <= 0 or given.commands <= 0:
        parser.error("--seconds and --commands must be positive")
    if given.seed is None:
        given.seed = random.randrange(1 << 16)
    return given


def play(make_world: Callable[[Path, argparse.Namespace], World], given: argparse.Namespace) -> int:
    """The whole of it, with what is left behind. Returns the exit status."""
    console = Console(highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="leafd-demo-"))
    try:
        world = make_world(directory, given)
    except NodeError as error:
        console.print(f"[bold red]{error}[/bold red]")
        return 2
    world.facts.append(("seed of the faults", str(given.seed)))
    passed = asyncio.run(perform(world, given, console))
    if given.keep or not passed:
        console.print(f"stores, logs and tables: {directory}", soft_wrap=True)
    else:
        for path in (*(node.directory for node in world.nodes), world.tables, directory / "spark.log"):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if given.report:
            directory.rmdir()
    console.print("[bold green]all checks passed[/bold green]" if passed else "[bold red]there are failures[/bold red]")
    return 0 if passed else 1
