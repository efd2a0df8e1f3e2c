"""A job's tables in the format of Delta Lake, instead of files of Parquet: the same rows, keys and windows.

Here: how staged rows enter, windows are read and replaced, a day is made anew and files are merged, each as
transactions of Delta. Not here: what is new, touched or computed, and in which order things happen (`tables`,
`gold`, `rerun`); whether the installed versions fit (`delta_versions`).

    bronze, dead, silver   MERGE that inserts rows whose key is not there; a repetition of a batch, also after its
                           checkpoint was lost, inserts nothing. (Delta's own txnAppId and txnVersion know batches by
                           their numbers, which begin again with a new checkpoint: they would drop rows or take them
                           twice.)
    gold                   MERGE that updates, inserts and deletes the touched windows
    a day made anew        overwrite with replaceWhere: one transaction
    compact                OPTIMIZE, and VACUUM with Delta's retention

A MERGE names the partitions and the bounds of its rows, so that Delta skips all other files. The job's own notes stay
files in `_leafd`, since what they say must be there before a transaction and be gone only after others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions as F

from .admission import SILVER_KEY, SILVER_ORDER, first_of_each, hours_of
from .compaction import Compacted
from .gold import DAYS, HEALTH, HOURS, LAST_SCHEMA, PULSES, Change, Computed
from .ingest import BRONZE, DEAD, Staged, silver_schema
from .job import DAY, Job, Schema
from .partitions import Layout, TableError, check_shape, write_parquet
from .rerun import judged
from .touched import ALL, mark_dirty, note_sources

PLACE_KEY = ["stream", "sequence", "timestamp"]
GOLD_KEYS = {
    HOURS: ["device", "metric", "start"],
    DAYS: ["device", "metric", "start"],
    PULSES: ["device", "start"],
    HEALTH: ["device", "start"],
}
LAST_KEY = ["device", "metric"]
FORMATS = {DAY: "yyyy-MM-dd", "month": "yyyy-MM"}
LOG = "_delta_log"
GONE = "_gone"  # marks rows to delete
ATTEMPTS = 5  # of a transaction that another one, of maintenance, came before
PAUSE = 0.5  # seconds, longer from one to the next


class DeltaLayout(Layout):
    """The places of Delta tables and of the job's own notes: these stand apart, since VACUUM removes files that it does
    not know."""

    def sources(self, name: str, partition: str) -> Path:
        return self.notes / "from" / name / partition

    def shape(self, name: str) -> Path:
        return self.notes / "shapes" / f"{name}.json"


def _micros(value: int) -> str:
    return f"timestamp_micros({value})"


def _values(partitions: Iterable[str]) -> str:
    return ", ".join(f"'{name.partition('=')[2]}'" for name in sorted(set(partitions)))


def _again(work: Callable[[], Any]) -> Any:
    """Do a transaction; once more if another one that came before it was of the same files."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return work()
        except Exception as error:
            if "DELTA_CONCURRENT" not in str(error) or attempt == ATTEMPTS:
                raise
            time.sleep(PAUSE * attempt)
    raise AssertionError


