"""Runs the daemon over a C extension that was built with AddressSanitizer and UndefinedBehaviorSanitizer.

    meson setup build/hostile -Db_sanitize=address,undefined -Db_lundef=false -Dtests=false -Dextension=true
    ninja -C build/hostile
    python -m tests.hostile --seconds 3600 --sanitized build/hostile

This file is the program that the third line starts in place of `python -m leafd`, with the sanitizers loaded before
Python; what they find ends the daemon, which is a finding of the draw.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests import servers  # noqa: E402


def environment(build: Path) -> dict[str, str]:
    """What the daemon's process needs in its environment."""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    # Python leaves memory to the end of the process, and the sanitizer must not take that for a leak.
    options = {"ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    return options | {"LD_PRELOAD": found.stdout.strip(), "LEAFD_HOSTILE_BUILD": str(build.absolute())}


@contextlib.contextmanager
def preferred(build: Path | None) -> Iterator[None]:
    """While the block runs, a server that tests start is this program. None: it is not."""
    if build is None:
        yield
        return
    before, usual = dict(os.environ), servers.command
    os.environ.update(environment(build))
    servers.command = lambda kind: [sys.executable, __file__] if kind == servers.LEAFD else usual(kind)
    try:
        yield
    finally:
        servers.command = usual
        os.environ.clear()
        os.environ.update(before)


def main() -> int:
    file = next(Path(os.environ["LEAFD_HOSTILE_BUILD"]).glob("_native*.so"))
    spec = importlib.util.spec_from_file_location("leafd._native", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["leafd._native"] = module
    spec.loader.exec_module(module)
    from leafd.__main__ import main as leafd

    return int(leafd() or 0)


if __name__ == "__main__":
    sys.exit(main())
