"""The epochs of streams that copies elsewhere take from: which start of this server stored which messages (lineage.py).
So a copy knows what it has of a store that was put back from an old copy of itself, whatever clocks say.

    a copy comes, the first one  --comes()-->  the stream has epochs, on the disk before that copy is given anything
    a start that finds such      --began()-->  what it stores is of a new one, on the disk before it stores anything

A record that cannot be written is a start without epochs: copies are told of none, and go by stamps. Streams in memory
have one epoch, which no start finds again.

Not here: the copy's side (links/epochs.py). Streams of several servers have none: a disk of theirs that was put back is
copied from the others. Nor has a mirror, whose sequences are its origin's, nor a stream with sources, which takes once
more what it had.
"""

from __future__ import annotations

from contextlib import suppress
from secrets import token_hex
from typing import Final

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.jetstream.catalogue import Stream
from leafd.jetstream.models.stream import MEMORY
from leafd.lineage import Lineage, begun, first_of_all, lineage_of, text_of
from leafd.native_commands import Commands

EPOCHS_RECORD: Final = b"epochs/"
EPOCH_BYTES: Final = 8


class Epochs:
    """The epochs of all streams of this server."""

    def __init__(self, plane: Commands, guard: Guard) -> None:
        self._plane, self._guard = plane, guard
        self._written: dict[int, Lineage] = {}
        """By the stream's number: what its record says."""
        self._told: dict[int, Lineage] = {}
        """.. And what copies are told: this process has the last one."""
        self._turn = trio.Lock()

    def load(self, key: bytes, value: bytes) -> None:
        """Takes over a record of the store, if it is one of these; only at the start."""
        if key.startswith(EPOCHS_RECORD):
            with self._guard.around("reading the epochs of a stream"):
                self._written[int.from_bytes(key[len(EPOCHS_RECORD) :], "big")] = lineage_of(value.decode())

    async def began(self, stream: Stream, last: int) -> None:
        """A stored stream is taken up, and ends there."""
        known = self._written.get(stream.id)
        if known is not None and _has_some(stream):
            await self._begin(stream, begun(known, last, token_hex(EPOCH_BYTES)))

    async def comes(self, stream: Stream) -> Lineage | None:
        """A copy elsewhere is about to be given messages. The epochs that it is told; None: it is told of none."""
        if not _has_some(stream):
            return None
        async with self._turn:
            if stream.id not in self._told and stream.id not in self._written:
                # Also what earlier starts have stored: nobody else has this epoch who has not all of that.
                await self._begin(stream, first_of_all(token_hex(EPOCH_BYTES)))
        return self._told.get(stream.id)

    async def _begin(self, stream: Stream, lineage: Lineage) -> None:
        if stream.config.storage == MEMORY:
            self._told[stream.id] = lineage
            return
        try:
            await self._plane.record_put(_key(stream.id), text_of(lineage).encode())
        except t.PlaneError:
            return  # a disk without room, which says so itself
        self._written[stream.id] = self._told[stream.id] = lineage

    async def removed(self, stream: Stream) -> None:
        """The stream is gone."""
        self._told.pop(stream.id, None)
        if self._written.pop(stream.id, None) is not None:
            with suppress(t.PlaneError):  # numbers of streams are not used again
                await self._plane.record_put(_key(stream.id), b"")


def _has_some(stream: Stream) -> bool:
    return stream.group is None and stream.config.mirror is None and not stream.config.sources


def _key(stream: int) -> bytes:
    return EPOCHS_RECORD + stream.to_bytes(4, "big")
