"""An encrypted store in the hands of somebody who has the disk and not the key, while the box is off.

He moves, puts back, cuts and garbles what is there. What he may reach at most: the messages that he touched are
damaged, which the log says and `leafd store check` names, or the start is refused in one line; never a message in
another's place, never a crash. What he can reach by design (promises.md) is shown here, too. The words that he looks
for, and keys that are wrong, are test_encrypted_words.py's; checksums that he writes himself, in META and in plain
entries, tests/native/test_store_forged.c's; single bits of each record tests/native/test_store_key.c's.
"""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests import servers
from tests.hostile.wires import Asker, varz
from tests.servers import LEAFD, Server, ServerDied, make

CONFIGURATION: Final = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
jetstream { store_dir: "{store}", max_file_store: 256MB, max_memory_store: 16MB, KEYS }
accounts {
  A { jetstream: enabled, users: [ { user: a, password: a, permissions: { publish: ["Acme.>", "one.>", "two.>", "$JS.>",
      "$KV.>"], subscribe: ["in.>", "Zebra.Permits.>"] } } ] }
  B { jetstream: enabled, users: [ { user: b, password: b } ] }
}
"""
KEY: Final = "open-sesame-open-sesame"
KEYS: Final = f"key: {KEY}, cipher: CIPHER"
MESSAGES: Final = 30
STREAMS: Final = (("a", "ONE", "one.x"), ("a", "TWO", "two.x"), ("b", "UNO", "uno.x"))
DELETED: Final = 9
"""Of ONE: deleted, and what was there is kept by the attacker."""
SEED: Final = 20261124

Place = tuple[int, int]
"""A stream by its order, and a sequence."""


def payload(stream: int, sequence: int) -> bytes:
    """All of one size, so that the sealed ones fit into each other's place."""
    return b"%s message %04d of the one that was meant " % (STREAMS[stream][1].encode(), sequence)


def command(server: Server, *words: object, configuration: Path | None = None) -> tuple[int, Any]:
    """The exit code of `leafd store ...` with the box's configuration, and its JSON or its complaint."""
    file = configuration or server.directory / "server.conf"
    done = servers.leafd("store", *words, "-c", file, "--json")
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


@dataclass
class Box:
    """A server and its store's files."""

    server: Server
    older: dict[str, bytes]
    """The files as they were before the last messages, and before one was deleted."""
    closed: dict[str, bytes]
    """After an orderly end."""
    killed: dict[str, bytes]
    """After kill -9, with batches in the journal that data.mdb has not."""

    @property
    def store(self) -> Path:
        return self.server.directory / "store" / "jetstream"

    def lay(self, files: dict[str, bytes]) -> None:
        """These files, and no others."""
        shutil.rmtree(self.store)
        self.store.mkdir()
        for name, text in files.items():
            (self.store / name).write_bytes(text)

    def check(self) -> tuple[int, str]:
        """What `leafd store check` says, with the key."""
        code, found = command(self.server, "check")
        return code, found if isinstance(found, str) else "\n".join(found["damage"])


def client(server: Server, user: str = "a") -> Asker:
    return Asker(server.port, 10.0, user, user=user)


def files_of(store: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in store.iterdir() if one.name in ("data.mdb", "journal", "highwater")}


def publish(server: Server, first: int, last: int) -> None:
    for number, (user, name, subject) in enumerate(STREAMS):
        with client(server, user) as one:
            if first == 1:
                assert 0 == one.err_code(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})
            for sequence in range(first, last + 1):
                assert sequence == one.asked(subject, payload(number, sequence))["seq"]


def filled(directory: Path, cipher: str) -> Box:
    """A box, stopped."""
    directory.mkdir(exist_ok=True)
    server = make(LEAFD, CONFIGURATION.replace("KEYS", KEYS.replace("CIPHER", cipher)), directory)
    box = Box(server, {}, {}, {})
    server.start()
    publish(server, 1, MESSAGES - 10)
    server.stop()
    box.older = files_of(box.store)
    server.start()
    with client(server) as one:
        assert one.asked("$JS.API.STREAM.MSG.DELETE.ONE", {"seq": DELETED})["success"]
    publish(server, MESSAGES - 9, MESSAGES)
    server.kill()
    box.killed = files_of(box.store)
    server.start()
    server.stop()
    box.closed = files_of(box.store)
    return box


@pytest.fixture(scope="module", params=["aes", "chacha"])
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """One for all attacks: each lays its own files."""
    found = filled(tmp_path_factory.mktemp("encrypted") / "box", request.param)
    yield found
    found.server.stop()


