"""Log lines in nats-server's form, to standard error or a file that can be reopened after rotation.

[4711] 2026/11/21 05:11:40.123456 [INF] Server is ready
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Final, TextIO

from leafd.errors import StartError
from leafd.native_types import Trace


class Log:
    """Where every room's lines end. debug_on, trace_on, times and utc may change in a reload."""

    def __init__(
        self, path: str = "", *, debug: bool = False, trace: bool = False, times: bool = True, utc: bool = False
    ) -> None:
        self.path = path
        self.debug_on = debug
        self.trace_on = trace
        self.times = times
        self.utc = utc
        self._pid = os.getpid()
        self._stream: TextIO = sys.stderr
        self.reopen()

    def reopen(self) -> None:
        """Opens the file anew: after logrotate has moved the old one away."""
        if not self.path:
            return
        try:
            stream = open(self.path, "a", encoding="utf-8", errors="replace", buffering=1)  # noqa: SIM115
        except OSError as error:
            raise StartError(f"log file {self.path} cannot be written ({error.strerror}): check log_file") from error
        if self._stream is not sys.stderr:
            self._stream.close()
        self._stream = stream

    def close(self) -> None:
        """Ends the file; lines go to standard error from here on."""
        if self._stream is not sys.stderr:
            self._stream.close()
            self._stream = sys.stderr

    def info(self, text: str) -> None:
        self._write("INF", text)

    def warning(self, text: str) -> None:
        self._write("WRN", text)

    def error(self, text: str) -> None:
        self._write("ERR", text)

    def fatal(self, text: str) -> None:
        self._write("FTL", text)

    def debug(self, text: str) -> None:
        if self.debug_on:
            self._write("DBG", text)

    def trace(self, text: str) -> None:
        if self.trace_on:
            self._write("TRC", text)

    def _write(self, level: str, text: str) -> None:
        stamp = f"{self._now()} " if self.times else ""
        try:
            self._stream.write(f"[{self._pid}] {stamp}[{level}] {text}\n")
            self._stream.flush()
        except (OSError, UnicodeError):
            pass  # A full disk or a closed pipe must not stop the broker; there is nowhere left to say so.

    def _now(self) -> str:
        now_ns = time.time_ns()
        parts = time.gmtime(now_ns // 1_000_000_000) if self.utc else time.localtime(now_ns // 1_000_000_000)
        return f"{time.strftime('%Y/%m/%d %H:%M:%S', parts)}.{now_ns // 1000 % 1_000_000:06d}"


# The end of the text counts as the closing quote: long lines are cut, and a half secret is one, too.
_SECRETS: Final = re.compile(r'("(?:pass|auth_token|jwt|sig|user_token)"\s*:\s*)"(?:[^"\\]|\\.)*("|$)')


def traced(event: Trace) -> str:
    """A protocol line as the trace shows it, without what a CONNECT proves itself with."""
    shown = _SECRETS.sub(r'\1"[REDACTED]"', event.text)
    return f"cid:{event.connection} - <<- [{shown}]"
