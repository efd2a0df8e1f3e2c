"""The demo's command line, and its order: start, send while things break, catch up, compute, check, report."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from . import checks, observations
from .nodes import HUB_DOMAIN, PROGRAMS, Link, Node, NodeError, free_port
from .observations import STATIONS
from .report import write_report
from .story import Faults, Plan, Record, Watch
from .streams import AGGREGATES_PREFIX, Counter, create_streams, hub_streams, leaf_streams, read_all
from .traffic import Publisher

CUT_STATION, KILLED_STATION = "JFK", "LGA"
CATCH_UP_SECONDS = 240.0  # nats-server may take 40 s to take up a source again, and several may follow each other
SETTLE_SECONDS = 3.0  # after the last row: time for a row too many to show up
SPARK_SECONDS = 900.0


@dataclass
class World:
    """Everything that is running, and what is known so far."""

    directory: Path
    hub: Node
    leaves: dict[str, Node]
    link: Link
    rows: list[dict[str, str]]
    telemetry: dict[str, list[observations.Outgoing]]
    commands: dict[str, list[observations.Outgoing]]
    checks: list[checks.Check] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    daily: dict[tuple[str, str], observations.Aggregate] = field(default_factory=dict)
    record: Record = field(default_factory=Record)

    @property
    def nodes(self) -> list[Node]:
        return [self.hub, *self.leaves.values()]

    @property
    def tables(self) -> Path:
        return self.directory / "tables"


def make_world(directory: Path, given: argparse.Namespace) -> World:
    hub = Node(HUB_DOMAIN, given.hub, directory / "hub", link_port=free_port())
    link = Link(hub.link_port)
    leaves = {
        station: Node(
            station,
            given.leaf,
            directory / station,
            hub_link=link.port if station == CUT_STATION else hub.link_port,
        )
        for station in STATIONS
    }
    rows = observations.read_rows()
    return World(
        directory=directory,
        hub=hub,
        leaves=leaves,
        link=link,
        rows=rows,
        telemetry={station: observations.telemetry(rows, station) for station in STATIONS},
        commands={station: observations.commands(station, given.commands) for station in STATIONS},
    )


async def start(world: World, console: Console) -> None:
    for node in world.nodes:
        node.configure()
    await world.link.join()
    for node in world.nodes:
        began = time.monotonic()
        await node.start()
        console.print(
            f"  {node.name}: {node.program}, process {node.process and node.process.pid}, "
            f"up in {time.monotonic() - began:.2f} s"
        )
    await create_streams(world.hub.url, hub_streams())
    for station, leaf in world.leaves.items():
        await create_streams(leaf.url, leaf_streams(station))


def progress_bars(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<28}"),
        BarColumn(bar_width=36),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def make_publishers(world: World, seconds: float, bars: Progress) -> tuple[dict[str, Publisher], list[Publisher]]:
    """A publisher for each station's rows, at its leaf, and one for each station's commands, at the hub."""

    def publisher(name: str, node: Node, messages: list[observations.Outgoing]) -> Publisher:
        task = bars.add_task(f"{name} acknowledged", total=len(messages))
        return Publisher(name, node.url, messages, seconds, lambda done: bars.update(task, completed=done))

    rows = {
        station: publisher(f"{station}: rows", leaf, world.telemetry[station]) for station, leaf in world.leaves.items()
    }
    return rows, [publisher(f"{station}: commands", world.hub, world.commands[station]) for station in STATIONS]


async def send_while_things_break(world: World, given: argparse.Namespace, bars: Progress) -> None:
    """Rows up, commands down, faults in between, until every row and command is acknowledged and has arrived."""
    publishers, senders = make_publishers(world, given.seconds, bars)
    at_hub = {
        station: bars.add_task(f"{station}: rows at the hub", total=len(world.telemetry[station]))
        for station in STATIONS
    }
    at_leaf = {
        station: bars.add_task(f"{station}: commands at its leaf", total=len(world.commands[station]))
        for station in STATIONS
    }
    watch = Watch(world.hub, publishers, lambda station, count: bars.update(at_hub[station], completed=count))
    faults = Faults(Plan.of(given.seconds, given.seed), watch, lambda line: bars.console.print(f"  {line}"))
    work = [publisher.run() for publisher in (*publishers.values(), *senders)]
    work += faults.all_of(world.link, CUT_STATION, world.leaves[KILLED_STATION], world.hub)
    sending = asyncio.gather(*work)
    counting = asyncio.create_task(watch.count())
    try:
        if not await watch.until(sending.done, given.seconds + CATCH_UP_SECONDS):
            behind = [p.name for p in (*publishers.values(), *senders) if not p.done]
            raise NodeError(f"not everything was acknowledged within the time: {', '.join(behind)}")
        await sending
        world.facts.append(("all rows and commands acknowledged after", f"{watch.now:.1f} s"))
        arrived = await watch.until(
            lambda: all(watch.at_hub[station] >= len(world.telemetry[station]) for station in STATIONS),
            CATCH_UP_SECONDS,
        )
        world.facts.append(("all rows at the hub after" if arrived else "gave the hub up after", f"{watch.now:.1f} s"))
        await commands_arrive(world, at_leaf, bars)
        await watch.until(lambda: False, SETTLE_SECONDS)
    finally:
        for task in (sending, counting):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        await watch.close()
        world.record = watch.record
        note_what_happened(world, [*publishers.values(), *senders])
    waiting = len(world.telemetry[CUT_STATION])
    world.checks.append(checks.cut_was_felt(watch.record, CUT_STATION, waiting, given.seconds))


def note_what_happened(world: World, publishers: list[Publisher]) -> None:
    highest = max((max(values, default=0) for values in world.record.backlog.values()), default=0)
    world.facts += [
        ("sent again, their acknowledgement lost", f"{sum(p.resent for p in publishers):,}"),
        ("of these stored already and recognised", f"{sum(p.duplicates for p in publishers):,}"),
        ("largest backlog of a leaf", f"{highest:,} rows"),
    ]
    world.facts += [(fault.label, f"from {fault.began:.1f} s to {fault.ended:.1f} s") for fault in world.record.faults]


async def commands_arrive(world: World, bar_of: dict[str, TaskID], bars: Progress) -> None:
    """Wait until each leaf's mirror has its station's commands, or the time is up; the check says which."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    counters = {station: Counter(leaf.url, "COMMANDS") for station, leaf in world.leaves.items()}
    missing = set(STATIONS)
    while missing and time.monotonic() < deadline:
        for station in sorted(missing):
            counts = await counters[station].counts() or {}
            bars.update(bar_of[station], completed=sum(counts.values()))
            if sum(counts.values()) >= len(world.commands[station]):
                missing.discard(station)
        await asyncio.sleep(0.2)
    for counter in counters.values():
        await counter.close()


