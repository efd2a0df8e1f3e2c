"""Names of boxes, and patterns of such names.

A name is a part of subjects (telemetry.NAME.>), of a JetStream domain ($JS.NAME.API) and of files' names, so it has
nothing that means something there. In a pattern * stands for any characters of a name, also none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NAME_MAX: Final = 64
VISITOR: Final = "leafd-doctor-"
"""`leafd doctor` tries out a box's link by a second one, which has no JetStream and a name that begins so: no box has
such a name."""
RULE: Final = f"up to {NAME_MAX} letters, digits, - and _"
_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_MAX}}}")
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9_-]*")
_PATTERN: Final = re.compile(rf"[A-Za-z0-9_*-]{{1,{NAME_MAX}}}")


def is_name(text: str) -> bool:
    """Whether a box may be called so."""
    return _NAME.fullmatch(text) is not None and not text.startswith(VISITOR)


def is_pattern(text: str) -> bool:
    """Whether that is a name, or a pattern of names."""
    return _PATTERN.fullmatch(text) is not None


def matches(pattern: str, name: str) -> bool:
    """Whether a box of that name is meant."""
    if "*" not in pattern:
        return pattern == name
    if _CHARACTERS.fullmatch(name) is None:
        return False
    first, between, last = _pieces(pattern)
    at, end = len(first), len(name) - len(last)
    if end < at or not name.startswith(first) or not name.endswith(last):
        return False
    for piece in between:  # each as early as it can be: no later place leaves more for those behind it
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


@lru_cache(maxsize=256)
def _pieces(pattern: str) -> tuple[str, tuple[str, ...], str]:
    """The parts that a name must begin with, contain in order, and end with. A regular expression of many stars would
    try all the places of each: 10 times as long with each star, and patterns come from all that reach the monitoring
    port."""
    first, *between, last = pattern.split("*")
    return first, tuple(filter(None, between)), last
