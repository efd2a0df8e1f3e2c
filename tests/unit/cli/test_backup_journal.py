"""When the copy of a journal that a daemon goes on writing may be kept.

What a backup as a whole promises is in tests/interop/test_backup.py.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from leafd.cli.backup import overtaken

BLOCKS = 64
BLOCK = 4096
CIRCLE = BLOCKS * BLOCK


def written(path: Path, batches: list[tuple[int, int]]) -> Path:
    """A journal (native/disk/journal.h, batch.h) with the headers of batches, each at its position with its size."""
    file = bytearray(BLOCK + CIRCLE)
    for position, size in batches:
        header = struct.pack(">4sIQQI", b"LfBj", 0, position, 1, size)
        at = BLOCK + position % CIRCLE
        file[at : at + len(header)] = header
    path.write_bytes(file)
    return path


@pytest.mark.parametrize(
    ("newest", "size", "expected"),
    [
        (CIRCLE + 3 * BLOCK, 5 * BLOCK, False),
        (CIRCLE + 3 * BLOCK, 7 * BLOCK, False),
        (CIRCLE + 3 * BLOCK, 7 * BLOCK + 1, True),
        (CIRCLE + 10 * BLOCK, 100, True),
        (CIRCLE + 40 * BLOCK, 100, True),
        (2 * CIRCLE + 3 * BLOCK, 100, True),
    ],
)
def test_next_lap(tmp_path: Path, newest: int, size: int, expected: bool) -> None:
    """A copy is taken again when a batch of the next lap reaches past where the checkpoint's own begin, wherever in its
    span it wrote."""
    own = [(10 * BLOCK, 300), (11 * BLOCK, 9_000)]
    with written(tmp_path / "journal", [*own, (newest, size)]).open("rb") as read:
        assert overtaken(read, 10 * BLOCK) is expected


def test_stray_bytes(tmp_path: Path) -> None:
    """What looks like a batch of another place is none: it is in what a message holds."""
    path = written(tmp_path / "journal", [(10 * BLOCK, 300)])
    with path.open("r+b") as file:
        file.seek(BLOCK + 20 * BLOCK)
        file.write(struct.pack(">4sIQQI", b"LfBj", 0, 900 * CIRCLE + 21 * BLOCK, 1, 300))
    with path.open("rb") as read:
        assert not overtaken(read, 10 * BLOCK)
