"""Streams that were put back from an old copy of their store, and of which a copy elsewhere passes over messages.

A copy that is no leafd's looks at nothing but sequences: what a stream that was put back stores under those that the
copy has of the newer store, the copy takes for what it has. That is an alarm from when it is known until the stream
has come past these sequences, and has no message of them any more: its owner saved them, and purged the stream.

    told() --row--> run() writes it down, and looks every LOOK_S seconds whether that is over
              `---> texts(), for people, look as well

A row is a record of the store, so that a restart keeps it, and an image of the disk has it. Not here: how that is found
out (endpoints/consumers.py, given.py, native/consume/copy.h), streams of several servers, whose disks are copied from
the others.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.jetstream.catalogue import Catalogue, Stream
from leafd.jetstream.epochs import Epochs
from leafd.jetstream.given import Given
from leafd.native_commands import Commands
from leafd.operator_log import Log
from leafd.records import dataclass

PASSED_RECORD: Final = b"passed-over/"
LOOK_S: Final = 30.0
_EVENT: Final = "put_back_behind_copy"


@dataclass(slots=True)
class _Row:
    """One stream."""

    had: int
    """The stream's last sequence when it was put back, as far as that is known: it may have been lower, .."""
    certain: bool
    """.. if this is not set."""
    taken: int
    """The last sequence that the copy has of the newer store."""
    written: bool = False


class PassedOver:
    """All of them at this server."""

    def __init__(self, plane: Commands, catalogue: Catalogue, log: Log, guard: Guard) -> None:
        self._plane, self._catalogue, self._log, self._guard = plane, catalogue, log, guard
        self.given = Given(plane, guard)
        self.epochs = Epochs(plane, guard)
        self._rows: dict[int, _Row] = {}
        """By the stream."""
        self._gone: list[int] = []
        """Streams whose record is still to be removed."""
        self._news = trio.Event()

    def load(self, key: bytes, value: bytes) -> None:
        """Takes over a record of the store, if it is of one of these; only at the start."""
        self.given.load(key, value)
        self.epochs.load(key, value)
        if not key.startswith(PASSED_RECORD):
            return
        with self._guard.around("reading which messages of a stream copies pass over"):
            had, taken, certain = json.loads(value)
            number = int.from_bytes(key[len(PASSED_RECORD) :], "big")
            self._rows[number] = _Row(int(had), bool(certain), int(taken), written=True)

    def told(self, stream: Stream, taken: int, had: int, *, certain: bool) -> None:
        """A copy elsewhere has the stream up to `taken`, and this store gave it no more than up to `had`."""
        before = self._rows.get(stream.id)
        if before is None:
            self._rows[stream.id] = _Row(had, certain, taken)
        elif had < before.had or taken > before.taken:
            certain = certain if had < before.had else before.certain
            self._rows[stream.id] = _Row(min(had, before.had), certain, max(taken, before.taken))
        self._news.set()
        if not stream.told_put_back:
            stream.told_put_back = True
            self._log.warning(
                f"{stream.config.name} was given to a copy elsewhere up to sequence {taken}, and not by this store: it"
                " was put back to an earlier state, and what has these sequences now stays here",
                event=_EVENT,
                account=stream.account.name,
                stream=stream.config.name,
            )

    async def texts(self) -> list[str]:
        """One for each stream."""
        return [text for number in list(self._rows) if (text := await self._look(number))]

    async def run(self) -> None:
        """Writes down what is told, and notices when it is over."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.given.run)
            nursery.start_soon(self.epochs.run)
            await self._watch()

    async def _watch(self) -> None:
        while True:
            if not self._rows and not self._gone:
                await self._news.wait()
            self._news = trio.Event()
            with self._guard.around("looking at messages that copies pass over"):
                await self.write()
                await self.texts()
            with trio.move_on_after(LOOK_S):
                await self._news.wait()

    async def write(self) -> None:
        """Writes and removes records; later, where that cannot be done now."""
        with suppress(t.PlaneError):
            while self._gone:
                await self._plane.record_put(_key(self._gone[-1]), b"")
                self._gone.pop()
            for number, row in list(self._rows.items()):
                if not row.written:
                    body = json.dumps([row.had, row.taken, row.certain]).encode()
                    await self._plane.record_put(_key(number), body)
                    row.written = True

    async def _look(self, number: int) -> str:
        """The words about that stream. Empty: it is over, or the stream is not served now."""
        stream, row = self._catalogue.stream(number), self._rows.get(number)
        if stream is None or row is None:
            return ""  # of an account that is away, perhaps
        try:
            state = await self._plane.stream_state(number)
            first = await self._plane.message_get(number, t.Query.NEXT_BY_SUBJECT, sequence=row.had + 1, subject=">")
        except t.PlaneError:
            return _text(stream, row, None)  # it cannot be read now
        here = 0
        if first is not None and first.sequence <= row.taken:
            here = min(min(state.last_seq, row.taken) - first.sequence + 1, state.messages)
        if here or state.last_seq < row.taken:
            return _text(stream, row, here)
        if self._rows.get(number) is row:
            self._forget(number)
            self._log.info(
                f"{stream.config.name} is past sequence {row.taken}, and has nothing more that a copy elsewhere passed"
                " over",
                event=_EVENT,
                account=stream.account.name,
                stream=stream.config.name,
            )
        return ""

    async def began(self, stream: Stream, last: int, *, stored: bool) -> None:
        """A stream is taken up and ends there, or it is another one from now on. stored: an earlier process has it."""
        if stored:
            stream.given_upto = self.given.began(stream, last)
        await self.epochs.began(stream, last, stored=stored)

    async def removed(self, number: int) -> None:
        """The stream of that number is gone, or one is about to be made. What could not be removed of one that is gone
        would be that of the other: a start gives a number once more if no stream has it."""
        self.given.removed(number)
        self._forget(number)
        await self.epochs.removed(number)

    def _forget(self, number: int) -> None:
        if self._rows.pop(number, None) is not None:
            self._gone.append(number)
            self._news.set()


def _key(stream: int) -> bytes:
    return PASSED_RECORD + stream.to_bytes(4, "big")


def _text(stream: Stream, row: _Row, here: int | None) -> str:
    """here: messages of these sequences that the stream has; None: that is not known."""
    name = stream.config.name
    first = row.had + 1
    which = f"{first:,} to {row.taken:,}" if row.certain else f"up to {row.taken:,}, from {first:,} at the latest"
    if here is None:
        count = "how many it has of these is not known"
    elif row.certain:
        count = f"{here:,} of these are here"
    else:
        count = f"{here:,} of these are here, and it is not known how many before"
    return (
        f"stream {name} of account {stream.account.name} was put back from an older copy, and a hub that is no leafd "
        f"passes over its sequences {which}: {count}; save them, then nats stream purge {name} --seq {row.taken + 1} "
        "--force, and publish them once more"
    )
