"""python -m tests.hostile --seconds 3600 [--seed N]: hostile input for as long as wanted; findings as they come, and as
the last line "N passed, N failed"."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from tests.hostile.draw import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--sanitized", type=Path, default=None, help="build directory, see tests/hostile/sanitized.py")
    arguments = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    passed, failed = run(arguments.seconds, seed, lambda text: print(text, flush=True), arguments.sanitized)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
