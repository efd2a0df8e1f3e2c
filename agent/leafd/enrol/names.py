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
_PATTERN: Final = re.compile(rf"[A-Za-z0-9_*-]{{1,{NAME_MAX}}}")


def is_name(text: str) -> bool:
    """Whether a box may be called so."""
    return _NAME.fullmatch(text) is not None and not text.startswith(VISITOR)


def is_pattern(text: str) -> bool:
    """Whether that is a name, or a pattern of names."""
    return _PATTERN.fullmatch(text) is not None


def matches(pattern: str, name: str) -> bool:
    """Whether a box of that name is meant."""
    return pattern == name or ("*" in pattern and _compiled(pattern).fullmatch(name) is not None)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Several stars in a row are one; [^...]*? of names is bounded by their length.
    return re.compile("[A-Za-z0-9_-]*".join(map(re.escape, re.split(r"\*+", pattern))))
