"""Rows as tables for people, as JSON for programs. Not here: what the rows mean (status.py)."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leafd.quoting import printable

_UNITS = ("B", "kB", "MB", "GB", "TB")
GAP: Final = 2
"""Blanks between two columns."""
FOLDED_MIN: Final = 24
"""Narrower than this a folded column is not read any more."""


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
    """A table on standard output. A column whose name begins with ">" holds numbers.

    In a pipe or a file each row is one line, however long. On a screen where that does not fit, the widest column of
    words is folded; where that would leave it less than FOLDED_MIN, each row is a block of lines."""
    # Names come from clients: they are text and no markup, and what would move the cursor is written as an escape.
    cells = [tuple(f"{one:,}" if type(one) is int else printable(str(one)) for one in row) for row in rows]
    names = [name.removeprefix(">") for name in columns]
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    console = Console(highlight=False)
    natural = sum(widths) + GAP * (len(widths) - 1)
    if not sys.stdout.isatty():
        console = Console(highlight=False, width=max(natural, len(title), 1))
    words = [number for number, name in enumerate(columns) if not name.startswith(">")]
    folded = max(words, key=widths.__getitem__) if words and natural > console.width else None
    if folded is not None and widths[folded] - (natural - console.width) < FOLDED_MIN:
        _show_blocks(console, title, names, cells)
        return
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.show_header = any(columns)
    for number, name in enumerate(columns):
        side: Literal["left", "right"] = "right" if name.startswith(">") else "left"
        table.add_column(names[number], justify=side, overflow="fold", no_wrap=number != folded)
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _show_blocks(console: Console, title: str, names: Sequence[str], cells: Iterable[Sequence[str]]) -> None:
    """Each row as its first cell, and a line for each other one that is not empty."""
    if title:
        console.print(Text(title, style="italic"))
    for row in cells:
        console.print(Text(row[0], style="bold"), overflow="fold")
        block = Table(box=None, pad_edge=False, show_header=False, padding=(0, GAP, 0, 0))
        block.add_column(no_wrap=True)
        block.add_column(overflow="fold")
        for name, one in zip(names[1:], row[1:], strict=True):
            if one:
                block.add_row(Text(f"  {name}"), Text(one))
        if block.row_count:
            console.print(block)


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
