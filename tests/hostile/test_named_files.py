"""Files that somebody names: nothing waits for a named pipe, whoever names it, and a configuration is bounded in what
it comes to.

Each command is run as people run it, with a limit of time. Not here: what is in the files.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.certificates import Authority

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 60.0
REMOTE = 'leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:1", {line} }} ] }}'
PIPE = "named pipe"


def leafd(*arguments: object) -> tuple[int, str]:
    """The exit status, and all that was printed."""
    done = servers.leafd(*arguments, seconds=SECONDS_MAX)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe that nobody writes to."""
    made = tmp_path / "pipe"
    os.mkfifo(made)
    return made


NAMED = {
    "include": "include ./pipe",
    "certificate": 'tls {{ cert_file: "{pipe}", key_file: "{key}" }}',
    "private key": 'tls {{ cert_file: "{certificate}", key_file: "{pipe}" }}',
    "authority": 'tls {{ cert_file: "{certificate}", key_file: "{key}", ca_file: "{pipe}" }}',
    "operator": 'operator: "{pipe}"\nresolver: MEMORY',
    "credentials": REMOTE.replace("{line}", 'credentials: "{pipe}"'),
    "nkey": REMOTE.replace("{line}", 'nkey: "{pipe}"'),
    "key of the store": 'jetstream {{ store_dir: "{folder}/store", cipher: aes, key_file: "{pipe}" }}',
    "log": 'log_file: "{pipe}"',
}
STARTED = ("credentials", "nkey", "key of the store", "log")
"""Read, or written, when the daemon starts and no sooner."""


@pytest.mark.parametrize("named", NAMED)
def test_a_pipe_that_a_configuration_names_is_refused(named: str, pipe: Path, tmp_path: Path) -> None:
    """With its name and what is wrong, by the check and by the start."""
    issued = Authority(tmp_path).issue("localhost")
    places = {"pipe": pipe, "certificate": issued.certificate, "key": issued.key, "folder": tmp_path}
    file = tmp_path / "leafd.conf"
    file.write_text("port: -1\n" + NAMED[named].format(**places) + "\n")

    for command in [["-c", file], *([] if named in STARTED else [["check", file]])]:
        status, said = leafd(*command)
        assert status != 0
        assert "pipe" in said
        assert PIPE in said or named == "log", said


def test_a_configuration_that_is_a_pipe_is_refused(pipe: Path) -> None:
    """So are its name on the command line, and that of another to compare with."""
    for command in (["check", pipe], ["-t", "-c", pipe], ["-c", pipe], ["check", "--against", pipe, os.devnull]):
        status, said = leafd(*command)
        assert status != 0, command
        assert PIPE in said or "device" in said, said


def test_authorities_that_are_a_pipe_are_refused(pipe: Path) -> None:
    """Of the commands that ask a daemon over https."""
    status, said = leafd("status", "--url", "https://127.0.0.1:1", "--ca", pipe)
    assert status != 0
    assert PIPE in said, said


MEMBERS = ("data.mdb", "journal", "highwater", "lock")


ORDERS = ("stat", "check", "backup", "salvage", "start")
READ = [(one, order) for one in MEMBERS for order in ORDERS if one != "highwater" or order == "start"]
"""The high-water mark is of interest only to who judges a journal, of a store that is not empty."""


@pytest.mark.parametrize(("member", "order"), READ)
def test_a_store_with_a_pipe_is_none(member: str, order: str, tmp_path: Path) -> None:
    """Whatever is asked of it, that is said."""
    store = tmp_path / "store" / "jetstream"
    store.mkdir(parents=True)
    for name in MEMBERS:
        if name == member:
            os.mkfifo(store / name)
        else:
            (store / name).write_bytes(b"")
    if order == "start":
        file = tmp_path / "leafd.conf"
        file.write_text(f'port: -1\njetstream {{ store_dir: "{tmp_path}/store" }}\n')
        status, said = leafd("-c", file)
    else:
        more = [tmp_path / "to"] if order in ("backup", "salvage") else []
        status, said = leafd("store", order, *more, "--store", store.parent)
    assert status != 0
    assert PIPE in said, said


