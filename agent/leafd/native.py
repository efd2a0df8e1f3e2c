"""The only importer of the C extension, and what Python takes from native/abi.h by way of it: constants, layouts.

    abi.EVENT_DONE                          a constant of the header
    layout("stream_state_t").unpack(...)    a struct as a dictionary of its members, and back
    command_rows()["ACCOUNT"].strings       what a command consists of, from the table in native/command/command_table.c

No number, no order of members and no size of the header is written again in Python: an enumeration of native_types.py
takes its values here, a row is packed by the names of its members. Not here: the plane as an object
(native_plane.py), its commands (native_commands.py), its values (native_types.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from leafd._native import ffi as _ffi, lib as _lib

# cffi's module is untyped by nature; these two names are the whole untyped surface.
ffi: Final[Any] = _ffi
abi: Final[Any] = _lib

_CODES: Final = {
    "uint8_t": "B",
    "int8_t": "b",
    "uint16_t": "H",
    "int16_t": "h",
    "uint32_t": "I",
    "int32_t": "i",
    "uint64_t": "Q",
    "int64_t": "q",
}


class Layout:
    """A struct of abi.h that has numbers only: its members' names in order, and its size."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name
        self.size = int(ffi.sizeof(type_name))
        code, at, names = "=", 0, []
        for name, member in ffi.typeof(type_name).fields:
            code += f"{member.offset - at}x{_CODES[member.type.cname]}"
            at = member.offset + int(ffi.sizeof(member.type))
            names.append(name)
        self.names = tuple(names)
        self._struct = struct.Struct(f"{code}{self.size - at}x")

    def pack(self, values: Mapping[str, int]) -> bytes:
        """The struct with these members; the others are 0. Raises struct.error for a number that does not fit, KeyError
        for a member that the struct does not have."""
        unknown = values.keys() - set(self.names)
        if unknown:
            raise KeyError(f"{self.type_name} has no {', '.join(sorted(unknown))}")
        return self._struct.pack(*(values.get(name, 0) for name in self.names))

    def unpack(self, payload: bytes | memoryview, at: int = 0) -> dict[str, int]:
        """The members of the struct that lies there. Raises struct.error when it is cut short."""
        return dict(zip(self.names, self.members_at(payload, at), strict=True))

    def members(self, payload: bytes | memoryview) -> tuple[int, ...]:
        """The members of the struct that this is, in their order."""
        return self._struct.unpack(payload)

    def members_at(self, payload: bytes | memoryview, at: int) -> tuple[int, ...]:
        """The members of the struct that lies there, in their order. Raises struct.error when it is cut short."""
        return self._struct.unpack_from(payload, at)

    def tuples(self, payload: bytes | memoryview) -> Iterator[tuple[int, ...]]:
        """The members of each of the structs that lie one behind the other, in their order."""
        return self._struct.iter_unpack(payload)


@cache
def layout(type_name: str) -> Layout:
    """The layout of a struct, worked out when it is first used."""
    return Layout(type_name)


class CommandRow(NamedTuple):
    """A command: its number, what it needs (NEEDS_*), its strings' names in order and what its body is made of."""

    op: int
    needs: int
    strings: tuple[str, ...]
    body: str


class EventRow(NamedTuple):
    """An event: its name, and for each of its members the place in plane_event_t and how it is read."""

    name: str
    members: tuple[tuple[str, str, str], ...]


def _rows(next_row: Callable[[int], Any]) -> Iterator[Any]:
    index = 0
    while (row := next_row(index)) != ffi.NULL:
        yield row
        index += 1


def _words(cell: Any) -> str:
    return str(ffi.string(cell).decode())


@cache
def command_rows() -> dict[str, CommandRow]:
    """The table of commands, by name."""
    return {
        _words(row.name): CommandRow(int(row.op), int(row.needs), tuple(_words(row.strings).split()), _words(row.body))
        for row in _rows(abi.plane_command_row)
    }


@cache
def event_rows() -> dict[int, EventRow]:
    """The table of events, by number."""
    return {
        int(row.kind): EventRow(_words(row.name), _members(_words(row.members))) for row in _rows(abi.plane_event_row)
    }


def _members(text: str) -> tuple[tuple[str, str, str], ...]:
    found = []
    for word in text.split():
        member, _, place = word.partition("=")
        place, _, form = place.partition(":")
        found.append((member, place, form))
    return tuple(found)
