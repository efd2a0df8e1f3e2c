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
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from .admission import SILVER_KEY, SILVER_ORDER, first_of_each
from .compaction import partitions_of
from .ingest import DEAD, REPORT, SILVER, Plan, Staged, ingest, silver_schema
from .job import DAY, Job, Schema
from .partitions import (
    US_HOUR,
    TableError,
    partition_of,
    safe_name,
    span_name,
    spans,
    write_parquet,
)
from .store import FileStore, Store
from .touched import ALL, mark_dirty, note_sources, sources_of

ROWS_AT_ONCE = 2_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def microseconds_of(day: date) -> int:
    return (datetime(day.year, day.month, day.day, tzinfo=UTC) - EPOCH) // MICROSECOND


class Days(Store, Protocol):
    """A store, and what it does with whole days."""

    def bronze_days(self) -> set[str]:
        """The partitions that bronze has."""

    def read_bronze(self, names: list[str]) -> list[Staged]:
        """The messages of some days of bronze, judged by Spark's tasks."""

    def replace_silver(self, schema: Schema, partition: str, tables: list[Any]) -> int:
        """A partition of silver becomes these rows; how many they are."""

    def replace_dead(self, partition: str, staged: list[Staged]) -> None:
        """The dead letters of a day become what was staged for them."""


def sources(days: Days, there: set[str], schema: Schema, day: date) -> list[str]:
    """The partitions of bronze to read; a TableError if one is gone."""
    partition = partition_of(schema.partition, microseconds_of(day))
    noted = sources_of(days.layout, schema.name, partition)
    gone = sorted(noted - there)
    if gone:
        raise TableError(
            f"silver {schema.name} {partition} has rows from bronze {', '.join(gone)}, which is gone: "
            "made anew it would lose them. Nothing was changed."
        )
    near = {partition_of(DAY, microseconds_of(day + timedelta(days=n))) for n in (-1, 0, 1)}
    return sorted(noted | (near & there))


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


class FileDays(FileStore):
    """Files of Parquet."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        super().__init__(job)
        self._spark = spark

    def bronze_days(self) -> set[str]:
        return {path.name for path in partitions_of(self.layout.bronze)}

    def read_bronze(self, names: list[str]) -> list[Staged]:
        paths = [str(span.path) for name in names for span in spans(self.layout.bronze / name)]
        return judged(self._spark.read.parquet(*paths), self._job) if paths else []

    def replace_silver(self, schema: Schema, partition: str, tables: list[Any]) -> int:
        place = self.layout.silver(schema.name) / partition
        gone = [span.path for span in spans(place)]
        come, total = [], 0
        for table in tables:
            path = self.layout.aside()
            write_parquet(table, path)
            bounds = pc.min_max(table["time"].cast(pa.int64())).as_py()
            come.append((path, place / span_name("t", bounds["min"], bounds["max"], table.num_rows)))
            note_sources(self.layout, schema.name, partition, table["timestamp"])
            total += table.num_rows
        mark_dirty(self.layout, schema.name, partition, [ALL])
        self.layout.replace(gone, come)
        return total

    def replace_dead(self, partition: str, staged: list[Staged]) -> None:
        place = self.layout.dead / partition
        come = [
            (Path(each.path), place / span_name(safe_name(each.tag), each.low, each.high, each.rows)) for each in staged
        ]
        gone = [span.path for span in spans(place)]
        if gone or come:
            self.layout.replace(gone, come)


def judged(messages: DataFrame, job: Job) -> list[Staged]:
    """Messages of bronze, by the job's schemas as they are now."""
    plan = Plan(job.tables, job.schemas, bronze=False)
    report = messages.mapInArrow(partial(ingest, plan), REPORT).collect()
    return [Staged(**row.asDict()) for row in report]


def rerun(days: Days, job: Job, day: date) -> dict[str, int]:
    """Make a day anew; the rows that each table of silver has in its partition then. The caller refreshes windows."""
    there = days.bronze_days()
    targets = {s.name: partition_of(s.partition, microseconds_of(day)) for s in job.schemas}
    names = sorted({name for schema in job.schemas for name in sources(days, there, schema, day)})
    staged = days.read_bronze(names)
    dead: dict[str, list[Staged]] = defaultdict(list)
    wanted: dict[str, list[Staged]] = defaultdict(list)
    others: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in staged:
        if each.kind == DEAD:
            dead[each.partition].append(each)
        elif each.kind == SILVER and each.partition == targets[each.schema]:
            wanted[each.schema].append(each)
        elif each.kind == SILVER:
            others[each.schema][each.partition].append(each.path)
    found = {s.name: days.replace_silver(s, targets[s.name], _in_pieces(s, wanted[s.name])) for s in job.schemas}
    for name, parts in others.items():
        days.admit_observations(job.schema(name), parts)
    # Last: a message leaves the dead letters when it is in silver.
    for name in names:
        days.replace_dead(name, dead[name])
    return found
