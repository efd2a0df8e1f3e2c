"""The identity of each origin's stream, and how far the streams were taken that it was before, as records of control.

    source-identity/<stream>/<key of the origin>   the identity
    source-earlier/<stream>/<key of the origin>    {identity: [sequence, newest stamp]} (earlier.py)

Of a stream that other servers lead in between, what is here may be old, so it is forgotten when this server begins to
lead. Not here: the identity's meaning (replica.py), how far the present stream was taken (RECORD_SOURCE).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leafd.links.earlier import Earlier, Position
from leafd.links.origin import bounded

if TYPE_CHECKING:
    from leafd.links.replica import Slot
    from leafd.native_commands import Commands

IDENTITY_RECORD: Final = b"source-identity/"
EARLIER_RECORD: Final = b"source-earlier/"
KEY_SIZE_MAX: Final = 480
"""With the prefix and a stream's number it is a key that the store takes."""


class Identities:
    """The records, and what they say."""

    def __init__(self, plane: Commands) -> None:
        self._plane = plane
        self._identities: dict[bytes, str] = {}
        self._earlier: dict[bytes, bytes] = {}

    def load(self, key: bytes, value: bytes) -> None:
        """A stored record of control; takes the ones of origins."""
        if key.startswith(IDENTITY_RECORD):
            self._identities[key.removeprefix(IDENTITY_RECORD)] = value.decode()
        elif key.startswith(EARLIER_RECORD):
            self._earlier[key.removeprefix(EARLIER_RECORD)] = value

    def of(self, slot: Slot) -> str:
        """The identity of its origin's stream, as it was last; "": not known."""
        return self._identities.get(_key(slot), "")

    def earlier(self, slot: Slot) -> Earlier:
        """The streams that its origin was before, as they were when it changed last."""
        return Earlier.unpacked(self._earlier.get(_key(slot), b""))

    def position(self, slot: Slot, stored: Position) -> Position:
        """How far its origin's present stream was taken. stored: as the store says, where nothing stands for a stream
        of which nothing came since it is the origin's again."""
        if slot.mirror or stored != (0, 0):
            return stored
        return self.earlier(slot).taken(self.of(slot)) or stored

    def forget(self, stream: int) -> None:
        """All of a stream's origins."""
        own = f"{stream}/".encode()
        for known in [key for key in self._identities if key.startswith(own)]:
            del self._identities[known]
        for known in [key for key in self._earlier if key.startswith(own)]:
            del self._earlier[known]

    async def remember(self, slot: Slot, identity: str) -> None:
        """Stores an identity, if there is one and it is another. Raises PlaneError."""
        key = _key(slot)
        if identity and self._identities.get(key) != identity:
            await self._plane.record_put(IDENTITY_RECORD + key, identity.encode())
            self._identities[key] = identity

    async def leave(self, slot: Slot, earlier: bytes) -> None:
        """Stores what Earlier has packed: the origin is another stream now. Raises PlaneError."""
        key = _key(slot)
        if Earlier.unpacked(earlier) != self.earlier(slot):  # of two that take turns nothing new is written each time
            await self._plane.record_put(EARLIER_RECORD + key, earlier)
            self._earlier[key] = earlier


def _key(slot: Slot) -> bytes:
    return f"{slot.stream}/{bounded(slot.origin.key, KEY_SIZE_MAX)}".encode()
