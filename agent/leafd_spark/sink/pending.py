"""Numbers of messages that await their acknowledgement: one byte a number, no object.

Here: which of the numbers, given out one after the other, are awaited. Not here: what is behind a
number, and what an acknowledgement means (`publish`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

ROOM = 16384  # numbers between the oldest and the newest, at first


class Awaited:
    """A set of numbers above 0. What lies below the oldest costs nothing."""

    def __init__(self) -> None:
        self._base = 1  # the number of the first flag
        self._flags = np.zeros(ROOM, np.bool_)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: int) -> bool:
        place = number - self._base
        return 0 <= place < len(self._flags) and bool(self._flags[place])

    def oldest(self) -> int | None:
        return self._base + int(self._flags.argmax()) if self._count else None

    def add(self, first: int, stop: int) -> None:
        """The numbers from first to before stop, of which none is awaited yet."""
        self._make_room(first, stop)
        self._flags[first - self._base : stop - self._base] = True
        self._count += stop - first

    def remove(self, number: int) -> None:
        self._flags[number - self._base] = False
        self._count -= 1

    def take(self, numbers: Any) -> int:
        """Await those no more, whichever they are and however often; how many were awaited."""
        places = numbers - self._base
        if len(places) and (places.min() < 0 or places.max() >= len(self._flags)):
            places = places[(places >= 0) & (places < len(self._flags))]
        self._flags[places] = False
        before, self._count = self._count, int(np.count_nonzero(self._flags))
        return before - self._count

    def clear(self) -> Iterable[int]:
        """Await nothing more; what was awaited, in order."""
        found: list[int] = (np.flatnonzero(self._flags) + self._base).tolist()
        self._flags[:] = False
        self._count = 0
        return found

    def _make_room(self, first: int, stop: int) -> None:
        """A number may also be added again, which lies before the others."""
        if self._base <= first and stop - self._base <= len(self._flags):
            return
        oldest = self.oldest()
        begin = first if oldest is None else min(oldest, first)
        end = self._base + len(self._flags)
        kept = self._flags[oldest - self._base :] if oldest is not None else self._flags[:0]
        room = len(self._flags)
        while room < 2 * (max(stop, end if oldest is not None else stop) - begin):
            room *= 2
        flags = np.zeros(room, np.bool_)
        if oldest is not None:
            flags[oldest - begin : oldest - begin + len(kept)] = kept
        self._base, self._flags = begin, flags
