"""The log in systemd's journal: journald's side of the socket is played here; a real one is in tests/packaging."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leafd import native_types as t
from leafd.daemon.alarms import Alarms
from leafd.host import journal
from leafd.host.log import Log

from tests.rig.waiting import PATIENCE_S
from tests.servers import free_port

PROGRAM = """
import os, sys
from leafd.host import journal
from leafd.__main__ import main
found = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}"
journal.PLACE = sys.argv.pop(1)
sys.exit(main())
"""


@pytest.fixture
def journald(tmp_path: Path) -> Iterator[socket.socket]:
    """Whom entries are sent to."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "journal"))
        heard.settimeout(PATIENCE_S)
        yield heard


@pytest.fixture
def log(tmp_path: Path, journald: socket.socket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """A log whose standard error is that journal."""
    with (tmp_path / "stderr").open("w", encoding="utf-8") as output:
        found = os.fstat(output.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        monkeypatch.setattr(journal, "STANDARD_ERROR", output.fileno())
        monkeypatch.setattr(sys, "stderr", output)
        monkeypatch.setattr(journal, "PLACE", str(tmp_path / "journal"))
        made = Log()
        yield made
        made.close()


def entry(heard: socket.socket) -> dict[str, str]:
    """The next entry's fields."""
    text = heard.recv(1 << 20).decode()
    assert text.endswith("\n")
    return dict(line.split("=", 1) for line in text.splitlines())  # (a dict: each field once)


def test_a_line_is_an_entry_with_fields(log: Log, journald: socket.socket) -> None:
    """Text, priority, the place in the code, and what the line is about; nothing twice that journald knows itself."""
    log.warning("the link is down", event="link_down", account="A", stream="")
    found = entry(journald)
    assert {
        "MESSAGE": "the link is down",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "leafd",
        "CODE_FILE": __file__,
        "CODE_FUNC": "test_a_line_is_an_entry_with_fields",
        "LEAFD_EVENT": "link_down",
        "LEAFD_ACCOUNT": "A",
    } == {name: value for name, value in found.items() if name != "CODE_LINE"}
    assert "link_down" in Path(__file__).read_text().splitlines()[int(found["CODE_LINE"]) - 1]


def test_priorities_are_those_of_syslog(log: Log, journald: socket.socket) -> None:
    """`journalctl -p err` shows errors and what ended a start."""
    log.debug_on = log.trace_on = True
    for write in (log.fatal, log.error, log.warning, log.info, log.debug, log.trace):
        write("x")
    found = [entry(journald) for _ in range(6)]
    assert ["2", "3", "4", "6", "7", "7"] == [one["PRIORITY"] for one in found]
    assert {"test_priorities_are_those_of_syslog"} == {one["CODE_FUNC"] for one in found}


def test_a_name_forges_no_field(log: Log, journald: socket.socket) -> None:
    """Whatever a client or an account calls itself stays within its field."""
    log.error("a\nPRIORITY=0\n", account="b\nLEAFD_EVENT=x\udcff")
    found = entry(journald)
    assert (r"a\nPRIORITY=0\n", r"b\nLEAFD_EVENT=x\xff", "3") == (
        found["MESSAGE"],
        found["LEAFD_ACCOUNT"],
        found["PRIORITY"],
    )
    assert "LEAFD_EVENT" not in found


def test_a_long_line_is_cut_and_arrives(log: Log, journald: socket.socket) -> None:
    """No text is too large for an entry, also one of characters that are all written as escapes."""
    for text in ("x" * 1_000_000, "\U000e0001" * 1_000_000):
        log.error(text)
        assert entry(journald)["MESSAGE"].endswith("more characters)")


def test_a_journald_that_hangs_holds_nobody_up(log: Log, journald: socket.socket) -> None:
    """Lines that it does not take are left out at once, and counted in the next entry that it takes."""
    log.debug_on = True
    for number in range(5_000):
        log.debug(f"line {number}")
    journald.setblocking(False)
    taken = 0
    try:
        while True:
            entry(journald)
            taken += 1
    except BlockingIOError:
        pass
    assert 0 < taken < 5_000
    log.debug("at last")
    assert f"{5_000 - taken} lines were lost: journald did not take them in time" == entry(journald)["MESSAGE"]
    assert "at last" == entry(journald)["MESSAGE"]


def test_without_journald_lines_go_to_standard_error(log: Log, journald: socket.socket, tmp_path: Path) -> None:
    """They begin with their priority, as systemd reads it; when journald is back they are entries again."""
    (tmp_path / "journal").rename(tmp_path / "away")
    log.error("nobody there", event="x")
    said = (tmp_path / "stderr").read_text()
    assert said.startswith("<3>[")
    assert said.endswith("[ERR] nobody there\n")
    (tmp_path / "away").rename(tmp_path / "journal")
    log.error("back")
    assert ("back", said) == (entry(journald)["MESSAGE"], (tmp_path / "stderr").read_text())


@pytest.mark.usefixtures("log")
def test_other_outputs_are_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log file, and a standard error that is not the journal's, have nats-server's lines under systemd, too."""
    filed = Log(str(tmp_path / "log"))
    filed.warning("to a file", event="x")
    filed.close()
    assert (tmp_path / "log").read_text().endswith("[WRN] to a file\n")
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    Log().warning("to a pipe", event="x")
    said = capsys.readouterr().err
    assert said.startswith("[")
    assert said.endswith("[WRN] to a pipe\n")


@pytest.mark.parametrize(
    ("code", "event", "stream"),
    [
        (t.AlarmCode.CORRUPT, "store_corrupt", "S"),
        (t.AlarmCode.DISK_FULL, "store_disk_full", "S"),
        (t.AlarmCode.MEMORY, "store_memory", "S"),
        (t.AlarmCode.SLOW, "slow_consumer", None),
        (t.AlarmCode.INPUT, "input_refused", None),
        (t.AlarmCode.COMMAND, "command_failed", None),
    ],
)
def test_an_alarm_names_a_stream_only_where_it_is_about_one(
    log: Log, journald: socket.socket, code: int, event: str, stream: str | None
) -> None:
    """A connection and a command have numbers, too, and streams that happen to have the same are left alone."""
    jetstream: Any = SimpleNamespace(named=lambda number: {"stream": "S", "account": "A"}, alarm=lambda event: None)
    current: Any = None
    Alarms(log, jetstream, current, str).tell(t.Alarm(code, 1, 0, "text"))
    found = entry(journald)
    assert (event, stream) == (found["LEAFD_EVENT"], found.get("LEAFD_STREAM"))
    assert ("1 - text" if code in (t.AlarmCode.SLOW, t.AlarmCode.INPUT) else "text") == found["MESSAGE"]


def test_a_wrong_configuration_is_an_error_in_the_journal(tmp_path: Path) -> None:
    """It is told before there is a log, and `journalctl -p err` shows it all the same."""
    (tmp_path / "box.conf").write_text("prot: 1\nprt: 2\n")
    with (tmp_path / "log").open("wb") as output:
        words = [sys.executable, "-c", PROGRAM, str(tmp_path / "journal"), "-c", str(tmp_path / "box.conf")]
        assert 1 == subprocess.run(words, stderr=output, timeout=PATIENCE_S).returncode
    said = (tmp_path / "log").read_text().splitlines()
    assert [2, 2] == [len(said), sum(line.startswith("<3>leafd: ") for line in said)]


def test_a_daemon_tells_the_journal_what_happens(tmp_path: Path, journald: socket.socket) -> None:
    """Its start, a reload that is refused, a link that fails and its end can be found by LEAFD_EVENT."""
    file = tmp_path / "box.conf"
    file.write_text(f"port: {free_port()}\nleafnodes {{ remotes: [ {{ url: 'nats://127.0.0.1:{free_port()}' }} ] }}\n")
    with (tmp_path / "log").open("wb") as output:
        daemon = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "journal"), "-c", str(file)], stderr=output
        )
    found: list[dict[str, str]] = []

    def until(event: str) -> dict[str, str]:
        while not any(one.get("LEAFD_EVENT") == event for one in found):
            found.append(entry(journald))
        return next(one for one in found if one.get("LEAFD_EVENT") == event)

    try:
        until("ready")
        assert "$G" == until("link_failed")["LEAFD_ACCOUNT"]
        file.write_text("prot: 1")
        daemon.send_signal(signal.SIGHUP)
        assert "unknown field" in until("reload_refused")["MESSAGE"]
    finally:
        daemon.send_signal(signal.SIGTERM)
    until("stopped")
    assert 0 == daemon.wait(PATIENCE_S)
    assert "" == (tmp_path / "log").read_text(), "nothing is told twice"
