"""Notes beside the tables: which windows must be computed anew, and which days of bronze a partition came from.

A note is an empty file whose name says it all. One about windows is made before the rows that touch them can be seen,
and removed after the windows are in place. So a crash in between costs computing them twice, never not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .job import DAY
from .partitions import US_DAY, Layout, make_directory, partition_of, sync

ALL = "all"


@dataclass
class Touched:
    """The hours of one partition that have to be computed anew."""

    schema: str
    partition: str
    hours: set[int] = field(default_factory=set)  # since 1970
    whole: bool = False  # all of its hours, also those that have no rows any more
    notes: list[Path] = field(default_factory=list)


def mark_dirty(layout: Layout, schema: str, partition: str, hours: Iterable[int | str]) -> None:
    """Note windows by their hours, or ALL of a partition. A note that is there already stays the only one."""
    make_directory(layout.dirty)
    new = [path for hour in hours if not (path := layout.dirty / f"{schema}.{partition}.{hour}").exists()]
    for path in new:
        path.touch()
    if new:
        sync(layout.dirty)


def touched(layout: Layout) -> list[Touched]:
    """All that is noted, oldest partition first."""
    found: dict[tuple[str, str], Touched] = {}
    for path in layout.dirty.iterdir() if layout.dirty.is_dir() else ():
        schema, partition, hour = path.name.split(".")
        one = found.setdefault((partition, schema), Touched(schema, partition))
        one.notes.append(path)
        if hour == ALL:
            one.whole = True
        else:
            one.hours.add(int(hour))
    return [found[key] for key in sorted(found)]


def settled(one: Touched) -> None:
    """Notes that the partition's windows are in place."""
    for path in one.notes:
        path.unlink(missing_ok=True)


def note_sources(layout: Layout, schema: str, partition: str, stored: Any) -> None:
    """A partition of silver has rows that the stream stored at these times."""
    days = np.unique(stored.cast(pa.int64()).to_numpy() // US_DAY).tolist()
    folder = layout.sources(schema, partition)
    make_directory(folder)
    new = [path for day in days if not (path := folder / partition_of(DAY, day * US_DAY)).exists()]
    for path in new:
        path.touch()
    if new:
        sync(folder)


def sources_of(layout: Layout, schema: str, partition: str) -> set[str]:
    """The partitions of bronze that a partition of silver has rows from."""
    folder = layout.sources(schema, partition)
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def by_schema(units: list[Touched]) -> dict[str, list[Touched]]:
    found: dict[str, list[Touched]] = defaultdict(list)
    for one in units:
        found[one.schema].append(one)
    return found