async def check_messages(world: World, bars: Progress) -> None:
    """Read everything back with the official client and compare."""
    task = bars.add_task("reading the hub's rows back", total=observations.ROWS)
    messages = await read_all(world.hub.url, "TELEMETRY", lambda count: bars.update(task, completed=count))
    for station in STATIONS:
        got = checks.arrived(messages, f"weather.{station}.")
        what = f"{station}: every row at the hub exactly once, in order"
        world.checks.append(checks.exactly_once_in_order(what, world.telemetry[station], got))
    known = sum(len(rows) for rows in world.telemetry.values())
    strays = [m for m in messages if m.subject not in {f"weather.{station}.observation" for station in STATIONS}]
    world.checks.append(
        checks.Check("nothing else in the hub's stream", not strays, f"{known:,} rows, {len(strays)} strays")
    )
    for station, leaf in world.leaves.items():
        got = checks.arrived(await read_all(leaf.url, "COMMANDS"), "")
        what = f"{station}: every command at its leaf exactly once, in order"
        world.checks.append(checks.exactly_once_in_order(what, world.commands[station], got))


async def compute(world: World, bars: Progress) -> None:
    """Run the Spark job as a process of its own, as it would run on the hub."""
    task = bars.add_task("Spark: daily aggregates", total=None)
    log = world.directory / "spark.log"
    command = [
        sys.executable, "-m", "leafd.spark.jobs.daily", "--master", "local[*]",
        "--servers", world.hub.url, "--stream", "TELEMETRY", "--subject", "weather.>",
        "--tables", str(world.tables), "--publish-prefix", AGGREGATES_PREFIX,
    ]  # fmt: skip
    began = time.monotonic()
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output, env=environment)
        try:
            code = await asyncio.wait_for(process.wait(), SPARK_SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    bars.update(task, total=1, completed=1)
    world.facts.append(("the Spark job took", f"{time.monotonic() - began:.1f} s"))
    text = "ended with code 0" if code == 0 else f"code {code}; its last words: {last_line(log)}"
    world.checks.append(checks.Check("the Spark job", code == 0, text))


def last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][-300:] if lines else ""