class DeltaStore:
    """The tables of a job; `Store` in store.py says what each function is for."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self._spark = spark
        self._job = job
        self.layout: Layout = DeltaLayout(job.tables)

    def begin(self) -> None:
        """See store.py for this and what follows."""
        for path in (self.layout.bronze, self.layout.dead, *(self.layout.silver(s.name) for s in self._job.schemas)):
            if path.is_dir() and any(path.iterdir()) and not (path / LOG).is_dir():
                raise TableError(f"{path} is no Delta table; give the job of this format a directory of its own")
        for schema in self._job.schemas:
            check_shape(self.layout, schema)

    # -- rows -------------------------------------------------------------

    def admit_places(self, staged: list[Staged]) -> None:
        for kind, path in ((BRONZE, self.layout.bronze), (DEAD, self.layout.dead)):
            some = [each for each in staged if each.kind == kind]
            if some:
                low, high = min(each.low for each in some), max(each.high for each in some)
                within = f"t.sequence between {low} and {high}"
                frame = self._days(self._spark.read.parquet(*(each.path for each in some)), DAY, "timestamp")
                self._insert(path, frame, DAY, PLACE_KEY, {each.partition for each in some}, within)
                _remove(each.path for each in some)

    def admit_observations(self, schema: Schema, parts: dict[str, list[str]]) -> None:
        wanted, paths, low, high = silver_schema(schema), [], [], []
        for partition, files in parts.items():
            table = pa.concat_tables([pq.read_table(path, partitioning=None) for path in files]).cast(wanted)
            rows = first_of_each(table, SILVER_KEY, SILVER_ORDER)
            paths.append(self._aside(rows))
            note_sources(self.layout, schema.name, partition, rows["timestamp"])
            # Before the rows can be seen: whatever happens from here on, their windows are computed.
            mark_dirty(self.layout, schema.name, partition, hours_of(rows["time"]))
            times = rows["time"].cast(pa.int64()).to_numpy()
            low.append(int(times.min()))
            high.append(int(times.max()))
        within = f"t.time between {_micros(min(low))} and {_micros(max(high))}"
        frame = self._days(self._spark.read.parquet(*paths), schema.partition, "time")
        self._insert(self.layout.silver(schema.name), frame, schema.partition, SILVER_KEY, parts, within)
        _remove([*paths, *(path for files in parts.values() for path in files)])

    def _insert(
        self, path: Path, frame: DataFrame, unit: str, key: list[str], partitions: Iterable[str], within: str
    ) -> None:
        """Rows whose key is not there; in one transaction."""
        condition = f"t.{unit} in ({_values(partitions)}) and {within} and " + _equal([unit, *key])

        def work() -> None:
            merge = self._table(path, frame, unit).alias("t").merge(frame.alias("s"), condition)
            merge.withSchemaEvolution().whenNotMatchedInsertAll().execute()

        _again(work)

    # -- windows ----------------------------------------------------------

    def rows(self, schema: Schema, partition: str, ranges: list[tuple[int, int]]) -> int:
        # Windows are noted before the first rows make the table.
        known = self._is_table(self.layout.silver(schema.name))
        return self._within(schema, partition, ranges).count() if known else 0

    def observations(self, schema: Schema, partition: str, ranges: list[tuple[int, int]], columns: list[str]) -> Any:
        wanted = silver_schema(schema)
        kinds = pa.schema([wanted.field(name) for name in columns])
        if not self._is_table(self.layout.silver(schema.name)):
            return kinds.empty_table()
        frame = self._within(schema, partition, ranges)
        for name in set(columns) - set(frame.columns):  # a field that the schema got later
            frame = frame.withColumn(name, F.lit(None).cast("string"))
        return frame.select(columns).toArrow().select(columns).cast(kinds)

    def _within(self, schema: Schema, partition: str, ranges: list[tuple[int, int]]) -> DataFrame:
        either = " or ".join(f"time between {_micros(low)} and {_micros(high)}" for low, high in ranges)
        frame = self._read(self.layout.silver(schema.name))
        return frame.where(f"{schema.partition} in ({_values([partition])}) and ({either})")

    def part(self, schema: str, kind: str, partition: str, shape: Any) -> Any:
        path = self.layout.gold(schema, kind)
        if not self._is_table(path):
            return shape.empty_table()
        unit, _, value = partition.partition("=")
        frame = self._read(path).where(F.col(unit) == value)
        return frame.select(shape.names).toArrow().cast(shape)

    def last(self, schema: str) -> Any:
        path = self.layout.last(schema).parent
        if not self._is_table(path):
            return LAST_SCHEMA.empty_table()
        return self._read(path).select(LAST_SCHEMA.names).toArrow().cast(LAST_SCHEMA)

    def put(self, schema: Schema, computed: list[Computed]) -> None:
        for kind, key in GOLD_KEYS.items():
            changes = [each.changes[kind] for each in computed]
            source = _source(changes, key)
            if source.num_rows:
                frame = self._days(self._frame(source), schema.partition, "start")
                days = [each.unit.partition for each in computed]
                self._replace(self.layout.gold(schema.name, kind), frame, schema.partition, key, days)

    def put_last(self, schema: str, change: Change) -> None:
        source = _source([change], LAST_KEY)
        if source.num_rows:
            self._replace(self.layout.last(schema).parent, self._frame(source), "", LAST_KEY, [])

    def _replace(self, path: Path, frame: DataFrame, unit: str, key: list[str], partitions: list[str]) -> None:
        """Rows as they are now, and those that are no more; in one transaction."""
        names = [name for name in frame.columns if name != GONE]
        condition = _equal([*filter(None, [unit]), *key])
        if unit:
            condition += f" and t.{unit} in ({_values(partitions)})"
        rows = {name: f"s.{name}" for name in names}

        def work() -> None:
            merge = self._table(path, frame.drop(GONE), unit).alias("t").merge(frame.alias("s"), condition)
            merge = merge.whenMatchedDelete(f"s.{GONE}").whenMatchedUpdate(set=rows)
            merge.whenNotMatchedInsert(f"not s.{GONE}", rows).execute()

        _again(work)

    # -- a day anew -------------------------------------------------------

    def bronze_days(self) -> set[str]:
        if not self._is_table(self.layout.bronze):
            return set()
        return {f"{DAY}={row[DAY]}" for row in self._read(self.layout.bronze).select(DAY).distinct().collect()}

    def read_bronze(self, names: list[str]) -> list[Staged]:
        if not names:
            return []
        return judged(self._read(self.layout.bronze).where(f"{DAY} in ({_values(names)})").drop(DAY), self._job)

    def replace_silver(self, schema: Schema, partition: str, tables: list[Any]) -> int:
        for table in tables:
            note_sources(self.layout, schema.name, partition, table["timestamp"])
        mark_dirty(self.layout, schema.name, partition, [ALL])
        paths = [self._aside(table) for table in tables]
        path = self.layout.silver(schema.name)
        self._overwrite(path, paths, schema.partition, "time", partition)
        return sum(table.num_rows for table in tables)

    def replace_dead(self, partition: str, staged: list[Staged]) -> None:
        self._overwrite(self.layout.dead, [each.path for each in staged], DAY, "timestamp", partition)

    def _overwrite(self, path: Path, files: list[str], unit: str, by: str, partition: str) -> None:
        where = f"{unit} in ({_values([partition])})"
        if files:
            frame = self._days(self._spark.read.parquet(*files), unit, by)
            self._table(path, frame, unit)
            writer = frame.write.format("delta").mode("overwrite").option("replaceWhere", where)
            _again(lambda: writer.option("mergeSchema", "true").save(str(path)))
            _remove(files)
        elif self._is_table(path):
            _again(lambda: self._open(path).delete(where))

    # -- maintenance ------------------------------------------------------

    def compact(self) -> Compacted:
        """OPTIMIZE and VACUUM each table."""
        folders = [self.layout.bronze, self.layout.dead]
        for schema in self._job.schemas:
            folders += [self.layout.silver(schema.name), self.layout.last(schema.name).parent]
            folders += [self.layout.gold(schema.name, kind) for kind in GOLD_KEYS]
        changed = before = after = 0
        for path in filter(self._is_table, folders):
            metrics = _again(lambda: self._open(path).optimize().executeCompaction()).first()["metrics"]  # noqa: B023
            self._open(path).vacuum()
            if metrics["numFilesRemoved"]:
                changed += 1
                before += metrics["numFilesRemoved"]
                after += metrics["numFilesAdded"]
        return Compacted(changed, "tables", before, after)

    # -- Delta ------------------------------------------------------------

    def _is_table(self, path: Path) -> bool:
        """Whether a transaction has made it: a crash in the first one leaves a log without one."""
        return any((path / LOG).glob("[0-9]*"))

    def _open(self, path: Path) -> Any:
        from delta.tables import DeltaTable

        return DeltaTable.forPath(self._spark, str(path))

    def _table(self, path: Path, frame: DataFrame, unit: str) -> Any:
        """The table, which is made with the columns of a frame if it isn't there."""
        if not self._is_table(path):
            writer = frame.limit(0).write.format("delta")
            (writer.partitionBy(unit) if unit else writer).save(str(path))
        return self._open(path)

    def _read(self, path: Path) -> DataFrame:
        return self._spark.read.format("delta").load(str(path))

    def _days(self, frame: DataFrame, unit: str, by: str) -> DataFrame:
        return frame.withColumn(unit, F.date_format(by, FORMATS[unit]))

    def _aside(self, table: Any) -> str:
        path = self.layout.aside()
        write_parquet(table, path, durable=False)
        return str(path)

    def _frame(self, table: Any) -> DataFrame:
        return self._spark.read.parquet(self._aside(table))


def _equal(key: list[str]) -> str:
    return " and ".join(f"t.{name} = s.{name}" for name in key)


def _source(changes: list[Change], key: list[str]) -> Any:
    """The rows that there are now, and those of before whose key is no more, marked."""
    found = []
    for change in changes:
        keys = set(zip(*(change.after[name].to_pylist() for name in key), strict=True))
        before = list(zip(*(change.before[name].to_pylist() for name in key), strict=True))
        gone = change.before.filter(pa.array([each not in keys for each in before], pa.bool_()))
        for rows, is_gone in ((change.after, False), (gone, True)):
            found.append(rows.append_column(GONE, pa.array(np.full(rows.num_rows, is_gone))))
    return pa.concat_tables(found)


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)
