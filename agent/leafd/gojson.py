"""JSON as the reference server reads and writes it, and the one reader of JSON that comes from outside.

    decode(Struct, body)  -->  frozen dataclass, or JsonError with the reference's words
    present(Struct, body) -->  dict of the members that the text has
    loose(body)           -->  dict of whatever it is, for requests whose options have no declared form
    dump(value)           -->  JSON text with its field order, omitted empties and time format

Whatever the bytes, the answer is a value or JsonError, nothing else, and a value is harmless: text is valid Unicode, a
number is in the range of its field (an int of 64 bits or a finite float in loose()), nothing is nested deeper than
DEPTH_MAX. Of duplicate members the last one counts, as in Go.

Fields are declared with wire(kind, "json_name"); a Kind knows how one Go type is read, written and called in
messages. Why no library: the order of fields, what is left out, case-insensitive names, the texts of errors and `null`
are Go's, and a library would have to be overruled in each; and this module loads in a millisecond, on a box where
start-up counts. Deviation: a time keeps its instant but not its zone (it is echoed in UTC).

Not here: any JetStream field (models/).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields
from typing import Any, ClassVar, Final, TypeVar

from leafd.gosyntax import syntax_error, whole_error
from leafd.gotime import TimeError, format_time, parse_time
from leafd.records import dataclass
from leafd.turns import PART, WEIGHT_MAX, aside, elements

_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
_Record = TypeVar("_Record", bound="Struct")

Path = tuple[str, ...]


DEPTH_MAX: Final = 100
"""The deepest that a request of the reference's API is nested is 5; its own bound of 10,000 is for machines with more
stack."""
SIZE_MAX: Final = 8 << 20
ELEMENTS_MAX: Final = 400_000
"""More than any request has: the longest list that the API takes has 32,768 elements. _number() says why it counts."""
_TEXT_MAX: Final = 1024
_KEY_SHOWN: Final = 64
_DIGITS_MAX: Final = 20  # of the largest number that a field takes
_UINT64_MAX: Final = (1 << 64) - 1
_INT64_MIN: Final = -(1 << 63)


class JsonError(Exception):
    """The body is not what the request wants; the text is Go's, but not longer than anybody reads."""

    def __init__(self, text: str) -> None:
        super().__init__(text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + "...")


class Number(str):
    """A JSON number as it was written: range and type are checked by the field that takes it."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """The members of a JSON object in the order of the text."""

    __slots__ = ()


def _number(text: str) -> Number:
    # A function of Python's, where the class would do: the json module's C code holds the interpreter until it calls
    # one, and a list of a million numbers would stop the control thread for a second although it is read on another.
    return Number(text)


def _constant(text: str) -> Any:
    raise ValueError(text)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_Object, parse_int=_number, parse_float=_number, parse_constant=_constant
)

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _described(value: Any) -> str:
    """Go's name for the kind of a JSON value."""
    if isinstance(value, _Object):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Number):
        return "number"
    return "string"


def _raw(value: Any) -> str:
    """The value as compact JSON again, for messages that quote it."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, _Object):
        return "{" + ",".join(f"{json.dumps(name)}:{_raw(member)}" for name, member in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_raw, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _mismatch(found: str, path: Path, go_type: str) -> JsonError:
    if len(path) == 1:
        return JsonError(f"json: cannot unmarshal {found} into Go value of type server.{path[0]}")
    # A list's element is no field of a struct, and the reference's text says so.
    owner = "" if path[-1].isdigit() else "Go struct field "
    return JsonError(f"json: cannot unmarshal {found} into {owner}{'.'.join(path)} of type {go_type}")


class Kind:
    """How one Go type is read from JSON and written to it."""

    go_type: ClassVar[str] = ""

    def __init__(self, default: Any = None) -> None:
        self.default = default

    def read(self, value: Any, path: Path, strict: bool) -> Any:
        """The Python value of a parsed JSON value (never null: see null())."""
        raise NotImplementedError

    def null(self, path: Path) -> Any:
        """The value of JSON's null: as if the field were absent, but for types with a reader of their own."""
        return self.default

    def write(self, value: Any) -> Any:
        """The value for json.dumps."""
        return value

    def empty(self, value: Any) -> bool:
        """Whether omitempty leaves it out."""
        return not value


class Text(Kind):
    """Go string."""

    go_type = "string"

    def __init__(self) -> None:
        super().__init__("")

    def read(self, value: Any, path: Path, strict: bool) -> str:
        if not isinstance(value, str) or isinstance(value, Number):
            raise _mismatch(_described(value), path, self.go_type)
        return _valid_text(value)


