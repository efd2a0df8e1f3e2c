"""native/raft for tests in Python: the core as a shared library, and its structs as its header declares them.

Not here: what a member has around it (stage.py), and the core's own tests (tests/native/test_raft*.c).
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import cffi  # type: ignore[import-untyped]

NATIVE: Final = Path(__file__).resolve().parents[3] / "native"
SOURCES: Final = (*sorted((NATIVE / "raft").glob("*.c")), NATIVE / "base" / "check.c", NATIVE / "base" / "crc.c")


class Core:
    """The loaded library: `ffi` makes structs, `lib` has the functions and constants of raft.h."""

    def __init__(self, folder: Path) -> None:
        library = folder / "libraft.so"
        command = f"cc -std=c11 -D_GNU_SOURCE -O1 -g -shared -fPIC -I{NATIVE} -o {library}".split()
        subprocess.run([*command, *map(str, SOURCES)], check=True, capture_output=True)
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(declarations(folder))
        self.lib: Any = self.ffi.dlopen(str(library))


def declarations(folder: Path) -> str:
    """What raft.h declares, preprocessed, without the headers of the language and without bodies."""
    for name in ("stdint.h", "stdbool.h"):
        (folder / name).touch()
    command = f"cc -E -P -nostdinc -I{folder} -I{NATIVE} {NATIVE}/raft/raft.h"
    text = subprocess.run(command.split(), check=True, capture_output=True, text=True).stdout
    text = re.sub(r"static inline[^{]*\{[^}]*\}", "", text)
    # (`from` is a word of Python's.)
    return re.sub(r"\bfrom\b", "sender", re.sub(r"\b(\d+)u\b", r"\1", text))