def seen(server: Server) -> dict[Place, bytes | None]:
    """Each message as it is served; None: it is not."""
    found: dict[Place, bytes | None] = {}
    for number, (user, name, subject) in enumerate(STREAMS):
        with client(server, user) as one:
            for sequence in range(1, MESSAGES + 1):
                got = one.asked(f"$JS.API.STREAM.MSG.GET.{name}", {"seq": sequence}).get("message")
                assert got is None or (subject, sequence) == (got["subject"], got["seq"])
                found[number, sequence] = None if got is None else base64.b64decode(got["data"])
    return found


WHOLE: Final = {
    (number, sequence): payload(number, sequence)
    for number in range(len(STREAMS))
    for sequence in range(1, MESSAGES + 1)
    if (number, sequence) != (0, DELETED)
}


def served(box: Box, touched: set[Place], *, all_lost: bool = False) -> str:
    """Starts the box: all is served but what was touched, of which each message is the right one or not there (none is
    there if all are lost), and the log names the damage. Returns what the log says of this start."""
    said = len(box.server.log)
    box.server.start()
    try:
        found = seen(box.server)
        pages = varz(box.server.ports["http_port"])
    finally:
        box.server.stop()
    lost = {place for place in WHOLE if found[place] is None}
    assert {place: found[place] for place in WHOLE if place not in lost} == {
        place: text for place, text in WHOLE.items() if place not in lost
    }
    assert found[0, DELETED] is None
    assert lost == touched if all_lost else lost <= touched
    log = box.server.log[said:]
    assert not lost or "damaged" in log or "checksum" in log, log
    assert {} == pages["leafd"]["unexpected_errors_in"]
    return log


# ---- what lies in data.mdb -------------------------------------------------------------------------------------------


def entries(data: bytes) -> dict[Place, list[tuple[int, int]]]:
    """Where the sealed messages lie, in each copy of a page: the offset and size of the value. LMDB has before each key
    the value's size 4, flags 2 and the key's size 2; the key is stream 4 and sequence 8."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for node in re.finditer(rb"(?=(..)\0\0\0\0\x0c\0(\0\0..)(\0{7}.))", data, re.DOTALL):
        size = int.from_bytes(node[1], "little")
        stream, sequence = int.from_bytes(node[2], "big"), int.from_bytes(node[3], "big")
        if size > 70 and 1 <= sequence <= MESSAGES:
            found.setdefault((stream, sequence), []).append((node.start() + 20, size))
    order = {stream: number for number, stream in enumerate(sorted({stream for stream, _ in found}))}
    assert len(STREAMS) == len(order)
    return {(order[stream], sequence): places for (stream, sequence), places in found.items()}


def content(data: bytes, place: Place) -> bytes:
    at, size = entries(data)[place][-1]
    return data[at : at + size]


def with_content(data: bytes, place: Place, text: bytes) -> bytes:
    """The same file, with this in each copy of that entry."""
    changed = bytearray(data)
    for at, size in entries(data)[place]:
        changed[at : at + size] = text[:size].ljust(size, b"\0")
    return bytes(changed)


def swapped(data: bytes, one: Place, other: Place) -> bytes:
    texts = content(data, one), content(data, other)
    return with_content(with_content(data, one, texts[1]), other, texts[0])


def flipped(text: bytes, bit: int) -> bytes:
    """A bit from the beginning, or from the end."""
    bit %= 8 * len(text)
    return text[: bit // 8] + bytes([text[bit // 8] ^ 1 << bit % 8]) + text[bit // 8 + 1 :]


TARGET: Final = (0, 3)
SWAPS: Final[dict[Place, Place]] = {
    (0, 3): (0, 20),  # another position
    (0, 4): (1, 4),  # another stream
    (0, 5): (2, 5),  # another account's stream
    (0, 6): (2, 17),  # another account's stream, at another position
}
CHANGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "zeros": lambda text: bytes(len(text)),
    "ones": lambda text: b"\xff" * len(text),
    "the tag of nothing": lambda text: text[:-16] + bytes(16),
    "half of it": lambda text: text[: len(text) // 2],
    "the end first": lambda text: text[::-1],
    "something random": lambda text: random.Random(SEED).randbytes(len(text)),
    "in plain": lambda text: payload(*TARGET),
    **{f"bit {bit} turned": partial(flipped, bit=bit) for bit in (0, 300, -1, -128)},
}


def test_messages_that_change_places(box: Box) -> None:
    """Neither is served in the other's place: both are damaged, and named."""
    data = box.closed["data.mdb"]
    for one, other in SWAPS.items():
        data = swapped(data, one, other)
    box.lay(box.closed | {"data.mdb": data})
    moved = [*SWAPS, *SWAPS.values()]
    code, damage = box.check()
    assert (3, len(moved)) == (code, damage.count("its checksum does not hold")), damage
    assert all(f"message {sequence} of stream" in damage for _, sequence in moved), damage
    assert "checksum" in served(box, {*moved}, all_lost=True)


