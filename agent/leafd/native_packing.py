"""Commands, their answers and events as bytes: packed and read by the tables of native/command/command_table.c.

    packed("ACCOUNT", {"name": "A", "domain": ""})    the strings, in the table's order
    readers()[kind](event)                            the frozen value of native_types.py

Not here: when a command is given (native_commands.py), rings and completions (native_plane.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import Any, Final, TypeVar, cast

from leafd import native_types as t
from leafd.native import abi, command_rows, event_rows, ffi, layout
from leafd.native_stats import StateRow
from leafd.native_types import PlaneError, Status

_Record = TypeVar("_Record")
Text = str | bytes
Strings = Mapping[str, Text | Iterable[Text]]
NO_STRINGS: Final[Strings] = {}


# ---- keys


class StoreKeys:
    """plane_keys_t: what the store is encrypted with. Says nothing of the keys when it is printed."""

    __slots__ = ("cipher", "key", "previous")

    def __init__(self, key: bytes, cipher: int, previous: bytes = b"") -> None:
        self.key, self.cipher, self.previous = key, cipher, previous


class PackedKeys:
    """plane_keys_t and what it points to, until it is cleansed."""

    def __init__(self, keys: StoreKeys) -> None:
        self._held = [ffi.new("uint8_t[]", text) for text in (keys.key, keys.previous)]
        key, previous = self._held
        self.cell = ffi.new("plane_keys_t *", (key, previous, len(keys.key), len(keys.previous), keys.cipher))

    def cleanse(self) -> None:
        """Overwrites the copies of secrets with zeros."""
        for held in self._held:
            ffi.buffer(held)[:] = bytes(len(held))


# ---- strings


def as_bytes(text: Text) -> bytes:
    """Any text as bytes: what came from the plane goes back as it came, and of what JSON can spell and UTF-8 cannot,
    a replacement character is left, as in Go."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text).encode()


def _string(text: Text) -> bytes:
    found = as_bytes(text)
    return len(found).to_bytes(4, "little") + found


def packed(op: str, strings: Strings) -> bytes:
    """The strings of a command: each by the name that the table has for it, a list for a name with `*` or `...`.
    Raises KeyError when one is missing or is none of this command's."""
    parts: list[bytes] = []
    names = command_rows()[op].strings
    if len(names) != len(strings):
        raise KeyError(f"{op} has the strings {names}, not {tuple(strings)}")
    for name in names:
        if name.endswith("*"):
            parts += [_string(one) for one in _many(strings[name[:-1]])]
            parts.append(_string(b""))
        elif name.endswith("..."):
            parts += [_string(one) for one in _many(strings[name[:-3]])]
        else:
            parts.append(_one(strings[name]))
    return b"".join(parts)


def _one(text: Text | Iterable[Text]) -> bytes:
    if not isinstance(text, str | bytes):
        raise TypeError("a list where the table of commands has one string")
    return _string(text)


def _many(texts: Text | Iterable[Text]) -> Iterable[Text]:
    if isinstance(texts, str | bytes):
        raise TypeError("one string where the table of commands has a list")
    return texts


def packed_texts(texts: t.TlsTexts) -> bytes:
    """The strings of plane_tls_context: one, three lists that an empty string ends, and all that follow."""
    parts = [_string(texts.ca)]
    for names in (texts.cipher_suites, texts.curves, texts.pinned):
        parts += [_string(one) for one in names]
        parts.append(_string(b""))
    return b"".join(parts + [_string(one) for one in texts.certificates])


def how_many(strings: Strings) -> int:
    """How many strings these are, or more."""
    return sum(1 if isinstance(one, str | bytes) else len(tuple(one)) for one in strings.values())


def permission_strings(permissions: t.Permissions) -> dict[str, Any]:
    """The strings of commands about a connection's rights."""
    return permission_lists(permissions) | {"author": (permissions.author,) if permissions.author else ()}


def permission_lists(permissions: t.Permissions) -> dict[str, Any]:
    """The lists of a client."""
    return {
        "publish_allow": permissions.publish_allow,
        "publish_deny": permissions.publish_deny,
        "subscribe_allow": permissions.subscribe_allow,
        "subscribe_deny": permissions.subscribe_deny,
    }


