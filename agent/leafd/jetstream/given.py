"""How much of each stream copies elsewhere may have been given, over restarts: a store that was put back from an old
copy, and started several times since, still knows which of its messages nobody can have.

    a start reads the record --began()--> up to there copies may have been given it, before this process
    a copy comes             --comes()--> "they are given messages", on the disk before the first of these

A record says up to where; or that copies are given messages, which is up to the stream's end, whatever that is when a
start finds it so. That start writes down where the end was, as nothing else is given until a copy comes. Where a record
cannot be written, the copy is served nevertheless, and it is written later: a crash before that may have the next start
take what the copy has for a newer store's, and say so.

Only streams have one that a copy has come to. Not here: what is said (passed_over.py), copies that acknowledge by flow
control, which say themselves how far they are (native/consume/copy.h), streams of several servers, whose disks are
copied from the others.
"""

from __future__ import annotations

import json
from typing import Final

from leafd.guard import Guard
from leafd.jetstream.catalogue import Stream
from leafd.jetstream.models.stream import MEMORY
from leafd.jetstream.stream_records import StreamRecords
from leafd.native_commands import Commands

GIVEN_RECORD: Final = b"given/"
RETRY_S: Final = 30.0
_GIVES: Final = -1
"""In place of a sequence: copies are given messages."""


class Given:
    """All streams of this server."""

    def __init__(self, plane: Commands, guard: Guard) -> None:
        self._records: StreamRecords[int] = StreamRecords(
            plane, guard, GIVEN_RECORD, "how much of a stream copies were given", RETRY_S, _packed, _unpacked
        )
        self.load, self.run = self._records.load, self._records.run

    def began(self, stream: Stream, last: int) -> int:
        """A stored stream is taken up, and ends there: up to where copies may have been given it."""
        upto = self._records.known.get(stream.id)
        if upto is None:
            return last
        if stream.group is not None:
            self.removed(stream.id)
            return last
        if upto != _GIVES:
            return min(upto, last)
        self._records.says(stream.id, last)
        return last

    async def comes(self, stream: Stream) -> None:
        """A copy elsewhere is about to be given messages."""
        upto = self._records.known.get(stream.id)
        kept_here = stream.group is None and stream.config.storage != MEMORY
        if upto == _GIVES or (upto is None and not kept_here):
            return
        self._records.says(stream.id, _GIVES)
        await self._records.write(stream.id)

    def removed(self, number: int) -> None:
        """The stream of that number is gone, or several servers keep it."""
        self._records.goes(number)


def _packed(upto: int) -> bytes:
    return b"null" if upto == _GIVES else str(upto).encode()


def _unpacked(body: bytes) -> int:
    upto = json.loads(body)
    return _GIVES if upto is None else int(upto)
