"""Text from outside (names of users, clients and servers, subjects, error texts, requests) in lines for the operator.

quoted() is for one value within a line; printable() is for a whole line, and host/log.py passes every line through
it. What comes out has no control character, nothing that changes the direction of writing, nothing invisible, and a
bounded length. Not here: text on the protocols' wires, and secrets (host/log.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LINE_MAX: Final = 8192
VALUE_MAX: Final = 256
NAME_MAX: Final = 60
NAMES_MAX: Final = 3
"""The most names that a line lists."""
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(line: str, size_max: int = LINE_MAX) -> str:
    """The line with each character that does not print written as an escape, cut when it is longer than size_max."""
    more = len(line) - size_max
    shown = line if more <= 0 else line[:size_max]
    if not shown.isprintable():
        shown = "".join(one if one.isprintable() else _escape(one) for one in shown)
    return shown if more <= 0 else f"{shown}... ({more} more characters)"


def quoted(value: object, size_max: int = VALUE_MAX) -> str:
    """One value from outside between quotes that it cannot close; bytes are read as UTF-8."""
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
    more = len(text) - size_max
    shown = printable(text[:size_max].replace("\\", "\\\\").replace('"', '\\"'), 2 * size_max)
    return f'"{shown}"' if more <= 0 else f'"{shown}"... ({more} more characters)'


def listed(names: Iterable[str]) -> str:
    """The first of them, once each, and how many there are more."""
    every = list(dict.fromkeys(names))
    shown = ", ".join(printable(name, NAME_MAX) for name in every[:NAMES_MAX])
    return shown if len(every) <= NAMES_MAX else f"{shown} and {len(every) - NAMES_MAX} more"


def _escape(one: str) -> str:
    """As Go's %q writes it; an invalid byte comes as the surrogate that Python keeps it in."""
    if one in _SHORT:
        return _SHORT[one]
    code = ord(one)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