@pytest.mark.parametrize("member", ["manifest.json", "data.mdb"])
def test_a_backup_with_a_pipe_is_not_restored(member: str, tmp_path: Path) -> None:
    """It ends, says which file, and leaves nothing."""
    backup, target = tmp_path / "backup", tmp_path / "target"
    backup.mkdir()
    os.mkfifo(backup / member)
    if member != "manifest.json":
        files = [{"name": "data.mdb", "size": 5, "sha256": "0" * 64}]
        manifest = {"kind": "leafd store backup", "version": 1, "files": files}
        (backup / "manifest.json").write_text(json.dumps(manifest))
    status, said = leafd("store", "restore", backup, "--store", target)
    assert status != 0
    assert PIPE in said, said
    assert not target.exists()


# More values than tree.VALUES_MAX, or few that come to more.
BOMBS = {
    "arrays inside each other": "a: " + "[" * 10_000 + "]" * 10_000,
    "many arrays": "x: [" + ",".join(["[1]"] * 260_000) + "]",
    "references to one user": "u: {user: a, password: b}\nauthorization { users: [" + ",".join(["$u"] * 20_000) + "] }",
    "references to a long user": (
        f"u: {{user: a, password: b, permissions: {{publish: {json.dumps([f'a.{one}' for one in range(1_000)])}}}}}\n"
        "authorization { users: [" + ",".join(["$u"] * 20_000) + "] }"
    ),
    "references to references": "v0: [1,1]\n"
    + "".join(f"v{one}: [{','.join([f'$v{one - 1}'] * 10)}]\n" for one in range(1, 30)),
    "keys": "".join(f"k{one}: 1\n" for one in range(510_000)),
    "keys on one line": "{" + ", ".join(f"k{one}: 1" for one in range(510_000)) + "}",
    "keys that nobody knows": "".join(f"k{one}: 1\n" for one in range(100_000)),
    "one key again and again": "port: 4222\n" * 510_000,
    "includes of itself": "include ./bomb.conf\n" * 4,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_configuration_that_comes_to_too_much_is_refused(bomb: str, tmp_path: Path) -> None:
    """In some seconds, with the place and in few lines."""
    file = tmp_path / "bomb.conf"
    file.write_text(BOMBS[bomb])
    status, said = leafd("check", file)
    assert status != 0
    assert "bomb.conf" in said
    assert len(said) < 20_000


OPENING = {"open", "read_text", "read_bytes", "write_text", "write_bytes"}
ALLOWED = {
    "files.py": "is the one place",
    "__main__.py": "the version beside it",
    "versions.py": "the version beside it",
    "cli/init.py": "O_NONBLOCK, of a name of our own",
    "cli/authority.py": "a folder of its own",
    "config/tls_files.py": "a descriptor of its own",
    "auth/resolver_directory.py": "writes a name of its own, O_NONBLOCK; and the directory",
    "host/kill.py": "/proc",
    "host/memory.py": "/proc and the control group",
    "host/log.py": "a descriptor of files.open_end",
    "daemon/run.py": "writes a name of its own process",
    "daemon/store.py": "a directory",
    "daemon/rescue.py": "writes a name of its own, in the store's folder",
    "cli/cluster_words.py": "makes a name of its own, in the store's folder, that is not there",
    "cli/backup.py": "writes what must not be there yet",
    "cli/store.py": "locks, directories, and a copy in a folder of its own",
    "enrol/journal.py": "names of our own, O_NONBLOCK or both to read and to write; and the directory",
    "doctor/machine.py": "a file without a name",
    "monitor/facts.py": "/proc",
    "monitor/page/routes.py": "the page's own files",
}


def openings(file: Path) -> Iterator[str]:
    """Calls that open a file by its name."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in OPENING and not (
                isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "Plane"
            ):
                yield f"{ast.unparse(node.func)} in line {node.lineno}"


def test_files_are_opened_in_one_place() -> None:
    """What opens a file by itself has a reason above; whatever somebody has named is opened by leafd.files."""
    folder = ROOT / "agent" / "leafd"
    found = {
        str(file.relative_to(folder)): list(openings(file))
        for file in folder.rglob("*.py")
        if "spark" not in file.relative_to(folder).parts
    }
    assert {} == {name: calls for name, calls in found.items() if calls and name not in ALLOWED}
    assert [] == [name for name in ALLOWED if not found.get(name)]
