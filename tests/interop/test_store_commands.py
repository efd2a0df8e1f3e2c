"""`leafd store`: what a store holds, a copy of it that is made while a daemon writes to it, and what of a damaged one
can be saved. Each promise is judged by a daemon that opens what the command has made."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from leafd.cli.app import Hands, main
from leafd.cli.store import Place
from leafd.errors import LeafdError

from tests import servers
from tests.rig.official import ask
from tests.rig.waiting import eventually

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_memory_store: 1MB, max_file_store: 1GB KEY }
"""
KEY = 'key: "correct horse battery staple", cipher: aes'
MESSAGES = 300


def command(*words: object) -> tuple[int, Any]:
    """Exit code and JSON of `leafd store ...`, or its complaint."""
    out = io.StringIO()
    hands = Hands(lambda _: 1, lambda _: (), lambda _: Place(Path()))
    with contextlib.redirect_stdout(out):
        try:
            code = main(("store", *map(str, words), "--json"), hands)
        except LeafdError as error:
            return 1, str(error)
    return code, json.loads(out.getvalue()) if out.getvalue() else None


def started(directory: Path, key: str = "") -> servers.Server:
    directory.mkdir(exist_ok=True)
    server = servers.make(servers.LEAFD, CONFIGURATION.replace("KEY", f", {key}" * bool(key)), directory)
    server.start()
    return server


def stored(server: servers.Server) -> Path:
    """The store_dir of its configuration."""
    found = server.configuration.partition('store_dir: "')[2].partition('"')[0]
    return Path(found)


def pid_of(server: servers.Server) -> int:
    assert server.process is not None
    return server.process.pid


async def filled(server: servers.Server) -> None:
    """TEL with headers and deleted messages, COPY that sources it, and a consumer that has acknowledged some."""
    client = await nats.connect(server.url)
    stream = client.jetstream()
    await stream.add_stream(name="TEL", subjects=["tel.>"])
    for number in range(1, MESSAGES + 1):
        await stream.publish(f"tel.{number % 7}", b"x" * (number * 11 % 900), headers={"N": str(number)})
    await stream.delete_msg("TEL", 5)
    body = json.dumps({"name": "COPY", "sources": [{"name": "TEL"}]}).encode()
    assert b'"error"' not in (await client.request("$JS.API.STREAM.CREATE.COPY", body, timeout=10)).data
    subscription = await stream.pull_subscribe("tel.1", durable="worker", stream="TEL")
    for message in await subscription.fetch(10, timeout=10):
        await message.ack_sync()
    await subscription.fetch(
        3, timeout=10
    )  # these are not acknowledged, and that they are out is stored a second later
    await asyncio.sleep(1.5)
    while (await stream.stream_info("COPY")).state.messages < MESSAGES - 1:
        await asyncio.sleep(0.05)
    await client.close()


async def contents(server: servers.Server, upto: int) -> dict[str, Any]:
    """All that a client can see of its streams: messages up to a sequence of TEL, consumers, configurations."""
    client = await nats.connect(server.url)

    found: dict[str, Any] = {}
    for name in ("TEL", "COPY"):
        info = await ask(client, f"$JS.API.STREAM.INFO.{name}")
        found[name] = (info["config"], info["created"], info["state"]["first_seq"])
        for sequence in range(1, min(upto, info["state"]["last_seq"]) + 1):
            answer = await ask(client, f"$JS.API.STREAM.MSG.GET.{name}", {"seq": sequence})
            found[f"{name} {sequence}"] = answer.get("message") or answer["error"]["err_code"]
    info = await ask(client, "$JS.API.CONSUMER.INFO.TEL.worker")
    found["worker"] = [info[one] for one in ("name", "config", "delivered", "ack_floor", "num_ack_pending")]
    await client.close()
    return found


