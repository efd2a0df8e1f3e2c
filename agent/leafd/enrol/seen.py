"""The time at which each box was last here, over restarts of the hub.

    seen    one line as those of the register (journal.py): [{"seen": {NAME: s, ...}}], written anew as a whole

It is written when the daemon stops, and every now and then before that, so that a kill costs minutes of it. Nothing
depends on it but what people are shown: a file that cannot be read is as one that is not there, and nobody was seen.
Not here: who is linked now (daemon/boxes.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from leafd.enrol.journal import decoded, encoded, put_anew
from leafd.files import read_file

FILE: Final = "seen"
_BYTES_MAX: Final = 16 << 20
"""100,000 boxes whose names are as long as they may be have 8 MB."""


def read(directory: Path) -> dict[str, int]:
    """Seconds since 1970, by name; nothing where there is no file. Blocks. Raises OSError, or ValueError for what is
    none of ours."""
    try:
        data = read_file(directory / FILE, _BYTES_MAX)
    except FileNotFoundError:
        return {}
    records = decoded(data[:-1]) if data.endswith(b"\n") else None
    seen = records[0].get("seen") if records else None
    if not isinstance(seen, dict) or not all(type(one) is int and one >= 0 for one in seen.values()):
        raise ValueError("it is damaged")
    return seen


def write(directory: Path, seen: Mapping[str, int]) -> None:
    """Blocks. Raises OSError."""
    put_anew(directory / FILE, encoded([{"seen": seen}]))
