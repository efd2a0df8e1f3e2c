"""An encrypted store: no word of a client lies on its disk, and what becomes of keys that are empty, wrong, or changed
again and again. What somebody makes of the files is test_encrypted.py's; changes of key under official clients and
kills are tests/crash/test_rekey.py's."""

from __future__ import annotations

import random
import re
import shutil
import time
from pathlib import Path
from typing import Final

import pytest

from tests.hostile.test_encrypted import CONFIGURATION, KEY, KEYS, SEED, WHOLE, client, command, files_of, filled, seen
from tests.hostile.test_restore_api import begun, message, whole
from tests.hostile.wires import Asker
from tests.interop.test_backup import s2
from tests.rig.waiting import eventually
from tests.servers import KINDS, LEAFD, REFERENCE, Server, ServerDied, make

# ---- words -----------------------------------------------------------------------------------------------------------

WORDS: Final = (
    "Ledger",
    "Acme.Invoices",
    "Collector",
    "Invoice-No",
    "X-Customer",
    "Smith",
    "owes 12 pounds",
    "Wallet",
    "PinCode",
    "4711-0815",
    "Zebra.Permits",
    "Metadata-Word",
    KEY,
)


def plain(*folders: Path) -> list[tuple[str, str]]:
    """Which words lie in which file as they are."""
    found = []
    for folder in folders:
        for one in folder.rglob("*"):
            if one.is_file() and one.name not in ("server.conf", "log"):
                text = one.read_bytes()
                found += [(one.name, word) for word in WORDS if word.encode() in text]
    return found


def speak(server: Server) -> None:
    """Every kind of record with words of clients, in every way that they get there."""
    with client(server) as one:
        stream = {"name": "Ledger", "subjects": ["Acme.>"], "allow_msg_schedules": True, "allow_msg_ttl": True}
        stream |= {"metadata": {"m": "Metadata-Word"}, "description": "owes 12 pounds", "compression": "s2"}
        assert 0 == one.err_code("$JS.API.STREAM.CREATE.Ledger", stream)
        consumer = {"durable_name": "Collector", "ack_policy": "explicit", "filter_subject": "Acme.Invoices.>"}
        body = {"stream_name": "Ledger", "config": consumer | {"metadata": {"m": "Metadata-Word"}}}
        assert 0 == one.err_code("$JS.API.CONSUMER.CREATE.Ledger.Collector.Acme.Invoices.>", body)
        for number in range(40):
            header = b"Nats-Msg-Id: Invoice-No-%d\r\nX-Customer: Smith\r\nNats-TTL: 1h" % number
            assert "error" not in one.asked(f"Acme.Invoices.{number}", b"owes 12 pounds" * 60, header)
        header = b"Nats-Schedule: @at 2030-01-01T00:00:00Z\r\nNats-Schedule-Target: Acme.Invoices.due"
        assert "error" not in one.asked("Acme.Invoices.later", b"Smith owes 12 pounds", header)
        with client(server) as puller:
            puller.send(b"PUB $JS.API.CONSUMER.MSG.NEXT.Ledger.Collector in.pull 1\r\n1\r\n")
            assert b"Acme.Invoices.0" in puller.heard()
        bucket = {"name": "KV_Wallet", "subjects": ["$KV.Wallet.>"], "max_msgs_per_subject": 5, "allow_direct": True}
        assert 0 == one.err_code("$JS.API.STREAM.CREATE.KV_Wallet", bucket)
        assert "error" not in one.asked("$KV.Wallet.PinCode", b"4711-0815")
        copy = {"name": "Copy", "sources": [{"name": "Ledger", "filter_subject": "Acme.Invoices.>"}]}
        assert 0 == one.err_code("$JS.API.STREAM.CREATE.Copy", copy)
        deadline = time.monotonic() + 20
        while one.asked("$JS.API.STREAM.INFO.Copy")["state"]["messages"] < 41:
            assert time.monotonic() < deadline
        _begin_a_restore(one)


