"""How long logins may take: clients, leaf nodes and the visitors of the WebSocket listener alike.

    add() -- 2 s --> not through: patient --- the rest of its time ---> ended, and looked at again
         `-- its time, where that is short or the peer is near -------> the same

A peer that is not through within two seconds may be far away, or a stranger who holds a place. So the slow ones are
bounded by number (the first of them goes), then by time. What a login waits for when its time is over decides what
becomes of it:

| it waits for                                   | ended | looked at again                           |
|------------------------------------------------|-------|-------------------------------------------|
| PEER: the peer, which has not said who it is   | yes   | yes: the plane keeps a peer whose CONNECT |
|                                                |       | has come, of which control hears later    |
| US: a look at what the peer has said, a check, | no    | yes: a peer that is refused and stays     |
| a service or a reload                          |       | silent has no more time than others       |
| NOTHING: it is logged in, or gone              | no    | no                                        |

Not here: who may log in. Servers that join a cluster have another bound (links/servers.py).
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable
from typing import Final, NamedTuple

import trio

from leafd.guard import Guard

AUTHENTICATION_TIMEOUT: Final = "Authentication Timeout"
GRAIN_S: Final = 0.02
AT_ONCE: Final = 256
"""So many are looked at every so often: thousands may be due one right after the other."""
AT_ONCE_S: Final = 2.0
"""A peer that is near has logged in by then."""
PATIENT_MAX: Final = 1024
"""So many slow logins of a kind may take all the time that a login has: those who came last."""
COUNTED_S: Final = 1.0
"""Slow logins are counted anew this often at most."""


class Awaits(enum.Enum):
    """The things that a login may wait for (the table at the head of this file)."""

    PEER = enum.auto()
    US = enum.auto()
    NOTHING = enum.auto()


class _Due(NamedTuple):
    """The fate of a login whose time is over."""

    ends: bool
    again: bool


_DUE: Final = {
    Awaits.PEER: _Due(ends=True, again=True),
    Awaits.US: _Due(ends=False, again=True),
    Awaits.NOTHING: _Due(ends=False, again=False),
}
_Look = Callable[[int], None]


class LoginTimes:
    """The clocks of all logins of one kind."""

    def __init__(
        self,
        awaits: Callable[[int], Awaits],
        end: Callable[[int, str], None],
        guard: Guard,
        patient_max: int = PATIENT_MAX,
    ) -> None:
        """awaits: what the login of a connection waits for; end: ends the connection, and says why."""
        self._awaits, self._end, self._guard = awaits, end, guard
        self._patient_max = patient_max
        self._patience_s = AT_ONCE_S
        self._patient: dict[int, None] = {}
        self._counted_s = 0.0
        self._looks: list[tuple[float, int, int, _Look]] = []
        """A heap of the coming looks: when, their order, the connection, the look."""
        self._count = 0
        self._wake = trio.Event()

    def add(self, connection: int, timeout_s: float, *, patient: bool) -> None:
        """Its time begins. patient: the peer may be far away. A reload may change timeout_s for the next ones."""
        if not patient or timeout_s <= AT_ONCE_S:
            self._look(connection, timeout_s, self._time_over)
            return
        self._patience_s = timeout_s
        self._look(connection, AT_ONCE_S, self._not_at_once)

    async def run(self) -> None:
        """Ends those whose time is over, for ever. Cancel to end it."""
        while True:
            self._wake = trio.Event()
            first_s = self._looks[0][0] if self._looks else float("inf")
            with trio.move_on_at(first_s):
                await self._wake.wait()
                continue
            self._look_now()
            await trio.sleep(GRAIN_S)

    def _look(self, connection: int, seconds: float, look: _Look) -> None:
        self._count += 1
        entry = (trio.current_time() + seconds, self._count, connection, look)
        heapq.heappush(self._looks, entry)
        if self._looks[0] is entry:
            self._wake.set()

    def _look_now(self) -> None:
        now_s = trio.current_time()
        for _ in range(AT_ONCE):
            if not self._looks or self._looks[0][0] > now_s:
                return
            _, _, connection, look = heapq.heappop(self._looks)
            with self._guard.around("a login's deadline"):
                look(connection)

    def _not_at_once(self, connection: int) -> None:
        awaits = self._awaits(connection)
        if awaits is Awaits.PEER:
            self._make_place()
            self._patient[connection] = None
            self._look(connection, self._patience_s - AT_ONCE_S, self._time_over)
        elif _DUE[awaits].again:
            self._look(connection, AT_ONCE_S, self._not_at_once)

    def _make_place(self) -> None:
        """Ends the first of the slow logins when there are too many."""
        if len(self._patient) < self._patient_max:
            return
        now_s = trio.current_time()
        if now_s >= self._counted_s + COUNTED_S:
            self._counted_s = now_s
            self._patient = {one: None for one in self._patient if self._awaits(one) is Awaits.PEER}
        while len(self._patient) >= self._patient_max:
            self._finish(next(iter(self._patient)))

    def _time_over(self, connection: int) -> None:
        if self._finish(connection):
            self._look(connection, AT_ONCE_S, self._time_over)

    def _finish(self, connection: int) -> bool:
        """Ends a login that still waits for its peer. Whether the connection is to be looked at again."""
        self._patient.pop(connection, None)
        due = _DUE[self._awaits(connection)]
        if due.ends:
            self._end(connection, AUTHENTICATION_TIMEOUT)
        return due.again
