"""Logs for tests: one that forgets, one that keeps its lines.

Not here: the log of a daemon, which tests read from its output (tests/servers.py).
"""

from __future__ import annotations


class KeptLog:
    """Keeps each line: its level and its text."""

    debug_on = True

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def debug(self, text: str) -> None:
        self.lines.append(("debug", text))

    def info(self, text: str, **about: str) -> None:
        self.lines.append(("info", text))

    def warning(self, text: str, **about: str) -> None:
        self.lines.append(("warning", text))

    def error(self, text: str, **about: str) -> None:
        self.lines.append(("error", text))

    @property
    def texts(self) -> list[str]:
        """The lines without their levels."""
        return [text for _, text in self.lines]


class QuietLog:
    """Takes lines and forgets them."""

    debug_on = False

    def debug(self, text: str) -> None: ...
    def info(self, text: str, **about: str) -> None: ...
    def warning(self, text: str, **about: str) -> None: ...
    def error(self, text: str, **about: str) -> None: ...
