"""Reports as JSON, a piece at a time: a long report is not in memory as a whole where it is sent while it is made, and
making it lets others in.

What does not live here: what the reports say.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from json.encoder import encode_basestring_ascii
from typing import Any, Final

from leafd.records import dataclass
from leafd.turns import Pause

PIECE: Final = 32 << 10
SMALL: Final = 128
"""Elements of what is written at once: some tens of microseconds."""
_DEPTH: Final = 2
"""Lists are written row by row in the report, and in what it has as `data`."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of a report whose rows are made when they are written. What making them adds to the report comes last."""

    rows: AsyncGenerator[dict[str, Any], None]


class TooLarge(Exception):
    """What has to be in memory as a whole is more than it may be."""


async def encode(report: Mapping[str, Any], *, most: int = 0) -> bytes:
    """The report's bytes. Raises TooLarge when they are more than that; 0: any number."""
    found = bytearray()
    async with aclosing(pieces(report)) as parts:
        async for part in parts:
            found += part
            if most and len(found) > most:
                raise TooLarge
    return bytes(found)


async def pieces(report: Mapping[str, Any], *, indent: int | None = None) -> AsyncGenerator[bytes, None]:
    """The report's bytes in pieces of about PIECE, none of which is empty."""
    held, size, pause = list[str](), 0, Pause()
    async with aclosing(_object(_Style(indent), report, 0)) as texts:
        async for text in texts:
            held.append(text)
            size += len(text)
            await pause()
            if size >= PIECE:
                yield "".join(held).encode()
                held, size = [], 0
    if held:
        yield "".join(held).encode()


async def texts(parts: Iterator[str]) -> AsyncGenerator[bytes, None]:
    """Texts in pieces of about PIECE; making them lets others in."""
    held, size, pause = list[str](), 0, Pause()
    for text in parts:
        held.append(text)
        size += len(text)
        if size >= PIECE:
            yield "".join(held).encode()
            held, size = [], 0
            await pause()
    if held:
        yield "".join(held).encode()


class _Style:
    """How json.dumps writes with that indent: at once where the report has no lines, else in many small parts."""

    def __init__(self, indent: int | None) -> None:
        self.indent = indent
        self.comma, self.colon = (",", ": ") if indent else (",", ":")
        self._encoder = json.JSONEncoder(indent=indent, separators=(self.comma, self.colon))

    def line(self, depth: int) -> str:
        """What stands before an element at that depth."""
        return "" if self.indent is None else "\n" + " " * (self.indent * depth)

    def parts(self, value: object, depth: int) -> Iterator[str]:
        """A value in parts, which come to some hundred bytes at least."""
        if self.indent is None:
            yield self._encoder.encode(value)
            return
        if _elements(value, SMALL) < SMALL:
            yield self._indented(value, self.line(depth))
            return
        held, size, line = list[str](), 0, self.line(depth)
        for part in self._encoder.iterencode(value):
            held.append(part.replace("\n", line) if "\n" in part else part)
            size += len(part)
            if size >= 512:
                yield "".join(held)
                held, size = [], 0
        yield "".join(held)

    def _indented(self, value: object, line: str) -> str:
        """A small value, in a third of the time that json takes for it with an indent."""
        if isinstance(value, str):
            return encode_basestring_ascii(value)
        if not value or not isinstance(value, dict | list | tuple):
            return json.dumps(value)  # An encoder with an indent makes functions for each value, in cycles.
        inner = f"{line}{' ' * (self.indent or 0)}"
        if isinstance(value, dict):
            rows = [f"{json.dumps(name)}{self.colon}{self._indented(one, inner)}" for name, one in value.items()]
            return f"{{{inner}{(self.comma + inner).join(rows)}{line}}}"
        return f"[{inner}{(self.comma + inner).join([self._indented(one, inner) for one in value])}{line}]"


def _elements(value: object, most: int) -> int:
    """How many strings, numbers, lists and so on it has, if fewer than that; of a long text each KB counts."""
    if isinstance(value, str):
        return 1 + len(value) // 1024
    found = 1
    if isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            found += _elements(one, most - found)
            if found >= most:
                break
    return found


async def _object(style: _Style, found: Mapping[str, Any], depth: int) -> AsyncGenerator[str, None]:
    if not found:
        yield "{}"
        return
    opening, names = "{", list(found)
    for name in names:
        value = found[name]
        yield f"{opening}{style.line(depth + 1)}{json.dumps(name)}{style.colon}"
        opening = style.comma
        async with aclosing(_value(style, value, depth + 1)) as parts:
            async for part in parts:
                yield part
        names += [late for late in found if late not in names]
    yield style.line(depth) + "}"


async def _value(style: _Style, value: object, depth: int) -> AsyncGenerator[str, None]:
    if isinstance(value, dict) and depth < _DEPTH:
        async with aclosing(_object(style, value, depth)) as parts:
            async for part in parts:
                yield part
    elif isinstance(value, Rows) or (isinstance(value, list) and value):
        opening = "["
        async with aclosing(_each(value)) as rows:
            async for row in rows:
                yield opening + style.line(depth + 1)
                opening = style.comma
                for part in style.parts(row, depth + 1):
                    yield part
        yield "[]" if opening == "[" else style.line(depth) + "]"
    else:
        for part in style.parts(value, depth):
            yield part


async def _each(value: Rows | list[Any]) -> AsyncGenerator[Any, None]:
    if isinstance(value, list):
        for row in value:
            yield row
        return
    async with aclosing(value.rows) as rows:
        async for row in rows:
            yield row
