"""Streams' states, offsets within them, and ranges: which sequences a batch reads, and how they are dealt out to tasks.

Pure: the answers of STREAM.INFO go in, offsets and ranges come out. What has been lost is `losses`, a query's offset
over several streams `offsets`; `planner` asks the server.

An offset names the next sequence to read, and the incarnation of the stream by its creation time: a stream
that was deleted and made anew counts from 1 again, and reading on at the old offset would skip its messages
without a word. A range counts sequences, not messages: deleted messages leave gaps, so a range of n
sequences holds at most n rows, which is what a limit promises.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


class DataLoss(Exception):
    """Messages that should have been read are gone."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a stream's configuration that remove messages by themselves; 0 is no limit."""

    retention: str = "limits"
    discard_old: bool = True
    max_age: float = 0  # seconds
    max_messages: int = 0
    max_bytes: int = 0
    max_per_subject: int = 0
    rollup: bool = False
    own_ages: bool = False  # messages may carry a time to live

    @staticmethod
    def of(config: Mapping[str, Any]) -> Rules:
        """From a stream's configuration; what its server does not know is missing in it."""
        per_subject = max(0, int(config.get("max_msgs_per_subject", 0)))
        return Rules(
            retention=str(config.get("retention", "limits")),
            discard_old=config.get("discard", "old") == "old",
            max_age=int(config.get("max_age", 0)) / 1e9,
            max_messages=max(0, int(config.get("max_msgs", 0))),
            max_bytes=max(0, int(config.get("max_bytes", 0))),
            max_per_subject=0 if config.get("discard_new_per_subject") else per_subject,
            rollup=bool(config.get("allow_rollup_hdrs", False)),
            own_ages=bool(config.get("allow_msg_ttl", False)),
        )


@dataclass(frozen=True, slots=True)
class StreamState:
    """The facts about a stream that planning needs."""

    created: str
    first: int  # of an empty stream: one more than last
    last: int
    messages: int
    bytes: int
    allows_direct: bool
    rules: Rules = Rules()
    first_time: str = ""  # when the first and the last message were stored; of an empty stream nothing of use
    last_time: str = ""
    asked: str = ""  # the server's clock when it answered

    @staticmethod
    def of(info: Mapping[str, Any]) -> StreamState:
        """From the answer of STREAM.INFO."""
        state, config = info["state"], info["config"]
        last = int(state["last_seq"])
        # A stream that never had a message says first 0, last 0.
        first = int(state["first_seq"]) or last + 1
        return StreamState(
            created=str(info["created"]),
            first=first,
            last=last,
            messages=int(state["messages"]),
            bytes=int(state["bytes"]),
            allows_direct=bool(config.get("allow_direct", False)),
            rules=Rules.of(config),
            first_time=str(state.get("first_ts", "")),
            last_time=str(state.get("last_ts", "")),
            asked=str(info.get("ts", "")),
        )


@dataclass(frozen=True, slots=True)
class Offset:
    """The position of reading in one stream."""

    created: str
    next: int
    stored: str = ""  # a time that all messages from `next` on were stored at or after; empty: not known

    def as_json(self) -> dict[str, Any]:
        """The form in which Spark keeps an offset in its checkpoint."""
        found: dict[str, Any] = {"created": self.created, "next": self.next}
        return found | ({"stored": self.stored} if self.stored else {})

    @staticmethod
    def of(data: Mapping[str, Any]) -> Offset:
        return Offset(str(data["created"]), int(data["next"]), str(data.get("stored", "")))


@dataclass(frozen=True, slots=True)
class Range:
    """The sequences first..last, both included; none if last is before first."""

    first: int
    last: int

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)


def seconds_of(time: str) -> float | None:
    """A server's time as seconds since 1970; None if the text is no time."""
    try:
        return datetime.fromisoformat(time).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def end_of(state: StreamState, offset: Offset) -> Offset:
    """An offset of this stream at a sequence, with the best that is known of when what follows was stored."""
    if offset.next == state.last + 1 and state.messages:
        return Offset(state.created, offset.next, state.last_time)
    # A message before it is no younger than those behind it.
    known = state.first_time if state.messages and state.first < offset.next else ""
    return Offset(state.created, offset.next, offset.stored or known)


def shares(wanted: Mapping[str, int], limit: int) -> dict[str, int]:
    """A limit dealt out in proportion to what each wants, so that nobody waits for ever behind a larger one."""
    total = sum(wanted.values())
    if total <= limit:
        return dict(wanted)
    found = {name: count * limit // total for name, count in wanted.items()}
    rest = limit - sum(found.values())
    for name in sorted(wanted, key=lambda name: wanted[name] * limit % total, reverse=True)[:rest]:
        found[name] += 1
    return found


def split(whole: Range, partitions: int, rows_min: int) -> list[Range]:
    """Deal a range out to at most so many tasks, in pieces of nearly equal size and not below rows_min."""
    size = len(whole)
    if size <= 0:
        return []
    pieces = max(1, min(partitions, size // rows_min))
    bounds = [whole.first + size * piece // pieces for piece in range(pieces + 1)]
    return [Range(first, after - 1) for first, after in itertools.pairwise(bounds)]


@dataclass(frozen=True, slots=True)
class Dealing:
    """How many tasks share a batch; 0 is not asked for."""

    parallelism: int  # at most so many tasks, if that keeps to the others
    rows_min: int  # no smaller pieces, unless `partitions_min` wants them
    partitions_min: int = 0
    rows_max: int = 0  # no larger pieces


def deal(wholes: Mapping[str, Range], dealing: Dealing) -> list[tuple[str, Range]]:
    """The ranges of several streams in pieces of about one size, at most a piece more a stream than asked for."""
    total = sum(len(whole) for whole in wholes.values())
    if not total:
        return []
    size = max(dealing.rows_min, -(-total // dealing.parallelism))
    if dealing.partitions_min:
        size = min(size, max(1, total // dealing.partitions_min))
    if dealing.rows_max:
        size = min(size, dealing.rows_max)
    found = []
    for name, whole in wholes.items():
        found += [(name, piece) for piece in split(whole, -(-len(whole) // size), 1)]
    return found
