"""Offsets and ranges: which sequences a batch reads, and how they are dealt out to tasks.

Pure: streams' states go in, offsets and ranges come out; `source` asks the server and Spark calls it.

An offset names the next sequence to read, and the incarnation of the stream by its creation time: a stream
that was deleted and made anew counts from 1 again, and reading on at the old offset would skip its messages
without a word. A range counts sequences, not messages: deleted messages leave gaps, so a range of n
sequences holds at most n rows, which is what a limit promises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class DataLoss(Exception):
    """Messages that should have been read are gone."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """What planning needs to know of a stream."""

    created: str
    first: int  # of an empty stream: one more than last
    last: int
    messages: int
    bytes: int
    allows_direct: bool

    @staticmethod
    def of(info: dict[str, Any]) -> StreamState:
        """From the answer of STREAM.INFO."""
        state = info["state"]
        last = int(state["last_seq"])
        # A stream that never had a message says first 0, last 0.
        first = int(state["first_seq"]) or last + 1
        direct = bool(info["config"].get("allow_direct", False))
        return StreamState(str(info["created"]), first, last, int(state["messages"]), int(state["bytes"]), direct)


@dataclass(frozen=True, slots=True)
class Offset:
    created: str
    next: int

    def as_json(self) -> dict[str, Any]:
        """What Spark keeps in its checkpoint."""
        return {"created": self.created, "next": self.next}

    @staticmethod
    def of(data: dict[str, Any]) -> Offset:
        return Offset(str(data["created"]), int(data["next"]))


@dataclass(frozen=True, slots=True)
class Range:
    """The sequences first..last, both included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


def lost_before(offset: Offset, state: StreamState) -> str:
    """Why reading on at this offset would miss messages; empty if it doesn't."""
    if offset.created != state.created:
        return f"the stream was made anew at {state.created}; the offset is of the one made at {offset.created}"
    if offset.next < state.first:
        return f"messages {offset.next} to {state.first - 1} are gone: the stream now begins at {state.first}"
    if offset.next > state.last + 1:
        read = offset.next - 1
        return f"the stream ends at {state.last}, but was read to {read}: was it restored from an older copy?"
    return ""


def resume(offset: Offset, state: StreamState) -> Offset:
    """Where reading goes on after a loss that is to be tolerated; the same offset where there is none."""
    return Offset(state.created, state.first) if lost_before(offset, state) else offset


def admit(start: Offset, state: StreamState, target: Offset | None, max_messages: int) -> Offset:
    """The end of the next batch: all there is, up to Trigger.AvailableNow's target, at most max_messages (0: any)."""
    end = state.last + 1
    if target is not None and target.created == state.created:
        end = min(end, target.next)
    if max_messages:
        # Sequences before the stream's first hold no messages and must not use up the limit.
        end = min(end, max(start.next, state.first) + max_messages)
    return Offset(start.created, max(end, start.next))


def split(whole: Range, partitions: int, rows_min: int) -> list[Range]:
    """Deal a range out to at most so many tasks, in pieces of nearly equal size and not below rows_min."""
    size = len(whole)
    if size <= 0:
        return []
    pieces = max(1, min(partitions, size // rows_min))
    bounds = [whole.first + size * piece // pieces for piece in range(pieces + 1)]
    return [Range(first, after - 1) for first, after in zip(bounds, bounds[1:], strict=False)]
