"""Shares of `memory_limit` that the control thread draws on: what it makes for somebody and holds until he has it, and
what has come in parts and is not whole yet.

    async with holding.take(bytes):     waits, in the order of asking, until there is room
    contested.hold(holder, bytes)       so much he has now; the holder of the most gives way to the others

One alone may take more than the share: what has to be made at all is made alone then, or beside small ones. The sizes
are the askers' estimates. Not here: how large the shares are (native/plane/memory.c).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final, Protocol

import trio

SMALL: Final = 64 << 10
"""Anything up to this size need not ask, if its number is bounded otherwise."""


class Holding:
    """The share. limit 0: no bound."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.used = 0
        self._line = trio.Lock()
        self._freed = trio.Event()

    @property
    def crowded(self) -> bool:
        """Whether somebody waits for room."""
        return self._line.locked()

    def room(self, size: int) -> AbstractAsyncContextManager[None]:
        """As take(); what is small has room at once."""
        return self.take(size) if size > SMALL else nullcontext()

    @asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[None]:
        """Room for that much, until the block is left."""
        async with self._line:
            while self.limit and self.used and self.used + size > self.limit:
                self._freed = trio.Event()
                await self._freed.wait()
            self.used += size
        try:
            yield
        finally:
            self.used -= size
            self._freed.set()


class Holder(Protocol):
    """A holder of a part of a contested share."""

    def give_way(self) -> None:
        """Asks the holder to give up its part, which is not counted any more."""


class Contested:
    """A share whose holders grow bit by bit: they cannot wait for each other, so the one with the most gives way as
    soon as the others have more than all of it. What is needed for a moment only is not counted: one at a time has it,
    in its turn. alone: what a holder should have at most of what it can do without. 0: no bound."""

    def __init__(self, limit: int = 0, *, alone: int = 0) -> None:
        self.limit = limit
        self.alone = alone
        self.used = 0
        self._held: dict[Holder, int] = {}
        self._turns = trio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Gives one holder the turn until the block is left; where no other has it, this does not wait, not even a
        moment. Where nobody has, this does not wait, not even a moment."""
        try:
            self._turns.acquire_nowait()
        except trio.WouldBlock:
            await self._turns.acquire()
        try:
            yield
        finally:
            self._turns.release()

    async def away(self, seconds: float) -> None:
        """In one's turn: others have theirs for that long."""
        self._turns.release()
        try:
            await trio.sleep(seconds)
        finally:
            with trio.CancelScope(shield=True):
                await self._turns.acquire()

    def hold(self, holder: Holder, size: int) -> None:
        """So much he has now, in all; 0: nothing any more."""
        self.used += size - self._held.pop(holder, 0)
        if size:
            self._held[holder] = size
        while self.limit and self.used > self.limit:
            most = max(self._held, key=self._held.__getitem__)
            if self.used - self._held[most] <= self.limit:
                return
            self.used -= self._held.pop(most)
            most.give_way()
