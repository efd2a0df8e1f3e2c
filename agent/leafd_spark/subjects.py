"""Subjects: which of them a filter takes. Pure."""

from __future__ import annotations


def matches(subject: str, wanted: str) -> bool:
    """Whether a filter takes a subject; in the filter * is one token, > one or more at the end."""
    tokens, pattern = subject.split("."), wanted.split(".")
    for place, part in enumerate(pattern):
        if part == ">":
            return len(tokens) > place
        if place >= len(tokens) or part not in ("*", tokens[place]):
            return False
    return len(tokens) == len(pattern)
