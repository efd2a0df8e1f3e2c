"""Copies whose own stream refuses what they take: the disk is full, or a limit is reached.

    refused --wait_s()--> asked again --refused, nothing taken--> asked again, later
                              `--something taken--> as if nothing had been refused

Each try makes a consumer at the origin, and brings messages over its line that are thrown away. So tries become fewer,
and the news that there is room again ends the wait of all.

Not here: what is refused (native/jetstream/ingest.c), who waits (replica.py).
"""

from __future__ import annotations

from typing import Final

WAIT_S: Final = 2.0
WAIT_MAX_S: Final = 16.0
"""Also what goes by when somebody gives a stream another limit, which nothing tells."""
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

    def forget(self, key: Key) -> None:
        """The copy has ended."""
        self._in_a_row.pop(key, None)

    def all(self) -> list[Key]:
        """All that were refused, from here on as if they had not been."""
        found = list(self._in_a_row)
        self._in_a_row.clear()
        return found
