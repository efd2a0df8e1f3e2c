"""Subject transforms: the rules of native/text/transform.c in the reference's words, for the configurations of accounts
and of streams. Pure text. Not here: renaming (the plane does it), overlaps of subjects
(jetstream/subjects.py)."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

INVALID_SUBJECT: Final = "invalid subject"
_BLANK: Final = frozenset("\t\n\f\r ")
_MAPPING: Final = "invalid mapping destination"
# In the order in which the reference looks for them; the first letter of each word may be a capital.
_FUNCTIONS: Final = {
    "wildcard": "index",
    "partition": "partition",
    "split-from-left": "index-number",
    "split-from-right": "index-number",
    "slice-from-left": "index-number",
    "slice-from-right": "index-number",
    "right": "index-number",
    "left": "index-number",
    "split": "index-text",
    "random": "number",
}
_SPACES: Final = r"[\t\n\f\r ]*"
# A call begins and ends like this; between the two anything may stand but a line's end. Not one expression: `.*`
# between them is tried at every beginning again, which is quadratic in what a client may send.
_BEGINNINGS: Final = {
    name: re.compile(
        rf"\{{\{{{_SPACES}"
        + "".join(f"[{word[0]}{word[0].upper()}]{word[1:]}" for word in name.split("-"))
        + rf"{_SPACES}\("
    )
    for name in _FUNCTIONS
}
_ENDING: Final = re.compile(rf"\){_SPACES}\}}\}}")
_COMMA: Final = re.compile(rf",{_SPACES}")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DIGITS_MAX: Final = 19  # of 64 bits
_INT32_MAX: Final = (1 << 31) - 1


class TransformError(Exception):
    """A transform's source and destination do not fit; the text is the reference's."""


def valid_subject(subject: str) -> bool:
    """Whether it is a subject; wildcards are allowed."""
    tokens = subject.split(".")
    if not all(tokens) or _BLANK.intersection(subject):
        return False
    return ">" not in tokens[:-1]


def check_mapping(source: str, destination: str) -> None:
    """Raises TransformError unless messages that match source can be stored under destination."""
    rest = False
    for token in destination.split(".") if destination else ():
        if not token or rest:
            raise TransformError(f"{_MAPPING}: invalid transform" + (f" in {token}" if token else ""))
        if _is_call(token):
            if _function(token) is None:
                raise TransformError(f"{_MAPPING}: unknown function in {token}")
        elif _BLANK.intersection(token):
            raise TransformError(f"{_MAPPING}: invalid transform")
        rest = token == ">"
    check_transform(source, destination)


def check_transform(source: str, destination: str) -> None:
    """Raises TransformError unless subjects that match source can be renamed to destination: the plane's rules
    (native/text/transform.c) in the reference's words."""
    if not destination:
        return
    source_tokens, tokens = (source or ">").split("."), destination.split(".")
    if not all(source_tokens) or not all(tokens) or ">" in source_tokens[:-1] or ">" in tokens[:-1]:
        raise TransformError(INVALID_SUBJECT)
    if "*" in tokens or (">" in source_tokens) != (">" in tokens):
        raise TransformError(INVALID_SUBJECT)
    wildcards = source_tokens.count("*")
    for token in tokens:
        _check_token(token, wildcards, has_wildcards=wildcards > 0 or ">" in source_tokens)


def _check_token(token: str, wildcards: int, *, has_wildcards: bool) -> None:
    if len(token) > 1 and token[0] == "$":
        index = _number(token[1:])
        if index is None:
            return
        name, indexes = "wildcard", [index]
    elif _is_call(token):
        found = _function(token)
        if found is None:
            raise TransformError(f"{_MAPPING}: unknown function in {token}")
        name = found[0]
        indexes = _indexes(token, _FUNCTIONS[name], _COMMA.split(found[1]))
    else:
        return
    if not has_wildcards:
        if name not in ("random", "partition"):
            raise TransformError(f"{_MAPPING}: wildcard index out of range in {token}")
        return
    for index in indexes:
        if index > wildcards:
            raise TransformError(f"{_MAPPING}: wildcard index out of range in {token}: [{index}]")


def _is_call(token: str) -> bool:
    return len(token) > 4 and token.startswith("{{") and token.endswith("}}")


def _function(token: str) -> tuple[str, str] | None:
    """The name of the function in a token, and the text between its parentheses: from the first beginning that has an
    ending in its line to the last such ending."""
    endings = [found.start() for found in _ENDING.finditer(token)]
    for name, beginning in _BEGINNINGS.items() if endings else ():
        line_end = -1
        for found in beginning.finditer(token):
            first = found.end()
            if first > endings[-1]:
                break
            if first > line_end:
                line_end = token.find("\n", first)
                line_end = line_end if line_end >= 0 else len(token)
            last = bisect_left(endings, line_end) - 1
            if last >= 0 and endings[last] >= first:
                return name, token[first : endings[last]]
    return None


def _number(text: str) -> int | None:
    """The number that Go reads as an int; None: no int."""
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _DIGITS_MAX:
        return None
    number = int(digits) * (-1 if text[0] == "-" else 1)
    return number if -(1 << 63) <= number < 1 << 63 else None


def _indexes(token: str, shape: str, arguments: list[str]) -> list[int]:
    """The wildcard indexes among a function's arguments; raises when they are not what it takes."""

    def wrong(why: str) -> TransformError:
        return TransformError(f"{_MAPPING}: {why} in {token}")

    wanted = {"index": 1, "number": 1, "index-number": 2, "index-text": 2}.get(shape)
    given = 0 if shape == "index" and arguments == [""] else len(arguments)
    if wanted is not None and (given < wanted or (given > wanted and shape == "number")):
        raise wrong("not enough arguments passed to the function")
    if wanted is not None and given > wanted:
        raise wrong("too many arguments passed to the function")
    numbers = [_number(one.strip(" ")) for one in (arguments[:1] if shape == "index-text" else arguments)]
    bad = shape == "index-text" and " " in arguments[1]
    if shape in ("number", "partition"):
        bad = numbers[0] is not None and numbers[0] > _INT32_MAX
    elif shape == "index-number":
        bad = numbers[1] is None or not -_INT32_MAX - 1 <= numbers[1] <= _INT32_MAX
    if bad or None in numbers:
        raise wrong("function argument is invalid or in the wrong format")
    whole = [number for number in numbers if number is not None]
    return whole[1:] if shape in ("number", "partition") else whole[:1]
