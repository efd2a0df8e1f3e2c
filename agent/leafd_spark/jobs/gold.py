"""Gold: the touched windows of a partition, computed from silver; and each device's last values.

`compute` says what changes; the caller publishes that and then has the store (store.py) put it in place. So what was
published is what the tables get, and a crash in between repeats both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .admission import SILVER_KEY, first_of_each
from .ingest import TIMESTAMP
from .job import Schema
from .partitions import US_DAY, US_HOUR, partition_bounds
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

if TYPE_CHECKING:
    from .store import Store

HOURS, DAYS, PULSES, HEALTH = "hour", "day", "pulse", "health"
ROWS_AT_ONCE = 2_000_000  # of observations in memory
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
    """The outcome for a touched partition."""

    unit: Touched
    changes: dict[str, Change] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)  # the whole partition of each kind, as it is then


def ranges_of_hours(hours: list[int]) -> list[tuple[int, int]]:
    """Stretches of hours, which are in order, in microseconds, both ends included."""
    found: list[tuple[int, int]] = []
    for hour in hours:
        low = hour * US_HOUR
        if found and found[-1][1] + 1 == low:
            found[-1] = (found[-1][0], low + US_HOUR - 1)
        else:
            found.append((low, low + US_HOUR - 1))
    return found if len(found) <= RANGES_MAX else [(found[0][0], found[-1][1])]


def _within(table: Any, unit: int, wanted: Any) -> Any:
    """The rows that begin in one of the wanted hours or days since 1970."""
    return np.isin(microseconds(table["start"]) // unit, wanted)


def hours_in(unit: Touched) -> list[int]:
    """The hours to compute."""
    if not unit.whole:
        return sorted(unit.hours)
    low, high = partition_bounds(unit.partition)
    return list(range(low // US_HOUR, high // US_HOUR + 1))


def pieces(store: Store, schema: Schema, unit: Touched) -> list[list[int]]:
    """The touched hours, in pieces of as many hours as memory should hold the rows of."""
    hours = hours_in(unit)
    rows = store.rows(schema, unit.partition, ranges_of_hours(hours))
    size = max(1, len(hours) * ROWS_AT_ONCE // max(rows, 1))
    return [hours[begin : begin + size] for begin in range(0, len(hours), size)]


def observations(store: Store, schema: Schema, partition: str, hours: list[int]) -> Any:
    """The observations of some hours in silver, in order, each once."""
    columns = [*SILVER_KEY, "counter", *schema.metrics]
    rows = store.observations(schema, partition, ranges_of_hours(hours), columns)
    rows = rows.filter(pa.array(np.isin(microseconds(rows["time"]) // US_HOUR, np.array(hours))))
    # While compaction swaps files both the old and the new one may be seen.
    return first_of_each(rows, SILVER_KEY, ["time", "device", "message_id"])


def compute(store: Store, schema: Schema, unit: Touched) -> Computed:
    """The partition's windows with the touched ones computed anew."""
    computed = Computed(unit)
    windows, beats = [WINDOW_SCHEMA.empty_table()], [PULSE_SCHEMA.empty_table()]
    for some in pieces(store, schema, unit):
        rows = observations(store, schema, unit.partition, some)
        windows.append(hour_windows(rows, schema.metrics))
        beats.append(pulses(rows))

    def replaced(kind: str, shape: Any, order: list[tuple[str, str]], unit_us: int, wanted: Any, fresh: Any) -> Any:
        old = store.part(schema.name, kind, unit.partition, shape)
        touched = np.ones(old.num_rows, bool) if unit.whole else _within(old, unit_us, wanted)
        computed.changes[kind] = Change(old.filter(pa.array(touched)), fresh)
        table = pa.concat_tables([old.filter(pa.array(~touched)), fresh]).sort_by(order)
        computed.parts[kind] = table
        return table

    hours = np.array(sorted(unit.hours), np.int64)
    days = np.unique(hours // 24)
    all_hours = replaced(HOURS, WINDOW_SCHEMA, WINDOW_ORDER, US_HOUR, hours, pa.concat_tables(windows))
    all_pulses = replaced(PULSES, PULSE_SCHEMA, PULSE_ORDER, US_HOUR, hours, pa.concat_tables(beats))
    if not unit.whole:
        all_hours = all_hours.filter(pa.array(_within(all_hours, US_DAY, days)))
        all_pulses = all_pulses.filter(pa.array(_within(all_pulses, US_DAY, days)))
    replaced(DAYS, WINDOW_SCHEMA, WINDOW_ORDER, US_DAY, days, day_windows(all_hours))
    replaced(HEALTH, HEALTH_SCHEMA, PULSE_ORDER, US_DAY, days, health(all_pulses, schema.every))
    return computed


def last_values(before: Any, hours: list[Any]) -> Change:
    """The newest value of each device's metrics, with some hours' taken in."""
    some = pa.concat_tables([WINDOW_SCHEMA.empty_table(), *hours]).select(["device", "metric", "last_time", "last"])
    both = pa.concat_tables([before, some.rename_columns(LAST_SCHEMA.names)])
    # A value that is computed anew stands behind the one that is known, and wins over it where the time is the same.
    both = both.append_column("_order", pa.array(np.arange(both.num_rows)))
    both = both.sort_by(
        [("device", "ascending"), ("metric", "ascending"), ("time", "descending"), ("_order", "descending")]
    )
    after = first_of_group(both, ["device", "metric"]).select(LAST_SCHEMA.names)
    return Change(before, after)


def first_of_group(table: Any, key: list[str]) -> Any:
    """The first row of each key of a table that is sorted by the key."""
    if table.num_rows < 2:
        return table
    same = np.ones(table.num_rows - 1, bool)
    for name in key:
        column = table[name].combine_chunks()
        same &= pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return table.filter(pa.array(np.concatenate([[True], ~same])))
