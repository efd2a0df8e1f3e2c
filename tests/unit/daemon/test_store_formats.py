"""Stores of other versions: a newer one's is refused with one line, status 1, and nothing changed; what an older one
stored and this one would not is named by `store check`.

What the store itself checks is in tests/native/test_store_damage.c and test_journal.c.
"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from tests import servers
from tests.servers import LEAFD, running
from tests.unit.daemon.test_process import failing

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


def forge_subject(store: Path, was: bytes, name: bytes) -> None:
    """Gives the one message another subject of that size: crc 4 (over key and rest), then the rest with the subject."""
    with lmdb.open(str(store), max_dbs=16) as environment, environment.begin(write=True) as transaction:
        messages = environment.open_db(b"m00000001", transaction, create=False)
        ((key, value),) = transaction.cursor(messages)
        assert struct.unpack(">I", value[:4])[0] == crc32c(key + value[4:]), "not what this test takes it for"
        assert value.count(was) == 1
        forged = value[4:].replace(was, name)
        transaction.put(key, struct.pack(">I", crc32c(key + forged)) + forged, db=messages)


def test_a_message_without_a_valid_subject_is_named_by_the_check(tmp_path: Path) -> None:
    """With its stream and sequence, and not as damage; attention is asked for by the exit code."""
    with (
        running(LEAFD, CONFIGURATION, store=tmp_path) as server,
        socket.create_connection(("127.0.0.1", server.port), 10) as client,
        client.makefile("rb") as heard,
    ):
        body = b'{"name":"S","subjects":["abc.>"]}'
        client.sendall(b"CONNECT {}\r\nSUB in 1\r\nPUB $JS.API.STREAM.CREATE.S in %d\r\n%s\r\n" % (len(body), body))
        while b"did_create" not in heard.readline():
            pass
        client.sendall(b"PUB abc.d in 1\r\nx\r\n")
        while b'"seq":1' not in heard.readline():
            pass
        deadline = time.monotonic() + 60
        while '"messages": 1' not in servers.leafd("store", "stat", "--store", tmp_path, "--json").stdout:
            assert time.monotonic() < deadline, "no checkpoint"
    (journal,) = tmp_path.glob("**/journal")
    forge_subject(journal.parent, b"abc.d", b"abc.*")
    check = ("store", "check", "--store", tmp_path)

    told, shown = servers.leafd(*check, "--json"), servers.leafd(*check)

    found = json.loads(told.stdout)
    assert (3, [], 0) == (told.returncode, found["damage"], found["untold"])
    assert ['subject "abc.*" of message 1 of stream 1 is not valid'] == found["subjects"]
    assert '! subject "abc.*" of message 1 of stream 1 is not valid' in shown.stdout.splitlines()
    assert "sound: 1 messages" in shown.stdout
