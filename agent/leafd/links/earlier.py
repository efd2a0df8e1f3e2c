"""The streams that a source's origin was before, and how far they were taken.

An origin is another stream when it was made anew, and then the source begins with its first message. Or two machines
have one name, as after a disk was copied, and take the link from each other: then the stream is now one's and now the
other's, and without this each change would have all of it taken once more. Not here: where it is stored
(identities.py).
"""

from __future__ import annotations

import json
from typing import Final

KEPT: Final = 4
IDENTITY_SIZE_MAX: Final = 255
"""An origin says who it is in its own words; of longer ones nothing is kept."""

Position = tuple[int, int]
"""The sequence that was taken last, and the newest stamp."""


class Earlier:
    """Positions in the streams that one source's origin was, by their identities."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[str, Position] | None = None

    @classmethod
    def unpacked(cls, packed: bytes) -> Earlier:
        """As `packed` gave it; nothing of what it cannot be."""
        found = cls()
        try:
            pairs = {str(identity): (int(seq), int(ts)) for identity, (seq, ts) in json.loads(packed).items()}
        except (ValueError, TypeError, AttributeError):
            return found
        found._positions = dict(list(pairs.items())[-KEPT:]) or None
        return found

    @property
    def packed(self) -> bytes:
        """All of it as text."""
        return json.dumps(self._positions or {}, separators=(",", ":")).encode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Earlier) and self._positions == other._positions

    def leave(self, identity: str, sequence: int, newest_ts: int) -> None:
        """Notes how far that one was taken, as the origin is another one now. The one left longest ago is forgotten."""
        if not identity or not sequence or len(identity) > IDENTITY_SIZE_MAX:
            return
        if self._positions is None:
            self._positions = {}
        self._positions.pop(identity, None)
        self._positions[identity] = sequence, newest_ts
        if len(self._positions) > KEPT:
            del self._positions[next(iter(self._positions))]

    def taken(self, identity: str) -> Position | None:
        """Position at which that one was left; None: it is new. It stays known: what came since it is the origin's
        again may be nothing, at the next start as well."""
        return self._positions.get(identity) if self._positions is not None else None
