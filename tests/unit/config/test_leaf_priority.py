"""What goes first over a leaf link and how much it may carry, as it is written and as the plane takes it."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from leafd.config.bind import load_text
from leafd.config.schema.precedence import RULES_MAX
from leafd.daemon.remotes import sending
from leafd.errors import ConfigError
from leafd.links.ledger import Calendar
from leafd.links.limits import Limits, Span

TEXT = """
leafnodes {
    port: -1
    limits: { bytes_per_second: 64KB }
    priority: { low_streams: [LOGS] }
    remotes: [ {
        url: "nats-leaf://127.0.0.1:7422"
        priority: {
            high: ["alarm.>", "door.*"]
            low: "log.>"
            high_streams: [ALARMS]
            normal_streams: [SMALL]
            low_streams: [LOGS]
        }
        limits: { bytes_per_second: 2KB }
    } ]
}
"""


def test_each_rule_is_three_words() -> None:
    """Rank, kind, name; in the order in which they count."""
    leafnodes = load_text(TEXT).server.leafnodes
    assert leafnodes is not None
    assert leafnodes.priority is not None
    assert leafnodes.limits is not None
    assert leafnodes.priority.rules == ("low", "stream", "LOGS")
    assert leafnodes.limits.bytes_per_second == 64 << 10
    remote = leafnodes.remotes[0]
    assert remote.priority is not None
    assert remote.limits is not None
    assert remote.limits.bytes_per_second == 2 << 10
    rules = remote.priority.rules
    assert [rules[at : at + 3] for at in range(0, len(rules), 3)] == [
        ("high", "subject", "alarm.>"),
        ("high", "subject", "door.*"),
        ("low", "subject", "log.>"),
        ("high", "stream", "ALARMS"),
        ("normal", "stream", "SMALL"),
        ("low", "stream", "LOGS"),
    ]


def test_there_is_a_bound() -> None:
    """More rules than the plane takes are an error of the configuration."""
    names = ", ".join(f'"s{number}"' for number in range(RULES_MAX + 1))
    with pytest.raises(ConfigError, match="256 subjects and streams"):
        load_text(f"leafnodes {{ port: -1, priority: {{ high: [{names}] }} }}")


def limits_of(text: str) -> Limits | None:
    """Of the only remote."""
    remote = "url: hub"
    leafnodes = load_text(f"leafnodes {{ remotes: [ {{ {remote}, limits {{ {text} }} }} ] }}").server.leafnodes
    assert leafnodes is not None
    return sending(None, leafnodes.remotes[0].limits)[1]


def test_a_budget_as_it_is_written() -> None:
    """Days, months that begin on a day, times of the day."""
    found = limits_of(
        """
        bytes_per_second: 2KB, bytes_per_day: 16M, bytes_per_month: 500M, month_begins: 17, time_zone: "Europe/Berlin"
        at: [ { from: "22:00", to: "5:30", days: ["mon-fri", "Sunday"], bytes_per_second: 64KB },
              { from: "06:00", to: "24:00", days: sat, only: high }, { begin: "0:00", end: "00:00", only: normal } ]
        """
    )
    assert found == Limits(
        per_second=2048,
        per_day=16_000_000,
        per_month=500_000_000,
        calendar=Calendar(ZoneInfo("Europe/Berlin"), "Europe/Berlin", 17),
        spans=(
            Span(22 * 60, 5 * 60 + 30, frozenset({0, 1, 2, 3, 4, 6}), 64 << 10, "all"),
            Span(6 * 60, 0, frozenset({5}), None, "high"),
            Span(0, 0, frozenset(), None, "normal"),
        ),
    )


def test_days_may_go_over_the_end_of_the_week() -> None:
    """From Friday to Monday."""
    found = limits_of('at: [ { from: "0:00", to: "12:00", days: "fri-mon" } ]')
    assert found is not None
    assert found.spans[0].days == {4, 5, 6, 0}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("month_begins: 0", "greater than or equal to 1"),
        ("month_begins: 32", "less than or equal to 31"),
        ("bytes_per_day: -1", "greater than or equal to 0"),
        ('bytes_per_day: "lots"', "is no size"),
        ('time_zone: "Mars/Olympus"', "'Mars/Olympus' is not known on this system"),
        ('time_zone: "../../etc/passwd"', "is not known on this system"),
        ('at: [ { from: "22:00" } ]', "needs from and to"),
        ('at: [ { from: "25:00", to: "5:00" } ]', "'25:00' is no time of the day"),
        ('at: [ { from: "22:60", to: "5:00" } ]', "'22:60' is no time of the day"),
        ('at: [ { from: 22, to: "5:00" } ]', "22 is no time of the day"),
        ('at: [ { from: "22:00", to: "5:00", days: ["someday"] } ]', "'someday' is no day of the week"),
        ('at: [ { from: "22:00", to: "5:00", days: [] } ]', "days are expected"),
        ('at: [ { from: "22:00", to: "5:00", only: bulk } ]', "'bulk' is none of all, normal, high"),
    ],
)
def test_what_is_no_budget_is_an_error_with_its_place(text: str, why: str) -> None:
    """File, line and reason."""
    with pytest.raises(ConfigError, match="1:.*" + why.replace("(", r"\(")):
        limits_of(text)
