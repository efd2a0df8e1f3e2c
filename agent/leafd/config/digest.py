"""The digest of a configuration: equal where two files say the same, whatever their comments, order and spacing.

It is nats-server's for the same file: SHA-256 of the tree as Go writes it in JSON, the keys that served as variables
and the values of the environment's included. Not here: where it is shown (varz, the log, -t).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import Final

from leafd.config.tree import Node, Value

TEXT_MAX: Final = 64 << 20
"""A map that is a variable can stand at many places, and so can the map around it."""
_EXPONENT_FROM: Final = 1e21
_EXPONENT_BELOW: Final = 1e-6


def digest(root: dict[str, Node]) -> str:
    """The digest of the tree; empty where its text would be longer than TEXT_MAX."""
    found, size = sha256(), 0
    for piece in _written(root):
        data = piece.encode()
        found.update(data)
        size += len(data)
        if size > TEXT_MAX:
            return ""
    found.update(b"\n")
    return f"sha256:{found.hexdigest()}"


def _written(value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        before = "{"
        for key in sorted(value):
            yield f"{before}{_text(key)}:"
            yield from _written(value[key].value)
            before = ","
        yield "{}" if before == "{" else "}"
    elif isinstance(value, list):
        before = "["
        for one in value:
            yield before
            yield from _written(one.value)
            before = ","
        yield "[]" if before == "[" else "]"
    elif isinstance(value, datetime):
        yield _text(value.isoformat().replace("+00:00", "Z"))
    elif isinstance(value, str):
        yield _text(value)
    else:
        yield _fraction(value) if isinstance(value, float) else json.dumps(value)


def _text(text: str) -> str:
    """A string with Go's escapes; a byte that is no UTF-8 (surrogateescape) is one \\ufffd."""
    shown = json.dumps(text, ensure_ascii=False)
    for character, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        shown = shown.replace(character, escape)
    shown = shown.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return shown if shown.isascii() else "".join("\\ufffd" if "\ud800" <= one <= "\udfff" else one for one in shown)


def _fraction(value: float) -> str:
    """The shortest digits that mean the value, with an exponent where Go's JSON has one."""
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    sign, fraction, exponent = "-" if value < 0 else "", fraction if fraction != "0" else "", int(power or 0)
    if value != 0 and not _EXPONENT_BELOW <= abs(value) < _EXPONENT_FROM:
        return f"{sign}{whole}{'.' if fraction else ''}{fraction}e{exponent:+d}"
    if exponent < 0:
        whole, fraction = "0", "0" * (-exponent - 1) + whole + fraction
    elif exponent > 0:
        whole, fraction = whole + fraction[:exponent].ljust(exponent, "0"), fraction[exponent:]
    return f"{sign}{whole}{'.' if fraction else ''}{fraction}"
