"""Subjects as the API judges them: validity, overlap, subsets, and whether a transform could work.

Matching of messages is the plane's (native/route); this is for configurations, where a list has few entries and clarity
counts. Texts of errors are the reference's.
"""

from __future__ import annotations

import re
from typing import Final

INVALID_SUBJECT: Final = "invalid subject"
_BLANK: Final = frozenset("\t\n\f\r ")
_NAME_BANNED: Final = frozenset(" \t\r\n\f.*>\\/")
_MAPPING: Final = "invalid mapping destination"
_FUNCTIONS: Final = {
    "wildcard": "index",
    "partition": "partition",
    "splitfromleft": "index-number",
    "splitfromright": "index-number",
    "slicefromleft": "index-number",
    "slicefromright": "index-number",
    "left": "index-number",
    "right": "index-number",
    "split": "index-text",
    "random": "number",
}
_CALL: Final = re.compile(r"\{\{\s*([A-Za-z]+)\s*\((.*)\)\s*\}\}")
_INDEX: Final = re.compile(r"[+-]?\d+")


class TransformError(Exception):
    """A transform's source and destination do not fit; the text is the reference's."""


def valid_name(name: str) -> bool:
    """Whether a stream or consumer may be called so."""
    return bool(name) and not _NAME_BANNED.intersection(name)


def valid_subject(subject: str) -> bool:
    """Whether it is a subject; wildcards are allowed."""
    tokens = subject.split(".")
    if not all(tokens) or _BLANK.intersection(subject):
        return False
    return ">" not in tokens[:-1]


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


def check_transform(source: str, destination: str) -> None:
    """Raises TransformError unless messages matching source can be renamed to destination."""
    if not destination:
        return
    for token in destination.split("."):
        if token.startswith("{{") and token.endswith("}}") and len(token) > 4:
            call = _CALL.fullmatch(token)
            if call is None or call[1].lower() not in _FUNCTIONS:
                raise TransformError(f"{_MAPPING}: unknown function in {token}")
    source = source or ">"
    if not valid_subject(source) or not valid_subject(destination):
        raise TransformError(INVALID_SUBJECT)
    source_tokens, tokens = source.split("."), destination.split(".")
    if "*" in tokens or (">" in source_tokens) != (">" in tokens):
        raise TransformError(INVALID_SUBJECT)
    wildcards = source_tokens.count("*")
    has_wildcards = wildcards > 0 or ">" in source_tokens
    for token in tokens:
        _check_token(token, wildcards, has_wildcards)


def _check_token(token: str, wildcards: int, has_wildcards: bool) -> None:
    if len(token) > 1 and token[0] == "$" and _INDEX.fullmatch(token[1:]):
        indexes = [int(token[1:])]
        name = "wildcard"
    else:
        call = _CALL.fullmatch(token)
        if call is None:
            return
        name = call[1].lower()
        indexes = _indexes(token, name, [part.strip(" ") for part in call[2].split(",")])
    if not has_wildcards:
        if name not in ("random", "partition"):
            raise TransformError(f"{_MAPPING}: wildcard index out of range in {token}")
        return
    for index in indexes:
        if index > wildcards:
            raise TransformError(f"{_MAPPING}: wildcard index out of range in {token}: [{index}]")


def _indexes(token: str, name: str, arguments: list[str]) -> list[int]:
    """The wildcard indexes among a function's arguments; raises when they are not what it takes."""
    shape = _FUNCTIONS[name]
    wanted = {"index": 1, "number": 1, "index-number": 2, "index-text": 2}.get(shape)
    given = 0 if arguments == [""] else len(arguments)
    if given < (wanted or 1):
        raise TransformError(f"{_MAPPING}: not enough arguments passed to the function in {token}")
    if wanted is not None and given > wanted:
        why = "not enough" if shape == "number" else "too many"
        raise TransformError(f"{_MAPPING}: {why} arguments passed to the function in {token}")
    numbers = arguments[:1] if shape == "index-text" else arguments
    if not all(_INDEX.fullmatch(argument) for argument in numbers):
        raise TransformError(f"{_MAPPING}: function argument is invalid or in the wrong format in {token}")
    if shape == "partition":
        return [int(argument) for argument in arguments[1:]]
    return [] if shape == "number" else [int(arguments[0])]
