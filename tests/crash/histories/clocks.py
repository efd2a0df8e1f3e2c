"""The wall clocks of servers, which step: how a server is started so that it reads one.

A clock is a file of 8 bytes: by how many nanoseconds it is ahead of this machine's. leafd reads it through a library
that is loaded before others (clock_preload.c). A program in Go asks the kernel without a library. So nats-server is
built anew, of its module and a standard library whose Now() adds what the file has; nothing else of it is changed. Not
here: when clocks step (cluster.py).
"""

from __future__ import annotations

import json
import mmap
import os
import shlex
import struct
import subprocess
from pathlib import Path
from typing import Final

from tests import servers

VARIABLE: Final = "LEAFD_CLOCK"
MODULE: Final = "github.com/nats-io/nats-server/v2"
READ: Final = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
ADDED: Final = """
var aheadNs = mappedAhead()

func mappedAhead() *int64 {
	path, found := syscall.Getenv("LEAFD_CLOCK")
	if !found {
		return new(int64)
	}
	file, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		panic("the clock is not there")
	}
	mapped, err := syscall.Mmap(file, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("the clock cannot be mapped")
	}
	return (*int64)(unsafe.Pointer(&mapped[0]))
}
"""
"""Steps are of whole seconds."""


class Clock:
    """One server's wall clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), 8)

    def step_to(self, ahead_s: int) -> None:
        """It is ahead of this machine's by so much from now on; behind it, if that is negative."""
        self._mapped[:] = struct.pack("q", ahead_s * 1_000_000_000)


def built(kind: str, folder: Path) -> Path:
    """What servers of that kind need to read clocks. Raises CalledProcessError."""
    made = folder / ("clock.so" if kind == servers.LEAFD else "clocked/nats-server")
    if not made.exists():
        (_library if kind == servers.LEAFD else _reference)(made)
    return made


def before(kind: str, needed: Path, clock: Clock) -> list[str]:
    """The words before a server's command, so that it reads that clock."""
    if kind == servers.LEAFD:
        return ["env", f"LD_PRELOAD={needed}", f"{VARIABLE}={clock.path}"]
    instead = f'shift; exec {shlex.quote(str(needed))} "$@"'  # the program's name is the first of the words
    return ["env", f"{VARIABLE}={clock.path}", "sh", "-c", instead, "sh"]


def _library(made: Path) -> None:
    source = Path(__file__).with_name("clock_preload.c")
    line = ["cc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-o", str(made), str(source), "-ldl"]
    subprocess.run(line, check=True)


def _reference(made: Path) -> None:
    """nats-server of the version that the tests ask, with such a clock."""
    asked = subprocess.run([*servers.command(servers.REFERENCE), "-v"], capture_output=True, text=True, check=True)
    version = asked.stdout.split()[-1]
    place = made.parent
    place.mkdir(exist_ok=True)
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True, cwd=place)
    original = Path(root.stdout.strip()) / "src/time/time.go"
    text = original.read_text()
    assert text.count(READ) == 1, f"another Go than was known: {original}"
    text = text.replace(READ, f"{READ}\tsec += *aheadNs / 1e9\n") + ADDED
    text = text.replace("import (", 'import (\n\t"syscall"', 1).replace('_ "unsafe"', '"unsafe"', 1)
    (place / "time.go").write_text(text)
    (place / "overlay.json").write_text(json.dumps({"Replace": {str(original): str(place / "time.go")}}))
    line = ["go", "install", f"-overlay={place / 'overlay.json'}", f"{MODULE}@{version}"]
    subprocess.run(line, check=True, cwd=place, env={**os.environ, "GOBIN": str(place), "GOFLAGS": "-mod=mod"})
