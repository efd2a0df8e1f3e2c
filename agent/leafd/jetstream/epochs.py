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

from secrets import token_hex
from typing import Final

from leafd.guard import Guard
from leafd.jetstream.catalogue import Stream
from leafd.jetstream.models.stream import MEMORY
from leafd.jetstream.stream_records import StreamRecords
from leafd.lineage import Lineage, begun, first_of_all, lineage_of, text_of
from leafd.native_commands import Commands

EPOCHS_RECORD: Final = b"epochs/"
EPOCH_BYTES: Final = 8
RETRY_S: Final = 2.0


class Epochs:
    """The epochs of all streams of this server."""

    def __init__(self, plane: Commands, guard: Guard) -> None:
        self._records: StreamRecords[Lineage] = StreamRecords(
            plane, guard, EPOCHS_RECORD, "the epochs of a stream", RETRY_S, _packed, _unpacked
        )
        """This process has the last one of each, once it is taken up."""
        self.load, self.room, self.run = self._records.load, self._records.room, self._records.run

    async def began(self, stream: Stream, last: int, *, stored: bool) -> None:
        """A stream is taken up and ends there, or it is another one from now on. stored: an earlier process has it."""
        known = self._records.known.get(stream.id)
        if known is None:
            return
        if not _has_some(stream):  # what it stores now is of none of these, and a later start must not take it for that
            await self.removed(stream.id)
        elif stored:
            self._records.says(stream.id, begun(known, last, token_hex(EPOCH_BYTES)))
            await self._records.write(stream.id)

    async def comes(self, stream: Stream) -> Lineage | None:
        """A copy elsewhere is about to be given messages. The epochs that it is told; None: it is told of none."""
        if not _has_some(stream):
            return None
        if stream.id not in self._records.known:
            # Also what earlier starts have stored: nobody else has this epoch who has not all of that.
            self._records.known[stream.id] = first_of_all(token_hex(EPOCH_BYTES))
            if stream.config.storage != MEMORY:
                self._records.says(stream.id, self._records.known[stream.id])
        if stream.id in self._records.unwritten:
            await self._records.write(stream.id)
        return None if stream.id in self._records.unwritten else self._records.known.get(stream.id)

    async def removed(self, number: int) -> None:
        """The stream is gone, or one is about to be made of that number: after a start it may be that of another one
        that is gone, whose record could not be removed."""
        if self._records.goes(number):
            await self._records.write(number)


def _packed(lineage: Lineage) -> bytes:
    return text_of(lineage).encode()


def _unpacked(body: bytes) -> Lineage:
    return lineage_of(body.decode())


def _has_some(stream: Stream) -> bool:
    return stream.group is None and stream.config.mirror is None and not stream.config.sources