def checkpointed(server: servers.Server) -> Any:
    """What stat says when data.mdb has all that filled() made."""

    def all_of_it() -> Any:
        code, found = command("stat", "--store", stored(server))
        streams = {one["name"]: (one["messages"] >= MESSAGES - 1, one["consumers"]) for one in found["streams"]}
        return found if (code, streams) == (0, {"TEL": (True, 1), "COPY": (True, 0)}) else None

    return eventually(all_of_it, lambda: command("stat", "--store", stored(server)))


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """A daemon with streams, which stays up."""
    server = started(tmp_path_factory.mktemp("box"))
    asyncio.run(filled(server))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def closed(box: servers.Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store_dir of one that was stopped, to be copied."""
    folder = tmp_path_factory.mktemp("closed")
    checkpointed(box)
    assert command("backup", folder / "b", "--store", stored(box))[0] == 0
    assert command("restore", folder / "b", "--store", folder / "js")[0] == 0
    return folder / "js"


@pytest.fixture
def copy(closed: Path, tmp_path: Path) -> Path:
    shutil.copytree(closed, tmp_path / "js")
    return tmp_path / "js"


def test_stat_tells_what_a_store_holds_while_a_daemon_uses_it(box: servers.Server) -> None:
    """Streams and who has it open, as of the last checkpoint, which comes within seconds."""
    found = checkpointed(box)
    assert (found["used_by"], found["encrypted"]) == (str(pid_of(box)), False)


def test_a_store_in_use_is_neither_checked_nor_salvaged(box: servers.Server, tmp_path: Path) -> None:
    """One line says who has it, and nothing is made."""
    for words in (("check",), ("salvage", tmp_path / "new")):
        code, text = command(*words, "--store", stored(box))
        assert (code, f"process {pid_of(box)} has this store open" in text) == (1, True), text
    assert list(tmp_path.iterdir()) == []


def test_a_backup_beside_a_publisher_has_all_that_was_acknowledged_before_it(
    box: servers.Server, tmp_path: Path
) -> None:
    """Restored elsewhere, a daemon serves the same bytes: sequences, times, headers, the deleted message, the place of
    the consumer, the source, and what was acknowledged just before."""
    stop, ready, last = threading.Event(), threading.Event(), [0]

    async def publish() -> None:
        client = await nats.connect(box.url)
        while not stop.is_set():
            last[0] = (await client.jetstream().publish("tel.9", os.urandom(2_000))).seq
            if last[0] > MESSAGES + 50:
                ready.set()
        await client.close()

    publisher = threading.Thread(target=lambda: asyncio.run(publish()))
    publisher.start()
    try:
        assert ready.wait(60)
        acknowledged = last[0]
        code, made = command("backup", tmp_path / "b", "--store", stored(box))
        assert (code, made["check"]["damage"]) == (0, [])
    finally:
        stop.set()
        publisher.join()
    assert command("restore", tmp_path / "b", "--store", tmp_path / "again" / "store")[0] == 0
    other = started(tmp_path / "again")
    try:
        restored = asyncio.run(contents(other, acknowledged))
        assert f"TEL {acknowledged}" in restored
        original = asyncio.run(contents(box, acknowledged))
        assert {one: original[one] for one in restored} == restored
    finally:
        other.stop()


def test_who_looks_sees_how_far_it_is_and_a_pipe_gets_nothing_of_that(
    box: servers.Server, closed: Path, tmp_path: Path
) -> None:
    """A bar on standard error, where that is a terminal, with the bytes that are done of those that there are: of a
    backup beside the daemon, of a check, a salvage and a restore."""

    def typed(*words: object, terminal: bool = True) -> str:
        near, far = pty.openpty() if terminal else os.pipe()
        line = [sys.executable, "-m", "leafd", "store", *map(str, words)]
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=far, env=environment) as process:
            os.close(far)
            said = b""
            with contextlib.suppress(OSError):  # a terminal ends so
                while more := os.read(near, 65536):
                    said += more
            assert process.wait(60) == 0, said
        os.close(near)
        return said.decode()

    for words in (
        ("backup", tmp_path / "b", "--store", stored(box)),
        ("check", "--store", closed),
        ("salvage", tmp_path / "saved", "--store", closed),
        ("restore", tmp_path / "b", "--store", tmp_path / "again"),
    ):
        said = typed(*words)
        assert re.search(r"(?:copying|reading|restoring) .*?[1-9][\d.]*/[\d.]+ (?:bytes|kB|MB)", said), (words, said)
    assert typed("check", "--store", closed, terminal=False) == ""


def test_an_encrypted_store_stays_encrypted_and_is_checked_with_its_key(tmp_path: Path) -> None:
    """Neither the backup nor what a salvage makes has a subject in plain; the daemon opens both with its key."""
    server = started(tmp_path / "box", KEY)
    try:
        asyncio.run(filled(server))
        configuration = tmp_path / "box" / "server.conf"
        done = servers.leafd("store", "backup", tmp_path / "b", "-c", configuration)
        assert (done.returncode, done.stderr) == (0, ""), done
        original = asyncio.run(contents(server, MESSAGES))
    finally:
        server.stop()
    for word, heard in (("stat", "TEL"), ("check", "sound"), ("salvage", "nothing is lost")):
        done = servers.leafd("store", word, *[tmp_path / "new"] * (word == "salvage"), "-c", configuration)
        assert (done.returncode, heard in done.stdout) == (0, True), done
    assert command("stat", "--store", stored(server))[1]["readable"] is False
    for folder in (tmp_path / "b", tmp_path / "new"):
        assert all(b"tel.1" not in one.read_bytes() for one in folder.rglob("*") if one.is_file())
    shutil.rmtree(stored(server))
    shutil.move(tmp_path / "new", stored(server))
    server.start()
    try:
        assert asyncio.run(contents(server, MESSAGES)) == original
    finally:
        server.stop()


def test_a_flipped_bit_is_named_with_the_message_and_a_salvage_loses_that_message_alone(
    copy: Path, tmp_path: Path
) -> None:
    """check: 3 and the stream's number and sequence; salvage: all others, counted anew, and a store that is sound."""
    assert command("check", "--store", copy)[0] == 0
    # (stat alone would not count what only the log has.)
    assert command("salvage", tmp_path / "whole", "--store", copy)[0] == 0
    before = {one["name"]: one["messages"] for one in command("stat", "--store", tmp_path / "whole")[1]["streams"]}
    data = copy / "jetstream" / "data.mdb"
    whole = data.read_bytes()
    for place in re.finditer(b"x" * 890, whole):  # one that is no left-over in a free page
        raw = bytearray(whole)
        raw[place.start() + 100] ^= 4
        data.write_bytes(raw)
        code, found = command("check", "--store", copy)
        if code != 0:
            break
    assert (code, len(found["damage"])) == (3, 1), found
    assert "checksum does not hold" in found["damage"][0]
    kept = data.read_bytes()
    code, saved = command("salvage", tmp_path / "new", "--store", copy)
    assert (code, len(saved["lost"]), data.read_bytes() == kept) == (3, 1, True), saved
    after = {one["name"]: one["messages"] for one in command("stat", "--store", tmp_path / "new")[1]["streams"]}
    assert sum(before.values()) - sum(after.values()) == 1
    assert command("check", "--store", tmp_path / "new")[0] == 0


def test_a_damaged_journal_is_found_and_the_store_that_has_it_is_not_touched(
    box: servers.Server, tmp_path: Path
) -> None:
    """What a start would have to say of the journal, check says before it."""
    assert command("backup", tmp_path / "b", "--store", stored(box))[0] == 0
    assert command("restore", tmp_path / "b", "--store", tmp_path / "js")[0] == 0
    journal = tmp_path / "js" / "jetstream" / "journal"
    raw = bytearray(journal.read_bytes())
    raw[:64] = bytes(64)
    journal.write_bytes(raw)
    code, found = command("check", "--store", tmp_path / "js")
    assert (code, "journal" in " ".join(found["damage"])) == (3, True), found
    assert journal.read_bytes() == raw


def test_a_backup_is_restored_whole_or_not_at_all(closed: Path, tmp_path: Path) -> None:
    """A flipped bit, a file that is cut off or gone, a manifest that is gone or has names of elsewhere: one line, and
    no store is there afterwards."""
    assert command("backup", tmp_path / "b", "--store", closed)[0] == 0

    def attempt(*changes: tuple[str, bytes | None]) -> str:
        broken = tmp_path / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(tmp_path / "b", broken)
        for name, text in changes:
            (broken / name).unlink() if text is None else (broken / name).write_bytes(text)
        code, text = command("restore", broken, "--store", tmp_path / "js")
        assert (code, (tmp_path / "js").exists()) == (1, False)
        return str(text)

    data = bytearray((tmp_path / "b" / "data.mdb").read_bytes())
    data[-5000] ^= 1
    assert "not what manifest.json says" in attempt(("data.mdb", bytes(data)))
    assert "not what manifest.json says" in attempt(("data.mdb", bytes(data[:-4096])))
    assert "not whole" in attempt(("journal", None))
    assert "did not come to its end" in attempt(("manifest.json", None))
    assert "damaged" in attempt(("manifest.json", b'{"kind": "leafd sto'))
    assert "not the manifest" in attempt(("manifest.json", b"[]"))
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert "newer leafd" in attempt(("manifest.json", json.dumps({**manifest, "version": 3}).encode()))
    outside = "../escaped", "enrol/x", "enrol/../boxes", "jwt/../../escaped", "/tmp/escaped"
    for name in (*outside, "jwt/", "lock", "jwt/..", ""):
        files = [*manifest["files"], {"name": name, "size": 0, "sha256": ""}]
        assert "damaged" in attempt(("manifest.json", json.dumps({**manifest, "files": files}).encode()))


def test_nothing_that_is_there_is_overwritten(box: servers.Server, copy: Path, tmp_path: Path) -> None:
    """A backup into a directory with something in it, a restore over a store, in use or not, a salvage into one."""
    assert command("backup", tmp_path / "b", "--store", copy)[0] == 0
    assert "there already" in command("backup", tmp_path / "b", "--store", copy)[1]
    assert "not empty" in command("restore", tmp_path / "b", "--store", copy)[1]
    assert "has this store open" in command("restore", tmp_path / "b", "--store", stored(box))[1]
    assert "there already" in command("salvage", copy, "--store", copy)[1]
    assert command("check", "--store", copy)[0] == 0


def test_a_backup_that_is_killed_leaves_no_backup_and_the_next_one_is_whole(
    box: servers.Server, tmp_path: Path
) -> None:
    """kill -9 in the middle: under the name that was given there is nothing, and the daemon does not notice."""
    code = (
        "import os, sys; from leafd.cli import backup\n"
        "backup._looked_at = lambda *_: os.kill(os.getpid(), 9)\n"
        "sys.argv = ['leafd', 'store', 'backup', *sys.argv[1:]]; from leafd.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "b", "--store", stored(box)], capture_output=True, timeout=60
    )
    assert (done.returncode, (tmp_path / "b").exists()) == (-signal.SIGKILL, False)
    assert "did not come to its end" in command("restore", tmp_path / "b.partial", "--store", tmp_path / "js")[1]
    assert command("backup", tmp_path / "b", "--store", stored(box))[0] == 0
    assert [one.name for one in tmp_path.iterdir()] == ["b"]


def test_a_daemon_that_is_killed_while_its_store_is_backed_up_costs_neither(tmp_path: Path) -> None:
    """The backup has what was acknowledged before it began; the daemon starts again on its store meanwhile."""
    server = started(tmp_path / "box")
    asyncio.run(filled(server))
    from leafd.cli import backup
    from leafd.cli.store import within

    def kill(what: str, done: int, total: int) -> None:
        if what == "copying" and not killed:
            killed.append(done)
            server.kill()
            server.start()

    killed: list[int] = []
    try:
        made = backup.backup(Place(within(stored(server))), tmp_path / "b", kill)
        assert (bool(killed), made.check and made.check.damage) == (True, ())
        original = asyncio.run(contents(server, MESSAGES))
    finally:
        server.stop()
    assert command("restore", tmp_path / "b", "--store", tmp_path / "again" / "store")[0] == 0
    other = started(tmp_path / "again")
    try:
        assert asyncio.run(contents(other, MESSAGES)) == original
    finally:
        other.stop()


def test_a_full_disk_leaves_nothing_half_done(closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backup and restore say before they begin how much they need; where it fills up meanwhile, all of it goes."""
    import resource

    assert command("backup", tmp_path / "b", "--store", closed)[0] == 0
    low = shutil.disk_usage(tmp_path)._replace(free=1000)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: low)
        for words in (
            ("backup", tmp_path / "c", "--store", closed),
            ("restore", tmp_path / "b", "--store", tmp_path / "d"),
        ):
            code, text = command(*words)
            assert (code, "1,000 bytes are free" in text) == (1, True), text
    limits, heard = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        for words in (
            ("backup", tmp_path / "c", "--store", closed),
            ("restore", tmp_path / "b", "--store", tmp_path / "d"),
            ("salvage", tmp_path / "e", "--store", closed),
        ):
            code, text = command(*words)
            assert code == 1, (words, text)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, heard)
    assert [one.name for one in tmp_path.iterdir()] == ["b"]


def test_paths_may_have_any_bytes(closed: Path, tmp_path: Path) -> None:
    """A name that is no UTF-8, with a line break and an escape sequence in it."""
    odd = tmp_path / os.fsdecode(b"odd \xff\n\x1b[2J%s{}")
    assert command("backup", odd, "--store", closed)[0] == 0
    assert command("restore", odd, "--store", tmp_path / "js" / odd.name)[0] == 0
    assert command("check", "--store", tmp_path / "js" / odd.name)[0] == 0
    assert command("salvage", odd.with_name(odd.name + "2"), "--store", tmp_path / "js" / odd.name)[0] == 0


def test_where_there_is_no_store_the_command_says_so(tmp_path: Path) -> None:
    """One line, and nothing is made."""
    for words in (("stat",), ("check",), ("backup", tmp_path / "b"), ("salvage", tmp_path / "n")):
        code, text = command(*words, "--store", tmp_path / "none")
        assert (code, "no such directory" in text) == (1, True), text
    assert list(tmp_path.iterdir()) == []
