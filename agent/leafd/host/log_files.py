"""Rotation of the log's file: when it is large it is renamed, and the oldest of these are removed.

    leafd.log --> leafd.log.2026.11.21.05.11.40.123456789

Loaded only where the size of the file is limited. Not here: lines (log.py); rotation by others, after
which --signal reopen opens the file anew.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

_STAMP: Final = re.compile(r"\d{4}(\.\d\d){5}\.\d{1,9}")


def set_aside(path: str) -> str:
    """Renames the file; its new name. Raises OSError."""
    now_ns = time.time_ns()
    stamp = time.strftime("%Y.%m.%d.%H.%M.%S", time.localtime(now_ns // 1_000_000_000))
    name = f"{path}.{stamp}.{now_ns % 1_000_000_000:09d}"
    Path(path).rename(name)
    return name


def purge(path: str, most: int) -> list[str]:
    """Leaves so many files of the log in all, that in use included; the names of those removed. Raises OSError."""
    log = Path(path)
    aside = sorted(
        one for one in log.parent.glob(f"{log.name}.*") if _STAMP.fullmatch(one.name.removeprefix(f"{log.name}."))
    )
    surplus = aside[: max(len(aside) - (most - 1), 0)]
    for one in surplus:
        one.unlink(missing_ok=True)
    return [one.name for one in surplus]
