"""Signals that come while the daemon starts, before it can act upon them.

    hold()     from here on no signal ends the process somewhere in the middle, and none raises KeyboardInterrupt
    judge()    between two steps of the start: raises Unwanted when it was asked to end meanwhile
    release()  from here on the daemon hears signals itself (run.py), those too that came before

Whoever is impatient sends TERM or INT twice: the second one ends the process where it is, as kill -9 would.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_held: Final[list[int]] = []


class Unwanted(Exception):
    """The daemon was asked to end before it was up."""


def hold() -> None:
    """For the main thread, before anything is opened."""
    for number in SIGNALS:
        signal.signal(number, _hold)


def _hold(number: int, _: FrameType | None) -> None:
    if number in ENDING and number in _held:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    _held.append(number)


def judge() -> None:
    """Raises Unwanted if there is no use in going on."""
    if any(number in ENDING for number in _held):
        raise Unwanted


def release() -> None:
    """Sends what was held back once more, to handlers that are there by now. Raises Unwanted as judge()."""
    judge()
    while _held:
        signal.raise_signal(_held.pop(0))
