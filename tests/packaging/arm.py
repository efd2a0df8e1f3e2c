"""A box with another kind of processor: a Debian for it in a directory, the package unpacked there, and qemu between
its programs and this machine's kernel. No system is booted; the daemon is started as systemd does, with a notify socket
of ours. Times mean nothing here: with qemu everything takes 10 to 30 times as long as without.

What is promised about such a box is in test_arm.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.packaging import machine

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "packaging"))

from packer import toolchain  # noqa: E402  (the path comes first)

CACHE = ROOT / "build" / "boxes"
USER = 998  # any that is not root: a Debian that was only unpacked has no users yet
START_SECONDS_MAX = 300
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "rpmbuild": "rpm",
    "qemu-arm-static": "qemu-user-static",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "arm-linux-gnueabihf-gcc": "gcc-arm-linux-gnueabihf",
}
QEMU = {"arm64": "qemu-aarch64-static", "armhf": "qemu-arm-static"}
# What the package depends on; python3-* where Python's libraries have no wheels for the machine.
DEPENDS = {
    "arm64": ("python3", "liblmdb0", "libssl3", "libgcc-s1", "zlib1g"),
    "armhf": ("python3", "liblmdb0", "libssl3", "libgcc-s1", "zlib1g", "python3-cffi-backend", "python3-nacl"),
}
CONFIGURATION = """\
listen: 127.0.0.1:4222
jetstream { store_dir: /var/lib/leafd, max_file_store: 10GB, max_memory_store: 1GB }
authorization { users: [ { user: box, password: "%s" } ] }
"""


@dataclass
class Box:
    """A Debian for that kind of machine, with the package in it."""

    architecture: str
    root: Path

    def command(self, *arguments: str) -> list[str]:
        """leafd, by name of the files inside."""
        return ["chroot", f"--userspec={USER}:{USER}", str(self.root), *self.inner(*arguments)]

    def inner(self, *arguments: str) -> list[str]:
        return ["/qemu", "/usr/bin/python3", "-BIS", "/usr/bin/leafd", *arguments]

    @property
    def store(self) -> Path:
        return self.root / "var/lib/leafd/jetstream"


def debian(architecture: str) -> Path:
    """The Debian, kept for the next run."""
    place = CACHE / architecture
    if not place.exists():
        toolchain.unpack_debian(place, architecture, machine.RELEASE, DEPENDS[architecture])
    return place


def unpack(package: Path, root: Path) -> None:
    """The package's files, without its scripts."""
    if package.suffix == ".deb":
        machine.sh("dpkg-deb", "--extract", package, root)
    else:
        rpm = ("rpm", "--root", str(root), "--dbpath", "/var/lib/rpm", "--ignorearch", "--ignoreos")
        machine.sh(*rpm, "--install", "--nodeps", "--noscripts", str(package))


def make(package: Path, architecture: str, root: Path, password: str) -> Box:
    # (Not by copytree, which would read /dev/full to its end: it has none.)
    machine.sh("cp", "-a", "--reflink=auto", debian(architecture), root)
    unpack(package, root)
    shutil.copy(shutil.which(QEMU[architecture]) or "", root / "qemu")
    (root / "etc/leafd/leafd.conf").write_text(CONFIGURATION % password)
    for name in ("proc", "run", "var/lib/leafd"):
        (root / name).mkdir(parents=True, exist_ok=True)
        os.chown(root / name, USER, USER)
    # As the package's scripts do it. A Python of the same version does it for this one, in a hundredth of the time.
    python = f"python{(root / 'usr/bin/python3').readlink().name.removeprefix('python')}"
    if shutil.which(python):
        machine.sh(python, "-I", "-m", "compileall", "-q", root / "usr/lib/leafd/site")
    return Box(architecture, root)


@contextlib.contextmanager
def running(box: Box) -> Iterator[machine.Machine]:
    """The daemon, from when it is ready, in a network of its own; killed at the end if it still runs."""
    notify = box.root / "run" / "notify"
    notify.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(notify))
        notify.chmod(0o666)
        listener.settimeout(START_SECONDS_MAX)
        process = subprocess.Popen(
            [
                "unshare",
                "--net",
                "--mount",
                "--propagation",
                machine.propagation(),
                sys.executable,
                "-c",
                machine.LOOPBACK_UP,
                str(box.root),
                *box.command("-c", "/etc/leafd/leafd.conf"),
            ],
            env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": "/run/notify", "STATE_DIRECTORY": "/var/lib/leafd"},
        )
        try:
            said = ""
            while "READY=1" not in said:
                said += listener.recv(4096).decode() + "\n"
            enter = ["nsenter", "-t", str(process.pid), "-n"]
            yield machine.Machine(box.root, False, enter, enter, process, said)
        finally:
            process.kill()
            process.wait()
            if machine.propagation() == "unchanged":  # then the daemon's /proc may be mounted here, too
                subprocess.run(["umount", "--lazy", box.root / "proc"], capture_output=True)
