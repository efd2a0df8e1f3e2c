"""The operator's log as the rooms see it: the port that host/log.py fits, and a test's log in its place.

Not here: where lines go, how they look and how many of them are written (host/log.py); tracebacks (guard.py).
"""

from __future__ import annotations

from typing import Protocol


class Log(Protocol):
    """The receiver of lines for the operator. about: fields of a line beside its text."""

    @property
    def debug_on(self) -> bool: ...
    def debug(self, text: str) -> None: ...
    def info(self, text: str, **about: str) -> None: ...
    def warning(self, text: str, **about: str) -> None: ...
    def error(self, text: str, **about: str) -> None: ...
