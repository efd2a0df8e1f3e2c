"""On the driver: staged rows that the tables don't have yet enter them.

What decides is a row's key, never a batch's number: a batch that runs again, a checkpoint that was lost, a message
that was published twice add nothing twice. Only the touched partitions are looked at, and of these only files whose
names say that they may hold one of the keys; so the work follows the batch and not the history.

    bronze, dead    (stream, sequence, timestamp): where the stream keeps the message. The time tells the messages of a
                    stream from those of another that was made anew under its name and counts from 1 again.
    silver          (device, time, message id): two devices that use the same id both count, a repetition does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .ingest import BRONZE, Staged, silver_schema
from .job import Schema
from .partitions import US_HOUR, Layout, Span, put, safe_name, span_name, spans, write_parquet
from .touched import mark_dirty, note_sources

PLACE_KEY = ["sequence", "timestamp"]
SILVER_KEY = ["device", "time", "message_id"]
SILVER_ORDER = ["time", "device", "message_id", "timestamp", "stream", "sequence"]
ATTEMPTS = 5  # to read files while compaction replaces them


def read_spans(
    partition: Path, tag: str, ranges: list[tuple[int, int]], columns: list[str], by: str, schema: Any
) -> Any:
    """Columns of a partition's rows within some ranges (both ends included) of the column `by`."""
    for attempt in range(ATTEMPTS):
        found = [s for s in spans(partition) if s.tag == tag and any(s.overlaps(*each) for each in ranges)]
        try:
            return _read(found, ranges, columns, by, schema)
        except FileNotFoundError:  # compaction has replaced it: look again
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def _read(found: list[Span], ranges: list[tuple[int, int]], columns: list[str], by: str, schema: Any) -> Any:
    wanted = pa.schema([schema.field(name) for name in columns])
    kind = schema.field(by).type
    tables = []
    for span in found:
        within = [
            [(by, ">=", pa.scalar(low, pa.int64()).cast(kind)), (by, "<=", pa.scalar(high, pa.int64()).cast(kind))]
            for low, high in ranges
            if span.overlaps(low, high)
        ]
        have = set(pq.read_schema(span.path).names)
        table = pq.read_table(span.path, columns=[n for n in columns if n in have], filters=within, partitioning=None)
        for name in columns:
            if name not in have:  # a field that the schema got later
                table = table.append_column(wanted.field(name), pa.nulls(table.num_rows, wanted.field(name).type))
        tables.append(table.select(columns).cast(wanted))
    return pa.concat_tables(tables) if tables else wanted.empty_table()


def without(rows: Any, existing: Any, key: list[str]) -> Any:
    """The rows whose key is not among the existing ones."""
    if not existing.num_rows or not rows.num_rows:
        return rows
    marked = existing.select(key).append_column("_known", pa.array(np.ones(existing.num_rows, bool)))
    marked = marked.group_by(key, use_threads=False).aggregate([("_known", "any")])
    numbered = rows.select(key).append_column("_row", pa.array(np.arange(rows.num_rows)))
    joined = numbered.join(marked, keys=key, join_type="left anti", use_threads=False)
    return rows.take(pa.array(np.sort(joined["_row"].to_numpy())))


def admit_by_place(layout: Layout, staged: Staged) -> int:
    """A file of bronze or dead letters takes its place; the number of rows that are new."""
    partition = (layout.bronze if staged.kind == BRONZE else layout.dead) / staged.partition
    path, rows = Path(staged.path), staged.rows
    tag = safe_name(staged.tag)
    low, high = staged.low, staged.high
    if any(span.tag == tag and span.overlaps(low, high) for span in spans(partition)):
        table = pq.read_table(path, partitioning=None)
        existing = read_spans(partition, tag, [(low, high)], PLACE_KEY, "sequence", table.schema)
        table = without(table, existing, PLACE_KEY)
        path.unlink()
        if not table.num_rows:
            return 0
        path = layout.aside()
        write_parquet(table, path)
        bounds = pc.min_max(table["sequence"]).as_py()
        low, high, rows = bounds["min"], bounds["max"], table.num_rows
    put(path, partition / span_name(tag, low, high, rows))
    return rows


def first_of_each(table: Any, key: list[str], order: list[str]) -> Any:
    """The rows in an order that depends on nothing else, of each key the first."""
    table = table.sort_by([(name, "ascending") for name in order])
    if table.num_rows < 2:
        return table
    same = np.ones(table.num_rows - 1, bool)
    for name in key:
        column = table[name].combine_chunks()
        same &= pc.fill_null(pc.equal(column[1:], column[:-1]), False).to_numpy(zero_copy_only=False)
    return table if not same.any() else table.filter(pa.array(np.concatenate([[True], ~same])))


def hours_of(times: Any) -> list[int]:
    """The hours since 1970 that a column of times touches."""
    return [int(hour) for hour in np.unique(times.cast(pa.int64()).to_numpy() // US_HOUR)]


def ranges_of(times: Any) -> list[tuple[int, int]]:
    """The stretches of hours that a column of times touches, each from its first to its last time."""
    sorted_times = np.sort(times.cast(pa.int64()).to_numpy())
    hours = sorted_times // US_HOUR
    breaks = np.flatnonzero(np.diff(hours) > 1)
    firsts = np.concatenate([[0], breaks + 1])
    lasts = np.concatenate([breaks, [len(sorted_times) - 1]])
    return [(int(sorted_times[a]), int(sorted_times[b])) for a, b in zip(firsts, lasts, strict=True)]


def settle(layout: Layout, schema: Schema, partition: str, paths: Iterable[str]) -> int:
    """Staged observations of one partition enter silver; the number that are new."""
    files = [Path(path) for path in paths]
    wanted = silver_schema(schema)
    table = pa.concat_tables([pq.read_table(path, partitioning=None) for path in files]).cast(wanted)
    added = admit_observations(layout, schema, partition, table)
    for path in files:
        path.unlink()
    return added


def admit_observations(layout: Layout, schema: Schema, partition: str, table: Any) -> int:
    place = layout.silver(schema.name) / partition
    rows = first_of_each(table, SILVER_KEY, SILVER_ORDER)
    existing = read_spans(place, "t", ranges_of(rows["time"]), SILVER_KEY, "time", silver_schema(schema))
    rows = without(rows, existing, SILVER_KEY)
    if not rows.num_rows:
        return 0
    staged = layout.aside()
    write_parquet(rows, staged)
    note_sources(layout, schema.name, partition, rows["timestamp"])
    # Before the rows can be seen: whatever happens from here on, their windows are computed.
    mark_dirty(layout, schema.name, partition, hours_of(rows["time"]))
    bounds = pc.min_max(rows["time"].cast(pa.int64())).as_py()
    put(staged, place / span_name("t", bounds["min"], bounds["max"], rows.num_rows))
    return int(rows.num_rows)
