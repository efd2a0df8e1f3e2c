"""What is a loss and what a stream's own rules explain: no false alarm, and no purge taken for ageing."""

from __future__ import annotations

import logging

import pytest
from leafd_spark.ranges import DataLoss, Offset, Range, Rules, StreamState
from leafd_spark.source.losses import missing, resume, rule_that_removed

NONE = Rules()
MADE = "2026-11-21T05:59:01.264723709Z"


def state(first: int = 1, last: int = 100, rules: Rules = NONE, size: int = 0, messages: int = -1) -> StreamState:
    count = last - first + 1 if messages < 0 else messages
    asked = "2026-11-21T12:00:00Z"
    return StreamState(MADE, first, last, count, size, True, rules, first_time="", last_time="", asked=asked)


def what(offset: Offset, found: StreamState) -> str:
    gone = missing("S", offset, found)
    return "" if gone is None else gone.what


def test_losses_are_noticed() -> None:
    """Missing messages, a stream made anew and a stream set back each have a reason; reading on has none."""
    assert "" == what(Offset(MADE, 50), state(first=50))
    assert "" == what(Offset(MADE, 101), state())
    assert "50 to 59 are gone" in what(Offset(MADE, 50), state(first=60))
    assert "made anew" in what(Offset("earlier", 50), state())
    assert "restored" in what(Offset(MADE, 150), state())


def test_reading_goes_on_at_the_first_message_that_was_not_read() -> None:
    """After a loss that is tolerated nothing that is there is skipped, and nothing that was read is read again."""
    assert Offset(MADE, 60) == resume(Offset(MADE, 50), state(first=60))
    assert Offset(MADE, 1) == resume(Offset("earlier", 50), state())
    assert Offset(MADE, 50) == resume(Offset(MADE, 50), state())
    assert Offset(MADE, 101) == resume(Offset(MADE, 150), state())


@pytest.mark.parametrize(
    ("rules", "found", "stored", "explained"),
    [
        (Rules(), {}, "", False),
        (Rules(retention="workqueue"), {}, "", True),
        (Rules(retention="interest"), {}, "", True),
        (Rules(max_messages=51), {}, "", True),
        # A limit of 52 would have kept 49..100, so it cannot have removed 49.
        (Rules(max_messages=52), {}, "", False),
        (Rules(max_messages=51, discard_old=False), {}, "", False),
        (Rules(max_bytes=1000), {"size": 950}, "", True),
        (Rules(max_bytes=1000), {"size": 300}, "", False),
        (Rules(max_per_subject=1), {}, "", True),
        # The newest message is the newest of its subject.
        (Rules(max_per_subject=1), {"messages": 0}, "", False),
        (Rules(max_age=3600), {}, "", True),
        (Rules(max_age=3600), {}, "2026-11-21T10:00:00.5Z", True),
        # Stored ten minutes ago at the earliest: an hour has not passed.
        (Rules(max_age=3600), {}, "2026-11-21T11:50:00Z", False),
        (Rules(own_ages=True), {}, "", True),
        (Rules(rollup=True), {}, "", True),
    ],
)
def test_a_rule_explains_what_it_can_have_removed(
    rules: Rules, found: dict[str, int], stored: str, explained: bool
) -> None:
    """Of a stream 1..100 that begins at 50 now, each rule explains what it can have done and nothing else."""
    now = state(first=50, rules=rules, **found)
    assert explained == bool(rule_that_removed(Range(10, 49), now, stored))


def test_what_a_rule_removed_is_a_warning_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever failOnDataLoss says: the query goes on, and the log says how many went and why."""
    gone = missing("S", Offset(MADE, 10), state(first=50, rules=Rules(max_messages=51)))
    assert gone is not None
    with caplog.at_level(logging.WARNING):
        gone.settle(fail=True)
    assert "at most 40 messages" in caplog.text
    assert "max_msgs is 51" in caplog.text


def test_a_purge_ends_the_query_if_it_is_to(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss it is an error that says how to read on, without it a line in the log."""
    gone = missing("S", Offset(MADE, 10), state(first=50))
    assert gone is not None
    with pytest.raises(DataLoss, match="failOnDataLoss"):
        gone.settle(fail=True)
    with caplog.at_level(logging.WARNING):
        gone.settle(fail=False)
    assert "10 to 49 are gone" in caplog.text