def consumer_strings(
    name: str,
    definition: bytes,
    subject: str,
    group: str,
    backoff_ns: Iterable[int],
    priority_groups: Iterable[str],
    filters: Iterable[str],
) -> Strings:
    """The strings of CONSUMER_PUT and CONSUMER_IMPORT."""
    return {
        "name": name,
        "definition": definition,
        "deliver_subject": subject,
        "deliver_group": group,
        "backoff": b"".join(ns.to_bytes(8, "little", signed=True) for ns in backoff_ns),
        "priority_groups": " ".join(priority_groups),
        "filters": tuple(filters),
    }


# ---- structs


def vars_of(value: Any, *names: str) -> dict[str, int]:
    """The fields of a flat dataclass, or these of them; their names are those of the C struct."""
    return {name: getattr(value, name) for name in names or value.__match_args__}


def encoded(struct_name: str, values: Mapping[str, int]) -> bytes:
    """The bytes of a C struct with these members."""
    try:
        return layout(struct_name).pack(values)
    except struct.error as error:
        raise PlaneError(Status.INVALID, f"a number that the plane cannot take: {error}") from error


def body_of(op: str, body: Any) -> bytes:
    """A command's body: bytes as they are, or the one struct that the table names, of a flat dataclass."""
    return body if isinstance(body, bytes) else encoded(command_rows()[op].body, vars_of(body))


def decoded(struct_name: str, payload: bytes, record: type[_Record]) -> _Record:
    """The C struct that payload starts with, as a flat dataclass; its names are those of the members."""
    try:
        members = layout(struct_name).members_at(payload, 0)
    except struct.error as error:
        raise PlaneError(Status.INVALID, f"the plane answered {len(payload)} bytes: {error}") from error
    return _maker(struct_name, cast(Any, record))(members)  # type: ignore[no-any-return]


def records_in(struct_name: str, payload: bytes | memoryview, record: type[_Record]) -> list[_Record]:
    """The C structs that lie one behind the other in payload, as flat dataclasses."""
    try:
        found = layout(struct_name).tuples(payload)
    except struct.error as error:
        raise PlaneError(Status.INVALID, f"the plane answered {len(payload)} bytes: {error}") from error
    return list(map(_maker(struct_name, cast(Any, record)), found))


@cache
def _maker(struct_name: str, record: Any) -> Callable[[tuple[int, ...]], Any]:
    """Makes the record of a struct's members, whose fields begin with those that it keeps of the struct. They are
    given by their places: a third of the time that names take, and reports make thousands."""
    places = {name: place for place, name in enumerate(layout(struct_name).names)}
    kept = tuple(name for name in record.__match_args__ if name in places)
    assert kept == record.__match_args__[: len(kept)], f"{record.__qualname__} has other fields before those of C"
    chosen = itemgetter(*(places[name] for name in kept))
    return lambda members: record(*chosen(members))


# ---- answers


def stream_state_in(payload: bytes, *, lists: bool = False, deleted: bool = False) -> t.StreamState:
    """The answer to STREAM_PUT, or (lists) to STREAM_STATE, with the deleted sequences if they were asked for."""
    counters = decoded("stream_state_t", payload, t.StreamState)
    at = layout("stream_state_t").size
    gaps: tuple[int, ...] = ()
    if deleted:
        count = counters.deleted_count
        gaps = struct.unpack_from(f"<{count}Q", payload, at)
        at += 8 * count
        if count == t.STATE_LISTED_MAX:  # there may be more, and their number is told all the same
            between = counters.last_seq - counters.first_seq + 1
            counters = replace(counters, deleted_count=max(count, between - counters.messages))
    subjects: dict[str, int] = {}
    while lists and at + 4 <= len(payload):
        size = int.from_bytes(payload[at : at + 4], "little")
        subject = payload[at + 4 : at + 4 + size].decode("utf-8", "surrogateescape")
        subjects[subject] = int.from_bytes(payload[at + 4 + size : at + 12 + size], "little")
        at += 12 + size
    return replace(counters, deleted=gaps, subject_counts=subjects) if lists else counters


def state_row(state: bytes) -> StateRow:
    """The members of a stream_state_t."""
    return StateRow._make(layout("stream_state_t").members(state))


