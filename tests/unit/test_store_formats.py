"""A store that a newer leafd has written, when an older one is started on it: one line, status 1, nothing changed.

What the store itself checks is in tests/native/test_store_damage.c and test_journal.c.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from tests.servers import LEAFD, running
from tests.unit.test_daemon import failing

CONFIGURATION = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}", max_file: 64M, max_mem: 16M }\n'


def crc32c(data: bytes) -> int:
    """Bit by bit: the polynomial's reversed form is all that there is to it."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def newer_home(store: Path) -> None:
    """Raises the number in the record "format": crc 4 (over key and rest), format 4, store id 16."""
    with lmdb.open(str(store), max_dbs=16) as environment, environment.begin(write=True) as transaction:
        meta = environment.open_db(b"meta", transaction, create=False)
        value = transaction.get(b"format", db=meta)
        assert value is not None
        crc, number = struct.unpack(">II", value[:8])
        assert crc == crc32c(b"format" + value[4:]), "the record is not what this test takes it for"
        raised = struct.pack(">I", number + 1) + value[8:]
        transaction.put(b"format", struct.pack(">I", crc32c(b"format" + raised)) + raised, db=meta)


def newer_journal(store: Path) -> None:
    """Raises the number behind the journal's magic."""
    with (store / "journal").open("r+b") as file:
        magic, number = struct.unpack(">8sI", file.read(12))
        assert magic == b"leafdjnl"
        file.seek(8)
        file.write(struct.pack(">I", number + 1))


@pytest.mark.parametrize("raise_format", [newer_home, newer_journal])
def test_newer_format(tmp_path: Path, raise_format: Callable[[Path], None]) -> None:
    """It names the place and the way out, and leaves the store to the version that can read it."""
    with running(LEAFD, CONFIGURATION, store=tmp_path):
        pass
    (journal,) = tmp_path.glob("**/journal")
    store = journal.parent
    raise_format(store)
    before = [hashlib.sha256((store / name).read_bytes()).digest() for name in ("journal", "data.mdb")]

    code, lines = failing("-p", "-1", "-js", "-sd", str(tmp_path))

    assert (1, 1) == (code, len(lines)), lines
    assert str(store) in lines[0]
    assert "newer leafd" in lines[0]
    assert before == [hashlib.sha256((store / name).read_bytes()).digest() for name in ("journal", "data.mdb")]
