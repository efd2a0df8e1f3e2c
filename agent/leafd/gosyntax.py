"""Go's complaints about text that is not JSON: the words and the offset of the first wrong character.

Only called when Python's parser has refused already, so it is written to be plain, not fast. Not here:
the decision whether the text is JSON.
"""

from __future__ import annotations

from typing import Final

from leafd.quoting import quoted

_SPACE: Final = " \t\r\n"
_ESCAPES: Final = '"\\/bfnrt'


class _Wrong(Exception):
    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


class _Ended(Exception):
    pass


def syntax_error(text: str, before: int) -> str:
    """The reference's text for a value that does not parse. before: characters of the body in front of it."""
    try:
        _value(text, _skip(text, 0), 0)
    except _Wrong as wrong:
        character = text[wrong.at]
        offset = before + len(text[: wrong.at].encode("utf-8", "replace")) + 1
        return f"invalid character {_quoted(character)} {wrong.why} at offset {offset}"
    except (_Ended, RecursionError):
        return "unexpected EOF"
    return "unexpected EOF"


def whole_error(text: str) -> str:
    """The same where Go takes the text as one value and no stream of them; "" where it is one."""
    try:
        end = _skip(text, _value(text, _skip(text, 0), 0))
    except _Wrong as wrong:
        return f"invalid character {_quoted(text[wrong.at])} {wrong.why}"
    except (_Ended, RecursionError):
        return "unexpected end of JSON input"
    return f"invalid character {_quoted(text[end])} after top-level value" if end < len(text) else ""


def _quoted(character: str) -> str:
    if character == "'":
        return "'\\''"
    if character == '"':
        return "'\"'"
    return "'" + quoted(character)[1:-1] + "'"


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _at(text: str, at: int) -> str:
    if at >= len(text):
        raise _Ended
    return text[at]


def _value(text: str, at: int, depth: int) -> int:
    character = _at(text, at)
    if character == "{":
        return _object(text, at + 1, depth + 1)
    if character == "[":
        return _array(text, at + 1, depth + 1)
    if character == '"':
        return _string(text, at + 1)
    if character == "-" or character.isdigit():
        return _number(text, at)
    for literal in ("true", "false", "null"):
        if character == literal[0]:
            return _literal(text, at, literal)
    raise _Wrong(at, "looking for beginning of value")


def _object(text: str, at: int, depth: int) -> int:
    at = _skip(text, at)
    if _at(text, at) == "}":
        return at + 1
    while True:
        if _at(text, at) != '"':
            raise _Wrong(at, "looking for beginning of object key string")
        at = _skip(text, _string(text, at + 1))
        if _at(text, at) != ":":
            raise _Wrong(at, "after object key")
        at = _skip(text, _value(text, _skip(text, at + 1), depth))
        if _at(text, at) == "}":
            return at + 1
        if text[at] != ",":
            raise _Wrong(at, "after object key:value pair")
        at = _skip(text, at + 1)


def _array(text: str, at: int, depth: int) -> int:
    at = _skip(text, at)
    if _at(text, at) == "]":
        return at + 1
    while True:
        at = _skip(text, _value(text, at, depth))
        if _at(text, at) == "]":
            return at + 1
        if text[at] != ",":
            raise _Wrong(at, "after array element")
        at = _skip(text, at + 1)


def _string(text: str, at: int) -> int:
    while True:
        character = _at(text, at)
        if character == '"':
            return at + 1
        if character < " ":
            raise _Wrong(at, "in string")
        if character == "\\":
            at += 1
            if _at(text, at) == "u":
                for step in range(1, 5):
                    if _at(text, at + step) not in "0123456789abcdefABCDEF":
                        raise _Wrong(at + step, "in \\u hexadecimal character escape")
                at += 4
            elif text[at] not in _ESCAPES:
                raise _Wrong(at, "in string escape code")
        at += 1


def _literal(text: str, at: int, literal: str) -> int:
    for index, expected in enumerate(literal):
        if _at(text, at + index) != expected:
            raise _Wrong(at + index, f"in literal {literal} (expecting '{expected}')")
    return at + len(literal)


def _number(text: str, at: int) -> int:
    if text[at] == "-":
        at += 1
    if not _at(text, at).isdigit():
        raise _Wrong(at, "in numeric literal")
    leading_zero = text[at] == "0"
    at += 1
    while not leading_zero and at < len(text) and text[at].isdigit():
        at += 1
    for starts, why in ((".", "after decimal point in numeric literal"), ("eE", "in exponent of numeric literal")):
        if at < len(text) and text[at] in starts:
            at += 1
            if starts == "eE" and _at(text, at) in "+-":
                at += 1
            if not _at(text, at).isdigit():
                raise _Wrong(at, why)
            while at < len(text) and text[at].isdigit():
                at += 1
    return at
