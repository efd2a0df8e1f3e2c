"""Subjects as the API judges them: names, overlap and subsets. Validity and transforms: config/transforms.py.

Matching of messages is the plane's (native/route); this is for configurations, where a list has few entries and clarity
counts.
"""

from __future__ import annotations

from typing import Final

_NAME_BANNED: Final = frozenset(" \t\r\n\f.*>\\/")


def valid_name(name: str) -> bool:
    """Whether a stream or consumer may be called so."""
    return bool(name) and not _NAME_BANNED.intersection(name)


def literal(subject: str) -> bool:
    """Whether it has no wildcard token."""
    return not {"*", ">"}.intersection(subject.split("."))


def collide(one: str, other: str) -> bool:
    """Whether some subject matches both."""
    left, right = one.split("."), other.split(".")
    for a, b in zip(left, right, strict=False):
        if a == ">" or b == ">":
            return True
        if a != b and a != "*" and b != "*":
            return False
    # If one goes on where the other ends they do not: `a.>` needs one token more than `a`.
    return len(left) == len(right)


def subset(subject: str, of: str) -> bool:
    """Whether everything that `subject` matches is matched by `of` too."""
    inner, outer = subject.split("."), of.split(".")
    for index, token in enumerate(outer):
        if token == ">":
            return index < len(inner)
        if index >= len(inner):
            return False
        if inner[index] == ">":
            return False
        if token != "*" and (inner[index] != token):
            return False
    return len(inner) == len(outer)
