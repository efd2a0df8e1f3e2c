"""The identity of each origin's stream, and how far the streams were taken that it was before, as records of control.

    source-identity/<stream>/<key of the origin>   the identity
    source-earlier/<stream>/<key of the origin>    {identity: [sequence, newest stamp]} (earlier.py)
    source-epochs/<stream>/<key of the origin>     the present stream's epochs (epochs.py)

Of a stream that other servers lead in between, what is here may be old, so it is forgotten when this server begins to
lead. Not here: the identity's meaning (replica.py), how far the present stream was taken (RECORD_SOURCE).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from leafd.links.earlier import Earlier, Position
from leafd.links.epochs import Epochs
from leafd.links.origin import bounded

if TYPE_CHECKING:
    from leafd.links.replica import Slot
    from leafd.links.steps import Run
    from leafd.native_commands import Commands

IDENTITY_RECORD: Final = b"source-identity/"
EARLIER_RECORD: Final = b"source-earlier/"
EPOCHS_RECORD: Final = b"source-epochs/"
KEY_SIZE_MAX: Final = 480
"""With the prefix and a stream's number it is a key that the store takes."""


class Identities:
    """The records, and what they say."""

    def __init__(self, plane: Commands) -> None:
        self._plane = plane
        self._identities: dict[bytes, str] = {}
        self._earlier: dict[bytes, bytes] = {}
        self._epochs: dict[bytes, bytes] = {}

    def load(self, key: bytes, value: bytes) -> None:
        """A stored record of control; takes the ones of origins."""
        if key.startswith(IDENTITY_RECORD):
            self._identities[key.removeprefix(IDENTITY_RECORD)] = value.decode()
        elif key.startswith(EARLIER_RECORD):
            self._earlier[key.removeprefix(EARLIER_RECORD)] = value
        elif key.startswith(EPOCHS_RECORD):
            self._epochs[key.removeprefix(EPOCHS_RECORD)] = value

    def of(self, slot: Slot) -> str:
        """The identity of its origin's stream, as it was last; "": not known."""
        return self._identities.get(_key(slot), "")

    def earlier(self, slot: Slot) -> Earlier:
        """The streams that its origin was before, as they were when it changed last."""
        return Earlier.unpacked(self._earlier.get(_key(slot), b""))

    def epochs(self, slot: Slot) -> Epochs:
        """The epochs of its origin's present stream, as they were when a consumer began last."""
        found = Epochs.unpacked(self._epochs.get(_key(slot), b"{}"))
        return found if found.identity == self.of(slot) else Epochs()

    def position(self, slot: Slot, stored: Position) -> Position:
        """How far its origin's present stream was taken. stored: as the store says, where nothing stands for a stream
        of which nothing came since it is the origin's again."""
        if slot.mirror:
            return stored
        if (at := self.epochs(slot).position(stored[0])) != stored[0]:
            return at, 0
        if stored != (0, 0):
            return stored
        return self.earlier(slot).taken(self.of(slot)) or stored

    def forget(self, stream: int) -> None:
        """All of a stream's origins."""
        own = f"{stream}/".encode()
        for known in [key for key in self._identities if key.startswith(own)]:
            del self._identities[known]
        for known in [key for key in self._earlier if key.startswith(own)]:
            del self._earlier[known]
        for known in [key for key in self._epochs if key.startswith(own)]:
            del self._epochs[known]

    async def remember(self, slot: Slot, identity: str) -> None:
        """Stores an identity, if there is one and it is another. Raises PlaneError."""
        key = _key(slot)
        if identity and self._identities.get(key) != identity:
            await self._plane.record_put(IDENTITY_RECORD + key, identity.encode())
            self._identities[key] = identity

    def goes_on(self, slot: Slot, order: Run, positions: Mapping[tuple[int, str], Position]) -> tuple[int, Epochs]:
        """The sequence taken last of the origin's stream, and its epochs, where a consumer begins. positions: as the
        store says, by stream and key. A source that has a durable consumer since is as far as it was by the consumers
        that were made for it before, if it is still the same stream."""
        if slot.mirror or not slot.origin.durable or order.last_sequence or not order.identity:
            return order.last_sequence, order.epochs
        before = replace(slot, origin=replace(slot.origin, durable="", durable_deliver=""))
        if self.of(before) != order.identity:
            return 0, order.epochs
        had = self.position(before, positions.get((slot.stream, before.origin.key), (0, 0)))[0]
        theirs, known = order.epochs.lineage, self.epochs(before)
        if not theirs or not had:
            return had, order.epochs
        stands = known.stands(order.identity, theirs, had)
        at = had if stands is None else stands
        return at, replace(known.goes_on(order.identity, theirs, had, stands), moved=(0, at) if at else ())

    async def stand(self, slot: Slot, epochs: Epochs) -> None:
        """Stores the epochs of its origin's stream, and the position where that is another one now. Raises
        PlaneError."""
        key = _key(slot)
        if slot.mirror:
            return
        if epochs.moved:
            await self._put(key, epochs)  # a crash behind this finds which of the positions it is
            await self._plane.ingest_stand(slot.stream, slot.origin.key, epochs.moved[-1])
        if epochs.settled() != self.epochs(slot):
            await self._put(key, epochs.settled())

    async def _put(self, key: bytes, epochs: Epochs) -> None:
        await self._plane.record_put(EPOCHS_RECORD + key, epochs.packed)
        self._epochs[key] = epochs.packed

    async def leave(self, slot: Slot, earlier: bytes) -> None:
        """Stores what Earlier has packed: the origin is another stream now. Raises PlaneError."""
        key = _key(slot)
        if Earlier.unpacked(earlier) != self.earlier(slot):  # of two that take turns nothing new is written each time
            await self._plane.record_put(EARLIER_RECORD + key, earlier)
            self._earlier[key] = earlier


def _key(slot: Slot) -> bytes:
    return f"{slot.stream}/{bounded(slot.origin.key, KEY_SIZE_MAX)}".encode()
