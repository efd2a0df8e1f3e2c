"""A day made anew: silver and dead letters from bronze, by the job's schemas as they are now; windows from silver.

For a change of a schema, and for proof: without one, a day made anew is what it was. Bronze is only read.

Of silver the partition that holds the day is replaced. Its rows come from the days of bronze that it had rows from, and
from the neighbours of the day. What else is found in these (rows of other days, which an older schema refused) is added
where it belongs, and the dead letters of these days are replaced.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from .admission import SILVER_KEY, SILVER_ORDER, first_of_each, settle
from .ingest import DEAD, REPORT, SILVER, Plan, Staged, ingest, silver_schema
from .job import DAY, Job, Schema
from .partitions import (
    US_HOUR,
    Layout,
    TableError,
    partition_of,
    safe_name,
    span_name,
    spans,
    write_parquet,
)
from .touched import ALL, mark_dirty, note_sources, sources_of

ROWS_AT_ONCE = 2_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def microseconds_of(day: date) -> int:
    return (datetime(day.year, day.month, day.day, tzinfo=UTC) - EPOCH) // MICROSECOND


def sources(layout: Layout, schema: Schema, day: date) -> list[str]:
    """The partitions of bronze to read; a TableError if one is gone."""
    partition = partition_of(schema.partition, microseconds_of(day))
    noted = sources_of(layout, schema.name, partition)
    gone = sorted(name for name in noted if not (layout.bronze / name).is_dir())
    if gone:
        raise TableError(
            f"silver {schema.name} {partition} has rows from bronze {', '.join(gone)}, which is gone: "
            "made anew it would lose them. Nothing was changed."
        )
    near = {partition_of(DAY, microseconds_of(day + timedelta(days=n))) for n in (-1, 0, 1)}
    return sorted(noted | {name for name in near if (layout.bronze / name).is_dir()})


def replace_silver(layout: Layout, schema: Schema, partition: str, staged: list[Staged]) -> int:
    """A partition of silver becomes what was staged for it; the number of its rows."""
    place = layout.silver(schema.name) / partition
    gone = [span.path for span in spans(place)]
    come, total = [], 0
    for table in _in_pieces(schema, staged):
        path = layout.aside()
        write_parquet(table, path)
        bounds = pc.min_max(table["time"].cast(pa.int64())).as_py()
        come.append((path, place / span_name("t", bounds["min"], bounds["max"], table.num_rows)))
        note_sources(layout, schema.name, partition, table["timestamp"])
        total += table.num_rows
    mark_dirty(layout, schema.name, partition, [ALL])
    layout.replace(gone, come)
    return total


def _in_pieces(schema: Schema, staged: list[Staged]) -> list[Any]:
    """The observations of some files, each once, in tables that follow each other in time."""
    if not staged:
        return []
    low, high = min(each.low for each in staged) // US_HOUR, max(each.high for each in staged) // US_HOUR + 1
    count = sum(each.rows for each in staged) // ROWS_AT_ONCE + 1
    edges = np.unique(np.linspace(low, high, count + 1).astype(np.int64)) * US_HOUR
    wanted = silver_schema(schema)
    kind = wanted.field("time").type
    found = []
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        low, high = (pa.scalar(edge, pa.int64()).cast(kind) for edge in (begin, end))
        within = [("time", ">=", low), ("time", "<", high)]
        tables = [pq.read_table(each.path, filters=within, partitioning=None).cast(wanted) for each in staged]
        table = first_of_each(pa.concat_tables(tables), SILVER_KEY, SILVER_ORDER)
        if table.num_rows:
            found.append(table)
    return found


def replace_dead(layout: Layout, partition: str, staged: list[Staged]) -> None:
    """The dead letters of a day become what was staged for them."""
    place = layout.dead / partition
    come = [
        (Path(each.path), place / span_name(safe_name(each.tag), each.low, each.high, each.rows)) for each in staged
    ]
    gone = [span.path for span in spans(place)]
    if gone or come:
        layout.replace(gone, come)


def read_bronze(spark: SparkSession, job: Job, names: list[str]) -> list[Staged]:
    """The messages of some days of bronze, judged by Spark's tasks."""
    layout = Layout(job.tables)
    plan = Plan(job.tables, job.schemas, bronze=False)
    paths = [str(span.path) for name in names for span in spans(layout.bronze / name)]
    if not paths:
        return []
    report = spark.read.parquet(*paths).mapInArrow(partial(ingest, plan), REPORT).collect()
    return [Staged(**row.asDict()) for row in report]


def rerun(spark: SparkSession, job: Job, day: date) -> dict[str, int]:
    """Make a day anew; the rows that each table of silver has in its partition then. The caller refreshes windows."""
    layout = Layout(job.tables)
    targets = {s.name: partition_of(s.partition, microseconds_of(day)) for s in job.schemas}
    names = sorted({name for schema in job.schemas for name in sources(layout, schema, day)})
    staged = read_bronze(spark, job, names)
    dead: dict[str, list[Staged]] = defaultdict(list)
    wanted: dict[str, list[Staged]] = defaultdict(list)
    others: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in staged:
        if each.kind == DEAD:
            dead[each.partition].append(each)
        elif each.kind == SILVER and each.partition == targets[each.schema]:
            wanted[each.schema].append(each)
        elif each.kind == SILVER:
            others[each.schema, each.partition].append(each.path)
    found = {s.name: replace_silver(layout, s, targets[s.name], wanted[s.name]) for s in job.schemas}
    for (name, partition), paths in others.items():
        settle(layout, job.schema(name), partition, paths)
    # Last: a message leaves the dead letters when it is in silver.
    for name in names:
        replace_dead(layout, name, dead[name])
    return found
