"""Groups of members of native/raft and of raft-rs: builds the program in mixed/, with cargo and the crates that it
names, and runs it. Members do not change there, and nobody asks for a lease: raft-rs has other rules for both.

    python -m tests.unit.raft.mixed_groups 10000      so many schedules
    python -m tests.unit.raft.mixed_groups 1 77       one, by its seed
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.unit.raft.core import NATIVE, SOURCES

PROGRAM: Final = Path(__file__).parent / "mixed"


def build(folder: Path, *options: str) -> Path:
    """The program, with the core as these options of the C compiler make it. Cargo's folder is LEAFD_CARGO_TARGET where
    that is set, so that the crates are built once."""
    command = f"cc -c -std=c11 -D_GNU_SOURCE -O2 -g -I{NATIVE}".split()
    subprocess.run([*command, *options, *map(str, SOURCES), str(PROGRAM / "shim.c")], cwd=folder, check=True)
    objects = sorted(str(path) for path in folder.glob("*.o"))
    subprocess.run(["ar", "rcs", "libraft.a", *objects], cwd=folder, check=True)
    target = os.environ.get("LEAFD_CARGO_TARGET", str(folder / "target"))
    environment = {**os.environ, "LEAFD_RAFT_LIBRARY": str(folder), "CARGO_TARGET_DIR": target}
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=PROGRAM, env=environment, check=True)
    program = folder / "mixed_groups"
    program.write_bytes((Path(target) / "release" / "mixed").read_bytes())
    program.chmod(0o755)
    return program


def main(count: int, first: int = 1) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([build(Path(folder)), str(first), str(count)]).returncode


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
