"""News that servers tell of themselves: when they change, and again more and more rarely, since a letter may be lost.

Pure. Not here: what is said (neighbours.py, presence.py).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, Generic, TypeVar

from leafd.records import dataclass

REPEAT_S: Final = 64.0
"""The longest pause: links may be metered."""
_To = TypeVar("_To")


@dataclass(slots=True)
class _Said:
    """The last letter to one server, and when again."""

    letter: bytes
    wait_s: float
    at_s: float


class Repeated(Generic[_To]):
    """One kind of letter, to any servers."""

    def __init__(self) -> None:
        self._said: dict[_To, _Said] = {}

    def keep(self, there: Container[_To]) -> None:
        """Only these servers are there."""
        for gone in [one for one in self._said if one not in there]:
            del self._said[gone]

    def forget(self, to: _To) -> None:
        """Says it anew to that server, which may have heard nothing."""
        self._said.pop(to, None)

    def has(self, to: _To) -> bool:
        """Whether something was said to that server."""
        return to in self._said

    def is_due(self, to: _To, letter: bytes, now_s: float, most_s: float = REPEAT_S) -> bool:
        """Whether the letter is to be said now: after 1, 2, 4 s and so on, at last each `most_s`."""
        said = self._said.get(to)
        if said is None or said.letter != letter:
            said = self._said[to] = _Said(letter, 0.5, now_s)
        if now_s < said.at_s and said.wait_s <= most_s:
            return False
        said.wait_s = min(said.wait_s * 2, most_s)
        said.at_s = now_s + said.wait_s
        return True
