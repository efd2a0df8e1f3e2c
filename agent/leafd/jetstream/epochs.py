"""The epochs of streams that copies elsewhere take from: which start of this server stored which messages (lineage.py).
So a copy knows what it has of a store that was put back from an old copy of itself, whatever clocks say.

    a copy comes, the first one  --comes()-->  the stream has epochs, on the disk before that copy is given anything
    a start that finds such      --began()-->  what it stores is of a new one, on the disk before it stores anything

A record that cannot be written is written later, at once where the disk has room again. Until then copies are told of
no epochs, and go by stamps. A crash before that leaves what this start has stored in the epoch of the one before. So
does a start of a version that writes none. Streams in memory have one epoch, which no start finds again.

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
RETRY_S: Final = 2.0


class Epochs:
    """The epochs of all streams of this server."""

    def __init__(self, plane: Commands, guard: Guard) -> None:
        self._plane, self._guard = plane, guard
        self._known: dict[int, Lineage] = {}
        """By the stream's number: what its record is to say. This process has the last one, once it is taken up."""
        self._unwritten: set[int] = set()
        """Streams whose record says something else, or is to be removed."""
        self._news = trio.Event()

    def load(self, key: bytes, value: bytes) -> None:
        """Takes over a record of the store, if it is one of these; only at the start."""
        if key.startswith(EPOCHS_RECORD):
            with self._guard.around("reading the epochs of a stream"):
                self._known[int.from_bytes(key[len(EPOCHS_RECORD) :], "big")] = lineage_of(value.decode())

    async def began(self, stream: Stream, last: int, *, stored: bool) -> None:
        """A stream is taken up and ends there, or it is another one from now on. stored: an earlier process has it."""
        known = self._known.get(stream.id)
        if known is None:
            return
        if not _has_some(stream):  # what it stores now is of none of these, and a later start must not take it for that
            await self.removed(stream.id)
        elif stored:
            self._says(stream.id, begun(known, last, token_hex(EPOCH_BYTES)))
            await self._write(stream.id)

    async def comes(self, stream: Stream) -> Lineage | None:
        """A copy elsewhere is about to be given messages. The epochs that it is told; None: it is told of none."""
        if not _has_some(stream):
            return None
        if stream.id not in self._known:
            # Also what earlier starts have stored: nobody else has this epoch who has not all of that.
            self._known[stream.id] = first_of_all(token_hex(EPOCH_BYTES))
            if stream.config.storage != MEMORY:
                self._says(stream.id, self._known[stream.id])
        if stream.id in self._unwritten:
            await self._write(stream.id)
        return None if stream.id in self._unwritten else self._known.get(stream.id)

    async def removed(self, number: int) -> None:
        """The stream is gone, or one is about to be made of that number: after a start it may be that of another one
        that is gone, whose record could not be removed."""
        if self._known.pop(number, None) is not None:
            self._unwritten.add(number)
            self._news.set()
            await self._write(number)

    def room(self) -> None:
        """The store has room again."""
        self._news.set()

    def _says(self, number: int, lineage: Lineage) -> None:
        self._known[number] = lineage
        self._unwritten.add(number)
        self._news.set()

    async def run(self) -> None:
        """Writes what could not be written when it was to be."""
        while True:
            if not self._unwritten:
                await self._news.wait()
            self._news = trio.Event()
            with self._guard.around("writing the epochs of a stream"):
                for number in list(self._unwritten):
                    await self._write(number)
            if self._unwritten:
                with trio.move_on_after(RETRY_S):
                    await self._news.wait()

    async def _write(self, number: int) -> None:
        """Later, where that cannot be done now."""
        lineage = self._known.get(number)
        body = b"" if lineage is None else text_of(lineage).encode()
        with suppress(t.PlaneError):  # a disk without room, which says so itself
            await self._plane.record_put(EPOCHS_RECORD + number.to_bytes(4, "big"), body)
            if self._known.get(number) == lineage:
                self._unwritten.discard(number)


def _has_some(stream: Stream) -> bool:
    return stream.group is None and stream.config.mirror is None and not stream.config.sources
