"""Telling systemd how we are: the notify protocol, which is one datagram of NAME=value lines. Without systemd all of
it does nothing.

systemd-python is not used: its notify waits while systemd's queue is full, and has no wheels. Its library, libsystemd,
is what the tests compare this with (tests/unit/host/test_libsystemd.py)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Final

from leafd.native_types import Stats

NEVER: Final = (1 << 64) - 1
"""Microseconds: what systemd takes for no time at all."""
DISK_S: Final = 120.0
"""One flush of a worn-out card may take this long."""


class Life:
    """Whether the threads beside this one live: read from counters, so that no queue of requests or events can come
    between. A disk that refuses is no reason to end the process, and neither is one that takes its time; a thread that
    does not turn any more is one."""

    def __init__(self, before: Stats, now_s: float) -> None:
        self._before = before
        self._journal_s = now_s

    def proven(self, now: Stats, now_s: float) -> bool:
        """Since the last look the plane has ticked; the journal has turned, has nothing to write or is not late yet."""
        before, self._before = self._before, now
        if now.journal_waiting == 0 or now.journal_rounds != before.journal_rounds:
            self._journal_s = now_s
        return now.ticks != before.ticks and now_s - self._journal_s < DISK_S


class Notifier:
    """The socket of Type=notify, and the watchdog's rhythm."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        env = os.environ if environment is None else environment
        self._address = env.get("NOTIFY_SOCKET", "")
        self._socket: socket.socket | None = None
        self.watchdog_s = 0.0
        watchdog = env.get("WATCHDOG_USEC", "")
        meant_for = env.get("WATCHDOG_PID", "")
        if self._address and watchdog.isdigit() and int(watchdog) < NEVER and meant_for in ("", str(os.getpid())):
            # Half the limit is systemd's own advice.
            self.watchdog_s = int(watchdog) / 2_000_000
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)

    @property
    def heard(self) -> bool:
        """Whether a service manager wants to be notified."""
        return self._socket is not None

    def ready(self, status: str = "") -> None:
        """Serving. status: the line for `systemctl status`; without one that stays as it is."""
        self._send(f"READY=1\nSTATUS={status}" if status else "READY=1")

    def status(self, text: str) -> bool:
        """Sends a line for `systemctl status`. Returns whether the service manager took it."""
        return self._send(f"STATUS={text}")

    def watchdog(self) -> None:
        """A sign of life."""
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """A reload begins; ready() ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Tells the service manager that the daemon begins to stop."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> bool:
        if self._socket is None:
            return False
        # A leading @ stands for the abstract name space.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            self._socket.sendto(text.encode(), address)
        except OSError:
            return False  # systemd gone or its queue full: nobody to tell, and no reason to stop serving.
        return True
