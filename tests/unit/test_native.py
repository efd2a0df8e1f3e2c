"""What Python takes from native/abi.h is what the header says, and the Python side has all of it."""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
import sys
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from leafd import native_types as t
from leafd.native import abi, command_rows, event_rows, ffi, layout
from leafd.native_meta import OFFLINE_NS, MetaLook, MetaMember, member_info
from leafd.native_packing import decoded, encoded, packed, readers, records_in

from tests.unit.real_plane import ACCOUNT, real_plane

NATIVE = Path(__file__).resolve().parents[2] / "native"
HEADER = "".join((NATIVE / name).read_text() for name in ("abi_structs.h", "abi_meta.h", "abi.h"))
DEFINED = dict(re.findall(r"^#define ([A-Z]\w+) (\d+)\b", HEADER, re.MULTILINE)) | dict(
    re.findall(r"^    (STATUS_[A-Z_]+) = (-?\d+),", HEADER, re.MULTILINE)
)
ENUMS: list[tuple[type[IntEnum | IntFlag], str]] = [
    (t.Status, "STATUS_"),
    (t.ConnKind, "CONN_"),
    (t.CloseReason, "CLOSE_"),
    (t.VerdictFlag, "VERDICT_"),
    (t.GatewayFlag, "GATEWAY_"),
    (t.MqttFlag, "MQTT_"),
    (t.ClusteredFlag, "CLUSTERED_"),
    (t.AccountFlag, "ACCOUNT_"),
    (t.ImportKind, "IMPORT_S"),
    (t.Response, "RESPONSE_"),
    (t.SubscribeFlag, "SUBSCRIBE_"),
    (t.PublishFlag, "PUBLISH_"),
    (t.LineKind, "LINE_"),
    (t.ListenFlag, "LISTEN_"),
    (t.WebFlag, "WEB_"),
    (t.AdvisoryCode, "ADVISORY_"),
    (t.AlarmCode, "ALARM_"),
    (t.IngestCode, "INGEST_"),
    (t.IngestAt, "BEGINS_"),
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
    (t.StoredConsumer, "stored_consumer_t"),
    (t.ConnectionRow, "connection_row_t"),
    (t.Stats, "plane_stats_t"),
]
NOT_IN_C = {"deleted", "subject_counts", "pin"}


@pytest.mark.parametrize(("enum", "prefix"), ENUMS, ids=lambda one: getattr(one, "__name__", one))
def test_an_enumeration_has_every_constant_of_its_prefix(enum: type[IntEnum | IntFlag], prefix: str) -> None:
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
    assert [tuple(range(1, len(one.names) + 1))] * 2 == list(one.tuples(written * 2))


@pytest.mark.parametrize(
    ("heard_ns", "there", "offline", "current"),
    [(-1, True, False, False), (-1, False, True, False), (OFFLINE_NS + 1, True, True, False), (5, False, False, True)],
)
def test_a_member_that_has_not_had_the_time_to_speak_is_neither_offline_nor_current(
    heard_ns: int, there: bool, offline: bool, current: bool
) -> None:
    """Of a stream that was just made: its servers can be reached. One that falls silent is offline."""
    row = member_info("s1", MetaMember(1, 2, 0, heard_ns, 1, 0), there=there)
    assert (offline, current) == (row.get("offline", False), row["current"])


def test_a_member_that_is_far_is_offline_later() -> None:
    """As long as the group takes it for there."""
    shown = [
        member_info("s1", MetaMember(1, 2, 0, silent_s * 1_000_000_000, 1, 0, 2_000_000_000))
        for silent_s in (6, 15, 17)
    ]
    assert [False, False, True] == [row.get("offline", False) for row in shown]


def test_a_member_without_a_vote_is_not_current() -> None:
    """It has all there is, and stands in for nobody yet."""
    assert member_info("s1", MetaMember(1, 2, 0, 5, 0, 0))["current"] is False


