"""The log as entries of systemd's journal, with fields: `journalctl LEAFD_EVENT=link_down LEAFD_ACCOUNT=A -o json`.

One datagram is one entry, NAME=value a line (systemd's native protocol). Loaded only where standard error is the
journal. It never waits: what journald does not take at once is left out and counted. Not here: what a
line says, and which are left out because there are too many of them (log.py).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from types import CodeType
from typing import Final

PLACE: Final = "/run/systemd/journal/socket"
VARIABLE: Final = "JOURNAL_STREAM"
STANDARD_ERROR: Final = 2
_IDENTIFIER: Final = "leafd"
_PRIORITIES: Final = {"FTL": 2, "ERR": 3, "WRN": 4, "INF": 6, "DBG": 7, "TRC": 7}


def is_journal() -> bool:
    """Whether standard error is the journal: systemd names device and inode."""
    try:
        found = os.fstat(STANDARD_ERROR)
    except OSError:
        return False
    return os.environ.get(VARIABLE) == f"{found.st_dev}:{found.st_ino}"


class Journal:
    """The way to journald; without one, standard error is the other, which does not wait then, either."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._lost = 0

    def close(self) -> None:
        """At the end."""
        self._socket.close()

    def send(self, level: str, text: str, code: CodeType, line: int, about: Mapping[str, str]) -> bool:
        """text and the values of about: without control characters. False: there is no journald."""
        own = {"CODE_FILE": code.co_filename, "CODE_LINE": str(line), "CODE_FUNC": code.co_qualname}
        fields = own | {f"LEAFD_{name.upper()}": value for name, value in about.items() if value}
        try:
            if self._lost:
                self._put("WRN", f"{self._lost} lines were lost: journald did not take them in time", own)
                self._lost = 0
            self._put(level, text, fields)
        except BlockingIOError:
            self._lost += 1
        except OSError:
            os.set_blocking(STANDARD_ERROR, False)
            return False
        return True

    @staticmethod
    def prefix(level: str) -> str:
        """The prefix of a line that goes to the journal through standard error."""
        return f"<{_PRIORITIES.get(level, 6)}>"

    def _put(self, level: str, text: str, fields: Mapping[str, str]) -> None:
        every = {"MESSAGE": text, "PRIORITY": str(_PRIORITIES.get(level, 6)), "SYSLOG_IDENTIFIER": _IDENTIFIER}
        lines = [f"{name}={value}\n" for name, value in (every | dict(fields)).items()]
        self._socket.sendto("".join(lines).encode("utf-8", "replace"), PLACE)
