"""The rule that tells losses from other gaps: the one place that decides, for the planner and for the tasks.

Between two batches, or while one is read, a stream's beginning may move past messages that nobody read. Two cases:

- The stream's own rules removed them: its limits of age, number, bytes or messages a subject, a rollup, times to live
  of messages, or an acknowledgement where the retention is by interest or a work queue. The stream is doing what it
  was configured for. That is a warning with a count, whatever failOnDataLoss says.
- Nothing in the stream's configuration explains it: they were purged or deleted, or the stream was deleted,
  made anew, or restored from an older copy. That is a loss: failOnDataLoss says whether it ends the query.

The server keeps no record of why a message went, so the question is which rules can have removed it: a limit of n
messages never touches the newest n, one of age never touches a message younger than it. Where a rule can have been
the reason it is taken as the reason, so that nobody is woken for a stream that only ages.

Gaps within a stream are no loss: a message deleted before the query began leaves the same gap as one deleted a
second ago. Spark's Kafka source passes over such gaps (of compacted topics) in the same way.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from leafd_spark.ranges import DataLoss, Offset, Range, StreamState, seconds_of

LOG = logging.getLogger("leafd_spark")
CLOCK_SLACK = 2.0  # seconds; a server looks for aged messages now and then, and a cluster has several clocks
BYTES_SLACK = 0.1  # how far below its limit of bytes a stream may be that has just removed a message for it

ADVICE = "set failOnDataLoss to false to read on without them"


@dataclass(frozen=True, slots=True)
class Missing:
    """Sequences that were not read and are not there."""

    stream: str
    what: str
    rule: str  # of the stream, which may have removed them; empty: none can have
    count: int  # of sequences: an upper bound of messages

    def settle(self, fail: bool) -> None:
        """End the query with a loss that it is not to read over; otherwise leave a line in the log."""
        if self.rule:
            LOG.warning("stream %s: %s (at most %d messages): %s", self.stream, self.what, self.count, self.rule)
        elif fail:
            raise DataLoss(f"stream {self.stream}: {self.what}; {ADVICE}")
        else:
            LOG.warning("stream %s: %s; reading on, as failOnDataLoss is false", self.stream, self.what)


def rule_that_removed(gone: Range, state: StreamState, stored: str = "") -> str:
    """The stream's own rule that can have removed all of these from its beginning; empty if none can.

    `stored` is a time that they were stored at or after, if one is known.
    """
    rules = state.rules
    if rules.retention != "limits":
        return f"its retention is {rules.retention}: what was acknowledged is removed"
    if rules.own_ages:
        return "its messages may carry times to live"
    if rules.max_age and _can_have_aged(state, stored):
        return f"its max_age is {rules.max_age:g} s"
    if rules.max_messages and rules.discard_old and gone.last <= state.last - rules.max_messages:
        return f"its max_msgs is {rules.max_messages}"
    if rules.max_bytes and rules.discard_old and state.messages and _is_full(state):
        return f"its max_bytes is {rules.max_bytes}"
    # The newest message of a stream is the newest of its subject too: these two never remove it.
    if rules.max_per_subject and state.messages:
        return f"its max_msgs_per_subject is {rules.max_per_subject}"
    if rules.rollup and state.messages:
        return "a rollup may replace its messages"
    return ""


def _can_have_aged(state: StreamState, stored: str) -> bool:
    since = seconds_of(stored)
    if since is None:
        return True
    now = seconds_of(state.asked) or time.time()
    return now - since >= state.rules.max_age - CLOCK_SLACK


def _is_full(state: StreamState) -> bool:
    typical = 4 * state.bytes // state.messages
    return state.bytes >= state.rules.max_bytes - max(typical, int(BYTES_SLACK * state.rules.max_bytes))


def missing(stream: str, offset: Offset, state: StreamState | None) -> Missing | None:
    """The messages that reading on at this offset would miss; None if there are none."""
    if state is None:
        return Missing(stream, "the stream is gone", "", 0)
    if offset.created != state.created:
        what = f"the stream was made anew at {state.created}; the offset is of the one made at {offset.created}"
        return Missing(stream, what, "", 0)
    if offset.next < state.first:
        gone = Range(offset.next, state.first - 1)
        what = f"messages {gone.first} to {gone.last} are gone: the stream now begins at {state.first}"
        return Missing(stream, what, rule_that_removed(gone, state, offset.stored), len(gone))
    if offset.next > state.last + 1:
        what = (
            f"the stream ends at {state.last}, but was read to {offset.next - 1}: was it restored from an older copy?"
        )
        return Missing(stream, what, "", 0)
    return None


def resume(offset: Offset, state: StreamState) -> Offset:
    """The offset at which reading goes on, whatever is missing; the same offset where nothing is."""
    if offset.created != state.created:
        return Offset(state.created, state.first)
    if offset.next < state.first:
        return Offset(state.created, state.first, offset.stored)
    if offset.next > state.last + 1:
        # What the older copy holds has been read: only what comes from now on is new.
        return Offset(state.created, state.last + 1)
    return offset
