"""Reports as JSON, a piece at a time: a long report is not in memory as a whole where it is sent while it is made, and
making it lets others in.

Not here: what the reports say.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from json.encoder import encode_basestring_ascii
from typing import Any, Final

from leafd.native_rows import RowColumn, RowKind, RowWriter
from leafd.records import dataclass
from leafd.turns import PART, Pause, elements

PIECE: Final = 64 << 10
SCALARS: Final = frozenset((str, int, float, bool, type(None)))
FLAT: Final = 8
"""Members of what json's own encoder writes sooner than a row at a time."""
TOGETHER: Final = 1024
"""Bytes of small members that are written at once."""
ROWS_TOGETHER: Final = 128
"""Rows that are alike and are written at once."""
GZIP_LEVEL: Final = 1
"""A higher one takes twice the time and saves a twentieth."""
GZIP_WINDOW: Final = 31
"""zlib's word for a window of 32 KB with gzip's head."""
_MARK: Final = "\0"
"""Stands for a hole: in JSON it is escaped."""
_DEPTH: Final = 2
"""Lists are written row by row in the report, and in what it has as `data`."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of a report whose rows are made when they are written. What making them adds to the report comes last."""

    rows: AsyncGenerator[dict[str, Any], None]


@dataclass(frozen=True, slots=True)
class Hole:
    """A place where objects of one form differ: how the value is written, and where its 8 bytes are in an object's
    record."""

    kind: RowKind
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """The common form of many rows: an object with a Hole where they differ, and the size of a record."""

    specimen: Mapping[str, Any]
    size: int


@dataclass(slots=True, eq=False)
class Alike:
    """Some rows of a list, one behind the other, as their records, and what the holes for texts say in their order, as
    JSON. C writes them in a hundredth of the time that objects take."""

    form: Form
    records: list[bytes]
    texts: list[bytes]
    """As many for each record as the form has such holes. Or one record and one text, which are those of several rows
    joined."""


_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def in_label(text: str) -> str:
    """The text as a label's value, or a help, of a metric has it."""
    return text.translate(_ESCAPES)


def in_labels(names: Sequence[str]) -> tuple[list[int], bytes]:
    """The same of many: how many bytes each has, and all of them together."""
    joined = "".join(names)
    told = in_label(joined)
    if len(told) != len(joined):
        names = [in_label(one) for one in names]
    body = told.encode()
    return [len(one) for one in names] if len(body) == len(told) else [len(one.encode()) for one in names], body


class TooLarge(Exception):
    """A report that has to be in memory as a whole is larger than it may be."""


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


def takes_gzip(accepted: str) -> bool:
    """Whether a client that sends that Accept-Encoding takes gzip."""
    for part in accepted.lower().split(","):
        coding, *parameters = (one.strip() for one in part.split(";"))
        if coding in ("gzip", "x-gzip"):
            weights = [one[2:].strip() for one in parameters if one.startswith("q=")]
            return not any(weight.strip("0.") == "" for weight in weights)
    return False