class Flag(Kind):
    """Go bool."""

    go_type = "bool"

    def __init__(self) -> None:
        super().__init__(False)

    def read(self, value: Any, path: Path, strict: bool) -> bool:
        if not isinstance(value, bool):
            raise _mismatch(_described(value), path, self.go_type)
        return value


class Integer(Kind):
    """Go's integers: a type name and a range."""

    def __init__(self, name: str, low: int, high: int) -> None:
        super().__init__(0)
        self.name = name
        self.low = low
        self.high = high

    def read(self, value: Any, path: Path, strict: bool) -> int:
        if not isinstance(value, Number):
            raise _mismatch(_described(value), path, self.name)
        number = _integer(value)
        if number is None or not self.low <= number <= self.high:
            raise _mismatch(f"number {value}", path, self.name)
        return number


class Time(Kind):
    """Go *time.Time as nanoseconds since 1970, or None; with pointer=False the zero time stands for unset."""

    go_type = "time.Time"

    def __init__(self, *, pointer: bool = True, default: int | None = None) -> None:
        super().__init__(default)
        self.pointer = pointer

    def read(self, value: Any, path: Path, strict: bool) -> int:
        if not isinstance(value, str) or isinstance(value, Number):
            raise _mismatch(_described(value), path, self.go_type)
        try:
            return parse_time(value)
        except TimeError as error:
            raise JsonError(str(error)) from None

    def write(self, value: Any) -> Any:
        return None if value is None else format_time(value)

    def empty(self, value: Any) -> bool:
        return value is None


class Choice(Kind):
    """A Go enumeration with a JSON reader of its own: it sees null too, and words its own refusals."""

    def __init__(
        self,
        default: str,
        values: Iterable[str],
        *,
        also: Mapping[str, str] | None = None,
        fold: bool = False,
        refusal: Callable[[str], str] = lambda raw: f"can not unmarshal {json.dumps(raw, ensure_ascii=False)}",
        hidden: str | None = None,
    ) -> None:
        super().__init__(default)
        self.known = {value: value for value in values} | dict(also or {})
        self.fold = fold
        self.refusal = refusal
        self.hidden = hidden

    def read(self, value: Any, path: Path, strict: bool) -> str:
        if isinstance(value, str) and not isinstance(value, Number):
            known = self.known.get(value.lower() if self.fold else value)
            if known is not None:
                return known
        raise JsonError(self.refusal(_raw(value)))

    def null(self, path: Path) -> Any:
        raise JsonError(self.refusal("null"))

    def empty(self, value: Any) -> bool:
        return bool(value == self.hidden)


class ListOf(Kind):
    """Go slice, as a tuple."""

    def __init__(self, item: Kind, go_type: str) -> None:
        super().__init__(())
        self.item = item
        self.name = go_type

    def read(self, value: Any, path: Path, strict: bool) -> tuple[Any, ...]:
        if isinstance(value, _Object) or not isinstance(value, list):
            raise _mismatch(_described(value), path, self.name)
        found = []
        for index, one in enumerate(value):
            where = (*path, str(index))
            found.append(self.item.null(where) if one is None else self.item.read(one, where, strict))
        return tuple(found)

    def write(self, value: Any) -> Any:
        return [self.item.write(one) for one in value]


class TextMap(Kind):
    """Go map[string]string."""

    go_type = "map[string]string"

    def __init__(self) -> None:
        super().__init__(None)

    def read(self, value: Any, path: Path, strict: bool) -> dict[str, str]:
        if not isinstance(value, _Object):
            raise _mismatch(_described(value), path, self.go_type)
        text = Text()
        return {_valid_text(k): "" if v is None else text.read(v, (*path, k), strict) for k, v in value}

    def write(self, value: Any) -> Any:
        return {} if value is None else dict(sorted(value.items()))


