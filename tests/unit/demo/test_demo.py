"""The demo's own checks: they find what is wrong, its cut interrupts the link, its expectations are the file's."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import re
import sys
from collections.abc import Coroutine
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nats
import pytest
from demo_job import checks, observations, plots
from demo_job.checks import Arrived
from demo_job.computing import Computing
from demo_job.nodes import Hub, Link, Node, free_port
from demo_job.observations import STATIONS, Aggregate, Outgoing
from demo_job.record import Fault, Record
from demo_job.report import Words, write_report
from demo_job.screen import Row, Screen
from demo_job.story import Plan, Watch
from demo_job.traffic import Publisher, note
from rich.console import Console

SENT = [Outgoing("s", f"id-{number}", b"%d" % number) for number in range(5)]
GOT = [Arrived(message.message_id, message.payload) for message in SENT]
DAY = Aggregate(24, 10.0, 15.0, 20.0, 50.0, 1000.0, 7.5, 0.25)


def test_all_messages_once_and_in_order_pass() -> None:
    """What arrived as it was sent is right."""
    assert checks.exactly_once_in_order("w", SENT, GOT).passed


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (GOT[:4], "1 missing (id-4)"),
        ([], "5 missing (id-0, id-1, id-2)"),
        ([*GOT, GOT[2]], "1 twice (id-2)"),
        ([GOT[0], GOT[2], GOT[1], *GOT[3:]], "1 out of order (id-1)"),
        ([*GOT[:4], Arrived("id-4", b"other")], "1 altered (id-4)"),
        ([*GOT, Arrived("id-9", b"")], "1 unknown (id-9)"),
    ],
)
def test_every_way_to_be_wrong_is_found_and_named(got: list[Arrived], said: str) -> None:
    """Missing, doubled, moved, altered and foreign messages each fail the check, with an example."""
    check = checks.exactly_once_in_order("w", SENT, got)
    assert not check.passed
    assert said in check.found


def test_a_port_of_a_node_is_none_that_an_outgoing_connection_may_get() -> None:
    """While the node is down anybody's connection could have it else, and the node would not come back."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    if (first, last) != (32_768, 60_999):
        pytest.skip("this machine's range is not Linux's own")
    found = {free_port() for _ in range(20)}
    assert [port for port in found if first <= port <= last] == []
    assert len(found) > 10


def test_aggregates_are_compared_number_by_number() -> None:
    """Sums may differ in their last digits; anything else, a missing day and no day at all fail."""
    wanted = {("JFK", "2013-01-01"): DAY, ("JFK", "2013-01-02"): dataclasses.replace(DAY, precip_sum=None)}
    nearly = wanted | {("JFK", "2013-01-01"): dataclasses.replace(DAY, temp_mean=15.000000000001)}
    assert checks.aggregates_equal("w", wanted, nearly).passed
    for wrong in (
        wanted | {("JFK", "2013-01-01"): dataclasses.replace(DAY, temp_mean=15.0001)},
        wanted | {("JFK", "2013-01-01"): dataclasses.replace(DAY, observations=23)},
        wanted | {("JFK", "2013-01-02"): DAY},
        wanted | {("JFK", "2013-01-03"): DAY},
        {("JFK", "2013-01-01"): DAY},
    ):
        assert not checks.aggregates_equal("w", wanted, wrong).passed
    assert not checks.aggregates_equal("w", {}, {}).passed


def test_a_cut_that_nobody_felt_is_a_failure() -> None:
    """If the leaf's rows found another way to the hub, or no cut took place, the demo showed nothing."""
    record = Record(times=[0.0, 1.0, 2.0, 3.0], faults=[Fault("JFK", "cut", 1.0, 3.0)])
    for backlog, passed in (([0, 0, 90, 180], True), ([0, 0, 3, 2], False), ([500, 0, 0, 0], False)):
        record.backlog["JFK"] = backlog
        assert passed == checks.cut_was_felt(record, "JFK", 1000, 10.0).passed
    assert not checks.cut_was_felt(record, "LGA", 1000, 10.0).passed


def test_expectations_come_from_the_file() -> None:
    """A day that was reckoned by hand from the file's own lines: LGA's first, of 18 hours."""
    rows = observations.read_rows()
    daily = observations.expected_daily(rows)
    own = [line.split(",") for line in observations.weather_file().read_text().splitlines()]
    temperatures = [float(r[5]) for r in own if r[0] == "LGA" and r[-1].startswith("2013-01-01")]
    found = daily["LGA", "2013-01-01"]
    assert (18, min(temperatures), max(temperatures)) == (found.observations, found.temp_min, found.temp_max)
    assert observations.ROWS == sum(day.observations for day in daily.values())
    assert set(STATIONS) == {station for station, _ in daily}


