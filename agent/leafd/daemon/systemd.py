"""Telling systemd how we are: the notify protocol, which is one datagram of NAME=value lines. Without systemd all of
it does nothing."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping


class Notifier:
    """The socket of Type=notify, and the watchdog's rhythm."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        env = os.environ if environment is None else environment
        self._address = env.get("NOTIFY_SOCKET", "")
        self._socket: socket.socket | None = None
        self.watchdog_s = 0.0
        watchdog = env.get("WATCHDOG_USEC", "")
        meant_for = env.get("WATCHDOG_PID", "")
        if self._address and watchdog.isdigit() and meant_for in ("", str(os.getpid())):
            # Half the limit is systemd's own advice.
            self.watchdog_s = int(watchdog) / 2_000_000
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)

    def ready(self, status: str) -> None:
        """Serving."""
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={text}")

    def watchdog(self) -> None:
        """A sign of life."""
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """A reload begins; ready() ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The end begins."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if self._socket is None:
            return
        # A leading @ stands for the abstract name space.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            self._socket.sendto(text.encode(), address)
        except OSError:
            pass  # systemd gone or its queue full: nobody to tell, and no reason to stop serving.