def _begin_a_restore(one: Asker) -> None:
    """It stays half done."""
    to = begun(one, "Restored")
    archive = s2(whole(*(message(b"Restored", n, payload=b"Smith owes 12 pounds") for n in range(1, 50))))
    assert b"" == one.ask(to, archive[: len(archive) // 2])


@pytest.mark.parametrize("cipher", ["aes", "chacha"])
def test_no_word_of_a_client_is_on_the_disk(tmp_path: Path, cipher: str) -> None:
    """While the box runs, after a kill in the middle, after the next start; in a backup, its restore and a salvage."""
    keys = KEYS.replace("CIPHER", cipher)
    server = make(LEAFD, CONFIGURATION.replace("KEYS", keys), tmp_path)
    server.start()
    try:
        speak(server)
        assert [] == plain(tmp_path)
        assert 0 == command(server, "backup", tmp_path / "backup")[0]
        server.kill()
        assert [] == plain(tmp_path)
        server.start()
        with client(server) as one:
            assert 41 == one.asked("$JS.API.STREAM.INFO.Ledger")["state"]["messages"]
    finally:
        server.stop()
    assert [] == plain(tmp_path)
    data = tmp_path / "store" / "jetstream" / "data.mdb"
    text = bytearray(data.read_bytes())
    text[len(text) // 2] ^= 0xFF
    data.write_bytes(text)
    assert command(server, "salvage", tmp_path / "saved")[0] in (0, 3)
    assert [] == plain(tmp_path)
    shutil.rmtree(tmp_path / "store")
    assert 0 == command(server, "restore", tmp_path / "backup")[0]
    assert [] == plain(tmp_path)
    server.start()
    with client(server) as one:
        assert 41 == one.asked("$JS.API.STREAM.INFO.Ledger")["state"]["messages"]
    server.stop()


# ---- the key itself --------------------------------------------------------------------------------------------------


def starts(server: Server, keys: str) -> str:
    """What the log says of a start with these keys, and whether there was one."""
    server.configuration = re.sub(
        r"max_memory_store: 16MB, .*? }\n", f"max_memory_store: 16MB, {keys} }}\n", server.configuration
    )
    said = len(server.log)
    try:
        server.start()
    except ServerDied:
        assert server.process is not None
        assert 1 == server.process.returncode
        return "refused: " + server.log[said:]
    return server.log[said:]


EMPTY: Final = ("key: ''", "key: $NOTHING", "key: a, prev_key: ''", "ek: ''")


@pytest.mark.parametrize(
    ("kind", "empty"), [*((kind, empty) for kind in KINDS for empty in EMPTY), (LEAFD, "key_file: ''")]
)
def test_an_empty_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, empty: str) -> None:
    """nats-server then writes in plain and says nothing; leafd does not start, and names the place."""
    monkeypatch.setenv("NOTHING", "")
    server = make(kind, CONFIGURATION.replace("KEYS", empty), tmp_path)
    try:
        server.start()
    except ServerDied:
        assert kind == LEAFD
        assert "is empty: give one, or leave it out" in server.log
        return
    finally:
        server.stop()
    assert kind == REFERENCE
    assert ("prev_key" in empty) == ("Encryption" in server.log)


def until_changed(server: Server, before: int) -> None:
    eventually(lambda: "encrypted with the new key alone" in server.log[before:], lambda: server.log)


def test_keys_change_twice_in_a_row_and_back(tmp_path: Path) -> None:
    """Each change is killed at its start and goes on; the old key is the new one again in the end; one too many is
    refused and touches nothing."""
    box = filled(tmp_path / "box", "aes")
    chance = random.Random(SEED)
    first = f"key: {KEY}, cipher: aes"
    try:
        for keys in (
            f"key: second, prev_key: {KEY}, cipher: aes",
            "key: second, prev_key: second, cipher: chacha",
            "key: third, prev_key: second, cipher: chacha",
            f"key: {KEY}, prev_key: third, cipher: aes",
        ):
            before = len(box.server.log)
            for _ in range(3):
                assert "refused" not in starts(box.server, keys)
                time.sleep(chance.uniform(0, 0.05))
                box.server.kill()
            assert "refused" not in starts(box.server, keys)
            until_changed(box.server, before)
            assert {place: text for place, text in seen(box.server).items() if text is not None} == WHOLE
            box.server.stop()
        files = files_of(box.store)
        for wrong in ("key: second, cipher: aes", "key: third, prev_key: second, cipher: chacha", "enabled: true"):
            assert "refused" in starts(box.server, wrong)
            assert files == files_of(box.store)
        starts(box.server, first)
        assert {place: text for place, text in seen(box.server).items() if text is not None} == WHOLE
    finally:
        box.server.stop()
