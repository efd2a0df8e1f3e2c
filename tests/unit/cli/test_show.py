"""What the commands make of pages and rows, without a daemon: problems, units, and names that want to be markup."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tomllib
from typing import Final

import pytest
from leafd.cli.tables import ago, as_json, show, size
from leafd.cli.views import ROWS_MAX, tell_status
from leafd.doctor.copies import old_origins
from leafd.doctor.findings import Check, Finding, Level
from leafd.status import status

from tests.unit import logged


@pytest.mark.parametrize(
    ("leafd", "store", "problem"),
    [
        ({}, {"refusing": ["file"]}, "publishes to file streams are refused: no room"),
        ({}, {"corrupt_records": 2}, "2 records or pages of the store were damaged"),
        ({"passed_over": ["stream T of account A was put back"]}, {}, "stream T of account A was put back"),
        ({"expiring_certificates": ["a.pem expires in 3 days"]}, {}, "a.pem expires in 3 days"),
        (
            {"open_listeners": ["leaf nodes at 0.0.0.0:7422 need no login"]},
            {},
            "ANYBODY IS LET IN: leaf nodes at 0.0.0.0",
        ),
        ({"unexpected_errors": 1}, {}, "1 unexpected errors since the start"),
    ],
)
def test_what_needs_attention_is_a_problem(leafd: dict[str, object], store: dict[str, object], problem: str) -> None:
    """A full disk, damaged records, a certificate that expires, an error that nobody foresaw."""
    (found,) = status({"leafd": leafd, "store": store}, {}, {}).problems
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("source", "problems"),
    [
        ({"name": "S", "lag": 5, "active": 1_000_000_000}, []),
        ({"name": "S", "lag": 5, "active": -1}, ["mirror S of stream M is not followed: never heard of"]),
        ({"name": "S", "lag": 0, "active": 90_000_000_000}, ["mirror S of stream M is not followed: silent for 90 s"]),
        (
            {"name": "S", "lag": 0, "active": 1, "error": {"description": "no such stream"}},
            ["mirror S of stream M is not followed: no such stream"],
        ),
    ],
)
def test_a_mirror_that_lost_its_origin_is_a_problem_and_one_that_is_behind_is_none(
    source: dict[str, object], problems: list[str]
) -> None:
    """What catches up needs nobody's attention."""
    page = {"account_details": [{"name": "$G", "stream_detail": [{"name": "M", "mirror": source}]}]}
    assert list(status({}, {}, page).problems) == problems


def test_an_origin_that_was_put_back_needs_attention_for_a_day() -> None:
    """Where its copy is; the doctor says it there as well."""

    def told(seconds: int) -> list[str]:
        source = {"name": "S", "lag": 0, "active": 1, "leafd": {"behind": 0, "put_back": seconds * 10**9}}
        page = {"account_details": [{"name": "$G", "stream_detail": [{"name": "M", "sources": [source]}]}]}
        found: list[Finding] = []
        old_origins(page, found.append)
        problems = list(status({}, {}, page).problems)
        assert problems == [one.text for one in found]
        assert {(one.check, one.level) for one in found} <= {(Check.ORIGIN_OLD, Level.WARNING)}
        return problems

    (problem,) = told(23 * 3600)
    assert problem.startswith("source S of stream M: its origin was put back to an older copy of its store")
    assert "1,380 min ago" in problem
    assert told(25 * 3600) == []


@pytest.mark.parametrize("up", [True, False])
def test_what_waits_for_a_budget_is_a_problem_with_the_time_of_its_end(up: bool) -> None:
    """Of a link that is up, and of one that is down and will have to wait when it is back."""
    day = {"limit": 1000, "used": 960, "left": 40, "anew": "2026-11-27T00:00:00+01:00", "anew_in": 5_000_000_000}
    month = {**day, "limit": 10_000}
    told = {"day": day, "month": month, "goes": "high", "bytes_per_second": None, "waiting": 7}
    measured = {"waiting": 0, "unacknowledged": 0, "budget": told}
    leafz = {"leafs": [{"name": "hub", "is_spoke": True, "account": "A", "leafd": measured}]} if up else {}
    remote = {"account": "A", "urls": ["hub"], "connected": up, "error": "", "budget": told}
    found = status({"leafd": {"remotes": [remote]}}, leafz, {})
    (link,) = found.links
    assert [(one.period, one.left, one.anew_s) for one in link.budgets] == [("day", 40, 5.0), ("month", 40, 5.0)]
    assert found.problems[-1] == (
        "link to hub (account A): 96 % of the day's budget are used: all waits but what is urgent or has priority, "
        "until 2026-11-27T00:00:00+01:00 at the latest"
    )


def test_an_account_that_has_stored_nearly_all_that_it_may_is_a_problem() -> None:
    """From 80 % on; no limit is a number beyond all others, and a daemon that tells none is well."""
    accounts = [
        {"name": "A", "storage": 801, "reserved_storage": 1000, "memory": 5, "reserved_memory": (1 << 64) - 1},
        {"name": "B", "storage": 800, "reserved_storage": 1000, "memory": 10, "reserved_memory": 10},
        {"name": "C"},
    ]
    found = status({}, {}, {"account_details": accounts}).problems
    assert ["account A has stored 80 %", "account B has stored 100 %"] == [one.split(" of ")[0] for one in found]
    assert ["max_file", "max_mem"] == [one.split()[-1] for one in found]


