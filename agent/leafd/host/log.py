"""Log lines in nats-server's form, to standard error, to a file that can be reopened after rotation and may be rotated
here (log_files.py), or to syslog (syslog.py). Where standard error is systemd's journal, lines are its entries
(journal.py).

[4711] 2026/11/21 05:11:40.123456 [INF] Server is ready

What a caller tells about a line beside its text (event="link_down", account="A", stream="S") are fields there.

One call is one line: whatever text a caller hands over, no control character of it reaches the file (leafd.quoting).
And no flood fills the disk: each place in the code that writes lines has a burst and a rate; lines beyond them are left
out, and their number is written.
"""

from __future__ import annotations

import os
import re
import sys
import time
import traceback
from collections import deque
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Final, TextIO

from leafd.errors import StartError
from leafd.files import open_end
from leafd.quoting import printable, quoted
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.host.journal import Journal
    from leafd.host.syslog import Syslog
    from leafd.native_types import Trace

_FRAMES_MAX: Final = 20  # of a traceback: a recursion has thousands
BURST: Final = 1000
"""Lines of one place before its rate counts: a thousand leaves that come back at once are all told of."""
RATE: Final = 2.0
"""Lines a second after that: some 50 MB a day, which rotation can hold."""

RECENT_MAX: Final = 400
"""Characters of a line that is kept."""


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of log lines. syslog: its URL. A file comes first, then syslog, then standard error."""

    path: str = ""
    size_max: int = 0
    """The most bytes of the file; 0: no bound."""
    files_max: int = 0
    """Files that are kept, that in use included; 0: all."""
    syslog: str = ""


@dataclass(slots=True)
class _Place:
    """How many lines a place in the code has left, and how many were left out."""

    room: float = BURST
    seen_s: float = 0.0
    left_out: int = 0

    def takes(self, now_s: float) -> bool:
        """Whether one more line may be written."""
        self.room = min(self.room + (now_s - self.seen_s) * RATE, BURST)
        self.seen_s = now_s
        if self.room < 1:
            self.left_out += 1
            return False
        self.room -= 1
        return True


class Log:
    """The log, where the lines of every room end. debug_on, trace_on, times and utc may change in a reload."""

    def __init__(
        self,
        target: Target | str = "",
        *,
        debug: bool = False,
        trace: bool = False,
        times: bool = True,
        utc: bool = False,
    ) -> None:
        self.target = Target(target) if isinstance(target, str) else target
        self.debug_on = debug
        self.trace_on = trace
        self.times = times
        self.utc = utc
        self._pid = os.getpid()
        self._places: dict[tuple[CodeType, int], _Place] = {}
        self.recent: deque[tuple[float, str, str]] | None = None
        """The latest warnings and errors: when (Unix time), level, text; where somebody wants to see them."""
        self._stderr: TextIO = sys.stderr
        self._stream: TextIO = self._stderr
        self._journal = _journal()
        self._syslog = _syslog(self.target)
        self._rotate_at = 0
        """When the file is as large as this; 0: never."""
        self.reopen()

    def keep(self, lines: int) -> None:
        """From here on so many of the latest warnings and errors are kept in memory."""
        self.recent = deque(maxlen=lines)

    def reopen(self) -> None:
        """Opens the file anew: after logrotate has moved the old one away."""
        path = self.target.path
        if not path:
            return
        try:
            stream = open(open_end(path), "a", encoding="utf-8", errors="replace", buffering=1)  # noqa: SIM115
        except OSError as error:
            raise StartError(f"log file {path} cannot be written ({error.strerror}): check log_file") from error
        self._leave_file()
        self._stream = stream
        self._rotate_at = self.target.size_max

    def follow(self, target: Target, *, debug: bool, trace: bool) -> None:
        """Takes over the settings of a reload. A file that cannot be written changes nothing but for a line in the old
        one."""
        self.debug_on, self.trace_on = debug, trace
        old, self.target = self.target, target
        self._rotate_at = target.size_max
        if target.path and target.path != old.path:
            try:
                self.reopen()
            except StartError as error:
                self.target, self._rotate_at = old, old.size_max
                self.error(str(error))
                return
        if not target.path:
            self._leave_file()
        if target.syslog != old.syslog:
            if self._syslog is not None:
                self._syslog.close()
            self._syslog = _syslog(target)

    def close(self) -> None:
        """Ends file, journal and syslog; lines go to standard error from here on."""
        self._leave_file()
        for way in (self._journal, self._syslog):
            if way is not None:
                way.close()
        self._journal = self._syslog = None

    def _leave_file(self) -> None:
        if self._stream is not self._stderr:
            self._stream.close()
            self._stream = self._stderr

    def _rotate(self) -> None:
        """The file has become too large; one that cannot be set aside grows to twice its size before the next try."""
        from leafd.host.log_files import purge, set_aside

        path, caller = self.target.path, sys._getframe(0)
        try:
            name = set_aside(path)
            self.reopen()
            self._rotate_at = 0  # not for the lines about it
            self._write("INF", f"Rotated log, backup saved as {quoted(name)}", caller, {})
            for one in purge(path, self.target.files_max) if self.target.files_max else ():
                self._write("INF", f"Purged log file {quoted(one)}", caller, {})
            self._rotate_at = self.target.size_max
        except (OSError, StartError) as error:
            self._rotate_at = 0
            self.error(f"the log file {path} cannot be rotated ({error}): check log_file")
            self._rotate_at = max(2 * self._size(), self.target.size_max)

    def _size(self) -> int:
        try:
            return os.fstat(self._stream.fileno()).st_size
        except (OSError, ValueError):
            return 0

    def info(self, text: str, **about: str) -> None:
        self._limited("INF", text, about)

    def warning(self, text: str, **about: str) -> None:
        self._limited("WRN", text, about)

    def error(self, text: str, **about: str) -> None:
        self._limited("ERR", text, about)

    def exception(self, text: str, error: BaseException) -> None:
        """An error that nobody expected, with where it came from: each line of the traceback is a line of the log."""
        about = {"event": "unexpected_error"}
        if not self._limited("ERR", text, about):
            return
        for part in traceback.format_exception(error, limit=-_FRAMES_MAX):
            for line in part.rstrip("\n").split("\n"):
                self._write("ERR", f"    {line}", sys._getframe(1), about)

    def fatal(self, text: str) -> None:
        self._write("FTL", text, sys._getframe(1), {"event": "start_failed"})

    def debug(self, text: str) -> None:
        if self.debug_on:
            self._write("DBG", text, sys._getframe(1), {})

    def trace(self, text: str) -> None:
        if self.trace_on:
            self._write("TRC", text, sys._getframe(1), {})

    def _limited(self, level: str, text: str, about: Mapping[str, str]) -> bool:
        """Writes the line if the place that calls has room. No caller has to name it, so none can forget."""
        caller = sys._getframe(2)
        place = self._places.setdefault((caller.f_code, caller.f_lineno), _Place())
        if not place.takes(time.monotonic()):
            return False
        if place.left_out:
            self._write(level, f"{place.left_out} lines like the next one were left out", caller, about)
            place.left_out = 0
        self._write(level, text, caller, about)
        if self.recent is not None and level != "INF":
            self.recent.append((time.time(), level, printable(text, RECENT_MAX)))
        return True

    def _write(self, level: str, text: str, caller: FrameType, about: Mapping[str, str]) -> None:
        prefix = ""
        if self._syslog is not None and self._stream is self._stderr and self._syslog.send(level, printable(text)):
            return
        if self._journal is not None and self._stream is self._stderr:
            told = {name: printable(value) for name, value in about.items()}
            if self._journal.send(level, printable(text), caller.f_code, caller.f_lineno, told):
                return
            prefix = self._journal.prefix(level)
        stamp = f"{self._now()} " if self.times else ""
        try:
            self._stream.write(f"{prefix}[{self._pid}] {stamp}[{level}] {printable(text)}\n")
            self._stream.flush()
        except (OSError, UnicodeError):
            pass  # A full disk or a closed pipe must not stop the broker; there is nowhere left to say so.
        if self._rotate_at and self._stream is not self._stderr and self._size() > self._rotate_at:
            self._rotate()

    def _now(self) -> str:
        now_ns = time.time_ns()
        parts = time.gmtime(now_ns // 1_000_000_000) if self.utc else time.localtime(now_ns // 1_000_000_000)
        return f"{time.strftime('%Y/%m/%d %H:%M:%S', parts)}.{now_ns // 1000 % 1_000_000:06d}"


def _journal() -> Journal | None:
    """The journal, if standard error is that."""
    if "JOURNAL_STREAM" not in os.environ:
        return None
    from leafd.host import journal

    return journal.Journal() if journal.is_journal() else None


def _syslog(target: Target) -> Syslog | None:
    """The way to syslog, where that is wanted."""
    if not target.syslog:
        return None
    from leafd.host import syslog

    return syslog.Syslog(target.syslog)


_HARMLESS: Final = frozenset({
    "user", "echo", "verbose", "pedantic", "tls_required", "name", "lang", "version", "protocol", "account",
    "new_account", "headers", "no_responders", "server_id", "domain", "cluster", "gateway", "remote_account", "is_hub",
    "jetstream",
})  # fmt: skip
# One member of a JSON object. The end of the text counts as the closing quote: long lines are cut, and a half secret is
# one, too.
_MEMBER: Final = re.compile(r'(\s*"((?:[^"\\]|\\.)*)"\s*:\s*)("(?:[^"\\]|\\.)*(?:"|\\?$)|[\w.+-]*)(\s*(?:,|\}\s*$|$))')
_HIDDEN: Final = "[REDACTED]"
_HEADERS_END: Final = b"\r\n\r\n"


def traced(event: Trace) -> str:
    """A protocol line as the trace shows it, without what a CONNECT proves itself with."""
    verb, rest = event.text[:7], event.text[7:]
    shown = event.text if verb.upper() != "CONNECT" else verb + _without_secrets(rest)
    return f"<<- [{shown}]"


def traced_message(event: Trace, size_max: int, *, headers_only: bool) -> str:
    """A message as the trace shows it, up to so many bytes; empty where there is nothing of it to show."""
    shown = event.header if headers_only else event.header + event.body
    size = event.header_size - len(_HEADERS_END) if headers_only else event.header_size + event.body_size
    if size <= 0:
        return ""
    shown = shown[: min(size, size_max)]
    text = quoted(shown, len(shown) + 1)[1:-1]
    return f'<<- MSG_PAYLOAD: ["{text}{"..." if len(shown) < size else ""}"]'


def shown_nkey(text: str) -> str:
    """An nkey that somebody sent, unless it is a seed: the one in place of the other is an easy mistake."""
    return _HIDDEN if text.startswith("S") else text


def _is_public(name: str, value: str) -> bool:
    return name.lower() == "nkey" and shown_nkey(value[1:]) == value[1:]


def _without_secrets(body: str) -> str:
    """The members of a CONNECT that are known to be harmless. What cannot be read as JSON may be anything: a password
    with the wrong quotes around it."""
    start = len(body) - len(body.lstrip())
    if body[start : start + 1] != "{":
        return f"{body[:start]}{_HIDDEN}" if body.strip() else body
    found, at = [body[: start + 1]], start + 1
    while at < len(body) and body[at:].strip() not in ("", "}"):
        member = _MEMBER.match(body, at)
        if member is None:
            return "".join((*found, _HIDDEN))
        before, name, value, behind = member.groups()
        known = name.lower() in _HARMLESS or value in ("true", "false", "null") or _is_public(name, value)
        found += before, value if known else f'"{_HIDDEN}"', behind
        at = member.end()
    return "".join((*found, body[at:]))
