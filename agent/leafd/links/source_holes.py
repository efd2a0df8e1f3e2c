"""The messages of its origins that a hole in a source took: found by the messages around it, and by the origins.

    sequence here            .. 11  12 [13 14 15 16] 17  18 ..          what is left of it: the hole is in brackets
    of origin A             .. a:7                   a:10               8 and 9 were in the hole
    of origin B                    b:4                   b:6            5 was in it
    of origin C                                                         none, or nobody knows: see below

A source stores the messages of each origin in that origin's order, and each says in its header which one it is. So what
the hole took of an origin lies between the last one before the hole and the first one behind it (at the stream's end:
what was taken last). That holds as far as the sequences here are without another gap: behind one nobody knows whether a
message of that origin was removed there, and what the hole took of it is not asked for ("loose").

Nothing comes twice: all that is asked for has a sequence between two of its own origin that are neighbours here. Where
more is found than the hole has sequences, some had never been taken (they were duplicates), and nobody knows which: so
nothing is put back. Where less is found the origin has some of it no more, or what is missing was published here.

The order of each origin is kept. Of several ones it is that of their stamps: the order in which they came here is lost.
An origin is believed to be the same stream if the message before the hole (or the one behind it) is the same there. Is
neither there any more, no message of it may be newer than all that was taken.

Pure functions and what they tell; they ask nobody. Not here: who asks (holes.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from leafd import native_types as t
from leafd.links.origin import header_field
from leafd.links.replica import Slot
from leafd.records import dataclass

SOURCE_HEADER: Final = "Nats-Stream-Source"
ID_HEADER: Final = "Nats-Msg-Id"


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that came of an origin: which one it is there, under which subject, and what tells it from others."""

    sequence: int
    subject: str
    digest: bytes


def taken(sequence: int, subject: str, payload: bytes) -> Taken:
    """The facts about a message at its origin."""
    return Taken(sequence, subject, sha256(payload).digest())


def taken_of(message: t.StoredMessage) -> tuple[str, Taken] | None:
    """The index of its slot, joined by blanks, and which message it is there. None: it was published here."""
    parts = header_field(message.header, SOURCE_HEADER).split(" ")
    if len(parts) < 5 or not parts[1].isascii() or not parts[1].isdigit():
        return None
    return " ".join((parts[0], *parts[2:4])), taken(int(parts[1]), parts[4], message.payload)


class Side:
    """The messages on one side of the hole: of each slot the one nearest to it."""

    def __init__(self, slots: Iterable[Slot]) -> None:
        self.unseen = {" ".join(slot.origin.index) for slot in slots}
        self.nearest: dict[str, Taken] = {}
        self.ids: set[str] = set()
        self.ts = 0
        """The stamp of the message right beside the hole; 0: there is none."""
        self.whole = False
        """The stream ends there, and no sequence was without a message: of what was not seen there is none."""

    def see(self, message: t.StoredMessage) -> None:
        """The next one, away from the hole."""
        self.ts = self.ts or message.ts
        if name := header_field(message.header, ID_HEADER):
            self.ids.add(name)
        if (found := taken_of(message)) is not None:
            self.nearest.setdefault(found[0], found[1])
            self.unseen.discard(found[0])


@dataclass(frozen=True, slots=True)
class Span:
    """The two sequences of an origin between which the hole took messages, if it took any. None: not known."""

    slot: Slot
    above: int
    below: int
    before: Taken | None
    behind: Taken | None
    newest_ts: int
    """Stamp of the newest message that was taken of it, at the origin; 0: not known."""

    @property
    def empty(self) -> bool:
        """True if no sequence is in between."""
        return self.above + 1 >= self.below

    def same(self, given: Taken) -> bool:
        """Whether the origin's message is the one that stands beside the hole, if it has that sequence."""
        return all(
            one == given for one in (self.before, self.behind) if one is not None and one.sequence == given.sequence
        )


def span_of(slot: Slot, before: Side, behind: Side, newest: int, newest_ts: int) -> Span | None:
    """newest: the origin's sequence that was taken last, as the start found it. None: a message of
    that origin may have been removed beside the hole, or its stream began anew: what the hole took is not known."""
    key = " ".join(slot.origin.index)
    first, last = before.nearest.get(key), behind.nearest.get(key)
    if (first is None and not before.whole) or (last is None and not behind.whole):
        return None
    above = first.sequence if first is not None else max(slot.origin.start_seq - 1, 0)
    below = last.sequence if last is not None else newest + 1
    return Span(slot, above, below, first, last, newest_ts) if above < below else None


@dataclass(slots=True)
class Candidate:
    """A message that an origin has and the hole may have taken."""

    slot: Slot
    sequence: int
    ts: int
    name: str
    """Its message id; empty: it has none."""


def fitting(found: list[Candidate], known: Iterable[str], room: int) -> list[Candidate] | None:
    """The candidates that the hole took, which has so many sequences. As many as it has: it took them all. Else without
    those whose id another one has: such a one may never have been taken. None: which ones it took is not known."""
    if len(found) == room:
        return found
    seen = set(known)
    kept = []
    for one in found:
        if one.name not in seen:
            kept.append(one)
        if one.name:
            seen.add(one.name)
    return kept if len(kept) <= room else None


def merged(lists: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """The candidates of all lists by their stamps; those of one origin stay in its order, whatever its clock did."""
    found = []
    for one in lists:
        newest = 0
        row = []
        for candidate in one:
            newest = max(newest, candidate.ts)
            row.append((newest, candidate.slot.number, candidate.sequence, candidate))
        found.append(row)
    return [row[-1] for row in heapq.merge(*found, key=lambda row: row[:3])]