def test_messages_of_a_station_are_its_rows_in_order() -> None:
    """Every row is one message with an id of its own, and what was not measured is null."""
    rows = observations.read_rows()
    messages = [message for station in STATIONS for message in observations.telemetry(rows, station)]
    assert observations.ROWS == len(messages) == len({message.message_id for message in messages})
    assert b'"wind_gust":null' in messages[0].payload
    assert b'"temp":39.02' in messages[0].payload


def test_a_seed_names_a_plan() -> None:
    """The same seed plans the same faults, each within the sending time and the leaf's kill within the cut."""
    assert Plan.of(40, 7) == Plan.of(40, 7)
    assert Plan.of(40, 7) != Plan.of(40, 8)
    for seed in range(200):
        plan = Plan.of(40, seed)
        assert 0 < plan.cut < plan.leaf_killed < plan.joined < plan.hub_killed < 40


def test_a_cut_link_passes_nothing_until_it_is_joined() -> None:
    """Cut, the link's connections end and new ones are refused; joined, bytes pass again."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(2))
        await reader.read()
        writer.close()

    async def scenario() -> None:
        port = free_port()
        target = await asyncio.start_server(echo, "127.0.0.1", port)
        link = Link(port)
        for _ in range(2):
            await link.join()
            reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
            writer.write(b"hi")
            assert await asyncio.wait_for(reader.readexactly(2), 5) == b"hi"
            link.cut()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(1), 5)
            writer.close()
            with pytest.raises(ConnectionError):
                await asyncio.open_connection("127.0.0.1", link.port)
        target.close()

    asyncio.run(scenario())


def test_the_report_stands_alone(tmp_path: Path) -> None:
    """One well-formed file that loads nothing and holds both charts, the checks and the outages."""
    record = Record(times=[0.0, 5.0, 10.0], faults=[Fault("JFK", "JFK's link cut", 2.0, 6.0)])
    for station in STATIONS:
        record.acknowledged[station] = [0, 1_000, 2_000]
        record.backlog[station] = [0, 900, 0]
    daily = {(station, f"2013-01-0{day}"): DAY for station in STATIONS for day in (1, 2, 3)}
    found = [checks.Check("a <check>", True, "5 of 5"), checks.Check("another", False, "nothing")]
    path = tmp_path / "report.html"
    write_report(path, Words("scene", "title", "about", "broken"), found, [("fact", "value")], record, daily)
    text = path.read_text()

    opened: list[str] = []

    class Balance(HTMLParser):
        def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
            if tag not in ("meta", "rect", "line", "polygon", "polyline"):
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if tag in opened[-1:]:
                opened.pop()

    Balance().feed(text)
    assert [] == opened
    assert not re.search(r"(src|href)=|url\(|@import", text)
    panels = {f"{what} {station}" for what in ("Rows of", "Days of", "Temperatures at") for station in STATIONS}
    assert panels | {"Rain by month", "Scale of temperatures"} == set(re.findall(r'aria-label="([^"]+)"', text))
    assert 9 == text.count('class="day"')
    assert "JFK, 2013-01-02: 15 °F, 0.25 in of rain" in text
    assert text.count("900 rows wait") == 3
    assert "prefers-color-scheme:dark" in text
    assert "a &lt;check&gt;" in text
    assert "FAILED" in text
    assert 1 == text.count("JFK&#x27;s link cut")


def test_one_table_of_80_columns_shows_each_leaf_and_what_is_broken(tmp_path: Path) -> None:
    """Rows acknowledged and at the hub, what waits, commands, which process or link is down, how far Spark is."""

    async def shown() -> str:
        nodes = {name: Node(name, "leafd", tmp_path / name) for name in ("hub", *STATIONS)}
        leaves = {name: nodes[name] for name in STATIONS}
        publishers = {name: Publisher(name, leaf.url, [SENT[0]] * 9_000, 1.0) for name, leaf in leaves.items()}
        watch = Watch(nodes["hub"].url, leaves, publishers)
        computing = Computing("", tmp_path, tmp_path / "log")
        for node in nodes.values():
            node.up = node.name != "LGA"
        publishers["JFK"].acknowledged, watch.at_hub["JFK"], watch.at_leaf["EWR"] = 8_123, 4_000, 57
        linked = {"EWR": lambda: True, "JFK": lambda: False, "LGA": lambda: True}
        rows = [Row(leaf, linked[name], publishers[name], 100) for name, leaf in leaves.items()]
        screen = Screen(rows, [Hub("hub", [nodes["hub"]]), Hub("west", [nodes["EWR"], nodes["LGA"]])], watch, computing)
        screen.doing = "sending"
        console = Console(width=80, record=True, file=io.StringIO())
        console.print(screen)
        return console.export_text()

    lines = asyncio.run(shown()).splitlines()
    of = {line.split()[0]: line for line in lines if line.strip()}
    assert {"EWR", "JFK", "LGA", "hub"} <= of.keys()
    assert "57/100" in of["EWR"]
    assert all(text in of["JFK"] for text in ("link cut", "8,123", "4,000", "4,123"))
    assert "killed" in of["LGA"]
    assert "4,000" in of["hub"]
    assert "1 of 2 up" in of["west"]
    assert "not started" in of["Spark:"]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("child", "passed", "said"),
    [
        ("print('ready'); [print('done 5', flush=True) for _ in sys.stdin]", True, "2 runs in one session, 10 rows"),
        ("print('ready'); input(); print('failed no hub', flush=True); input(); print('done 7')", True, "7 rows"),
        ("print('ready'); input(); print('done 7', flush=True); input(); print('failed no hub')", False, "no hub"),
        ("print('ready'); input(); print('done 7', flush=True); sys.exit('out of memory')", False, "out of memory"),
        ("sys.exit('no java here')", False, "no java here"),
        ("print('ready'); [print('done 5', flush=True) for _ in sys.stdin]; sys.exit(3)", False, "code 3"),
    ],
)
def test_the_spark_job_is_well_only_if_its_last_run_and_its_end_are(
    child: str, passed: bool, said: str, tmp_path: Path
) -> None:
    """A first run may fail, since the hub is killed meanwhile; the last one, and the process, may not."""

    async def scenario() -> checks.Check:
        computing = Computing("", tmp_path, tmp_path / "log")
        computing.command = [sys.executable, "-uc", f"import sys; {child}"]
        await computing.start()
        for _ in range(2):
            await computing.run()
        return await computing.end()

    check = asyncio.run(scenario())
    assert passed == check.passed, check.found
    assert said in check.found


def test_a_publisher_that_nobody_answers_can_be_given_up() -> None:
    """However its client takes a cancellation, it ends soon after: ^C must end the demo."""

    async def scenario() -> None:
        heard = asyncio.Event()

        async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1000,"headers":true}\r\n')
            async for line in reader:
                if line == b"PING\r\n":
                    writer.write(b"PONG\r\n")
                if line.startswith(b"HPUB"):
                    heard.set()
            writer.close()

        port = free_port()
        server = await asyncio.start_server(deaf, "127.0.0.1", port)
        publisher = Publisher("p", f"nats://127.0.0.1:{port}", SENT, 1.0)
        running = asyncio.create_task(publisher.run())
        await asyncio.wait_for(heard.wait(), 60)
        publisher.give_up()
        await asyncio.wait_for(running, 60)
        server.close()

    asyncio.run(scenario())


def test_the_chart_of_the_run_ends_soon_after_its_last_row() -> None:
    """A minute in which Spark computes and nothing moves would leave little room for what did."""
    record = Record(times=[0.0, 5.0, 10.0, 11.0, 70.0])
    for station in STATIONS:
        record.acknowledged[station], record.backlog[station] = [0, 5, 9, 9, 9], [0, 3, 0, 0, 0]
    assert 4 == plots.eventful(record)


def test_tracebacks_of_the_client_library_s_own_tasks_are_left_out() -> None:
    """Where a broker is killed; any other complaint of asyncio is shown."""
    shown: list[str] = []

    async def ours() -> None:
        raise OSError

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.default_exception_handler = lambda context: shown.append(str(context["message"]))  # type: ignore[method-assign]
        theirs, own = loop.create_task(connect_inside()), loop.create_task(ours())
        await asyncio.wait([theirs, own])
        for task, message in ((theirs, "theirs"), (own, "ours")):
            note(loop, {"message": message, "future": task, "exception": task.exception()})
        note(loop, {"message": "a fault of theirs", "future": theirs, "exception": ValueError()})
        note(loop, {"message": "no task", "exception": OSError()})

    def connect_inside() -> Coroutine[Any, Any, Any]:
        """Nobody listens at that port."""
        return nats.connect(f"nats://127.0.0.1:{free_port()}", allow_reconnect=False, error_cb=ignored)

    async def ignored(_: Exception) -> None:
        pass

    asyncio.run(main())
    assert shown == ["ours", "a fault of theirs", "no task"]
