"""Few large files instead of many small ones: a step of its own, by hand or by a timer, also while the job runs.

Small files that follow each other are merged into one of at most ROWS_MAX rows, in the order of their bounds. A merge
is an intent (partitions.py): carried out whole, or not at all. The running job adds files and never changes one, so the
two don't meet; a reader of the job that finds a file gone lists the partition again. Other readers may see the rows of
a merge twice for the moment between two system calls, never less.

Gold has nothing to merge: a partition there is one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .admission import PLACE_KEY, SILVER_KEY, SILVER_ORDER, first_of_each
from .job import Job
from .partitions import COMPACT, Layout, Span, span_name, spans, write_parquet

ROWS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Kind:
    """How the rows of a table are told from each other, ordered and searched."""

    key: list[str]
    order: list[str]
    by: str


PLACES = Kind(PLACE_KEY, PLACE_KEY, "sequence")
OBSERVATIONS = Kind(SILVER_KEY, SILVER_ORDER, "time")


@dataclass(frozen=True, slots=True)
class Compacted:
    """The places whose files became fewer."""

    places: int
    kind: str  # of place: partitions, tables
    files_before: int
    files_after: int


def groups(found: list[Span], rows_max: int = ROWS_MAX) -> list[list[Span]]:
    """Small files that follow each other, by as many as make a large one; what would stay as it is is left out."""
    result: list[list[Span]] = []
    for tag in sorted({span.tag for span in found}):
        group: list[Span] = []
        for span in (each for each in found if each.tag == tag and each.rows <= rows_max // 2):
            if sum(each.rows for each in group) + span.rows > rows_max:
                result.append(group)
                group = []
            group.append(span)
        result.append(group)
    return [group for group in result if len(group) > 1]


def merged(files: list[Path], kind: Kind) -> Any:
    """The rows of some files, in order and each once; a field that one does not have yet is null there."""
    tables = [pq.read_table(path, partitioning=None) for path in files]
    return first_of_each(pa.concat_tables(tables, promote_options="default"), kind.key, kind.order)


def compact_partition(layout: Layout, partition: Path, kind: Kind, rows_max: int = ROWS_MAX) -> tuple[int, int]:
    """The number of a partition's files before and after."""
    found = spans(partition)
    count = len(found)
    for group in groups(found, rows_max):
        table = merged([span.path for span in group], kind)
        staged = layout.aside()
        write_parquet(table, staged)
        bounds = pc.min_max(table[kind.by].cast(pa.int64())).as_py()
        name = span_name(group[0].tag, bounds["min"], bounds["max"], table.num_rows)
        layout.replace([span.path for span in group], [(staged, partition / name)])
        count += 1 - len(group)
    return len(found), count


def partitions_of(table: Path) -> list[Path]:
    """All partitions of a table; this is the one place that lists them."""
    if not table.is_dir():
        return []
    return sorted(path for path in table.iterdir() if "=" in path.name and path.name[0] not in "_.")


def compact(job: Job, rows_max: int = ROWS_MAX) -> Compacted:
    """Merge what is small, in all tables of a job."""
    layout = Layout(job.tables, COMPACT)
    tables: Iterator[tuple[Path, Kind]] = iter(
        [(layout.bronze, PLACES), (layout.dead, PLACES), *((layout.silver(s.name), OBSERVATIONS) for s in job.schemas)]
    )
    with layout.locked():
        counts = [
            compact_partition(layout, partition, kind, rows_max)
            for table, kind in tables
            for partition in partitions_of(table)
        ]
    touched = [(before, after) for before, after in counts if before != after]
    return Compacted(
        len(touched), "partitions", sum(before for before, _ in touched), sum(after for _, after in touched)
    )
