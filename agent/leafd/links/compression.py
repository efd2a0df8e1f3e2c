"""Compression of leaf links: what each end wants, what the two agree upon, and how much is done for it.

    our mode, the peer's mode of its INFO --agreed()--> off | not supported | s2_uncompressed .. s2_best
    s2_auto, a round trip --at()--> s2_uncompressed .. s2_best

Each end chooses how much it compresses by itself; a reader understands all. Not here: the stream's bytes
(native/net/compress.h), the spellings of a configuration (config/schema/compression.py). Reference: tests/wire/leaf.md.
"""

from __future__ import annotations

from typing import Final

from leafd import native_types as t
from leafd.native_codes import COMPRESSION_LEVELS as LEVELS
from leafd.records import dataclass

TERSE_NS: Final = 10_000_000
"""The round trip up to which fewer bytes gain nothing, as with s2_auto."""

NOT_SUPPORTED: Final = "not supported"
OFF: Final = "off"
ACCEPT: Final = "accept"
AUTO: Final = "s2_auto"


@dataclass(frozen=True, slots=True)
class Compression:
    """The compression that one end wants."""

    mode: str = OFF
    bounds_ns: tuple[int, ...] = ()
    """With s2_auto: up to which round trip each level is chosen."""
    terse: bool = True
    """Lines may be terse also where nothing is compressed."""

    @property
    def offered(self) -> dict[str, str]:
        """The members of INFO that offer compression."""
        return {} if self.mode == NOT_SUPPORTED else {"compression": self.mode}

    @property
    def negotiable(self) -> bool:
        """May the peer's INFO ask for it?"""
        return self.mode not in (OFF, NOT_SUPPORTED)

    def agreed(self, theirs: str) -> str:
        """The mode of this end of the link. Raises ValueError for one that nobody knows."""
        if not self.negotiable:
            return OFF if theirs and self.mode == OFF else NOT_SUPPORTED
        if theirs in ("", NOT_SUPPORTED):
            return NOT_SUPPORTED
        if theirs == OFF or theirs == self.mode == ACCEPT:
            return OFF
        if theirs not in (ACCEPT, AUTO, *LEVELS):
            raise ValueError(f'unsupported route compression mode "{theirs}"')
        if self.mode == ACCEPT:
            return "s2_fast" if theirs == AUTO else theirs
        return self.mode

    def told(self, agreed: str) -> dict[str, str]:
        """The members of the INFO behind the agreement."""
        return {"compression": AUTO if self.mode == AUTO else agreed}

    def only_terse(self, agreed: str, round_trip_ns: int) -> bool:
        """Whether a link to a leafd that is dialled is to have terse lines and no compression."""
        return self.terse and agreed == OFF and round_trip_ns > TERSE_NS

    def at(self, mode: str, round_trip_ns: int, *, terse: bool = False) -> t.Compress:
        """How the plane does that. terse: both ends know terse lines."""
        if mode != AUTO:
            return t.Compress(LEVELS.index(mode), terse=terse)
        first, second, third, fourth = (*self.bounds_ns, 0, 0, 0, 0)[:4]
        last = 3 if len(self.bounds_ns) >= 3 else len(self.bounds_ns) - 1
        level = next((i for i, bound in enumerate(self.bounds_ns) if round_trip_ns <= bound), last)
        return t.Compress(level, len(self.bounds_ns), first, second, third, fourth, terse)


def compresses(mode: str) -> bool:
    """Is a link of that agreed mode an S2 stream?"""
    return mode not in (OFF, NOT_SUPPORTED)


TERSE_ALONE: Final = t.Compress(0, terse=True)
UNCOMPRESSED: Final = Compression(terse=False)
