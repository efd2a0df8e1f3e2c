"""The guard around everything that the daemon does for others: each event, request, conversation and timer.

    try:
        self._line(client, event)
    except Exception as error:
        self._guard.caught("a client's login", error)     counted; logged with its traceback once a minute
        self._plane.close_connection(...)                 the answer: this one connection ends, or hears a 500

An exception that nobody foresaw is a fault of this program, and it ends what it happened in and nothing else: a box in
the field has nobody to restart it. What must end the process (a store that cannot be opened, a wrong configuration at
start) happens outside of any guard. Cancellation passes through. Not here: the answer to the asker, which differs from
place to place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from leafd.records import dataclass

LOG_PERIOD_S: Final = 60.0


class Log(Protocol):
    """The receiver of tracebacks."""

    def exception(self, text: str, error: BaseException) -> None: ...


@dataclass(slots=True)
class _Place:
    count: int = 0
    unlogged: int = 0
    logged_s: float = float("-inf")


class Guard:
    """Counts and logs unforeseen exceptions; there is one for the process. A place names what was done, in words of the
    program: with words of what was received, strangers could make it remember without bound."""

    def __init__(self, log: Log | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._places: dict[str, _Place] = {}

    @property
    def total(self) -> int:
        """Unexpected errors since the start."""
        return sum(place.count for place in self._places.values())

    def figures(self) -> dict[str, Any]:
        """The numbers of unforeseen exceptions for monitoring, in all and by place."""
        return {
            "unexpected_errors": self.total,
            "unexpected_errors_in": {name: place.count for name, place in sorted(self._places.items())},
        }

    def caught(self, place: str, error: BaseException) -> None:
        """Counts an exception that nobody foresaw, and logs it unless the place has just been logged."""
        known = self._places.setdefault(place, _Place())
        known.count += 1
        now_s = self._clock()
        if now_s - known.logged_s < LOG_PERIOD_S:
            known.unlogged += 1
            return
        more = f" ({known.unlogged} more since the last report)" if known.unlogged else ""
        known.logged_s, known.unlogged = now_s, 0
        if self._log is not None:
            self._log.exception(f"Unexpected error in {place}{more}: please report it", error)

    def run(self, place: str, work: Callable[..., object], *arguments: Any) -> None:
        """Runs work guarded as by around(), at a fifth of its cost: each login does this."""
        try:
            work(*arguments)
        except Exception as error:
            self.caught(place, error)

    @contextmanager
    def around(self, place: str) -> Iterator[None]:
        """A block whose unexpected exceptions are counted and go no further."""
        try:
            yield
        except Exception as error:
            self.caught(place, error)