class _NoMembers(dict[str, Any]):
    """The default of a map: dataclass() takes nothing for a default that has no hash."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class MapOf(Kind):
    """Go map with texts as keys, as a dict."""

    def __init__(self, item: Kind, go_type: str) -> None:
        super().__init__(_NoMembers())
        self.item = item
        self.name = go_type

    def read(self, value: Any, path: Path, strict: bool) -> dict[str, Any]:
        if not isinstance(value, _Object):
            raise _mismatch(_described(value), path, self.name)
        found = {}
        for key, one in value:
            where = (*path, _valid_text(key)[:_KEY_SHOWN])
            found[_valid_text(key)] = self.item.null(where) if one is None else self.item.read(one, where, strict)
        return found

    def write(self, value: Any) -> Any:
        return {key: self.item.write(one) for key, one in sorted(value.items())}


class Nested(Kind):
    """A struct within a struct; pointer: None when absent or null."""

    def __init__(self, struct: type[Struct], *, pointer: bool = True) -> None:
        super().__init__(None if pointer else struct())
        self.struct = struct

    def read(self, value: Any, path: Path, strict: bool) -> Any:
        if not isinstance(value, _Object):
            raise _mismatch(_described(value), path, f"server.{self.struct.go_name or self.struct.__name__}")
        return self.struct(**_members(self.struct, value, path, strict))

    def write(self, value: Any) -> Any:
        return None if value is None else written(value)

    def empty(self, value: Any) -> bool:
        return value is None


class Raw(Kind):
    """Anything, written as it is; for replies only."""

    def read(self, value: Any, path: Path, strict: bool) -> Any:
        return value


def wire(kind: Kind, name: str, *, omit: bool = False) -> Any:
    """Declares a dataclass field with its JSON name; omit: left out when empty, as Go's omitempty."""
    metadata = {"kind": kind, "name": name, "omit": omit}
    return field(default=kind.default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Struct:
    """Base of everything that is read from or written to JSON. go_name: what messages call it, when that differs."""

    go_name: ClassVar[str] = ""


TEXT: Final = Text()
FLAG: Final = Flag()
INT: Final = Integer("int", -(1 << 63), (1 << 63) - 1)
INT32: Final = Integer("int32", -(1 << 31), (1 << 31) - 1)
INT64: Final = Integer("int64", -(1 << 63), (1 << 63) - 1)
UINT64: Final = Integer("uint64", 0, (1 << 64) - 1)
DURATION: Final = Integer("time.Duration", -(1 << 63), (1 << 63) - 1)
TEXT_MAP: Final = TextMap()


def _integer(text: str) -> int | None:
    """The number, if it is a whole one of a length that any field could take."""
    digits = text.removeprefix("-")
    return int(text) if len(digits) <= _DIGITS_MAX and digits.isascii() and digits.isdigit() else None


def _valid_text(value: str) -> str:
    """Lone surrogates, which JSON can spell and UTF-8 cannot, become U+FFFD as in Go."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


@dataclass(frozen=True, slots=True)
class _Column:
    """One declared field: attribute, JSON name, kind, and whether it is left out when empty."""

    attribute: str
    name: str
    kind: Kind
    omit: bool


# Filled when a struct is first read or written: reflection costs more than the work itself.
_COLUMNS: Final[dict[type, tuple[_Column, ...]]] = {}
_BY_NAME: Final[dict[type, dict[str, _Column]]] = {}


def _columns(struct: type[Struct]) -> tuple[_Column, ...]:
    found = _COLUMNS.get(struct)
    if found is None:
        found = tuple(
            _Column(one.name, one.metadata["name"], one.metadata["kind"], one.metadata["omit"])
            for one in fields(struct)
        )
        _COLUMNS[struct] = found
    return found


def _by_name(struct: type[Struct]) -> dict[str, _Column]:
    """Columns by JSON name and, where no other has it, by the name in lower case."""
    found = _BY_NAME.get(struct)
    if found is None:
        columns = _columns(struct)
        found = {one.name.lower(): one for one in columns} | {one.name: one for one in columns}
        _BY_NAME[struct] = found
    return found


def _members(struct: type[Struct], value: _Object, path: Path, strict: bool) -> dict[str, Any]:
    known = _by_name(struct)
    found: dict[str, Any] = {}
    for name, member in value:
        one = known.get(name) or known.get(name.lower())
        if one is None:
            if strict:
                raise JsonError(f"json: unknown field {json.dumps(name, ensure_ascii=False)}")
            continue
        where = (*path, one.name)
        found[one.attribute] = one.kind.null(where) if member is None else one.kind.read(member, where, strict)
    return found


_OPENING: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)


def _check_depth(text: str) -> None:
    """Raises JsonError for text that is nested too deeply for its reader."""
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return
    depth = 0
    for found in _OPENING.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise JsonError(f"exceeded max depth at offset {len(text[: found.start()].encode()) + 1}")
        elif found[0] in "]}":
            depth -= 1


def _values(body: bytes, size_max: int = SIZE_MAX) -> list[Any]:
    """All JSON values of the text one after the other, as Go's stream decoder takes them."""
    if len(body) > size_max:
        raise JsonError(f"{len(body)} bytes where at most {size_max} are taken")
    if body.count(b",") > ELEMENTS_MAX:
        raise JsonError(f"more than {ELEMENTS_MAX} elements")
    text = body.decode("utf-8", "replace")
    _check_depth(text)
    found: list[Any] = []
    at = 0
    while True:
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        if at == len(text):
            return found
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            raise JsonError(syntax_error(text[at:], at)) from None
        found.append(value)


def decode(struct: type[_Record], body: bytes, *, strict: bool = True, size_max: int = SIZE_MAX) -> _Record:
    """Reads a request. An empty body is the struct with its defaults, as the reference has it."""
    return struct(**_read(struct, _values(body, size_max), strict))


def decode_whole(struct: type[_Record], body: bytes) -> _Record:
    """Reads a request that is one value, as few of the reference's are; unknown members are ignored."""
    try:
        values = _values(body)
    except JsonError as error:
        # A text that is too large or too deep for us may be one value all the same.
        raise JsonError(whole_error(body.decode("utf-8", "replace")) or str(error)) from None
    if len(values) != 1:
        raise JsonError(whole_error(body.decode("utf-8", "replace")))
    return struct(**_read(struct, values, strict=False))


def present(struct: type[Struct], body: bytes, *, size_max: int = SIZE_MAX) -> dict[str, Any]:
    """The members of one JSON object that the struct declares, the text has and that are not null, by their JSON names.
    Others are ignored."""
    values = _values(body, size_max)
    if len(values) != 1 or not isinstance(values[0], _Object):
        raise JsonError("not one JSON object")
    given = {name.lower() for name, member in values[0] if member is not None}
    found = _read(struct, values, strict=False)
    names = {one.attribute: one.name for one in _columns(struct)}
    return {names[attribute]: value for attribute, value in found.items() if names[attribute].lower() in given}


def loose(body: bytes, *, size_max: int = SIZE_MAX) -> dict[str, Any]:
    """One JSON object without a declared form. Numbers that are neither 64-bit integers nor finite are None."""
    values = _values(body, size_max)
    if len(values) != 1 or not isinstance(values[0], _Object):
        raise JsonError("not one JSON object")
    found: dict[str, Any] = _plain(values[0])
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, _Object):
        return {_valid_text(name): _plain(member) for name, member in value}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if isinstance(value, Number):
        number = _integer(value)
        if number is not None:
            return number if _INT64_MIN <= number <= _UINT64_MAX else None
        fraction = float(value) if len(value) <= _TEXT_MAX else math.inf
        return fraction if math.isfinite(fraction) else None
    return _valid_text(value) if isinstance(value, str) else value


