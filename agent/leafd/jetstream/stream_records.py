"""Records of streams, one each, that are written as soon as the disk takes them: at once where it does.

Not here: what such a record says (epochs.py, given.py), definitions of streams (catalogue.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.native_commands import Commands

_Said = TypeVar("_Said")


class StreamRecords(Generic[_Said]):
    """The records with one prefix. what: their content, for the log; retry_s: how long one waits for the next try."""

    def __init__(
        self,
        plane: Commands,
        guard: Guard,
        prefix: bytes,
        what: str,
        retry_s: float,
        packed: Callable[[_Said], bytes],
        unpacked: Callable[[bytes], _Said],
    ) -> None:
        self._plane, self._guard, self._prefix, self._what, self._retry_s = plane, guard, prefix, what, retry_s
        self._packed, self._unpacked = packed, unpacked
        self.known: dict[int, _Said] = {}
        """By the stream's number: what its record is to say."""
        self.unwritten: set[int] = set()
        """Streams whose record says something else, or is to be removed."""
        self._news = trio.Event()

    def load(self, key: bytes, value: bytes) -> None:
        """Takes over a record of the store, if it is one of these; only at the start."""
        if key.startswith(self._prefix):
            with self._guard.around(f"reading {self._what}"):
                self.known[int.from_bytes(key[len(self._prefix) :], "big")] = self._unpacked(value)

    def says(self, number: int, said: _Said) -> None:
        """The record of that stream is to say this."""
        self.known[number] = said
        self._differs(number)

    def goes(self, number: int) -> bool:
        """The record of that stream is to be removed. False: it has none."""
        if self.known.pop(number, None) is None:
            return False
        self._differs(number)
        return True

    def _differs(self, number: int) -> None:
        self.unwritten.add(number)
        self._news.set()

    def room(self) -> None:
        """The store has room again."""
        self._news.set()

    async def run(self) -> None:
        """Writes what is left to write."""
        while True:
            if not self.unwritten:
                await self._news.wait()
            self._news = trio.Event()
            with self._guard.around(f"writing {self._what}"):
                for number in list(self.unwritten):
                    await self.write(number)
            if self.unwritten:
                with trio.move_on_after(self._retry_s):
                    await self._news.wait()

    async def write(self, number: int) -> None:
        """Later, where that cannot be done now."""
        said = self.known.get(number)
        body = b"" if said is None else self._packed(said)
        with suppress(t.PlaneError):  # a disk without room, which says so itself
            await self._plane.record_put(self._prefix + number.to_bytes(4, "big"), body)
            if self.known.get(number) == said:
                self.unwritten.discard(number)
