"""The streams that a source's origin was before, and how far they were taken.

An origin is another stream when it was made anew, and then the source begins with its first message. Or two machines
have one name, as after a disk was copied, and take the link from each other: then the stream is now one's and now the
other's, and without this each change would have all of it taken once more. It is in memory only: after a start of this
server, what the other machine has is taken once more.
"""

from __future__ import annotations

from typing import Final

KEPT: Final = 4

Position = tuple[int, int]
"""The sequence that was taken last, and the newest stamp."""


class Earlier:
    """Positions in the streams that one source's origin was, by their identities."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[str, Position] | None = None

    def leave(self, identity: str, sequence: int, newest_ts: int) -> None:
        """Notes how far that one was taken, as the origin is another one now. The one left longest ago is forgotten."""
        if not identity or not sequence:
            return
        if self._positions is None:
            self._positions = {}
        self._positions.pop(identity, None)
        self._positions[identity] = sequence, newest_ts
        if len(self._positions) > KEPT:
            del self._positions[next(iter(self._positions))]

    def taken(self, identity: str) -> Position | None:
        """Position at which that one was left; None: it is new."""
        return self._positions.pop(identity, None) if self._positions is not None else None
