"""Connections that have to do something within a time, all with the same patience: whoever came first is looked at
first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import trio

from leafd.guard import Guard

GRAIN_S: Final = 0.02
AT_ONCE: Final = 256
"""So many are looked at every so often: thousands may be due one right after the other."""


class Deadlines:
    """add() starts the clock of a connection; expired() is called when it has run out, whatever became of the
    connection."""

    def __init__(self, expired: Callable[[int], None], guard: Guard | None = None) -> None:
        self._expired = expired
        self._guard = guard or Guard()
        self._waiting: deque[tuple[float, int]] = deque()
        self._wake = trio.Event()

    def add(self, connection: int, timeout_s: float) -> None:
        """timeout_s may change with a reload; a shorter one then waits behind the longer ones before it."""
        self._waiting.append((trio.current_time() + timeout_s, connection))
        if len(self._waiting) == 1:
            self._wake.set()

    async def run(self) -> None:
        """Calls expired() in time, for ever. Cancel to end it."""
        while True:
            while self._waiting:
                await trio.sleep_until(max(self._waiting[0][0], trio.current_time() + GRAIN_S))
                self._expire()
            self._wake = trio.Event()
            await self._wake.wait()

    def _expire(self) -> None:
        now = trio.current_time()
        for _ in range(AT_ONCE):
            if not self._waiting or self._waiting[0][0] > now:
                return
            _, connection = self._waiting.popleft()
            with self._guard.around("a login's deadline"):
                self._expired(connection)
