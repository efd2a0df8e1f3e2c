"""The parts of a backup beside messages: the stream's state and its consumers, as entries of the archive.

    "NATSARC1"  state.json  consumers/<name> ..  messages ..  END
    entry: name size, time (zigzag), sequence, header size, payload size (all LEB128), name, header, payload

Messages are read and written by C (native/wire/archive.h), with the same layout. Pure.
Reference: tests/wire/jetstream.md, "Backup".
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any, Final

from leafd import native_types as t
from leafd.gojson import INT, UINT64, JsonError, Struct, decode, dump_piecewise, loose, wire, written
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.records import dataclass

MAGIC: Final = b"NATSARC1"
END: Final = bytes(5)
STATE: Final = "state.json"
CONSUMERS: Final = "consumers/"
NAME_MAX: Final = 1 << 20
CONSUMER_MAX: Final = 64 << 20
"""The most bytes of one consumer with all that it has in flight."""
CONSUMER_WEIGHT: Final = 4
"""Bytes of memory that a byte of it takes while it is read, and what was read."""
TAR_HEAD: Final = 512
INVALID: Final = "archive: invalid archive stream"
_UINT64_MAX: Final = (1 << 64) - 1


class ArchiveError(Exception):
    """The archive is not one that can be restored; the text says why, as the reference does."""


def is_tar(data: bytes | bytearray) -> bool:
    """Whether an archive that begins so is one of an older server (archive_tar.py); TAR_HEAD bytes are enough."""
    return data[257:262] == b"ustar"


@dataclass(frozen=True, slots=True)
class ArchivedState(Struct):
    """The members of state.json that restoring needs."""

    go_name = "StreamState"

    messages: int = wire(UINT64, "messages")
    bytes: int = wire(UINT64, "bytes")
    first_seq: int = wire(UINT64, "first_seq")
    last_seq: int = wire(UINT64, "last_seq")
    consumers: int = wire(INT, "consumer_count")


STATE_NAMES: Final = tuple(one.metadata["name"] for one in fields(ArchivedState))


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry; size: of all of it, in bytes."""

    name: str
    payload: bytes
    size: int


