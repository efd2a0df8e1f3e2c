"""Versions of servers, as they tell them: MAJOR.MINOR.PATCH, and what may stand behind it (semver.org). Pure, but for
this program's own, which is in a file."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

_NUMBER: Final = r"(0|[1-9][0-9]{0,8})"
_WORDS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SHAPE: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_WORDS})?(?:\+{_WORDS})?")


@cache
def own_version() -> str:
    """This program's version, from the file that the build takes it from, too."""
    return Path(__file__).with_name("VERSION").read_text(encoding="utf-8").strip()


def version_of(text: str) -> tuple[int, int, int] | None:
    """The three numbers; None of what is no version."""
    found = _SHAPE.fullmatch(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