def _read(struct: type[Struct], values: list[Any], strict: bool) -> dict[str, Any]:
    name = struct.go_name or struct.__name__
    found: dict[str, Any] = {}
    for value in values:
        if value is None:
            continue
        if not isinstance(value, _Object):
            raise _mismatch(_described(value), (name,), "")
        found |= _members(struct, value, (name,), strict)
    return found


def written(value: Struct) -> dict[str, Any]:
    """The struct as a dict for json.dumps, in field order, empties left out where the declaration says so."""
    members: dict[str, Any] = {}
    for one in _columns(type(value)):
        item = getattr(value, one.attribute)
        if one.omit and one.kind.empty(item):
            continue
        members[one.name] = one.kind.write(item)
    return members


def dump(members: Mapping[str, Any]) -> bytes:
    """JSON text with Go's escapes of <, > and &, which can only occur inside strings."""
    return _escaped(_ENCODER.encode(members))


async def dumped(weight: int, members: Mapping[str, Any]) -> bytes:
    """The same, of members that are as large as weight says (turns.py)."""
    return await aside(weight, dump_piecewise if weight > WEIGHT_MAX else dump, members)


def dump_piecewise(members: Mapping[str, Any]) -> bytes:
    """For the worker thread. dumps() holds the interpreter until it is through; this lets the control thread in."""
    return _escaped("".join(_parts(members)))


def _parts(value: Any) -> Iterator[str]:
    """The text in parts. Each takes json's encoder some tens of microseconds at most, unless it is one text."""
    if not isinstance(value, dict | list | tuple) or elements(value, PART) < PART:
        yield _ENCODER.encode(value)
        return
    named = isinstance(value, dict)
    held, size, opening = list[Any](), 0, "{" if named else "["
    for one in value.items() if isinstance(value, dict) else value:
        count = elements(one, PART)
        if count < PART:
            held.append(one)
            size += count
        if held and max(count, size) >= PART:
            yield opening + _ENCODER.encode(dict(held) if named else held)[1:-1]
            held, size, opening = [], 0, ","
        if count >= PART:
            yield f"{opening}{_ENCODER.encode(one[0])}:" if named else opening
            yield from _parts(one[1] if named else one)
            opening = ","
    yield (opening + _ENCODER.encode(dict(held) if named else held)[1:-1] if held else "") + ("}" if named else "]")


def _escaped(text: str) -> bytes:
    for character, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(character, escape)
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _NO_TEXT.sub("\ufffd", text).encode()  # as Go shows bytes that are no UTF-8
