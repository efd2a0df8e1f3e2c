"""The container image: made by packaging/publish, loaded from the one file, and run as a runtime would run it.

It needs buildah (podman is made of it), whose build needs no daemon; elsewhere this test says so and is skipped.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packaging import machine
from tests.packaging.test_publish import Published
from tests.servers import free_port

SIZE_MAX_MB = 150

pytestmark = [
    pytest.mark.package,
    pytest.mark.minutes(20),
    pytest.mark.skipif(shutil.which("buildah") is None, reason="there is no buildah here to build an image with"),
]


@pytest.fixture(scope="module")
def image(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The published image as a directory, and its configuration."""
    folder = tmp_path_factory.mktemp("container")
    (folder / "dist").mkdir()
    for path in packages.values():
        shutil.copy(path, folder / "dist")
    made = Published(folder / "www", "https://packages.example.org/leafd", folder / "dist", folder / "gpg")
    storage = ("--storage-driver", "vfs", "--root", folder / "storage", "--runroot", folder / "run")
    try:
        done = made.publish(image=True)
        assert done.returncode == 0, done.stdout + done.stderr
        (archive,) = (made.folder / "image").glob("*.oci.tar")
        assert archive.name in (made.folder / "README.txt").read_text()
        machine.sh("env", "-C", archive.parent, "sha256sum", "--check", "--strict", "SHA256SUMS")
        sums = archive.parent / "SHA256SUMS"
        machine.sh("gpg", "--homedir", made.home, "--verify", sums.with_name("SHA256SUMS.asc"), sums)
        name = machine.sh("buildah", *storage, "from", f"oci-archive:{archive}").splitlines()[-1]
        found = json.loads(machine.sh("buildah", *storage, "inspect", "--type", "container", name))
        yield Path(machine.sh("buildah", *storage, "mount", name).splitlines()[-1]), found["OCIv1"]["config"]
        machine.sh("buildah", *storage, "rm", name)
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_image_holds_leafd_and_no_tools(image: tuple[Path, dict[str, Any]]) -> None:
    """The image runs leafd as a user of its own; it has no shell, no package manager, no program that takes rights."""
    root, config = image
    assert ("65532:65532", ["/usr/bin/leafd"]) == (config["User"], config["Entrypoint"])
    programs = {path.name for path in (root / "usr/bin").iterdir()}
    assert {"leafd", "python3"} == {name for name in programs if not name.startswith("python3.")}
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [] == [path for path in files if path.stat().st_mode & 0o6000]
    assert sum(path.stat().st_size for path in files) < SIZE_MAX_MB << 20
    own = [path.relative_to(root) for path in root.rglob("*") if path.lstat().st_uid != 0]
    assert [Path("var/lib/leafd")] == own, "all else is root's, so that leafd cannot change it"


@contextlib.contextmanager
def running(root: Path, user: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the image as a runtime has it with --read-only and a volume: nothing else can be written to."""
    script = (
        'set -eu; root=$1; shift; mount --bind "$root" "$root"; mount -t tmpfs volume "$root/var/lib/leafd"; '
        'chown 65532:65532 "$root/var/lib/leafd"; mkdir -p "$root/dev/shm" "$root/proc"; '
        'mount -t tmpfs dev "$root/dev"; mkdir -m 1777 "$root/dev/shm"; '
        'for one in null urandom; do touch "$root/dev/$one"; mount --bind "/dev/$one" "$root/dev/$one"; done; '
        'mount --bind /proc "$root/proc"; mount -o remount,bind,ro "$root"; exec chroot "$@"'
    )
    process = subprocess.Popen(
        [
            "unshare",
            "--mount",
            "--propagation",
            machine.propagation(),
            "sh",
            "-c",
            script,
            "sh",
            str(root),
            f"--userspec={user}",
            str(root),
            *words,
        ],
        env={"CREDENTIALS_DIRECTORY": "/run/secrets"},
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def test_image_serves_with_a_read_only_root(image: tuple[Path, dict[str, Any]]) -> None:
    """With nothing to write to but its volume it keeps a stream, answers monitoring, and ends when it is told to."""
    root, config = image
    words: list[str] = [*config["Entrypoint"], *config["Cmd"]]
    port, page = free_port(), free_port()
    words += ["-p", str(port), "-m", str(page)]
    with running(root, str(config["User"]), *words) as process:

        def serves() -> bool:
            assert process.poll() is None, "it ended"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
                return connection.recv(4) == b"INFO"
            return False

        machine.wait_for("the image's daemon", serves, 60)
        with socket.create_connection(("127.0.0.1", port), 30) as connection, connection.makefile("rb") as file:
            connection.sendall(b'CONNECT {"verbose":false}\r\nSUB in 1\r\n')
            for subject, body in (("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}'), ("s", b"x")):
                connection.sendall(f"PUB {subject} in {len(body)}\r\n".encode() + body + b"\r\n")
                while not (line := file.readline()).startswith(b"MSG in"):
                    assert line
                answer = json.loads(file.read(int(line.split()[-1])))
                assert "error" not in answer
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/healthz", timeout=30) as said:
            assert {"status": "ok"} == json.load(said)
        process.terminate()
        assert 0 == process.wait(30)
