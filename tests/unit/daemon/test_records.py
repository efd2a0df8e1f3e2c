"""Records of the control side that a start reads, of which damage took one in both places that have it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import trio
from leafd import native_types as t
from leafd.native_plane import Plane

from tests.unit.real_plane import LIMITS

KEPT: Final = {b"one": b"the first of the records", b"two": b"the second of the records", b"zoo": b"the last of them"}


def opened(directory: Path) -> Plane:
    for name in ("file", "memory"):
        (directory / name).mkdir(exist_ok=True)
    return Plane.open(LIMITS, directory / "file", directory / "memory")


async def written(directory: Path) -> None:
    plane = opened(directory)
    try:
        plane.start()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(plane.run, lambda event: None)
            with trio.fail_after(30):
                for key, value in KEPT.items():
                    await plane.record_put(key, value)
            nursery.cancel_scope.cancel()
        await plane.stop()
    finally:
        plane.close()


def flipped(directory: Path, value: bytes) -> int:
    """One bit of each place that has it; how many these are."""
    path = directory / "file" / "data.mdb"
    data = path.read_bytes()
    path.write_bytes(data.replace(value, bytes([value[0] ^ 1]) + value[1:]))
    return data.count(value)


@pytest.mark.parametrize("key", KEPT)
def test_who_asks_for_all_records_is_told_that_one_cannot_be_read(tmp_path: Path, key: bytes) -> None:
    """Else a server that has promised something to a group would take itself for one that has promised nothing."""
    trio.run(written, tmp_path)
    assert flipped(tmp_path, KEPT[key]) >= 2
    plane = opened(tmp_path)
    try:
        left = {other: value for other, value in KEPT.items() if other != key}
        assert dict(plane.records(t.Record.CONTROL)) == left
        with pytest.raises(t.PlaneError) as raised:
            dict(plane.records(t.Record.CONTROL, whole=True))
        assert raised.value.status == t.Status.CORRUPT
        assert dict(plane.records(t.Record.STREAM, whole=True)) == {}
    finally:
        plane.close()


def test_who_asks_for_all_records_gets_them(tmp_path: Path) -> None:
    trio.run(written, tmp_path)
    plane = opened(tmp_path)
    try:
        assert dict(plane.records(t.Record.CONTROL, whole=True)) == KEPT
    finally:
        plane.close()
