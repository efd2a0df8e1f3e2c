"""The epochs of a stream: from which sequence on its messages are of which start of its server.

    0:9f3c27e10b55d2aa 140:04b1c09e7de5f318      up to 139 of one start, what comes from 140 on of another

An epoch is an id by chance, made by each start that finds its stream's epochs on the disk. So a store that was put back
from an old copy has the epochs of that copy and one of its own, and two stores that have an epoch both have the same
messages in it, up to where the shorter one of them ends. No clock is asked.

Not here: who writes them down (jetstream/epochs.py), what a copy makes of them (links/epochs.py).
"""

from __future__ import annotations

import re
from typing import Final

KEPT: Final = 64
"""So many at the most; the oldest is forgotten when there is a further one."""
SEQUENCE_MAX: Final = 2**64 - 1
_ENTRY: Final = re.compile(r"([0-9]{1,20}):([0-9a-f]{1,16})")

Lineage = tuple[tuple[int, str], ...]
"""First sequences, in their order, and the epochs."""


def text_of(lineage: Lineage) -> str:
    """Form in records and headers."""
    return " ".join(f"{first}:{epoch}" for first, epoch in lineage)


def lineage_of(text: str) -> Lineage:
    """The epochs that a text of that form has. Raises ValueError: it is none."""
    entries = [_ENTRY.fullmatch(word) for word in text.split(" ")] if len(text) <= KEPT * 38 else []
    found = tuple((int(entry[1]), entry[2]) for entry in entries if entry is not None)
    firsts = [first for first, _ in found]
    ascends = all(before < first for before, first in zip([-1, *firsts], firsts, strict=False))
    different = len({epoch for _, epoch in found}) == len(found)
    if not found or len(found) != len(entries) or len(found) > KEPT or not ascends or not different:
        raise ValueError("these are no epochs of a stream")
    if firsts[-1] > SEQUENCE_MAX:
        raise ValueError("an epoch of a stream begins behind all sequences")
    return found


def first_of_all(epoch: str) -> Lineage:
    """The lineage of a stream that had none: of that epoch is also what it has, and that it had nothing."""
    return ((0, epoch),)


def begun(lineage: Lineage, last: int, epoch: str) -> Lineage:
    """The lineage with another epoch, for what comes behind the stream's last sequence. One without a message is none:
    it may have had some that were lost."""
    return (*(one for one in lineage if one[0] <= last), (last + 1, epoch))[-KEPT:]


def epoch_at(lineage: Lineage, sequence: int) -> str:
    """The epoch of that sequence; "": it is not known."""
    return next((epoch for first, epoch in reversed(lineage) if first <= sequence), "")


def cut_before(lineage: Lineage, sequence: int) -> Lineage:
    """The lineage from that sequence on."""
    ends = [*(first for first, _ in lineage[1:]), SEQUENCE_MAX + 1]
    return tuple(
        (max(first, sequence), one) for (first, one), end in zip(lineage, ends, strict=False) if end > sequence
    )


def behind(lineage: Lineage, epoch: str) -> Lineage:
    """The lineage from that epoch on; all of it where it has not that epoch."""
    epochs = [one for _, one in lineage]
    return lineage[epochs.index(epoch) :] if epoch in epochs else lineage


def parts(lineage: Lineage, sequence: int, epoch: str) -> bool:
    """Whether who has that sequence of that epoch has something that a stream of this lineage never had."""
    epochs = [one for _, one in lineage]
    if epoch in epochs:
        return epoch_at(lineage, sequence) != epoch
    return bool(epoch) and len(lineage) < KEPT
