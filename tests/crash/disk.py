"""A small ext4 file system of its own, in a file on a loop device, for tests that cut its power or fill it.

Needs root and loop devices. A scenario on it runs as a program of its own in a private mount namespace
(in_namespace), so that nothing stays mounted whatever happens; in a plain chroot, too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.machine import propagation
from tests.servers import LEAFD, Server, make

NOT_TO_BE_HAD = 77  # a scenario's exit status when there are no loop devices
_FREEZE, _THAW = 0xC0045877, 0xC0045878  # FIFREEZE and FITHAW of the kernel
TOOLS = ("mkfs.ext4", "mount", "umount", "unshare")


class Disk:
    """An ext4 in a file, mounted or not."""

    def __init__(self, directory: Path, size: int = 512 << 20, inodes: int = 0) -> None:
        self.image = directory / "disk"
        self.mounted = directory / "mounted"
        self.mounted.mkdir()
        with self.image.open("wb") as file:
            file.truncate(size)
        names = ["-N", str(inodes)] if inodes else []
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", *names, str(self.image)], check=True)

    def mount(self, options: str = "loop") -> bool:
        command = ["mount", "-t", "ext4", "-o", options, str(self.image), str(self.mounted)]
        return subprocess.run(command).returncode == 0

    def abort(self) -> None:
        """What ext4 does by itself when the disk below it fails: nothing can be written until it is mounted anew."""
        subprocess.run(["mount", "-o", "remount,abort", str(self.mounted)], check=True)

    def freeze(self) -> None:
        """Who writes waits, as at a disk that does not answer. What is read goes on."""
        self._ordered(_FREEZE)

    def thaw(self) -> None:
        """The end of that."""
        self._ordered(_THAW)

    def _ordered(self, order: int) -> None:
        folder = os.open(self.mounted, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, order, 0)
        finally:
            os.close(folder)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.mounted)], check=True)

    def free(self) -> int:
        """Bytes that anybody may still take."""
        state = os.statvfs(self.mounted)
        return state.f_bavail * state.f_frsize


def play_on(disk: Disk, configuration: str, play: Callable[[Server, Disk], None]) -> int:
    """A scenario with a daemon that has its store on the disk, up to its clean end. Returns the exit status."""
    if not disk.mount():
        return NOT_TO_BE_HAD
    server = make(LEAFD, configuration, disk.mounted.parent, store=disk.mounted / "store")
    server.start()
    try:
        play(server, disk)
        assert server.stop() == 0
    finally:
        server.kill()  # after a failure it would keep the disk mounted
        print(server.log[-3000:], flush=True)
    disk.unmount()
    return 0


def in_namespace(module: str, *arguments: str) -> None:
    """Runs `python -m module arguments directory` in its own mount namespace; skips the test where there is none."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"needs root and {', '.join(missing or TOOLS)}")
    with tempfile.TemporaryDirectory(prefix="leafd-disk-") as directory:
        unshare = ["unshare", "--mount", "--propagation", propagation()]
        command = [*unshare, sys.executable, "-m", module, *arguments, directory]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2])
        finally:
            if propagation() == "unchanged":  # then what a failed scenario left mounted may be mounted here, too
                subprocess.run(["umount", "--lazy", f"{directory}/mounted"], capture_output=True)
    if done.returncode == NOT_TO_BE_HAD:
        pytest.skip(f"no ext4 on a loop device here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
