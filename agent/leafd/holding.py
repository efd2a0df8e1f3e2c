"""A share of `memory_limit` that the control thread draws on: what it makes for somebody and holds until he has it.

    async with holding.take(bytes):     waits, in the order of asking, until there is room

One alone may take more than the share: what has to be made at all is made alone then. The sizes are estimates of
whoever asks, made before anything is. What does not live here: how large the share is (native/plane/memory.c).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final

import trio

SMALL: Final = 64 << 10
"""What is no larger than that need not ask, if its number is bounded otherwise."""


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