def number(value: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def entry(name: str, ts: int, payload: bytes) -> bytes:
    """An entry that is no message."""
    raw = name.encode("utf-8", "surrogateescape")
    return b"".join((number(len(raw)), number(ts << 1), b"\0\0", number(len(payload)), raw, payload))


def _read_number(data: bytearray, at: int) -> tuple[int, int] | None:
    value = 0
    for index in range(10):
        if at + index >= len(data):
            return None
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value > _UINT64_MAX:
                break
            return value, at + index + 1
    raise ArchiveError(INVALID)


def read_entry(data: bytearray, payload_max: int) -> Entry | None:
    """The entry at the start of the bytes; None: more are needed."""
    numbers: list[int] = []
    at = 0
    for _ in range(5):
        found = _read_number(data, at)
        if found is None:
            return None
        numbers.append(found[0])
        at = found[1]
    name_size, _ts, _sequence, header_size, payload_size = numbers
    if name_size > NAME_MAX or header_size + payload_size > payload_max:
        raise ArchiveError(INVALID)
    size = at + name_size + header_size + payload_size
    if len(data) < size:
        return None
    name = bytes(data[at : at + name_size]).decode("utf-8", "replace")
    return Entry(name, bytes(data[at + name_size : size]), size)


# ---- the stream's state


def read_state(found: Entry) -> ArchivedState:
    """The state that the archive begins with, if it can be true."""
    if found.name != STATE:
        raise ArchiveError("expected state.json first")
    try:
        state = decode(ArchivedState, found.payload, strict=False)
    except JsonError as error:
        raise ArchiveError(f"error in state.json: {str(error).partition(' at offset ')[0]}") from None
    if state.consumers < 0:
        raise ArchiveError("invalid stream state: negative consumer count")
    first, last, count = state.first_seq, state.last_seq, state.messages
    if first == 0:
        sound = last == 0 and count == 0
    elif first == last + 1:
        sound = count == 0
    else:
        sound = first <= last < _UINT64_MAX and count <= last - first + 1
    if not sound:
        raise ArchiveError("invalid stream state: inconsistent message count or sequence range")
    return state


# ---- consumers


@dataclass(frozen=True, slots=True)
class ArchivedConsumer:
    """A consumer as it was: its configuration, and where it stood."""

    name: str
    config: ConsumerConfig
    position: t.Position


def consumer_entry(name: str, config: ConsumerConfig, position: t.Position, last_seq: int, ts: int) -> bytes:
    """A consumer's entry; what is beyond the stream's last sequence is left out."""
    pending = [row for row in position.pending if row.stream_seq <= last_seq]
    state: dict[str, Any] = {
        "delivered": _pair(position.delivered_consumer, min(position.delivered_stream, last_seq)),
        "ack_floor": _pair(position.floor_consumer, min(position.floor_stream, last_seq)),
    }
    if pending:
        state["pending"] = {
            str(row.stream_seq): {"Sequence": row.consumer_seq, "Timestamp": row.delivered_ts} for row in pending
        }
    redelivered = {str(row.stream_seq): row.deliveries - 1 for row in pending if row.deliveries > 1}
    if redelivered:
        state["redelivered"] = redelivered
    body = dump_piecewise({"config": written(replace(config, name=name)), "state": state})
    return entry(CONSUMERS + name, ts, body)


def _pair(consumer: int, stream: int) -> dict[str, int]:
    return {"consumer_seq": consumer, "stream_seq": stream}


def read_consumer(found: Entry) -> ArchivedConsumer:
    """A consumer's entry."""
    if not found.name.startswith(CONSUMERS):
        raise ArchiveError(f"expected consumer, found {json.dumps(found.name)}")
    name = found.name.removeprefix(CONSUMERS)
    try:
        record = loose(found.payload, size_max=CONSUMER_MAX)
        config, state = record.get("config"), record.get("state")
    except JsonError as error:
        raise ArchiveError(f"failed to decode consumer {json.dumps(name)} state: {error}") from None
    if config is None:
        raise ArchiveError(f"consumer {json.dumps(name)} is missing config")
    if state is None:
        raise ArchiveError(f"consumer {json.dumps(name)} is missing state")
    try:
        return ArchivedConsumer(
            name, decode(ConsumerConfig, json.dumps(config).encode(), strict=False), _read_position(state)
        )
    except (JsonError, ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise ArchiveError(f"failed to decode consumer {json.dumps(name)} state: {error}") from None


def _read_position(state: dict[str, Any]) -> t.Position:
    delivered, floor = state.get("delivered") or {}, state.get("ack_floor") or {}
    redelivered = {int(seq): int(count) for seq, count in (state.get("redelivered") or {}).items()}
    delivered_stream = _unsigned(delivered.get("stream_seq", 0))
    rows = [
        t.PendingEntry(
            stream_seq=_unsigned(int(seq)),
            consumer_seq=_unsigned(row["Sequence"]),
            delivered_ts=min(max(int(row["Timestamp"]), 0), (1 << 63) - 1),
            deliveries=min(max(redelivered.get(int(seq), 0), 0), 1 << 31) + 1,
        )
        for seq, row in (state.get("pending") or {}).items()
    ]
    return t.Position(
        delivered_consumer=_unsigned(delivered.get("consumer_seq", 0)),
        delivered_stream=delivered_stream,
        floor_consumer=_unsigned(floor.get("consumer_seq", 0)),
        floor_stream=_unsigned(floor.get("stream_seq", 0)),
        pending=tuple(
            sorted((row for row in rows if 0 < row.stream_seq <= delivered_stream), key=lambda row: row.stream_seq)
        ),
    )


def _unsigned(value: Any) -> int:
    number = int(value)
    if not 0 <= number < _UINT64_MAX:
        raise ValueError(f"{number} is no sequence")
    return number
