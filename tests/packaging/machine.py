"""A clean Debian in a directory, with the package installed and running: booted by systemd-nspawn where the kernel
lets us, else the service's own command in a chroot with a notify socket in systemd's place.

What is promised about the package is in test_package.py; here is only how to get at a machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RELEASE = "bookworm"
BOOT_SECONDS_MAX = 90
# Debian packages that the test itself needs, and the program that shows whether each is there.
LOOPBACK_UP = """
import fcntl, os, socket, struct, subprocess, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1 | 64))  # SIOCSIFFLAGS: up, running
subprocess.run(["mount", "-t", "proc", "proc", sys.argv[1] + "/proc"], check=True)
os.execvp(sys.argv[2], sys.argv[2:])
"""
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "systemd-analyze": "systemd",
    "groff": "groff-base",
    "rpmbuild": "rpm",
}


def sh(*command: str | Path, seconds: float = 600) -> str:
    """Runs a command to its end and returns its output; a failure is an error with that output."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout


def bring_tools(tools: dict[str, str] = TOOLS) -> None:
    """Installs what a test needs, saying so: of each program Debian's package that has it."""
    missing = [package for program, package in tools.items() if shutil.which(program) is None]
    if missing:
        print(f"installing {' '.join(missing)}", file=sys.stderr)
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        sh("apt-get", "-q", "update")
        sh("apt-get", "-q", "install", "-y", "--no-install-recommends", *missing)


def built(directory: Path) -> dict[str, Path]:
    """The packages for this kind of machine, built by the one command: deb and rpm, larger than those of a release."""
    bring_tools()
    command = (sys.executable, ROOT / "packaging" / "build", "--light", "--kind", "deb", "--kind", "rpm", directory)
    made = sh(*command).splitlines()
    return {Path(line).suffix[1:]: Path(line) for line in made}


def make_debian(root: Path) -> None:
    """A minimal Debian with nothing but the package's dependencies and systemd."""
    include = "python3,systemd,liblmdb0,libssl3,libgcc-s1,zlib1g,dbus"
    sh("mmdebstrap", "--variant=minbase", f"--include={include}", RELEASE, root)


def copy_root(debian: Path, root: Path) -> None:
    sh("cp", "-a", "--reflink=auto", debian, root)


def make_root(debian: Path, root: Path, package: Path) -> None:
    """A copy of that Debian, and the package installed in it."""
    copy_root(debian, root)
    shutil.copy(package, root / "tmp" / package.name)
    sh("chroot", root, "dpkg", "--install", f"/tmp/{package.name}")


def newer(package: Path, directory: Path) -> Path:
    """The same package with a higher version."""
    folder = directory / "newer"
    sh("dpkg-deb", "--raw-extract", package, folder)
    control = folder / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: .*", r"\g<0>.1", control.read_text(), flags=re.MULTILINE))
    made = directory / "newer.deb"
    sh("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", folder, made)
    return made


@dataclass
class Machine:
    """A running clean system. `inside` is what to put before a command so that it runs there."""

    root: Path
    booted: bool
    inside: list[str]
    network: list[str]  # the same, but only its network: for programs of this system
    process: subprocess.Popen[bytes] | None = None  # without systemd: the daemon
    notified: str = ""  # without systemd: what it told the notify socket

    @property
    def main(self) -> int:
        """Without systemd: the daemon's process id."""
        assert self.process is not None
        return self.process.pid

    def run(self, *command: str) -> str:
        return sh(*self.inside, *command)

    def show(self, name: str, unit: str = "leafd.service") -> str:
        """A property of the service, as systemd has it."""
        return self.run("systemctl", "show", unit, f"--property={name}", "--value").strip()


def wait_for(condition: str, check: Callable[[], bool], seconds: float) -> None:
    """Returns when the check holds; a check that fails with an AssertionError does not hold yet."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(AssertionError):
            if check():
                return
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds} s: {condition}")


@contextlib.contextmanager
def booted(root: Path) -> Iterator[Machine]:
    """Boots the system; fails with an AssertionError where the kernel does not let us."""
    log = (root.parent / "boot.log").open("w")
    process = subprocess.Popen(
        [
            "systemd-nspawn",
            "-D",
            str(root),
            "--boot",
            "--register=no",
            "--keep-unit",
            "--private-network",
            "--resolv-conf=off",
            "--timezone=off",
            "--console=pipe",
        ],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    machine = Machine(root, True, [], [])

    def running() -> bool:
        said = (root.parent / "boot.log").read_text()
        assert process.poll() is None or process.returncode == 0, said
        if process.poll() is not None:
            raise RuntimeError(f"systemd-nspawn ended: {said[-2000:]}")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if not children:
            return False
        machine.inside = ["nsenter", "-t", children[0], "-m", "-p", "-n", "-i", "-u", "-C"]
        machine.network = ["nsenter", "-t", children[0], "-n"]
        # "degraded" is as good: a minimal system may lack what some other unit wants.
        state = subprocess.run([*machine.inside, "systemctl", "is-system-running"], capture_output=True, text=True)
        return state.stdout.strip() in ("running", "degraded")

    try:
        try:
            wait_for("a booted system", running, BOOT_SECONDS_MAX)
        except RuntimeError as error:
            raise AssertionError(str(error)) from None
        yield machine
    finally:
        if machine.inside and process.poll() is None:
            subprocess.run([*machine.inside, "systemctl", "poweroff"], capture_output=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        if process.poll() is None:
            process.kill()
            process.wait()
        log.close()


def propagation() -> str:
    """How a mount namespace of our own is to be made: where we are in a plain chroot ourselves, "/" is no mount point
    whose mounts could be kept private."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return "private" if any(line.split()[4] == "/" for line in mounts) else "unchanged"


@contextlib.contextmanager
def bare(root: Path) -> Iterator[Machine]:
    """The service's command in a chroot as its user, in a network of its own, with us in systemd's place."""
    sh("chroot", root, "install", "-d", "-o", "leafd", "-g", "leafd", "-m", "0750", "/var/lib/leafd")
    notify = root / "run" / "notify"
    with contextlib.suppress(FileNotFoundError):
        notify.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(notify))
        notify.chmod(0o666)
        listener.settimeout(BOOT_SECONDS_MAX)
        process = subprocess.Popen(
            # (Python, because a minimal machine has no program that brings the loopback interface up.)
            [
                "unshare",
                "--net",
                "--mount",
                "--propagation",
                propagation(),
                sys.executable,
                "-c",
                LOOPBACK_UP,
                str(root),
                "chroot",
                "--userspec=leafd:leafd",
                str(root),
                "/usr/bin/leafd",
                "-c",
                "/etc/leafd/leafd.conf",
            ],
            env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": "/run/notify", "STATE_DIRECTORY": "/var/lib/leafd"},
        )
        try:
            said = ""
            while "READY=1" not in said:
                said += listener.recv(4096).decode() + "\n"
            enter = ["nsenter", "-t", str(process.pid)]
            yield Machine(root, False, [*enter, "-n", "chroot", str(root)], [*enter, "-n"], process, said)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            if propagation() == "unchanged":  # then the daemon's /proc may be mounted here, too
                subprocess.run(["umount", "--lazy", root / "proc"], capture_output=True)


@contextlib.contextmanager
def machine(root: Path) -> Iterator[Machine]:
    """A booted system, or what comes nearest to it here, with the reason printed."""
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(booted(root))
        except AssertionError as reason:
            print(f"systemd does not boot here, so the daemon runs without it: {reason}", file=sys.stderr)
            made = stack.enter_context(bare(root))
        yield made