def test_messages_of_another_store_of_the_same_key(box: Box, tmp_path: Path) -> None:
    """A key is not all that seals a store: its id does too."""
    other = filled(tmp_path / "other", "aes" if "aes" in box.server.configuration else "chacha")
    box.lay(
        box.closed
        | {"data.mdb": with_content(box.closed["data.mdb"], TARGET, content(other.closed["data.mdb"], TARGET))}
    )
    code, damage = box.check()
    assert (3, True) == (code, "message 3 of stream" in damage)
    assert "checksum" in served(box, {TARGET})
    for name in ("journal", "data.mdb", "highwater"):
        box.lay(box.killed | {name: other.killed[name]})
        if name == "highwater":
            served(box, set())
        else:
            refused(box)


def test_messages_that_are_made(box: Box) -> None:
    """They are damaged, alone, and named: one of each kind, in each of the streams in turn."""
    data = box.closed["data.mdb"]
    places = {(number % 3, 10 + number): what for number, what in enumerate(CHANGES)}
    for place, what in places.items():
        data = with_content(data, place, CHANGES[what](content(data, place)))
    box.lay(box.closed | {"data.mdb": data})
    code, damage = box.check()
    assert (3, len(places)) == (code, damage.count("its checksum does not hold")), damage
    assert all(f"message {sequence} of stream" in damage for _, sequence in places), damage
    assert "checksum" in served(box, {*places}, all_lost=True)


def refused(box: Box) -> str:
    """A start ends in one line, and touches nothing."""
    said = len(box.server.log)
    before = files_of(box.store)
    try:
        with pytest.raises(ServerDied):
            box.server.start()
    finally:
        box.server.stop()
    assert box.server.process is not None
    assert 1 == box.server.process.returncode
    log = box.server.log[said:]
    assert 1 == log.count("[FTL]"), log
    assert before == files_of(box.store)
    return log


def right_or_gone(box: Box) -> set[Place]:
    """Of a box that has started: no message is served in another's place. Returns what is there no more; ends it."""
    try:
        found = seen(box.server)
    finally:
        box.server.stop()
    assert all(text in (None, payload(*place)) for place, text in found.items())
    return {place for place in WHOLE if found[place] is None}


def test_random_bits_anywhere(box: Box) -> None:
    """Whatever they hit, nothing wrong is served: what is not the right message is not there."""
    chance = random.Random(SEED)
    for _ in range(6):
        name = chance.choice(["data.mdb", "journal", "highwater"])
        files = box.killed if name == "journal" else box.closed
        text = bytearray(files[name])
        used = [at for at in range(0, len(text), 512) if any(text[at : at + 512])]
        for at in chance.choices(used, k=chance.choice([1, 1, 8])):
            text[at + chance.randrange(512)] ^= 1 << chance.randrange(8)
        box.lay(files | {name: bytes(text)})
        box.check()
        try:
            box.server.start()
        except ServerDied:
            assert box.server.process is not None
            assert 1 == box.server.process.returncode
            continue
        right_or_gone(box)


# ---- what lies in the journal ----------------------------------------------------------------------------------------

BLOCK: Final = 4096


