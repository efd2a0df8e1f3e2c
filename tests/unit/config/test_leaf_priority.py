"""What goes first over a leaf link, as it is written and as the plane takes it."""

from __future__ import annotations

import pytest
from leafd.config.bind import load_text
from leafd.config.schema.precedence import RULES_MAX
from leafd.errors import ConfigError

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
    assert leafnodes is not None and leafnodes.priority is not None and leafnodes.limits is not None
    assert leafnodes.priority.rules == ("low", "stream", "LOGS")
    assert leafnodes.limits.bytes_per_second == 64 << 10
    remote = leafnodes.remotes[0]
    assert remote.priority is not None and remote.limits is not None
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
