"""Small archives that become large: what a client may restore fills neither the memory nor the control thread."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from leafd.jetstream.backup import archive, s2
from leafd.native_functions import crc32c

from tests.hostile.wires import Asker, varz
from tests.rig.waiting import PATIENCE_S
from tests.servers import LEAFD, Server, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
jetstream { store_dir: "{store}", max_file_store: 256MB }
"""
# 4 MiB of zeros: one literal byte, copies of it, and the checksum in front as S2 masks it.
BOMB = bytes.fromhex("001100002b63c86980808002000001011d00f7ff3e")
MB = 1 << 20
TURN_MS = 20.0
EMPTY = {"messages": 0, "bytes": 0, "first_seq": 1, "last_seq": 0}
CHUNK = 60_000


@pytest.fixture(name="server")
def running_server() -> Iterator[Server]:
    with running(LEAFD, CONFIGURATION) as server:
        yield server


def longest_turn(attack: Callable[[Server], None]) -> float:
    """The longest turn of the control thread under an attack, in milliseconds of CPU. What is long once and not again
    says more about the machine."""
    for _ in range(3):
        with running(LEAFD, CONFIGURATION) as server:
            attack(server)
            turn = float(varz(server.ports["http_port"])["leafd"]["longest_turn_cpu_ms"])
        if turn < TURN_MS:
            break
    return turn


def begun(client: Asker, name: str = "R") -> str:
    """Where the archive goes."""
    body: dict[str, Any] = {"config": {"name": name, "subjects": [name]}, "state": {}}
    return str(client.asked(f"$JS.API.STREAM.RESTORE.{name}", body)["deliver_subject"])


def raw(data: bytes) -> bytes:
    """An S2 chunk that is not compressed."""
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return b"\x01" + (len(data) + 4).to_bytes(3, "little") + masked.to_bytes(4, "little") + data


def peak_mb(server: Server) -> float:
    """The most memory that the server ever had."""
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def beginning(**more: int) -> bytes:
    """An archive's first bytes, with the state that it tells."""
    return archive.MAGIC + archive.entry(archive.STATE, 1, json.dumps(EMPTY | more).encode())


@pytest.mark.parametrize(
    "begin", [beginning() + archive.END, beginning(), archive.MAGIC, b""], ids=["ended", "state", "magic", "nothing"]
)
def test_chunk_that_unpacks_to_gigabytes(begin: bytes) -> None:
    """Forty kilobytes that stand for eight gigabytes: whatever they follow, memory stays and nobody waits."""
    chunk = s2.IDENTIFIER + (raw(begin) if begin else b"") + BOMB * 2000

    def attack(server: Server) -> None:
        before = peak_mb(server)
        with Asker(server.port, patience_s=PATIENCE_S) as client:
            assert client.ask(begun(client), chunk) is not None
        assert peak_mb(server) < before + 60

    assert longest_turn(attack) < TURN_MS


def test_chunk_of_chunks_that_say_nothing() -> None:
    """A quarter of a million chunks that may be skipped are skipped with pauses."""

    def attack(server: Server) -> None:
        with Asker(server.port, patience_s=PATIENCE_S) as client:
            assert b"" == client.ask(begun(client), s2.IDENTIFIER + b"\x80\0\0\0" * 250_000)

    assert longest_turn(attack) < TURN_MS


def test_consumer_with_much_in_flight() -> None:
    """A consumer with 90,000 messages in flight, in no order, is restored while others are served."""
    chosen = random.Random(1).sample(range(1, 9_000_000), 90_000)
    state: dict[str, Any] = {"delivered": {"stream_seq": 10_000_000, "consumer_seq": 5}, "ack_floor": {}}
    state["pending"] = {str(seq): {"Sequence": seq, "Timestamp": 5} for seq in chosen}
    consumer = json.dumps({"config": {"durable_name": "c", "ack_policy": "explicit"}, "state": state}).encode()
    whole = beginning(consumer_count=1) + archive.entry(f"{archive.CONSUMERS}c", 1, consumer) + archive.END
    chunks = [raw(whole[at : at + CHUNK]) for at in range(0, len(whole), CHUNK)]

    def attack(server: Server) -> None:
        with Asker(server.port, patience_s=PATIENCE_S) as client:
            to = begun(client)
            for chunk in (s2.IDENTIFIER, *chunks):
                assert b"" == client.ask(to, chunk)
            assert b'"error"' not in (client.ask(to) or b'"error"')

    assert longest_turn(attack) < TURN_MS


def test_restores_at_a_time(server: Server) -> None:
    """An account has sixteen restores under way, and the next one is refused as long as none of them has ended."""
    with Asker(server.port) as client:
        places = [begun(client, f"R{number}") for number in range(16)]
        body = {"config": {"name": "M"}, "state": {}}
        assert 10023 == client.err_code("$JS.API.STREAM.RESTORE.M", body)
        client.ask(places[0], b"no archive")
        assert 0 == client.err_code("$JS.API.STREAM.RESTORE.M", body)
