"""Rows as tables for people, as JSON for programs. What does not live here: what the rows mean (status.py)."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from leafd.quoting import printable

_UNITS = ("B", "kB", "MB", "GB", "TB")


def size(count: float) -> str:
    """Bytes in the unit in which they have at most three digits before the point."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"


def ago(seconds: float | None) -> str:
    """A time that has passed; None: it never was."""
    if seconds is None:
        return "never"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "now"


def lasting(seconds: float) -> str:
    """How long something takes, or has taken."""
    return "0 s" if seconds < 0.5 else ago(max(seconds, 1.0))


def when(ts: int) -> str:
    """Nanoseconds since 1970, in UTC to the second."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ts // 1_000_000_000))
    except (OverflowError, ValueError, OSError):
        return "-"


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on standard output. A column whose name begins with ">" holds numbers."""
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.show_header = any(columns)
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    for row in rows:
        # Names come from clients: they are text and no markup, and what would move the cursor is written as an escape.
        table.add_row(*(Text(f"{one:,}" if type(one) is int else printable(str(one))) for one in row))
    Console(highlight=False).print(table)


def say(line: str) -> None:
    """A line on standard output."""
    Console(highlight=False, markup=False, soft_wrap=True).print(printable(line))


def as_json(found: Any) -> None:
    """A row, or rows, as one JSON document."""
    json.dump(found, sys.stdout, default=_members, indent=2)
    sys.stdout.write("\n")


def _members(found: Any) -> Any:
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        return {one.name: getattr(found, one.name) for one in dataclasses.fields(found)}
    raise TypeError(type(found).__name__)
