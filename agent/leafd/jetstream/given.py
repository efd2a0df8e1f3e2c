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
from contextlib import suppress
from typing import Final

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.jetstream.catalogue import Stream
from leafd.jetstream.models.stream import MEMORY
from leafd.native_commands import Commands

GIVEN_RECORD: Final = b"given/"
RETRY_S: Final = 30.0
_GIVES: Final = -1
"""In place of a sequence: copies are given messages."""


class Given:
    """All streams of this server."""

    def __init__(self, plane: Commands, guard: Guard) -> None:
        self._plane, self._guard = plane, guard
        self._known: dict[int, int] = {}
        """By the stream's number: what its record is to say."""
        self._unwritten: set[int] = set()
        """Streams whose record says something else, or is to be removed."""
        self._news = trio.Event()

    def load(self, key: bytes, value: bytes) -> None:
        """Takes over a record of the store, if it is one of these; only at the start."""
        if not key.startswith(GIVEN_RECORD):
            return
        with self._guard.around("reading how much of a stream copies were given"):
            upto = json.loads(value)
            self._known[int.from_bytes(key[len(GIVEN_RECORD) :], "big")] = _GIVES if upto is None else int(upto)

    def began(self, stream: Stream, last: int) -> int:
        """A stored stream is taken up, and ends there: up to where copies may have been given it."""
        upto = self._known.get(stream.id)
        if upto is None:
            return last
        if stream.group is not None:
            self.removed(stream.id)
            return last
        if upto != _GIVES:
            return min(upto, last)
        self._says(stream.id, last)
        return last

    async def comes(self, stream: Stream) -> None:
        """A copy elsewhere is about to be given messages."""
        upto = self._known.get(stream.id)
        kept_here = stream.group is None and stream.config.storage != MEMORY
        if upto == _GIVES or (upto is None and not kept_here):
            return
        self._says(stream.id, _GIVES)
        await self._write(stream.id)

    def removed(self, number: int) -> None:
        """The stream of that number is gone, or several servers keep it."""
        if self._known.pop(number, None) is not None:
            self._unwritten.add(number)
            self._news.set()

    def _says(self, number: int, upto: int) -> None:
        self._known[number] = upto
        self._unwritten.add(number)
        self._news.set()

    async def run(self) -> None:
        """Writes what began() and removed() leave to write, and what could not be written when a copy came."""
        while True:
            if not self._unwritten:
                await self._news.wait()
            self._news = trio.Event()
            with self._guard.around("writing how much of a stream copies were given"):
                for number in list(self._unwritten):
                    await self._write(number)
            if self._unwritten:
                with trio.move_on_after(RETRY_S):
                    await self._news.wait()

    async def _write(self, number: int) -> None:
        """Later, where that cannot be done now."""
        upto = self._known.get(number)
        body = b"" if upto is None else b"null" if upto == _GIVES else str(upto).encode()
        with suppress(t.PlaneError):
            await self._plane.record_put(GIVEN_RECORD + number.to_bytes(4, "big"), body)
            if self._known.get(number) == upto:
                self._unwritten.discard(number)
