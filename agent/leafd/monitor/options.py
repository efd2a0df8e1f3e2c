"""The options of a report's request, as HTTP brings them (text) and as JSON does: switches, numbers, words.

What cannot be read raises ValueError with the reference's words. Not here: what an option means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leafd.quoting import quoted

Options = Mapping[str, Any]
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"", "0", "f", "F", "FALSE", "false", "False"})
_DIGITS_MAX: Final = 20
_TEXT_MAX: Final = 100
_NUMBER_MAX: Final = (1 << 63) - 1


class NotMeant(ValueError):
    """The request is for other servers: over HTTP that is an error, in the system account nothing is answered."""


def flag(options: Options, *names: str) -> bool:
    """A switch; on where any of the names is."""
    switches = [_switch(name, options.get(name)) for name in names]  # all are read: each may be wrong
    return any(switches)


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return bool(value)
    if value not in _TRUE and value not in _FALSE:
        shown = quoted(value[:_TEXT_MAX])
        raise ValueError(f"Error decoding boolean for '{name}': strconv.ParseBool: parsing {shown}: invalid syntax")
    return value in _TRUE


def number(options: Options, name: str, default: int) -> int:
    """A number, 0 or more."""
    value = options.get(name)
    if value is None or value == "":
        return default
    if isinstance(value, str):
        digits = value[1:] if value[:1] in ("+", "-") else value
        if not (digits.isascii() and digits.isdigit()):
            shown = quoted(value[:_TEXT_MAX])
            kind, reader = ("uint64", "ParseUint") if name == "cid" else ("int", "Atoi")
            raise ValueError(f"Error decoding {kind} for '{name}': strconv.{reader}: parsing {shown}: invalid syntax")
        value = value[:_DIGITS_MAX]
    return min(max(int(value), 0), _NUMBER_MAX)


def text(options: Options, *names: str) -> str:
    """The first of these options that has a text; empty where none has."""
    for name in names:
        value = options.get(name)
        if isinstance(value, str) and value:
            return value
    return ""
