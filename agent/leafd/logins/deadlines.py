"""Connections that have to do something within a time, all with the same patience: whoever came first is looked at
first. And logins, of which devices may be far away."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import trio

from leafd.guard import Guard

AUTHENTICATION_TIMEOUT: Final = "Authentication Timeout"
GRAIN_S: Final = 0.02
AT_ONCE: Final = 256
"""So many are looked at every so often: thousands may be due one right after the other."""
AT_ONCE_S: Final = 2.0
"""A client that is near has logged in by then."""
PATIENT_MAX: Final = 1024
"""So many devices that are not may take all the time that a login has: those who came last."""


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


class LoginTimes:
    """How long logins may take. Of devices that are not through at once some may be far away, and others strangers who
    hold a place: so these are bounded by number, then by time."""

    def __init__(self, waits: Callable[[int], bool], end: Callable[[int, str], None], guard: Guard) -> None:
        """waits: whether that connection is not through yet; end: ends it, and says why."""
        self._waits, self._end = waits, end
        self._deadlines, self._late = Deadlines(self._too_late, guard), Deadlines(self._too_late, guard)
        self._early = Deadlines(self._not_at_once, guard)
        self._patient: dict[int, None] = {}
        self._patience_s = AT_ONCE_S

    def add(self, connection: int, timeout_s: float, *, patient: bool) -> None:
        """Its time begins. patient: it may be far away."""
        if not patient:
            self._deadlines.add(connection, timeout_s)
            return
        self._patience_s = timeout_s
        self._early.add(connection, AT_ONCE_S)

    async def run(self) -> None:
        """Ends those whose time is over, for ever. Cancel to end it."""
        async with trio.open_nursery() as nursery:
            for one in (self._deadlines, self._early, self._late):
                nursery.start_soon(one.run)

    def _not_at_once(self, connection: int) -> None:
        if not self._waits(connection):
            return
        while len(self._patient) >= PATIENT_MAX:
            self._too_late(next(iter(self._patient)))  # or it is through by now
        self._patient[connection] = None
        self._late.add(connection, self._patience_s - AT_ONCE_S)

    def _too_late(self, connection: int) -> None:
        self._patient.pop(connection, None)
        if self._waits(connection):
            self._end(connection, AUTHENTICATION_TIMEOUT)
