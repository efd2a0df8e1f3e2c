"""How a job's tables are kept: what every format can do, and files of Parquet, the one that is always there.

Not here: the same with Delta Lake (delta.py), how files of Parquet are named and replaced
(partitions.py), what is new among rows (admission.py), what is computed of them (gold.py).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq

from .admission import admit_by_place, read_spans, settle
from .gold import LAST_SCHEMA, Change, Computed
from .ingest import Staged, silver_schema
from .job import Job, Schema
from .partitions import COMPACT, PART, Layout, TableError, check_shape, put, spans, write_parquet

THREADS = 4  # what they do is done by Arrow, outside Python's lock


class Store(Protocol):
    """Used by the holder of the layout's lock, one call at a time unless it says otherwise."""

    layout: Layout

    def begin(self) -> None:
        """Check that the tables fit the job."""

    def admit_places(self, staged: list[Staged]) -> None:
        """Enters the rows of staged files that bronze or the dead letters do not have yet."""

    def admit_observations(self, schema: Schema, parts: dict[str, list[str]]) -> None:
        """The same for silver: staged files by partition. Touched windows are noted before rows can be seen."""

    def rows(self, schema: Schema, partition: str, ranges: list[tuple[int, int]]) -> int:
        """About how many observations lie within ranges of time. Called by several threads."""

    def observations(self, schema: Schema, partition: str, ranges: list[tuple[int, int]], columns: list[str]) -> Any:
        """The observations of those ranges, or more of the partition. Called by several threads."""

    def part(self, schema: str, kind: str, partition: str, shape: Any) -> Any:
        """A partition of gold, which may not be there yet. Called by several threads."""

    def last(self, schema: str) -> Any:
        """Each device's last values."""

    def put(self, schema: Schema, computed: list[Computed]) -> None:
        """Windows come in the place of those before."""

    def put_last(self, schema: str, change: Change) -> None:
        """Last values come in the place of those before."""


class FileStore:
    """Files of Parquet."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.layout = Layout(job.tables)

    def begin(self) -> None:
        if any(
            path for place in ("bronze", "dead", "silver/*") for path in self.layout.root.glob(f"{place}/_delta_log")
        ):
            raise TableError(f"{self.layout.root} has Delta tables; give the job of this format its own directory")
        for schema in self._job.schemas:
            check_shape(self.layout, schema)
        self.layout.heal(COMPACT)  # a merge that was killed in its middle shows readers its rows twice

    def admit_places(self, staged: list[Staged]) -> None:
        places: dict[tuple[str, str], list[Staged]] = {}
        for each in staged:
            places.setdefault((each.kind, each.partition), []).append(each)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda some: [admit_by_place(self.layout, each) for each in some], places.values()))

    def admit_observations(self, schema: Schema, parts: dict[str, list[str]]) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda part: settle(self.layout, schema, *part), parts.items()))

    def rows(self, schema: Schema, partition: str, ranges: list[tuple[int, int]]) -> int:
        found = spans(self.layout.silver(schema.name) / partition)
        return sum(span.rows for span in found if any(span.overlaps(*each) for each in ranges))

    def observations(self, schema: Schema, partition: str, ranges: list[tuple[int, int]], columns: list[str]) -> Any:
        place = self.layout.silver(schema.name) / partition
        return read_spans(place, "t", ranges, columns, "time", silver_schema(schema))

    def part(self, schema: str, kind: str, partition: str, shape: Any) -> Any:
        return _read(self._part(schema, kind, partition), shape)

    def last(self, schema: str) -> Any:
        return _read(self.layout.last(schema), LAST_SCHEMA)

    def put(self, schema: Schema, computed: list[Computed]) -> None:
        for each in computed:
            # All are written before the first is put in place: what takes long is then done.
            files = [(self._staged(table), kind) for kind, table in each.parts.items()]
            for staged, kind in files:
                put(staged, self._part(schema.name, kind, each.unit.partition))

    def put_last(self, schema: str, change: Change) -> None:
        put(self._staged(change.after), self.layout.last(schema))

    def _part(self, schema: str, kind: str, partition: str) -> Path:
        return self.layout.gold(schema, kind) / partition / PART

    def _staged(self, table: Any) -> Path:
        path = self.layout.aside()
        write_parquet(table, path)
        return path


def _read(path: Path, shape: Any) -> Any:
    try:
        return pq.read_table(path, partitioning=None).cast(shape)
    except FileNotFoundError:
        return shape.empty_table()
