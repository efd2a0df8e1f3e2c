"""The epochs of an origin's stream (lineage.py) that a source has taken, and what follows where the origin was put back
from an old copy of its store.

    the origin     101:a 141:b       it was put back to 140, where the source had 180 of another epoch
    the source     101:a 151:c       up to 180
    both have a, here up to 150 and there up to 140: the source stands at 140, and all behind that is new to it

What was taken of each epoch stays known, so that a store that comes back later, as of two machines with one name or
where a newer copy is put back after an older one, goes on where the source was in it. Where the two have no epoch in
common, as behind 64 starts, or where no copy had come yet when the old one was made, stamps tell what is new
(replica.py).

Not here: where it is kept (identities.py), the origin's side (jetstream/epochs.py).
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from leafd.lineage import KEPT, SEQUENCE_MAX, Lineage, cut_before, epoch_at, lineage_of, text_of
from leafd.records import dataclass

LEFT_MAX: Final = 8


def told(text: str) -> Lineage:
    """The epochs that an origin's answer has; (): none."""
    with suppress(ValueError):
        return lineage_of(text) if text else ()
    return ()


@dataclass(frozen=True, slots=True)
class Epochs:
    """The knowledge of one source."""

    identity: str = ""
    """The identity of the origin's stream."""
    lineage: Lineage = ()
    """The epochs of the stream that is taken from; (): they are not known."""
    taken: tuple[tuple[str, int], ...] = ()
    """Up to where each epoch was taken that is known besides: those that are behind, and those of other lineages."""
    moved: tuple[int, ...] = ()
    """The source stands at the last of these, and its stored position may still be one of the others; (): it is the
    stored position."""

    @classmethod
    def unpacked(cls, packed: bytes) -> Epochs:
        """As `packed` gave it; nothing of what it cannot be."""
        try:
            found: dict[str, Any] = json.loads(packed)
            lineage = lineage_of(found["lineage"]) if found["lineage"] else ()
            taken = tuple((str(epoch), int(upto)) for epoch, upto in found["taken"].items())
            moved = tuple(int(one) for one in found.get("moved", ()))
            return cls(str(found["identity"]), lineage, taken, moved)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            return cls()

    @property
    def packed(self) -> bytes:
        """All of it as text."""
        body = {"identity": self.identity, "lineage": text_of(self.lineage), "taken": dict(self.taken)}
        return json.dumps(body | ({"moved": self.moved} if self.moved else {}), separators=(",", ":")).encode()

    def at(self, sequence: int) -> str:
        """The epoch of what was taken last; "": it is not known."""
        return epoch_at(self.lineage, sequence)

    def stands(self, identity: str, theirs: Lineage, sequence: int) -> int | None:
        """The sequence of the origin's stream behind which all is new, where that one has been taken last; None: its
        epochs do not tell. theirs: from the epoch on that it was asked behind, or all of them."""
        if identity != self.identity or not self.at(sequence):
            return None if sequence else 0
        known = self._known(sequence)
        ends = [*(first - 1 for first, _ in theirs[1:]), SEQUENCE_MAX]
        for (first, epoch), end in list(zip(theirs, ends, strict=False))[::-1]:
            if (upto := known.get(epoch, -1)) >= first:
                return min(upto, end)
        return None

    def goes_on(self, identity: str, theirs: Lineage, sequence: int, stands: int | None) -> Epochs:
        """The knowledge from now on: the origin has these epochs; (): it tells of none. sequence: what was taken last,
        before this was known; stands: where the source stands in them. None: that is of no epoch, and what comes behind
        it is of these."""
        if not theirs:
            return self.untold(sequence)
        if identity != self.identity:
            return Epochs(identity).goes_on(identity, theirs, sequence, stands)
        known = self._known(sequence)
        epochs = [epoch for _, epoch in self.lineage]
        before = self.lineage[: epochs.index(theirs[0][1])] if theirs[0][1] in epochs else ()
        lineage = (*before, *theirs) if stands is not None else cut_before(theirs, sequence + 1)
        at = sequence if stands is None else stands
        left = sorted({*self.moved, sequence} - {at})[-LEFT_MAX:]
        return Epochs(identity, lineage[-KEPT:], tuple(known.items())[-KEPT:], (*left, at) if left else ())

    def untold(self, sequence: int) -> Epochs:
        """The same where the origin tells of no epochs any more: what is taken from now on is of none."""
        known = tuple(self._known(sequence).items())[-KEPT:]
        return Epochs(self.identity, (), known, self.moved) if self.lineage else self

    def settled(self) -> Epochs:
        """The same where the stored position is the one that the source stands at."""
        return Epochs(self.identity, self.lineage, self.taken)

    def position(self, stored: int) -> int:
        """The sequence that the source stands at, by its stored position."""
        return self.moved[-1] if stored in self.moved else stored

    def found(self, stored: int) -> Epochs:
        """The same at a start that finds that stored position."""
        return self if stored in self.moved else self.settled()

    def _known(self, sequence: int) -> dict[str, int]:
        """Up to where each epoch was taken, those that were left first before all others."""
        known = dict(self.taken)
        ends = [*(first - 1 for first, _ in self.lineage[1:]), sequence]
        for (first, epoch), end in zip(self.lineage, ends, strict=False):
            if first <= sequence:
                known[epoch] = max(known.pop(epoch, 0), min(end, sequence))
        return known
