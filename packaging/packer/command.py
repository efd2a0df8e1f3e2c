"""Running the programs that the build needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from packer.declaration import ROOT


def fail(words: str) -> NoReturn:
    sys.exit(f"packaging/{Path(sys.argv[0]).name}: {words}")


def say(words: str) -> None:
    """Says what is done now, for whoever waits at a terminal: some steps take minutes."""
    if sys.stderr.isatty():
        print(f"packaging/{Path(sys.argv[0]).name}: {words}", file=sys.stderr, flush=True)


def run(*command: str | Path, **environment: str) -> str:
    """Runs a command and returns its output; on failure shows what it said and ends."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def need(programs: dict[str, str]) -> None:
    """Ends with the line that brings what is missing: of each program, Debian's package that has it."""
    missing = {package for program, package in programs.items() if shutil.which(program) is None}
    if missing:
        fail(f"programs are missing: apt-get install {' '.join(sorted(missing))}")
