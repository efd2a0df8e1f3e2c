"""The budgets of links: what each has carried and may still carry in days, months and times of the day, for the plane,
which counts.

    limits (configuration) --+
    ledger (record) ---------+--> Room --budget()--> plane: so many bytes more, by rank; a pace
                             ^                          |
                             +----- EVENT_CARRIED, CLOSED: bytes on the wire since the connection began

A link here is not a connection: a hub that is dialled, by its addresses and account, or a leaf that dials, by its name,
account and account there. What it has used outlives connections, reloads and restarts: a record of 150 bytes, written
when a hundredth of the budget more was used (which it says beforehand, so that what a power cut takes away counts as
used), once an hour, and at the end. Bytes from before a login count for a hub that is dialled.

Not here: whether a day has ended (ledger.py), how much is left for whom (limits.py), what waits and goes
first (native/plane/lanes.h).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from hashlib import blake2b
from typing import Any, Final

import trio

from leafd import native_types as t
from leafd.guard import Guard
from leafd.links.ledger import Calendar, Ledger, Passage, stamp_of
from leafd.links.limits import ANY, HIGH, NONE, NORMAL, Limits, Room, room
from leafd.native_connections import Connections
from leafd.operator_log import Log
from leafd.records import dataclass
from leafd.turns import Pause

RECORD: Final = b"budget/"
RESTING_MAX: Final = 16_384
"""Leaves that have gone of which it is remembered what they used, in memory and on the disk; those that have gone
longest are forgotten, and as leaves choose their names there are fewer where .."""
LEAVING_MAX: Final = 1_024
""".. So many go between two rounds of records: with more of them, what the first ones used is known until a restart."""
RESTING_BYTES: Final = 8192
""".. memory_limit has not so many bytes for each."""
TURN_S: Final = 30.0
WRITE_EACH_S: Final = 3600.0
WRITE_AGAIN_S: Final = 5.0
OLD_S: Final = 64 * 86_400.0
AGAIN_S: Final = 600.0
"""The part kept for a quiet link gets less as the day goes: so often are waiting messages judged again."""
NO_BUDGET: Final = t.Budget(ANY, ANY, ANY, ANY, ANY, 0)
_WAITS: Final = {
    NORMAL: "bulk waits",
    HIGH: "all waits but what is urgent or has priority",
    NONE: "all waits: the link only stays up",
}


class Clock:
    """The time on the wall, and seconds that pass whatever becomes of that, also while the machine sleeps."""

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since the machine's start."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class _Book:
    """The book of one link."""

    key: bytes
    name: str
    limits: Limits
    ledger: Ledger
    dialled: bool
    connections: dict[int, int]
    """Connections that are up, with their bytes that were counted."""
    unwritten: int = 0
    """Bytes since the last record."""
    ahead: bool = False
    """The record counts more than was used."""
    written_s: float = 0.0
    sent: tuple[Room, int, str] | None = None
    sent_s: float = 0.0
    goes: str = ""
    told_s: float = 0.0


def key_of(*parts: str) -> bytes:
    """The key by which a link is known: not longer than a record's key may be, whatever its parts are."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=12).hexdigest().encode()