async def check_aggregates(world: World) -> None:
    wanted = observations.expected_daily(world.rows)
    if (world.tables / "daily").is_dir():
        world.daily = checks.table_aggregates(world.tables / "daily")
    world.checks.append(
        checks.aggregates_equal("daily aggregates in the table equal the CSV file's", wanted, world.daily)
    )
    published = checks.stream_aggregates(await read_all(world.hub.url, "DAILY"))
    what = "daily aggregates in the hub's stream equal the CSV file's"
    world.checks.append(checks.aggregates_equal(what, wanted, published))


def summary(world: World, console: Console) -> None:
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
    try:
        console.print("[bold]Starting a hub and three leaves[/bold]")
        await start(world, console)
        console.print(
            f"[bold]Sending {observations.ROWS:,} rows and {3 * given.commands} commands "
            f"over {given.seconds:g} s, while things break[/bold]"
        )
        with progress_bars(console) as bars:
            await send_while_things_break(world, given, bars)
            await check_messages(world, bars)
            await compute(world, bars)
        await check_aggregates(world)
    finally:
        for node in world.nodes:
            await node.stop()
        world.link.cut()


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="deploy/demo",
        description="Three leaves and a hub, real weather rows up and commands down, a cut link and two kill -9, "
        "a Spark job over the outcome; every row checked. Exits non-zero if a check fails.",
    )
    parser.add_argument("--hub", choices=PROGRAMS, default="leafd", help="the program that is the hub (default: leafd)")
    parser.add_argument(
        "--leaf", choices=PROGRAMS, default="leafd", help="the program that is each leaf (default: leafd)"
    )
    parser.add_argument("--seconds", type=float, default=40.0, help="how long the stations send (default: 40)")
    parser.add_argument("--commands", type=int, default=100, help="commands for each station (default: 100)")
    parser.add_argument(
        "--seed", type=int, default=None, help="moves the faults a little (default: another one each time)"
    )
    parser.add_argument(
        "--report", type=Path, help="where to write the HTML report (default: a new temporary directory)"
    )
    parser.add_argument("--keep", action="store_true", help="keep stores, logs and tables")
    given = parser.parse_args(arguments)
    if given.seconds <= 0 or given.commands <= 0:
        parser.error("--seconds and --commands must be positive")
    if given.seed is None:
        given.seed = random.randrange(1 << 16)
    return given


def main(arguments: list[str] | None = None) -> int:
    given = parse(arguments)
    console = Console(highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="leafd-demo-"))
    report = given.report or directory / "report.html"
    world = make_world(directory, given)
    world.facts.append(("hub, leaves", f"{given.hub}, {given.leaf}"))
    world.facts.append(("seed of the faults", str(given.seed)))
    told = False
    try:
        asyncio.run(tell(world, given, console))
        told = True
    except (NodeError, OSError, RuntimeError) as error:
        world.checks.append(checks.Check("the demo ran to its end", False, f"{type(error).__name__}: {error}"))
    title = f"leafd demo: hub {given.hub}, leaves {given.leaf}"
    write_report(report, title, world.checks, world.facts, world.record, world.daily)
    summary(world, console)
    passed = told and all(check.passed for check in world.checks)
    console.print(f"report: {report}", soft_wrap=True)
    if given.keep or not passed:
        console.print(f"stores, logs and tables: {directory}", soft_wrap=True)
    else:
        for path in (*(node.directory for node in world.nodes), world.tables, directory / "spark.log"):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if given.report:
            directory.rmdir()
    console.print("[bold green]all checks passed[/bold green]" if passed else "[bold red]there are failures[/bold red]")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
