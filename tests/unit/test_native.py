"""What Python takes from native/abi.h is what the header says, and the Python side has all of it."""

from __future__ import annotations

import re
import struct
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from leafd import native_types as t
from leafd.native import abi, ffi, layout
from leafd.native_commands import encoded

HEADER = (Path(__file__).resolve().parents[2] / "native" / "abi.h").read_text()
DEFINED = dict(re.findall(r"^#define ([A-Z]\w+) (\d+)\b", HEADER, re.MULTILINE)) | dict(
    re.findall(r"^    (STATUS_[A-Z_]+) = (-?\d+),", HEADER, re.MULTILINE)
)
ENUMS: list[tuple[type[IntEnum], str]] = [
    (t.Status, "STATUS_"),
    (t.ConnKind, "CONN_"),
    (t.CloseReason, "CLOSE_"),
    (t.VerdictFlag, "VERDICT_"),
    (t.AccountFlag, "ACCOUNT_"),
    (t.ImportKind, "IMPORT_S"),
    (t.Response, "RESPONSE_"),
    (t.SubscribeFlag, "SUBSCRIBE_"),
    (t.PublishFlag, "PUBLISH_"),
    (t.LineKind, "LINE_"),
    (t.AdvisoryCode, "ADVISORY_"),
    (t.AlarmCode, "ALARM_"),
    (t.IngestCode, "INGEST_"),
    (t.RefusedCode, "REFUSED_"),
    (t.Query, "QUERY_"),
    (t.Record, "RECORD_"),
    (t.StreamFlag, "STREAM_"),
    (t.ConsumerFlag, "CONSUMER_"),
]
STRUCTS: list[tuple[type[Any], str]] = [
    (t.Limits, "plane_limits_t"),
    (t.ConnVerdict, "conn_verdict_t"),
    (t.FlatStream, "stream_config_t"),
    (t.FlatConsumer, "consumer_config_t"),
    (t.StreamState, "stream_state_t"),
    (t.ConsumerState, "consumer_state_t"),
    (t.IngestState, "ingest_state_t"),
    (t.PendingEntry, "pending_entry_t"),
    (t.ConnectionRow, "connection_row_t"),
    (t.Stats, "plane_stats_t"),
]
NOT_IN_C = {"deleted", "subject_counts"}


@pytest.mark.parametrize(("enum", "prefix"), ENUMS, ids=lambda one: getattr(one, "__name__", one))
def test_an_enumeration_has_every_constant_of_its_prefix(enum: type[IntEnum], prefix: str) -> None:
    """A constant that is added to the header is missing in Python, or has another value there, until this passes."""
    start = prefix.rstrip("S") if prefix == "IMPORT_S" else prefix
    expected = {name.removeprefix(start): int(value) for name, value in DEFINED.items() if name.startswith(prefix)}

    assert expected == {one.name: int(one) for one in enum}


@pytest.mark.parametrize(("record", "type_name"), STRUCTS, ids=lambda one: getattr(one, "__name__", one))
def test_a_flat_value_has_every_member_of_its_struct(record: type[Any], type_name: str) -> None:
    """Names, order and number of a dataclass's fields are those of the struct, but for what is reserved."""
    expected = [name for name in layout(type_name).names if name != "reserved"]

    assert expected == [name for name in record.__match_args__ if name not in NOT_IN_C]


@pytest.mark.parametrize("type_name", [*(name for _, name in STRUCTS), "import_row_t", "subscription_row_t"])
def test_a_layout_is_what_the_compiler_made(type_name: str) -> None:
    """Bytes that C wrote are read as what C wrote, and bytes that Python packs are C's, member by member."""
    one = layout(type_name)
    cell = ffi.new(f"{type_name} *")
    for number, name in enumerate(one.names, start=1):
        setattr(cell, name, number)
    written = bytes(ffi.buffer(cell))

    assert list(range(1, len(one.names) + 1)) == list(one.unpack(written).values())
    assert written == one.pack({name: number for number, name in enumerate(one.names, start=1)})
    assert [{name: number for number, name in enumerate(one.names, 1)}] * 2 == list(one.rows(written * 2 + b"cut"))


def test_what_does_not_fit_into_a_struct_is_refused() -> None:
    """A number beyond its member, a member that is none, and a struct that is cut short are errors."""
    with pytest.raises(t.PlaneError) as refused:
        encoded("conn_verdict_t", {"flags": 1 << 32})
    assert t.Status.INVALID == refused.value.status
    with pytest.raises(KeyError):
        encoded("conn_verdict_t", {"flag": 1})
    with pytest.raises(struct.error):
        layout("conn_verdict_t").unpack(bytes(layout("conn_verdict_t").size - 1))


def test_every_number_of_the_header_is_the_extension_s() -> None:
    """The compiled module was made from this header."""
    assert {name: int(value) for name, value in DEFINED.items()} == {name: int(getattr(abi, name)) for name in DEFINED}