@pytest.mark.parametrize(("record", "type_name"), [*STRUCTS, (MetaLook, "meta_look_t"), (MetaMember, "meta_member_t")])
def test_each_field_of_a_record_is_the_member_of_that_name(record: type[Any], type_name: str) -> None:
    """C structs that lie one behind the other are read as so many records, and none of a cut struct."""
    cell = ffi.new(f"{type_name} *")
    for number, name in enumerate(layout(type_name).names, start=1):
        setattr(cell, name, number)
    written = bytes(ffi.buffer(cell))

    one, other = records_in(type_name, written * 2, record)
    assert one == other == decoded(type_name, written + b"what follows", record)
    for name in record.__match_args__:
        if name not in NOT_IN_C:
            assert getattr(one, name) == getattr(cell, name)
    with pytest.raises(t.PlaneError):
        records_in(type_name, written + b"cut", record)
    with pytest.raises(t.PlaneError):
        decoded(type_name, written[:-1], record)


def test_what_does_not_fit_into_a_struct_is_refused() -> None:
    """A number beyond its member, a member that is none, and a struct that is cut short are errors."""
    with pytest.raises(t.PlaneError) as refused:
        encoded("conn_verdict_t", {"flags": 1 << 32})
    assert t.Status.INVALID == refused.value.status
    with pytest.raises(KeyError):
        encoded("conn_verdict_t", {"flag": 1})
    with pytest.raises(struct.error):
        layout("conn_verdict_t").unpack(bytes(layout("conn_verdict_t").size - 1))


UNKNOWN = 1 << 20


def shape(op: str) -> tuple[bytes, list[bytes]]:
    """The smallest body and strings that the table allows."""
    row = command_rows()[op]
    structs = [name for name in row.body.split() if not name.endswith("[]") and name != "bytes"]
    strings = [b"" for name in row.strings if not name.endswith("...")]
    return bytes(sum(layout(name).size for name in structs)), strings


def joined(strings: list[bytes]) -> bytes:
    return b"".join(len(one).to_bytes(4, "little") + one for one in strings)


async def status(plane: Any, op: str, body: bytes, extra: bytes, **parts: int) -> t.Status:
    """How a command as raw as this ends."""
    try:
        await plane._raw(op, body, extra, **parts)
    except t.PlaneError as error:
        return t.Status(error.status)
    return t.Status.OK


def test_what_a_command_needs_is_there_or_it_is_not_found() -> None:
    """Each row of the table that needs an account, a connection, a stream or a consumer is told when there is none."""

    async def main() -> None:
        async with real_plane() as plane:
            for op, row in command_rows().items():
                if row.needs != abi.NEEDS_NOTHING:
                    body, strings = shape(op)
                    found = await status(plane, op, body, joined(strings), target=UNKNOWN, account=UNKNOWN, arg=UNKNOWN)
                    assert t.Status.NOT_FOUND == found, op

    trio.run(main)


def test_the_tables_have_every_command_and_event_of_the_header() -> None:
    """A number of abi.h without a row, or a row with another number, is complained of."""
    commands = {name.removeprefix("COMMAND_"): int(n) for name, n in DEFINED.items() if name.startswith("COMMAND_")}
    events = {int(n): name.removeprefix("EVENT_") for name, n in DEFINED.items() if name.startswith("EVENT_")}

    assert commands == {name: row.op for name, row in command_rows().items()}
    assert events == {kind: row.name for kind, row in event_rows().items()}
    assert events.keys() - {abi.EVENT_DONE} == readers().keys()


def test_one_command_counts_the_bytes_of_so_many_streams_and_no_more() -> None:
    """A step of the plane is bounded whoever asks; half an id is none."""

    async def main() -> None:
        async with real_plane() as plane:
            for size, expected in (
                (4 * abi.USAGE_STREAMS_MAX, t.Status.OK),
                (4 * abi.USAGE_STREAMS_MAX + 4, t.Status.INVALID),
                (6, t.Status.INVALID),
                (0, t.Status.OK),
            ):
                assert expected == await status(plane, "STREAM_BYTES", bytes(size), b""), size

    trio.run(main)