async def packed(parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The same as gzip, in pieces none of which is empty: metrics of a thousand links become a twentieth."""
    import zlib  # here: no box at rest is asked for it

    packer = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW)
    async with aclosing(parts):
        async for part in parts:
            if piece := packer.compress(part):
                yield piece
    yield packer.flush()


class _Style:
    """How json.dumps writes with that indent: at once where the report has no lines, else in small parts."""

    def __init__(self, indent: int | None) -> None:
        self.indent = indent
        self.comma, self.colon = (",", ": ") if indent else (",", ":")
        self._encoder = json.JSONEncoder(separators=(self.comma, self.colon))
        self._encoders: dict[str, json.JSONEncoder] = {}
        self._writers: dict[tuple[Form, int], tuple[RowWriter, int]] = {}

    def line(self, depth: int) -> str:
        """The text before an element at that depth."""
        return "" if self.indent is None else "\n" + " " * (self.indent * depth)

    def small(self, value: object, depth: int) -> str:
        """A value of few elements."""
        if self.indent is None:
            return self._encoder.encode(value)
        return self._indented(value, self.line(depth))

    def alike(self, rows: Alike, depth: int, opening: str) -> Iterator[str]:
        """The rows as text, some at a time. opening: what stands before the first."""
        writer, texts = self._writer(rows.form, depth)
        for begin in range(0, len(rows.records), ROWS_TOGETHER):
            end = begin + ROWS_TOGETHER
            records, named = rows.records[begin:end], rows.texts[begin * texts : end * texts]
            text = writer.text(b"".join(records), b"".join(named))
            yield text if opening == self.comma else opening + text[len(self.comma) :]
            opening = self.comma

    def _writer(self, form: Form, depth: int) -> tuple[RowWriter, int]:
        """For rows at that depth, a comma before each; and how many texts a row has."""
        found = self._writers.get((form, depth))
        if found is None:
            line, holes = self.line(depth), list(_holes(form.specimen))
            text = f"{self.comma}{line}{self._indented(form.specimen, line)}"
            *literals, last = text.split(_MARK)
            columns = [one for pair in zip(literals, holes, strict=True) for one in _columns(*pair)]
            columns.append(RowColumn(last.encode(), RowKind.NOTHING, 0))
            named = sum(hole.kind == RowKind.TEXT for hole in holes)
            found = self._writers[form, depth] = RowWriter(columns, form.size), named
        return found

    def parts(self, value: object, depth: int) -> Iterator[str]:
        """A value in parts, which come to some hundred bytes at least."""
        if _is_small(value) or not isinstance(value, dict | list | tuple):
            yield self.small(value, depth)
            return
        held, size, line = list[str](), 0, self.line(depth + 1)
        named = isinstance(value, dict)
        opening = "{" if named else "["
        for one in value:
            if type(one) is Alike:
                yield "".join(held)
                held, size = [], 0
                yield from self.alike(one, depth + 1, opening)
                opening = self.comma
                continue
            head = f"{opening}{line}{encode_basestring_ascii(one)}{self.colon}" if named else f"{opening}{line}"
            opening, element = self.comma, value[one] if named else one
            small = _is_small(element)
            held.append(f"{head}{self.small(element, depth + 1)}" if small else head)
            size += len(held[-1])
            if not small or size >= TOGETHER:
                yield "".join(held)
                held, size = [], 0
            if not small:
                yield from self.parts(element, depth + 1)
        yield f"{''.join(held)}{self.line(depth)}{'}' if named else ']'}"

    def scalars(self, value: dict[str, Any], between: str) -> str:
        """The names and values of one that has nothing within its values, with that text between them: json's own
        encoder writes them all in one call."""
        encoder = self._encoders.get(between)
        if encoder is None:
            encoder = self._encoders[between] = json.JSONEncoder(separators=(between, self.colon))
        return encoder.encode(value)[1:-1]

    def _indented(self, value: object, line: str) -> str:
        """A small value, or a form, in a sixth of the time that json takes for it with an indent: an encoder with one
        makes functions for each value, in cycles."""
        if type(value) is str:
            return encode_basestring_ascii(value)
        if type(value) is int:
            return repr(value)
        if type(value) is Hole:
            return _MARK
        if not value or not isinstance(value, dict | list | tuple):
            return json.dumps(value)
        inner = f"{line}{' ' * (self.indent or 0)}"
        between = self.comma + inner
        if isinstance(value, dict):
            if len(value) >= FLAT and SCALARS.issuperset(map(type, value.values())):
                return f"{{{inner}{self.scalars(value, between)}{line}}}"
            rows = [
                f"{encode_basestring_ascii(name)}{self.colon}{encode_basestring_ascii(one)}"
                if type(one) is str
                else f"{encode_basestring_ascii(name)}{self.colon}{self._indented(one, inner)}"
                for name, one in value.items()
            ]
            return f"{{{inner}{between.join(rows)}{line}}}"
        return f"[{inner}{between.join([self._indented(one, inner) for one in value])}{line}]"


def _columns(literal: str, hole: Hole) -> Iterator[RowColumn]:
    """The columns of the text before a hole, and of the hole. With an optional one goes its name, not the end of what
    is before."""
    if hole.kind == RowKind.OPTIONAL:
        before, comma, name = literal.rpartition(",")
        yield RowColumn(before.encode(), RowKind.NOTHING, 0)
        literal = comma + name
    yield RowColumn(literal.encode(), hole.kind, hole.at)


def _holes(part: object) -> Iterator[Hole]:
    """The holes of a form, in the order in which they are written."""
    if isinstance(part, Hole):
        yield part
    elif isinstance(part, Mapping | list):
        for value in part.values() if isinstance(part, Mapping) else part:
            yield from _holes(value)


def _is_small(value: object) -> bool:
    """Whether it is written at once. Rows are never: they are made while they are written."""
    if type(value) is int or (type(value) is str and len(value) < 1024):
        return True
    return elements(value, PART) < PART


async def _object(style: _Style, found: Mapping[str, Any], depth: int) -> AsyncGenerator[str, None]:
    if not found:
        yield "{}"
        return
    held, size, names = list[str](), 0, list(found)
    opening, between = f"{{{style.line(depth + 1)}", f"{style.comma}{style.line(depth + 1)}"
    plain: dict[str, Any] = {}  # neighbours that are written together
    for name in names:
        value = found[name]
        scalar = type(value) in SCALARS and _is_small(value)
        if scalar:
            plain[name] = value
        if plain and (not scalar or len(plain) == PART):
            held.append(f"{opening}{style.scalars(plain, between)}")
            opening, size, plain = between, size + len(held[-1]), {}
        if scalar:
            if size >= TOGETHER:
                yield "".join(held)
                held, size = [], 0
            continue
        held.append(f"{opening}{encode_basestring_ascii(name)}{style.colon}")
        opening = between
        small = _is_small(value)
        if small:
            held.append(style.small(value, depth + 1))
            size += len(held[-1])
        if not small or size >= TOGETHER:
            yield "".join(held)
            held, size = [], 0
        if not small:
            async with aclosing(_value(style, value, depth + 1)) as parts:
                async for part in parts:
                    yield part
        if len(found) > len(names):
            names += [late for late in found if late not in names]
    if plain:
        held.append(f"{opening}{style.scalars(plain, between)}")
    yield f"{''.join(held)}{style.line(depth)}}}"


async def _value(style: _Style, value: object, depth: int) -> AsyncGenerator[str, None]:
    if isinstance(value, dict) and depth < _DEPTH:
        async with aclosing(_object(style, value, depth)) as parts:
            async for part in parts:
                yield part
    elif isinstance(value, Rows) or (isinstance(value, list) and value):
        opening = "["
        async with aclosing(_each(value)) as rows:
            async for row in rows:
                if type(row) is Alike:
                    for part in style.alike(row, depth + 1, opening):
                        yield part
                    opening = style.comma
                    continue
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