class Budgets:
    """All links with limits. run() is to run as long as there are any."""

    def __init__(
        self,
        plane: Connections,
        log: Log,
        guard: Guard,
        *,
        put: Callable[[bytes, bytes], Awaitable[None]] | None = None,
        clock: Clock | None = None,
        resting_max: int = RESTING_MAX,
    ) -> None:
        self._plane, self._log, self._guard, self._put = plane, log, guard, put
        self._clock = clock or Clock()
        self._resting_max = resting_max
        self._leaving: dict[bytes, None] = {}
        """Leaves that have gone whose records are not written yet, those first that went first. .."""
        self._forgotten: list[bytes] = []
        """Whose records have still to be removed."""
        self._passage = Passage(self._clock.wall(), self._clock.elapsed())
        self._books: dict[bytes, _Book] = {}
        self._by_connection: dict[int, _Book] = {}
        self._resting: dict[bytes, bytes | tuple[Ledger, float]] = {}
        """Budgets of links that are not there: as the store has it, or since when."""
        self._seen: dict[int, int] = {}
        """Connections that are up without limits, and what had been counted of them when they had some."""
        self._wake = trio.Event()
        self.on_change: Callable[[Iterable[int], str], None] = lambda connections, goes: None
        """Is told what may go over these connections from now on, or when they are new."""

    # ---- what is known from before

    def load_record(self, key: bytes, value: bytes) -> None:
        """A record of the store, before anything else."""
        if key.startswith(RECORD):
            self._resting[key.removeprefix(RECORD)] = value

    def _ledger(self, key: bytes, calendar: Calendar) -> Ledger:
        wall, elapsed = self._clock.wall(), self._clock.elapsed()
        found = self._resting.pop(key, None)
        if isinstance(found, bytes):
            with self._guard.around("reading the record of a budget"):
                return Ledger.read(found, calendar, wall)
        if isinstance(found, tuple):
            ledger, since = found
            ledger.turn(wall, elapsed - since)
            ledger.reckon_by(calendar, wall)
            return ledger
        return Ledger(calendar, wall)

    # ---- links and their limits

    def limit(self, key: bytes, name: str, limits: Limits | None, *, dialled: bool) -> None:
        """Sets the limits of a link, whether it is up or not; None: no limits."""
        book = self._books.get(key)
        if limits is None:
            self._drop(book)
            return
        if book is None:
            book = self._books[key] = _Book(key, name, limits, self._ledger(key, limits.calendar), dialled, {})
            book.written_s = self._clock.elapsed()
        elif book.limits == limits:
            return
        book.limits = limits
        book.ledger.reckon_by(limits.calendar, self._clock.wall())
        self._send(book)

    def _drop(self, book: _Book | None) -> None:
        if book is None:
            return
        for connection, wire in book.connections.items():
            self._seen[connection] = wire
            self._by_connection.pop(connection, None)
            self._plane.budget(connection, NO_BUDGET)
        book.connections.clear()
        self._rest(book)

    def _rest(self, book: _Book) -> None:
        """Closes a book that is not needed now; its use is remembered."""
        del self._books[book.key]
        self._leaving.pop(book.key, None)
        self._resting[book.key] = (book.ledger, self._clock.elapsed())
        self._forget()

    def _forget(self) -> None:
        while len(self._resting) > self._resting_max:
            oldest = next(iter(self._resting))
            del self._resting[oldest]
            if self._put is not None:
                self._forgotten.append(oldest)

    def accepted(self) -> list[bytes]:
        """The keys of leaves that dial us."""
        return [book.key for book in self._books.values() if not book.dialled]

    def up(self, key: bytes, connection: int) -> None:
        """A connection of that link was admitted."""
        book = self._books.get(key)
        if book is not None:
            self._leaving.pop(key, None)
            book.connections.setdefault(connection, self._seen.pop(connection, 0))
            self._by_connection[connection] = book
            before = book.goes
            self._send(book)
            if book.goes == before and before in _WAITS:
                self.on_change((connection,), before)

    def carried(self, event: t.Carried) -> None:
        """The plane has counted so far."""
        book = self._by_connection.get(event.connection)
        if book is not None:
            self._count(book, event.connection, event.wire)
            now_s = self._clock.elapsed()
            self._send(book, seldom=now_s - book.told_s < 1.0)
            book.told_s = now_s

    def closed(self, key: bytes, connection: int, wire: int) -> None:
        """A connection of that link has ended, and has carried so much; one that was not up, too."""
        self._seen.pop(connection, None)
        book = self._by_connection.pop(connection, None) or self._books.get(key)
        if book is None:
            return
        self._count(book, connection, wire)
        del book.connections[connection]
        if not book.dialled and not book.connections:
            self._to_write(book, at_least=1)
            self._leaving[book.key] = None
            while len(self._leaving) > LEAVING_MAX:
                self._rest(self._books[next(iter(self._leaving))])  # without a record

    def _count(self, book: _Book, connection: int, wire: int) -> None:
        before = book.connections.get(connection, 0)
        book.connections[connection] = max(wire, before)
        if wire > before:
            book.ledger.spend(wire - before)
            book.unwritten += wire - before
            self._to_write(book, at_least=book.limits.grain)

    # ---- what the plane is told

    def _send(self, book: _Book, *, seldom: bool = False) -> None:
        """seldom: it carries so much at a time that it is enough to hear of it less often."""
        pace, only = book.limits.now(self._clock.wall())
        left = room(book.limits, book.ledger, only)
        now_s = self._clock.elapsed()
        self._tell(book, left.goes)
        book.sent_s = now_s
        book.sent = left, pace, only
        step = min(book.limits.grain * (8 if seldom else 1), left.next) if book.limits.counted else ANY
        for connection, wire in book.connections.items():
            high, normal, low, tell = (_upto(wire, one) for one in (left.high, left.normal, left.low, step))
            self._plane.budget(connection, t.Budget(high, high, normal, low, tell, pace))

    def _tell(self, book: _Book, goes: str) -> None:
        if goes == book.goes:
            return
        before, book.goes = book.goes, goes
        if before or goes in _WAITS:
            self.on_change(tuple(book.connections), goes)
        what = _WAITS.get(goes, "nothing waits for it")
        if goes in _WAITS and book.dialled:
            self._log.warning(f"the budget of the link {book.name}: {what}", event="budget", link=book.name)
        elif goes in _WAITS or before:
            self._log.info(f"the budget of the link {book.name}: {what}", event="budget", link=book.name)

    # ---- time

    async def run(self) -> None:
        """Goes on for ever. Cancel to end it."""
        await self._forget_old()
        while True:
            with trio.move_on_after(TURN_S - self._clock.wall() % TURN_S):
                await self._wake.wait()
            await self.turn()
            await self.write()
            await trio.sleep(WRITE_AGAIN_S)

    async def turn(self) -> None:
        """Time has passed."""
        wall, elapsed = self._clock.wall(), self._clock.elapsed()
        passed, jumped = self._passage.step(wall, elapsed)
        pause = Pause()
        for book in list(self._books.values()):
            await pause()
            if book.key not in self._books:
                continue
            anew = book.ledger.turn(wall, passed, jumped=jumped)
            other_hours = book.sent is None or book.sent[1:] != book.limits.now(wall)
            if anew or other_hours or (book.goes in _WAITS and elapsed - book.sent_s >= AGAIN_S):
                self._send(book)
            gone = not book.dialled and not book.connections
            if not gone and (anew or elapsed - book.written_s >= WRITE_EACH_S):
                self._to_write(book, at_least=0)
            if gone and not (book.unwritten and book.limits.counted):
                self._rest(book)

    # ---- records

    def _to_write(self, book: _Book, *, at_least: int) -> None:
        if self._put is not None and book.limits.counted and book.unwritten >= at_least:
            book.unwritten = max(book.unwritten, book.limits.grain)
            self._wake.set()
        elif self._put is None:
            book.unwritten = 0

    async def write(self, *, last: bool = False) -> None:
        """Writes the ledgers that have to be on the disk. last: all of it, as it is."""
        self._wake = trio.Event()
        for book in list(self._books.values()):
            due = book.unwritten or book.ahead if last else book.unwritten >= book.limits.grain
            if self._put is None or not book.limits.counted or not due:
                continue
            book.ahead = bool(book.connections) and not last
            book.unwritten, book.written_s = 0, self._clock.elapsed()
            with self._guard.around("writing the record of a budget"):
                await self._put(RECORD + book.key, book.ledger.record(book.limits.grain if book.ahead else 0))
        await self._remove_forgotten()

    async def _forget_old(self) -> None:
        """Records of links that have not been there for so long that a month has ended, and the oldest of too many."""
        stamps = {key: stamp_of(value) for key, value in self._resting.items() if isinstance(value, bytes)}
        for key in sorted(stamps, key=stamps.__getitem__):
            if self._clock.wall() - stamps[key] > OLD_S or len(self._resting) > self._resting_max:
                del self._resting[key]
                self._forgotten.append(key)
        await self._remove_forgotten()

    async def _remove_forgotten(self) -> None:
        forgotten, self._forgotten = self._forgotten, []
        for key in forgotten:
            if self._put is not None and key not in self._books and key not in self._resting:
                with self._guard.around("removing the record of a budget"):
                    await self._put(RECORD + key, b"")

    def take(self, rows: Iterable[t.ConnectionRow]) -> None:
        """Takes the bytes that connections have carried by now."""
        for row in rows:
            book = self._by_connection.get(row.connection)
            if book is not None:
                self._count(book, row.connection, row.wire)

    # ---- reports

    def goes(self, connection: int) -> str:
        """The traffic that may go over a connection; empty: its link has no limits."""
        book = self._by_connection.get(connection)
        return "" if book is None else book.goes

    def report(self, connection: int, wire: int) -> dict[str, Any] | None:
        """The report on the link of a connection that has carried so much; None: it has no limits."""
        book = self._by_connection.get(connection)
        if book is None:
            return None
        self._count(book, connection, wire)
        return self._reported(book)

    def report_of(self, key: bytes) -> dict[str, Any] | None:
        """The report on a link, up or not."""
        book = self._books.get(key)
        return None if book is None else self._reported(book)

    def _reported(self, book: _Book) -> dict[str, Any]:
        limits, ledger, wall = book.limits, book.ledger, self._clock.wall()
        pace, only = limits.now(wall)
        since = self._passage.since(self._clock.elapsed())
        found: dict[str, Any] = {
            name: {
                "limit": limit,
                "used": period.used,
                "left": max(limit - period.used, 0),
                "anew": limits.calendar.local(round(wall + max(period.left - since, 0.0))).isoformat(),
                "anew_in": round(max(period.left - since, 0.0) * 1e9),
            }
            for name, limit, period in (("day", limits.per_day, ledger.day), ("month", limits.per_month, ledger.month))
            if limit
        }
        return found | {"goes": room(limits, ledger, only).goes, "bytes_per_second": pace or None}


def _upto(wire: int, more: int) -> int:
    return ANY if more >= ANY - wire else wire + more if more else 0
