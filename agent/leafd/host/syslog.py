"""The log as entries of syslog: of this machine (/dev/log), or of another one by UDP, TCP or a socket's path.

    <28>Nov 21 05:11:40 leafd[4711]: text                                to /dev/log
    <28>2026-11-21T05:11:40+01:00 box leafd[4711]: text                  elsewhere

Loaded only where it is configured. It never waits: what is not taken at once is left out and counted, and a connection
that has broken is tried again, at most once a second. Not here: what a line says (log.py).
"""

from __future__ import annotations

import errno
import os
import socket
import time
from typing import Final
from urllib.parse import urlsplit

LOCAL: Final = "unix:///dev/log"
AGAIN_S: Final = 1.0
PENDING_MAX: Final = 256 << 10
_DAEMON: Final = 3 << 3
_SEVERITIES: Final = {"FTL": 2, "ERR": 3, "WRN": 4, "INF": 5, "DBG": 7, "TRC": 5}
"""The reference's severities: a notice where nothing is wrong."""
_KINDS: Final = {"udp": (socket.SOCK_DGRAM,), "tcp": (socket.SOCK_STREAM,)}
_LOCAL_KINDS: Final = (socket.SOCK_DGRAM, socket.SOCK_STREAM)


class Syslog:
    """The way to one; url: udp://host:port, tcp://host:port or unix:///path."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._local = url == LOCAL
        self._socket: socket.socket | None = None
        self._stream = False
        self._pending = b""
        self._tried_s = -AGAIN_S
        self._lost = 0
        self._tag = f"leafd[{os.getpid()}]"
        self._host = socket.gethostname()

    def close(self) -> None:
        """At the end."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, level: str, text: str) -> bool:
        """text: without control characters. False: it did not get there, and was counted."""
        try:
            if self._lost and self._put("WRN", f"{self._lost} lines were lost: syslog did not take them in time"):
                self._lost = 0
            if self._put(level, text):
                return True
        except OSError:
            self.close()
            self._lost += self._pending.count(b"\n")  # lines before this one that waited for the connection
            self._pending = b""
        self._lost += 1
        return False

    def _put(self, level: str, text: str) -> bool:
        there = self._connected()
        if there is None:
            return False
        line = self._line(level, text)
        if not self._stream:
            try:
                there.send(line)
            except BlockingIOError:
                return False
            return True
        self._flush(there)
        if len(self._pending) + len(line) > PENDING_MAX:
            return False
        if self._pending:
            self._pending += line
        else:
            self._pending = line[self._sent(there, line) :]
        return True

    def _flush(self, there: socket.socket) -> None:
        if self._pending:
            self._pending = self._pending[self._sent(there, self._pending) :]

    def _sent(self, there: socket.socket, data: bytes) -> int:
        """How many of the bytes the connection has taken; the others go with the next line."""
        try:
            return there.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # its connection is not there yet
                raise
            return 0

    def _connected(self) -> socket.socket | None:
        """The socket, or None where a try failed less than a second ago."""
        if self._socket is not None:
            return self._socket
        if time.monotonic() - self._tried_s < AGAIN_S:
            return None
        self._tried_s = time.monotonic()
        if self._url.scheme == "unix":
            for kind in _LOCAL_KINDS:
                self._socket = self._dialled(socket.AF_UNIX, kind, self._url.path)
                if self._socket is not None:
                    break
            return self._socket
        kind = _KINDS[self._url.scheme][0]
        port = self._url.port or 514
        for family, _, _, _, address in socket.getaddrinfo(self._url.hostname, port, type=kind):
            self._socket = self._dialled(family, kind, address)
            if self._socket is not None:
                break
        return self._socket

    def _dialled(self, family: int, kind: int, address: object) -> socket.socket | None:
        made = socket.socket(family, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        found = made.connect_ex(address)  # type: ignore[arg-type]
        if found not in (0, errno.EINPROGRESS):
            made.close()
            return None
        self._stream, self._pending = kind == socket.SOCK_STREAM, b""
        return made

    def _line(self, level: str, text: str) -> bytes:
        priority = _DAEMON | _SEVERITIES.get(level, 5)
        now = time.localtime()
        if self._local:
            head = f"{time.strftime('%b', now)} {now.tm_mday:2d} {time.strftime('%H:%M:%S', now)}"
        else:
            zone = time.strftime("%z", now)
            head = f"{time.strftime('%Y-%m-%dT%H:%M:%S', now)}{zone[:3]}:{zone[3:]} {self._host}"
        return f"<{priority}>{head} {self._tag}: {text}\n".encode("utf-8", "replace")
