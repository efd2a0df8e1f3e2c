"""Reports as JSON, a piece at a time: a long report is not in memory as a whole where it is sent while it is made, and
making it lets others in.

What does not live here: what the reports say.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from leafd.records import dataclass
from leafd.turns import Pause

PIECE: Final = 32 << 10
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
        held, size, line = list[str](), 0, self.line(depth)
        for part in self._encoder.iterencode(value):
            held.append(part.replace("\n", line) if "\n" in part else part)
            size += len(part)
            if size >= 512:
                yield "".join(held)
                held, size = [], 0
        yield "".join(held)


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
