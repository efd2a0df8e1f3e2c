"""Gold: the touched windows of a partition, computed from silver and put in place; and each device's last values.

`compute` writes files aside and says what changes by them; the caller publishes that and then puts the files in place.
So what was published is what the tables get, and a crash in between repeats both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .admission import SILVER_KEY, first_of_each, read_spans
from .ingest import TIMESTAMP, silver_schema
from .job import Schema
from .partitions import PART, US_DAY, US_HOUR, Layout, partition_bounds, put, write_parquet
from .touched import Touched
from .windows import (
    HEALTH_SCHEMA,
    PULSE_ORDER,
    PULSE_SCHEMA,
    WINDOW_ORDER,
    WINDOW_SCHEMA,
    day_windows,
    health,
    hour_windows,
    microseconds,
    pulses,
)

HOURS, DAYS, PULSES, HEALTH = "hour", "day", "pulse", "health"
RANGES_MAX = 16  # conditions that one read may have; more are read as one range
LAST_SCHEMA = pa.schema(
    [("device", pa.string()), ("metric", pa.string()), ("time", TIMESTAMP), ("value", pa.float64())]
)


@dataclass
class Change:
    """Rows of the touched windows of one kind, before and after."""

    before: Any
    after: Any


@dataclass
class Computed:
    """What became of a touched partition."""

    unit: Touched
    changes: dict[str, Change]
    files: list[tuple[Path, Path]] = field(default_factory=list)  # staged, target

    def put_in_place(self) -> None:
        for staged, target in self.files:
            put(staged, target)


def read_part(path: Path, schema: Any) -> Any:
    """A partition of gold, which may not be there yet."""
    try:
        return pq.read_table(path, partitioning=None).cast(schema)
    except FileNotFoundError:
        return schema.empty_table()


def ranges_of_hours(hours: set[int]) -> list[tuple[int, int]]:
    """Stretches of hours in microseconds, both ends included."""
    found: list[tuple[int, int]] = []
    for hour in sorted(hours):
        low = hour * US_HOUR
        if found and found[-1][1] + 1 == low:
            found[-1] = (found[-1][0], low + US_HOUR - 1)
        else:
            found.append((low, low + US_HOUR - 1))
    return found if len(found) <= RANGES_MAX else [(found[0][0], found[-1][1])]


def _within(table: Any, unit: int, wanted: Any) -> Any:
    """Which rows begin in one of the wanted hours or days since 1970."""
    return np.isin(microseconds(table["start"]) // unit, wanted)


def observations(layout: Layout, schema: Schema, unit: Touched) -> Any:
    """What silver has of the touched hours, in order, each once."""
    columns = [*SILVER_KEY, "counter", *schema.metrics]
    ranges = [partition_bounds(unit.partition)] if unit.whole else ranges_of_hours(unit.hours)
    place = layout.silver(schema.name) / unit.partition
    rows = read_spans(place, "t", ranges, columns, "time", silver_schema(schema))
    if not unit.whole:
        hours = microseconds(rows["time"]) // US_HOUR
        rows = rows.filter(pa.array(np.isin(hours, np.array(sorted(unit.hours)))))
    # While compaction swaps files both the old and the new one may be seen.
    return first_of_each(rows, SILVER_KEY, ["time", "device", "message_id"])


def compute(layout: Layout, schema: Schema, unit: Touched) -> Computed:
    """The partition's windows with the touched ones computed anew, written aside."""
    rows = observations(layout, schema, unit)
    computed = Computed(unit, {})

    def replaced(kind: str, shape: Any, order: list[tuple[str, str]], unit_us: int, wanted: Any, fresh: Any) -> Any:
        target = layout.gold(schema.name, kind) / unit.partition / PART
        old = read_part(target, shape)
        touched = np.ones(old.num_rows, bool) if unit.whole else _within(old, unit_us, wanted)
        computed.changes[kind] = Change(old.filter(pa.array(touched)), fresh)
        table = pa.concat_tables([old.filter(pa.array(~touched)), fresh]).sort_by(order)
        staged = layout.aside()
        write_parquet(table, staged)
        computed.files.append((staged, target))
        return table

    hours = np.array(sorted(unit.hours), np.int64)
    days = np.unique(hours // 24)
    all_hours = replaced(HOURS, WINDOW_SCHEMA, WINDOW_ORDER, US_HOUR, hours, hour_windows(rows, schema.metrics))
    all_pulses = replaced(PULSES, PULSE_SCHEMA, PULSE_ORDER, US_HOUR, hours, pulses(rows))
    if not unit.whole:
        all_hours = all_hours.filter(pa.array(_within(all_hours, US_DAY, days)))
        all_pulses = all_pulses.filter(pa.array(_within(all_pulses, US_DAY, days)))
    replaced(DAYS, WINDOW_SCHEMA, WINDOW_ORDER, US_DAY, days, day_windows(all_hours))
    replaced(HEALTH, HEALTH_SCHEMA, PULSE_ORDER, US_DAY, days, health(all_pulses, schema.every))
    return computed


def last_values(layout: Layout, schema: Schema, hours: list[Any]) -> tuple[Change, tuple[Path, Path]]:
    """The newest value of each device's metrics, with some hours' taken in; staged, with its target."""
    target = layout.last(schema.name)
    before = read_part(target, LAST_SCHEMA)
    some = pa.concat_tables([WINDOW_SCHEMA.empty_table(), *hours]).select(["device", "metric", "last_time", "last"])
    both = pa.concat_tables([before, some.rename_columns(LAST_SCHEMA.names)])
    # A value that is computed anew stands behind the one that is known, and wins over it where the time is the same.
    both = both.append_column("_order", pa.array(np.arange(both.num_rows)))
    both = both.sort_by(
        [("device", "ascending"), ("metric", "ascending"), ("time", "descending"), ("_order", "descending")]
    )
    after = first_of_group(both, ["device", "metric"]).select(LAST_SCHEMA.names)
    staged = layout.aside()
    write_parquet(after, staged)
    return Change(before, after), (staged, target)


def first_of_group(table: Any, key: list[str]) -> Any:
    """The first row of each key of a table that is sorted by the key."""
    if table.num_rows < 2:
        return table
    same = np.ones(table.num_rows - 1, bool)
    for name in key:
        column = table[name].combine_chunks()
        same &= pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return table.filter(pa.array(np.concatenate([[True], ~same])))