def batches(journal: bytes) -> list[tuple[int, int, int]]:
    """Where whole batches lie, in the order of their numbers: the number, the offset, blocks."""
    found = []
    for at in range(BLOCK, len(journal), BLOCK):
        if journal[at : at + 4] == b"LfBj":
            number, size = struct.unpack_from(">QI", journal, at + 16)
            found.append((number, at, -(-(size + 16) // BLOCK)))
    return sorted(found)


def tail(box: Box) -> list[tuple[int, int, int]]:
    """Of one block each, and such as only the journal has."""
    found = [one for one in batches(box.killed["journal"]) if one[2] == 1][-12:]
    assert len(found) == 12
    return found


def journal_with(box: Box, *moves: tuple[int, bytes]) -> dict[str, bytes]:
    text = bytearray(box.killed["journal"])
    for at, block in moves:
        text[at : at + BLOCK] = block
    return box.killed | {"journal": bytes(text)}


def block(box: Box, which: int) -> tuple[int, bytes]:
    at = tail(box)[which][1]
    return at, box.killed["journal"][at : at + BLOCK]


LATER: Final = {(number, sequence) for number in range(3) for sequence in range(MESSAGES - 9, MESSAGES + 1)}


@pytest.mark.parametrize("what", ["exchanged", "doubled", "emptied", "its ops turned", "its tag turned"])
def test_a_batch_of_the_journal_that_is(box: Box, what: str) -> None:
    """What follows it is served, and what was in it is lost alone and told, or put right."""
    at, text = block(box, 4)
    other_at, other = block(box, 7)
    moves = {
        "exchanged": [(at, other), (other_at, text)],
        "doubled": [(at, other)],
        "emptied": [(at, bytes(BLOCK))],
        "its ops turned": [(at, text[:44] + bytes(byte ^ 0x5A for byte in text[44:76]) + text[76:])],
        "its tag turned": [(at, flipped(text, 8 * (40 + 16)))],
    }[what]
    box.lay(journal_with(box, *moves))
    code, damage = box.check()
    assert 3 == code, damage
    assert "journal" in served(box, LATER)


def test_an_older_journal_or_data_mdb(box: Box) -> None:
    """Batches that the journal lacks are told as lost; those that data.mdb lacks come from the journal again."""
    box.lay(box.killed | {"journal": box.older["journal"]})
    code, damage = box.check()
    assert (3, True) == (code, "lost all or part" in damage)
    said = len(box.server.log)
    box.server.start()
    assert right_or_gone(box) == LATER
    assert "the journal is damaged" in box.server.log[said:]
    box.lay(box.killed | {"data.mdb": box.older["data.mdb"]})
    assert (0, "") == box.check()
    served(box, set())


@pytest.mark.parametrize("name", ["data.mdb", "journal"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_that_is_cut(box: Box, name: str, share: float) -> None:
    """The start is refused, or says what is lost; nothing else is served in its place."""
    text = box.killed[name]
    box.lay(box.killed | {name: text[: int(len(text) * share)]})
    said = len(box.server.log)
    try:
        box.server.start()
    except ServerDied:
        assert box.server.process is not None
        assert 1 == box.server.process.returncode
        assert 1 == box.server.log[said:].count("[FTL]")
        return
    if right_or_gone(box):
        assert "lost" in box.server.log[said:] or "damaged" in box.server.log[said:]


# ---- what cannot be detected, by design ------------------------------------------------------------------------------


def test_all_of_an_earlier_day_is_taken_for_today(box: Box) -> None:
    """As promises.md says: the whole disk put back is that day's store, nothing of which is wrong."""
    box.lay(box.older)
    assert (0, "") == box.check()
    box.server.start()
    try:
        found = seen(box.server)
    finally:
        box.server.stop()
    assert found == {
        (number, sequence): payload(number, sequence) if sequence <= MESSAGES - 10 else None
        for number in range(3)
        for sequence in range(1, MESSAGES + 1)
    }


def test_a_stopped_box_without_its_highwater_is_the_same(box: Box) -> None:
    """It tells of a loss, and holds none itself."""
    files = dict(box.killed)
    del files["highwater"]
    box.lay(files)
    served(box, set())


# ---- with the wrong key ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", ["key: another-key-altogether", "key: another-one, prev_key: wrong, cipher: aes"])
def test_a_backup_with_the_wrong_key(box: Box, tmp_path: Path, keys: str) -> None:
    """The commands say in one line that it is another's, and what they leave behind is as it was."""
    box.lay(box.closed)
    wrong = tmp_path / "wrong.conf"
    right = (box.server.directory / "server.conf").read_text()
    wrong.write_text(re.sub(r"key: [^}]*}", keys + " }", right, count=1))
    for words in (("check",), ("stat",), ("salvage", tmp_path / "new"), ("backup", tmp_path / "backup")):
        code, said = command(box.server, *words, configuration=wrong)
        assert 1 == code, said
        assert "another key" in said
        assert "another-" not in said
        assert "open-sesame" not in said
    assert box.closed == files_of(box.store)
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "backup").exists()
    served(box, set())


@pytest.mark.parametrize("name", ["data.mdb", "journal", "manifest.json"])
def test_a_backup_that_was_cut_or_changed_restores_nothing(box: Box, tmp_path: Path, name: str) -> None:
    """It is said in one line, and where the store was to be there is nothing; whole, it is that day's store."""
    box.lay(box.closed)
    assert 0 == command(box.server, "backup", tmp_path / "backup")[0]
    file = tmp_path / "backup" / name
    text, place = file.read_bytes(), random.Random(name)
    changed = [text[: int(len(text) * share)] for share in (0.0, 0.3, 0.999)]
    for at in (place.randrange(len(text)) for _ in range(5)):
        changed.append(text[:at] + bytes([text[at] ^ 0x80]) + text[at + 1 :])
    shutil.rmtree(box.store)
    for one in changed:
        file.write_bytes(one)
        code, said = command(box.server, "restore", tmp_path / "backup")
        assert (1, 1) == (code, said.count("\n")), said
        assert not box.store.exists()
    file.write_bytes(text)
    assert 0 == command(box.server, "restore", tmp_path / "backup")[0]
    served(box, set())