def test_strings_are_packed_by_their_names() -> None:
    """The order is the table's; one that is missing, unknown, or a list in place of a string is an error."""
    assert joined([b"N", b"D"]) == packed("ACCOUNT", {"domain": "D", "name": "N"})
    lists = {"publish_allow": ("a", "b"), "publish_deny": (), "subscribe_allow": ("c",), "subscribe_deny": ()}
    expected = [b"frame", b"a", b"b", b"", b"", b"c", b"", b""]
    assert joined(expected) == packed("RIGHTS", {"after_pong": b"frame", "author": (), **lists})
    queue = {"subject": "S", "queue": "Q"}
    for wrong in ({"subject": "S"}, {"subject": "S", "queues": "Q"}, queue | {"more": "M"}):
        with pytest.raises(KeyError):
            packed("SUBSCRIBE", wrong)
    with pytest.raises(TypeError):
        packed("SUBSCRIBE", {"subject": ("S",), "queue": "Q"})
    with pytest.raises(TypeError):
        packed("MAPPING", {"mappings": "m"})


PASTED = ("COMMAND_", "EVENT_", "NEEDS_")  # the tables of command_table.c put these together from the rows' names


def test_every_constant_of_the_header_means_something_to_c() -> None:
    """A flag that control may set and C ignores would be a promise that nobody keeps."""
    text = "".join(one.read_text() for one in NATIVE.rglob("*.[ch]") if not one.name.startswith("abi"))
    words = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)))

    assert [] == sorted(name for name in DEFINED if not name.startswith(PASTED) and name not in words)


SET_BY_CONTROL = (t.VerdictFlag, t.AccountFlag, t.SubscribeFlag, t.PublishFlag, t.StreamFlag, t.ConsumerFlag)


def test_every_flag_of_a_command_is_set_somewhere() -> None:
    """What C does for a flag that control never sets would be code that never runs."""
    text = "".join(one.read_text() for one in (NATIVE.parent / "agent" / "leafd").rglob("*.py"))

    assert [] == [
        f"{kind.__name__}.{one.name}"
        for kind in SET_BY_CONTROL
        for one in kind
        if f"{kind.__name__}.{one.name}" not in text
    ]


def test_every_number_of_the_header_is_the_extension_s() -> None:
    """The compiled module was made from this header."""
    assert {name: int(value) for name, value in DEFINED.items()} == {name: int(getattr(abi, name)) for name in DEFINED}


_FREED: Final = """
import ctypes, tempfile
from pathlib import Path
from tests.unit.real_plane import LIMITS, Plane

class Heap(ctypes.Structure):
    names = "arena parts gathered maps mapped unused waiting used free top"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.mallinfo2.restype = Heap
with tempfile.TemporaryDirectory() as name:
    for part in ("file", "memory"):
        (Path(name) / part).mkdir()
    plane = Plane.open(LIMITS, Path(name, "file"), Path(name, "memory")) if WITH else None
    before = libc.mallinfo2().gathered
    for block in [libc.malloc(64) for _ in range(50_000)]:
        libc.free(block)
    print(libc.mallinfo2().gathered - before)
    if plane:
        plane.close()
"""


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc's")
def test_freed_small_blocks_are_not_left_to_whoever_comes_next() -> None:
    """glibc gathers them until a larger block is asked for: a client that comes would pay for all that one which went
    had had. Without the plane it does so, which shows that the test sees it."""
    gathered = [
        int(subprocess.run([sys.executable, "-c", f"WITH = {plane}" + _FREED], check=True, capture_output=True).stdout)
        for plane in (False, True)
    ]
    assert gathered[0] > 40_000
    assert gathered[1] == 0


def test_a_plane_says_whether_anybody_may_hear_of_jetstream() -> None:
    """Subscriptions and streams count from the next command on, until they end."""

    async def run() -> None:
        async with real_plane() as plane:
            await plane.reaches(ACCOUNT, "x")
            assert not plane.advised()
            one = plane.subscribe(ACCOUNT, "$JS.*.ADVISORY.>", lambda _: False)
            await plane.reaches(ACCOUNT, "x")
            assert plane.advised()
            plane.unsubscribe(ACCOUNT, one)
            await plane.stream_put(
                7, t.FlatStream(ACCOUNT), name="S", definition=b"{}", domain="", subjects=("$JS.EVENT.ADVISORY.API",)
            )
            assert plane.advised()
            await plane.stream_remove(7)
            await plane.reaches(ACCOUNT, "x")
            assert not plane.advised()

    trio.run(run)
