"""Signals that come while the daemon starts, before it can act upon them.

    hold()     from here on no signal ends the process somewhere in the middle, and none raises KeyboardInterrupt
    judge()    between two steps of the start: raises Unwanted when it was asked to end meanwhile
    release()  from here on the daemon hears signals itself (run.py), those too that came before

    kept()     the process is to begin again: no signal ends it from here on, and those that come reach who begins

    watched()  around a call into C that may take long, in which Python handles no signal

An impatient operator sends TERM or INT twice: the second one ends the process where it is, as kill -9 would.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
ENDING: Final = (signal.SIGTERM, signal.SIGINT)
PATIENCE_S: Final = 2.0
_held: Final[list[int]] = []


class Unwanted(Exception):
    """The daemon was asked to end before it was up."""


def hold() -> None:
    """For the main thread, before anything is opened."""
    for number in SIGNALS:
        signal.signal(number, _hold)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # kept() may have been called, in this process's last life


def _hold(number: int, _: FrameType | None) -> None:
    if number in ENDING and number in _held:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    _held.append(number)


def judge() -> None:
    """Raises Unwanted if there is no use in going on."""
    if any(number in ENDING for number in _held):
        raise Unwanted


def kept() -> bool:
    """Signals wait from here on, over execv too. False: the process was asked to end meanwhile, and is to."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    return not any(number in ENDING for number in _held)


def release() -> None:
    """Sends what was held back once more, to handlers that are there by now. Raises Unwanted as judge()."""
    judge()
    while _held:
        signal.raise_signal(_held.pop(0))


@contextmanager
def watched() -> Iterator[None]:
    """A process that is asked to end within the block, and is still in it some seconds later, ends where it is: a store
    that takes minutes to open is as it was before."""
    import threading  # here: `leafd -t` needs none

    told, tells = socket.socketpair()
    tells.setblocking(False)
    left = threading.Event()

    def watch() -> None:
        while number := told.recv(1):
            if number[0] in ENDING and not left.wait(PATIENCE_S):
                os._exit(0)

    watcher = threading.Thread(target=watch, name="leafd-start", daemon=True)
    watcher.start()
    before = signal.set_wakeup_fd(tells.fileno())
    try:
        yield
    finally:
        left.set()
        signal.set_wakeup_fd(before)
        tells.close()
        watcher.join()
        told.close()