def test_a_hub_of_a_thousand_boxes_is_shown_at_a_glance(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that need somebody most stand first, and how many are left out is said; --all shows them."""
    leafs = [
        {"name": f"box-{number}", "account": "A", "leafd": {"waiting": number, "unacknowledged": 0}}
        for number in range(1000)
    ]
    sources = [
        {"name": f"T{number}", "lag": number, "active": -1 if number % 5 == 2 else 1, "leafd": {"behind": number}}
        for number in range(1000)
    ]
    jsz = {"account_details": [{"name": "A", "stream_detail": [{"name": "ALL", "sources": sources}]}]}
    found = status({}, {"leafs": leafs}, jsz)
    tell_status(found)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 5 * ROWS_MAX
    names = [line.split()[0] for line in lines if line.startswith("box-")]
    assert names[:ROWS_MAX] == [f"box-{number}" for number in range(999, 999 - ROWS_MAX, -1)]
    assert "... and 970 more links: leafd status --all" in lines
    copied = [line.split() for line in lines if line.startswith("ALL ")]
    assert [words[2] for words in copied] == [f"T{number}" for number in range(997, 997 - 5 * ROWS_MAX, -5)]
    assert "... and 970 more mirrors and sources: leafd status --all" in lines
    assert lines[-1] == "... and 170 more things that need attention: leafd status --all"
    tell_status(found, None)
    shown = capsys.readouterr().out
    assert not [
        one for one in (*(f"box-{n} " for n in range(1000)), *(f"T{n} " for n in range(1000))) if one not in shown
    ]


def test_names_of_clients_are_text_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the table's own markup nor a terminal's control characters come through."""
    show("", ("stream", ">messages"), [("[red]a[/red]", 12_345), ("b\x1b[2J", 0)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["stream", "messages"],
        ["[red]a[/red]", "12,345"],
        ["b\\x1b[2J", "0"],
    ]


def test_sizes_and_times_are_in_units_that_people_read() -> None:
    """Three digits at most before the point."""
    assert [size(one) for one in (0, 999, 1000, 123_456, 5_000_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "123 kB",
        "5.0 GB",
    ]
    assert [ago(one) for one in (None, 0.2, 5, 300, 7_200, 400_000)] == ["never", "now", "5 s", "5 min", "2 h", "5 d"]


def test_json_has_the_names_of_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """One document, whose members programs can rely on."""
    as_json(status({"server_name": "box"}, {}, {}))
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], found["links"], found["problems"]) == ("box", [], [])


WIDE: Final = (
    "Links",
    ("to", "account", "address", "state", ">in", ">out"),
    [("hub", "$G", "192.0.2.17:7422", "down: the certificate of the hub has expired, on 2026-11-20", "1.2 MB", "0 B")],
)


def on_a_screen(columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of that table on a screen so wide, without colours."""
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    show(*WIDE)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in screen.getvalue().splitlines()]


def test_a_row_in_a_pipe_is_one_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    """So that grep and awk find what belongs together."""
    show(*WIDE)
    assert 3 == len(capsys.readouterr().out.splitlines())


def test_on_a_wide_screen_a_row_is_a_line_and_on_a_narrower_one_its_longest_words_are_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert 3 == len(on_a_screen(140, monkeypatch))
    folded = on_a_screen(100, monkeypatch)
    assert 4 == len(folded)
    assert max(map(len, folded)) <= 100
    assert folded[2].split()[:3] == ["hub", "$G", "192.0.2.17:7422"]
    assert folded[2].endswith("0 B")


def test_where_a_table_does_not_fit_at_all_each_row_is_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name, number or address is ever cut into pieces."""
    lines = on_a_screen(60, monkeypatch)
    assert ["Links", "hub", "  account  $G", "  address  192.0.2.17:7422"] == lines[:4]
    assert max(map(len, lines)) <= 60
    assert "expired" in " ".join(lines)
    assert "  in       1.2 MB" in lines


def test_tables_and_progress_load_nothing_that_the_packages_leave_out() -> None:
    """package.toml names libraries that rich asks for and the packages have not: no command may need them."""
    said = tomllib.loads((logged.ROOT / "packaging" / "package.toml").read_text())
    modules = {"Pygments": "pygments", "markdown-it-py": "markdown_it", "mdurl": "mdurl"}
    assert said["left_out"] == list(modules)
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({list(modules.values())}))\n"  # None: an import of it fails
        "from leafd.cli.progress import bar\n"
        "from leafd.cli.tables import show\n"
        "show('streams', ('name', '>size'), [('A', 1)])\n"
        "with bar(shown=True) as tell:\n"
        "    tell('reading', 1, 2)\n"
    )
    terminal, end = os.openpty()  # what is no terminal gets no bar
    line, environment = [sys.executable, "-c", code], {**os.environ, "TERM": "xterm"}
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=end, text=True, timeout=60, env=environment)
    shown = os.read(terminal, 65536).decode()
    os.close(end)
    os.close(terminal)
    assert (done.returncode, "streams" in done.stdout, "reading" in shown) == (0, True, True), shown
