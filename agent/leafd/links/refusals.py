"""Copies whose own stream refuses what they take: the disk is full, or a limit is reached.

    refused --wait_s()--> asked again --refused, nothing taken--> asked again, later
       |                      `--something taken--> as if nothing had been refused
       `--its stream is less full--> asked again after room_wait_s()

Each try makes a consumer at the origin, and brings messages over its line that are thrown away. So tries become fewer,
also those that follow a stream that has room now and then, where it is not the room that the copy needs. The news that
the store has room again ends the wait of all.

Not here: what is refused (native/jetstream/ingest.c), who waits (replica.py).
"""

from __future__ import annotations

from typing import Final

WAIT_S: Final = 2.0
WAIT_MAX_S: Final = 16.0
ROOM_WAIT_S: Final = 0.25
"""The wait for room: of a stream whose messages are taken out one by one, some have gone by then."""
Key = tuple[int, int]


class Refusals:
    """How often copies were refused in a row, by stream and slot."""

    def __init__(self) -> None:
        self._in_a_row: dict[Key, int] = {}

    def wait_s(self, key: Key, *, taken: bool) -> float:
        """How long a copy waits that was refused now. taken: something was stored since it was asked last."""
        before = 0 if taken else self._in_a_row.get(key, 0)
        self._in_a_row[key] = before + 1
        return float(min(WAIT_S * 2 ** min(before, 16), WAIT_MAX_S))

    def room_wait_s(self, key: Key, *, seldom: bool) -> float:
        """How long a copy waits whose stream is less full than when it refused it. seldom: a try costs much."""
        before = self._in_a_row.get(key, 1) - 1
        wait_s = (WAIT_S if seldom else ROOM_WAIT_S) * 2 ** min(before, 16)
        return float(min(wait_s, WAIT_MAX_S))

    def of(self, stream: int) -> list[Key]:
        """The copies of a stream that were refused last."""
        return [key for key in self._in_a_row if key[0] == stream]

    def forget(self, key: Key) -> None:
        """The copy has ended."""
        self._in_a_row.pop(key, None)

    def all(self) -> list[Key]:
        """All that were refused, from here on as if they had not been."""
        found = list(self._in_a_row)
        self._in_a_row.clear()
        return found
