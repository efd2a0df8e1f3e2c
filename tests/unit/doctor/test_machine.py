"""What the doctor makes of the daemon's figures."""

from __future__ import annotations

import pytest
from leafd.doctor import machine
from leafd.doctor.findings import Check, Finding, Level

ROOMY = {"limit": 100_000_000, "output": {"share": 1_000_000, "used": 10}}
TIGHT = {"limit": 100_000_000, "output": {"share": 1_000_000, "used": 950_000}}


@pytest.mark.parametrize(
    ("own", "check", "level", "word"),
    [
        ({"memory": ROOMY}, Check.MEMORY, Level.WELL, "limit 100 MB"),
        ({"memory": TIGHT}, Check.MEMORY, Level.WARNING, "output"),
        ({"memory": ROOMY, "longest_tick_minute_ms": 1_500.0}, Check.WATCHDOG, Level.WARNING, "1500 ms"),
        ({"memory": ROOMY, "unexpected_errors": 2}, Check.DAEMON, Level.WARNING, "2 unexpected errors"),
    ],
)
def test_memory_and_stalls_are_judged(own: dict[str, object], check: Check, level: Level, word: str) -> None:
    """A share that is nearly full, a turn of more than a second, errors that nobody foresaw."""
    found: list[Finding] = []
    machine.memory({"mem": 30_000_000, "leafd": own}, found.append)
    assert [(level, True)] == [(one.level, word in one.text) for one in found if one.check == check]


def test_a_server_that_tells_nothing_of_that_is_not_judged() -> None:
    """nats-server has no such figures."""
    found: list[Finding] = []
    machine.memory({"mem": 30_000_000}, found.append)
    machine.devices({"mem": 30_000_000}, found.append)
    assert [] == found


DEVICES = {
    "sessions": 3, "sessions_away": 1, "refused_sessions": 0, "refused_messages": 0,
    "waiting": {"messages": 5, "bytes": 500, "oldest_seconds": 60.0}, "retained": {"messages": 0, "bytes": 0},
}  # fmt: skip
OLD = {"messages": 5, "bytes": 500, "oldest_seconds": 8 * 86_400.0}


@pytest.mark.parametrize(
    ("own", "level", "word"),
    [
        ({}, Level.WELL, "3 kept, 1 of them away, 5 messages wait"),
        ({"refused_sessions": 2}, Level.WARNING, "2 clients were told"),
        ({"refused_messages": 4}, Level.WARNING, "4 messages"),
        ({"waiting": OLD}, Level.WARNING, "the oldest for 8 days"),
        ({"waiting": OLD, "sessions_away": 0}, Level.WELL, "0 of them away"),
    ],
)
def test_what_is_kept_for_devices_is_judged(own: dict[str, object], level: Level, word: str) -> None:
    """Quotas that were reached, and devices that do not come back."""
    found: list[Finding] = []
    machine.devices({"leafd": {"mqtt": DEVICES | own}}, found.append)
    assert [(Check.DEVICES, level, True)] == [(one.check, one.level, word in one.text) for one in found]


def test_damaged_records_are_a_warning() -> None:
    """The store set them aside."""
    found: list[Finding] = []
    machine.room({"store": {"corrupt_records": 3, "disk_free": 10**10}}, {}, found.append)
    assert [Level.WARNING] == [one.level for one in found if one.check == Check.STORE]