def consumer_state_in(payload: bytes) -> t.ConsumerState:
    """The answer to the commands that answer with consumer_state_t and the pinned client's id."""
    state = decoded("consumer_state_t", payload, t.ConsumerState)
    return replace(state, pin=payload[layout("consumer_state_t").size :].decode())


# ---- events

_CLASSES: Final[dict[str, type[Any]]] = {
    "OPENED": t.Opened,
    "PROXIED": t.Proxied,
    "LINE": t.Line,
    "CAME": t.Came,
    "SECURED": t.Secured,
    "CLOSED": t.Closed,
    "MESSAGE": t.Message,
    "ADVISORY": t.Advisory,
    "INGEST": t.Ingest,
    "ALARM": t.Alarm,
    "LEAF_ERR": t.LeafError,
    "LEAF_INFO": t.LeafInfo,
    "TRACE": t.Trace,
    "MESSAGE_TRACE": t.MessageTrace,
    "LATENCY": t.Latency,
    "LATENCY_FAR": t.FarLatency,
    "CONSUMER_GONE": t.ConsumerGone,
    "ALLOWANCE": t.Allowance,
    "AUTHOR": t.Author,
    "REACHED": t.Reached,
    "CARRIED": t.Carried,
    "DOUBTED": t.Doubted,
    "LETTER": t.Letter,
    "LED": t.Led,
    "REFUSED": t.Refused,
}
SLICES: Final = ("subject", "reply", "header", "payload")
Reader = Callable[[Any], t.Event]


def slice_of(event: Any, place: str) -> bytes:
    """The bytes of a slice of an event."""
    size = getattr(event, f"{place}_size")
    return bytes(ffi.buffer(getattr(event, place), size)) if size else b""


def _value(place: str, form: str) -> str:
    """How a member is read, as Python."""
    if place not in SLICES:
        return f"event.{place}"
    found = f"buffer(event.{place}, event.{place}_size)[:]"
    if form == "bytes":
        return f'{found} if event.{place}_size else b""'
    errors = "replace" if form == "log" else "surrogateescape"
    return f'{found}.decode("utf-8", "{errors}") if event.{place}_size else ""'


def _compiled(record: type[Any], members: tuple[tuple[str, str, str], ...]) -> Reader:
    scope: dict[str, Any] = {"record": record, "buffer": ffi.buffer, "slice_of": slice_of}
    values, lines = [], []
    for name, place, form in members:
        if form.endswith("_t"):
            scope[form] = layout(form)
            lines.append(f"of_{form} = {form}.members_at(slice_of(event, {place!r}), 0)")
            values += [f"{one}=of_{form}[{at}]" for at, one in enumerate(layout(form).names)]
        else:
            values.append(f"{name}={_value(place, form)}")
    lines.append(f"return record({', '.join(values)})")
    exec("def read(event):\n " + "\n ".join(lines), scope)
    reader: Reader = scope["read"]
    return reader


def _reader(record: type[Any], members: tuple[tuple[str, str, str], ...]) -> Reader:
    """A row as one function, which a login that comes and goes costs four times; compiled when the first event of its
    kind comes, since a start needs none."""
    compiled: Reader | None = None

    def read(event: Any) -> t.Event:
        nonlocal compiled
        compiled = compiled or _compiled(record, members)
        return compiled(event)

    return read


@cache
def readers() -> dict[int, Reader]:
    """The readers of events, by kind; completions (EVENT_DONE) are native_plane.py's."""
    return {
        kind: _reader(_CLASSES[row.name], row.members) for kind, row in event_rows().items() if row.name in _CLASSES
    }


def pack_pending(rows: Iterable[t.PendingEntry]) -> bytes:
    """The messages that a consumer has in flight, as pending_entry_t."""
    pack = layout("pending_entry_t").pack
    return b"".join([pack(vars_of(row)) for row in rows])


def import_members(row: t.ImportRow) -> dict[str, int]:
    """The members of import_row_t."""
    flags = abi.IMPORT_TRACED if row.traced else 0
    flags |= abi.IMPORT_DETAILED if row.shared else 0
    flags |= abi.IMPORT_PLACED if row.placed else 0
    flags |= abi.IMPORT_MEASURED if row.results else 0
    return {"account": row.exporter, "flags": flags} | vars_of(row, "kind", "response", "threshold_ns", "sampling")
