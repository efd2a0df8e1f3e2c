"""The measuring itself: the load generator against the reference server, and what the table says about a figure."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.bench import bench_wear, devices_report, fleet
from tests.bench.report import Measured, as_json, table
from tests.bench.rows import DEFAULT, LEAFD, Goal, Row, core, publish, request
from tests.bench.simulated import simulated
from tests.bench.wide import WIDE_ROWS
from tests.servers import KINDS

WIDE = {row.name: row for row in WIDE_ROWS}


def test_the_load_generator_measures_the_reference_server() -> None:
    """Each figure of a core, a request and a JetStream run is there and positive, and all that was sent arrived."""
    with core(DEFAULT, True) as once:
        figures = once()
    assert figures["rate"] > 0
    assert figures["cpu_us"] > 0
    assert figures["peak_mb"] > 0
    with request(DEFAULT, True) as once:
        figures = once()
    assert 0 < figures["p50_us"] <= figures["p99_us"]
    with publish(2, 10, 2_000, 1_000)(DEFAULT, True) as once:
        assert once()["rate"] > 0


@pytest.mark.parametrize(
    ("kind", "login", "secure"),
    [(kind, "open", False) for kind in KINDS]
    + [(kind, "jwt", True) for kind in KINDS]
    + [("leafd", "nkey", True), ("leafd", "bcrypt", False)],
)
def test_simulated_boxes_are_whole_after_their_hub_has_died(kind: str, login: str, secure: bool) -> None:
    """Each of five boxes has one consumer made anew, and is told at least where answer and deliveries are wanted; also
    where boxes and people have to say who they are, and over TLS."""
    figures = fleet.storm(kind, 5, fleet.Way(subscriptions=1, login=login, tls=secure))
    assert figures["consumers"] == 5
    assert figures["told"] >= 5 * 2
    assert 0 < figures["linked s"] <= figures["running s"]
    assert 0 < figures["whole s"]


def test_a_simulated_box_answers_a_request_that_comes_from_another_cluster() -> None:
    """Such a request wants its answer under a name of gateways, of which its hub tells once, as every hub does."""
    name = b"_GR_.aaaaaa.bbbbbb.$JSC.R.x"
    with socket.create_server(("127.0.0.1", 0)) as hub, simulated(hub.getsockname()[1], 1, messages=3):
        connection, _ = hub.accept()
        with connection, connection.makefile("rb") as lines:
            connection.settimeout(30)
            connection.sendall(b"INFO {}\r\n")
            assert lines.readline().startswith(b"CONNECT ")
            asked = b"LMSG $JS.box-0.API.STREAM.INFO.T " + name + b" 0\r\n\r\n"
            connection.sendall(b'INFO {"connect_info":true}\r\nLS+ _GR_.>\r\n' + asked)
            answer = next(line for line in lines if line.startswith(b"LMSG "))
            assert answer.split()[1] == name
            assert b'"messages":3' in lines.read(int(answer.split()[2]))


@pytest.mark.parametrize("hubs", [1, 2])
def test_what_boxes_have_is_stored_and_its_processor_time_is_said_by_thread(hubs: int) -> None:
    """On one hub, and on two that have half of the boxes each."""
    figures = fleet.storing("leafd", 4, fleet.Way(isolate=True, hubs=hubs))
    assert figures["messages/s"] > 0
    assert all(figures[f"leafd-{name} CPU us"] > 0 for name in ("plane", "keeper"))


def test_every_answer_is_timed_and_every_message_is_stored() -> None:
    """A key that is put and one that is got count when the answer is none of an error."""
    with WIDE["kv-get"].opened(DEFAULT, True) as once:
        figures = once()
    assert figures["rate"] > 0
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["p999_us"]


def measured(ours: float, theirs: float, goal: Goal) -> Measured:
    row = Row("row", "what is measured", (LEAFD, DEFAULT), (goal,), core)
    return Measured(row, [[{"rate": ours}] * 3, [{"rate": theirs}] * 3])


def test_a_figure_that_is_not_reached_stays_in_the_table() -> None:
    """The table shows both medians, the ratio and whether it is reached, in either direction."""
    at_least = Goal("rate", "msgs/s", 1.5)
    at_most = Goal("rate", "us", 0.5, at_most=True)
    assert "| 2.00  | at least 1.5 | yes     |" in table([measured(20, 10, at_least)])
    assert "| 1.00  | at least 1.5 | NO      |" in table([measured(10, 10, at_least)])
    assert "| 0.40  | at most 0.5 | yes     |" in table([measured(4, 10, at_most)])
    assert "| 0.60  | at most 0.5 | NO      |" in table([measured(6, 10, at_most)])


def test_a_row_that_could_not_be_measured_says_so() -> None:
    """A failure is a line of the table, not a missing row."""
    broken = measured(1, 1, Goal("rate", "msgs/s", 1.5))
    broken.rounds = [[], []]
    broken.failure = "RuntimeError: no answer"
    assert "failed: RuntimeError: no answer" in table([broken])
    assert "?" in table([broken])
    rows = as_json([broken])["rows"]
    assert isinstance(rows, dict)
    assert rows["row"]["failure"] == "RuntimeError: no answer"


def test_messages_in_flight_share_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the guide says of flash wear: alone a message takes a block of 4 KiB, in company a fraction of one."""
    monkeypatch.setattr(bench_wear, "SETTLE_SECONDS", 0.5)
    alone = bench_wear.measure(bench_wear.Load(30, 128, 0, 1), tmp_path)
    if not alone:
        pytest.skip("nothing is written to the disk from here: a tmpfs")
    assert alone >= 4096
    assert bench_wear.measure(bench_wear.Load(1_500, 128, 0, 50), tmp_path) < alone / 2


def test_a_row_of_devices_says_how_far_it_meets_its_goals() -> None:
    """Medians of the rounds; the better one of the others counts, and the table for nothing."""
    found = {
        ("fan-in", "leafd"): [{"rate": rate, "cpu_us": 1.0, "memory_mb": 30.0} for rate in (1.0, 130.0, 140.0)],
        ("fan-in", "nats-server"): [{"rate": 100.0, "cpu_us": 4.0, "memory_mb": 30.0}],
        ("fan-in", "mosquitto"): [{"rate": 50.0, "cpu_us": 1.0, "memory_mb": 10.0}],
        ("fan-in", "table"): [{"rate": 900.0, "cpu_us": 0.1, "memory_mb": 0.1}],
    }
    lines = devices_report.report(["fan-in"], ["leafd", "nats-server", "mosquitto", "table"], found).splitlines()
    assert [
        "| fan-in | rate | 130 / 100 / 50.00 / 900 | 3 | 1.30 of 1.3: met |",
        "| fan-in | cpu_us | 1.00 / 4.00 / 1.00 / 0.10 | 3 | 1.00 of 0.5 |",
        "| fan-in | memory_mb | 30.00 / 30.00 / 10.00 / 0.10 | 3 | nats-server: 1.00 of 1.0: met, "
        "mosquitto: 3.00 of 1.5 |",
    ] == lines[2:]
