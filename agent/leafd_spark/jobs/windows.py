"""Windows: rows of silver to hours, hours to days. Functions of Arrow tables alone.

An hour is computed from its observations, a day from its hours, so that a late row costs reading one hour and not a
day of every device. Rows are taken in an order that depends on nothing but themselves; so sums of floats are equal to
the last digit whenever and from whichever files they are computed.

Health is how regularly a device reports: what came and what was due, its longest silence, what its own counter skips.
A day of health reaches from the day's begin to the newest observation of any device in it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .ingest import TIMESTAMP
from .partitions import US_DAY, US_HOUR

NONE = np.iinfo(np.int64).min  # a counter that isn't there

WINDOW_SCHEMA = pa.schema(
    [
        ("device", pa.string()),
        ("metric", pa.string()),
        ("start", TIMESTAMP),
        ("count", pa.int64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
        ("sum", pa.float64()),
        ("mean", pa.float64()),
        ("first", pa.float64()),
        ("last", pa.float64()),
        ("last_time", TIMESTAMP),
    ]
)
WINDOW_ORDER = [("device", "ascending"), ("metric", "ascending"), ("start", "ascending")]
WINDOW_AGGREGATES = ["count", "min", "max", "sum", "first", "last", "last_time"]
PULSE_SCHEMA = pa.schema(
    [
        ("device", pa.string()),
        ("start", TIMESTAMP),
        ("messages", pa.int64()),
        ("first", TIMESTAMP),
        ("last", TIMESTAMP),
        ("silence_us", pa.int64()),
        ("counter_first", pa.int64()),
        ("counter_last", pa.int64()),
        ("lost", pa.int64()),
        ("restarts", pa.int64()),
    ]
)
"""A device's hour: what a day of health is made of."""
PULSE_ORDER = [("device", "ascending"), ("start", "ascending")]
HEALTH_SCHEMA = pa.schema(
    [
        ("device", pa.string()),
        ("start", TIMESTAMP),
        ("messages", pa.int64()),
        ("expected", pa.int64()),
        ("missing", pa.int64()),
        ("longest_silence_s", pa.float64()),
        ("lost", pa.int64()),
        ("restarts", pa.int64()),
        ("first", TIMESTAMP),
        ("last", TIMESTAMP),
    ]
)


def microseconds(column: Any) -> Any:
    """A column of times as numpy integers."""
    return column.cast(pa.int64()).to_numpy()


def times(values: Any) -> Any:
    return pa.array(values, pa.int64()).cast(TIMESTAMP)


def _windows(table: Any) -> Any:
    """With the mean, in the table's order of columns and rows."""
    mean = pc.divide(table["sum"], table["count"].cast(pa.float64()))
    return table.append_column("mean", mean).select(WINDOW_SCHEMA.names).cast(WINDOW_SCHEMA).sort_by(WINDOW_ORDER)


def hour_windows(rows: Any, metrics: tuple[str, ...]) -> Any:
    """The hours of observations that are in order of their times."""
    start = times(microseconds(rows["time"]) // US_HOUR * US_HOUR)
    parts = []
    for metric in metrics:
        some = pa.table(
            {"device": rows["device"], "start": start, "value": rows[metric].cast(pa.float64()), "time": rows["time"]}
        ).filter(rows[metric].is_valid())
        wanted = [("value", kind) for kind in ("count", "min", "max", "sum", "first", "last")]
        found = some.group_by(["device", "start"], use_threads=False).aggregate([*wanted, ("time", "last")])
        found = found.rename_columns(["device", "start", *WINDOW_AGGREGATES])
        parts.append(found.append_column("metric", pa.array([metric] * found.num_rows, pa.string())))
    return _windows(pa.concat_tables(parts)) if parts else WINDOW_SCHEMA.empty_table()


def day_windows(hours: Any) -> Any:
    """The days of hours that are in order."""
    start = times(microseconds(hours["start"]) // US_DAY * US_DAY)
    some = hours.set_column(hours.column_names.index("start"), "start", start)
    kinds = {
        "count": "sum",
        "min": "min",
        "max": "max",
        "sum": "sum",
        "first": "first",
        "last": "last",
        "last_time": "last",
    }
    found = some.group_by(["device", "metric", "start"], use_threads=False).aggregate(list(kinds.items()))
    return _windows(found.rename_columns(["device", "metric", "start", *kinds]))


def _counters(rows: Any) -> Any:
    return pc.fill_null(rows["counter"], NONE).to_numpy()


def _steps(before: Any, after: Any) -> tuple[Any, Any]:
    """The loss of a counter between two of its values, and whether it began anew; nothing where a value is missing."""
    known = (before != NONE) & (after != NONE)
    step = np.where(known, after - np.where(known, before, 0), 1)
    return np.where(step > 1, step - 1, 0), (known & (step < 0)).astype(np.int64)


def pulses(rows: Any) -> Any:
    """A row for each device and hour of some observations."""
    if not rows.num_rows:
        return PULSE_SCHEMA.empty_table()
    rows = rows.sort_by([("device", "ascending"), ("time", "ascending"), ("message_id", "ascending")])
    devices = rows["device"].combine_chunks().dictionary_encode()
    code, time = devices.indices.to_numpy(), microseconds(rows["time"])
    hour, counter = time // US_HOUR, _counters(rows)
    same = (code[1:] == code[:-1]) & (hour[1:] == hour[:-1])
    firsts = np.flatnonzero(np.concatenate([[True], ~same]))
    lasts = np.concatenate([firsts[1:], [len(time)]]) - 1
    silence = np.concatenate([[0], np.where(same, np.diff(time), 0)])
    lost, restarts = _steps(counter[:-1], counter[1:])
    lost, restarts = (np.concatenate([[0], np.where(same, each, 0)]) for each in (lost, restarts))
    return pa.Table.from_arrays(
        [
            rows["device"].take(pa.array(firsts)).combine_chunks(),
            times(hour[firsts] * US_HOUR),
            pa.array(lasts - firsts + 1),
            times(time[firsts]),
            times(time[lasts]),
            pa.array(np.maximum.reduceat(silence, firsts)),
            _counter_column(counter[firsts]),
            _counter_column(counter[lasts]),
            pa.array(np.add.reduceat(lost, firsts)),
            pa.array(np.add.reduceat(restarts, firsts)),
        ],
        schema=PULSE_SCHEMA,
    )


def _counter_column(values: Any) -> Any:
    return pa.array(values, pa.int64(), mask=values == NONE)


def health(hours: Any, every: timedelta | None) -> Any:
    """The days of pulses."""
    if not hours.num_rows:
        return HEALTH_SCHEMA.empty_table()
    hours = hours.sort_by(PULSE_ORDER)
    code = hours["device"].combine_chunks().dictionary_encode().indices.to_numpy()
    day = microseconds(hours["start"]) // US_DAY
    first, last = microseconds(hours["first"]), microseconds(hours["last"])
    same = (code[1:] == code[:-1]) & (day[1:] == day[:-1])
    firsts = np.flatnonzero(np.concatenate([[True], ~same]))
    lasts = np.concatenate([firsts[1:], [len(day)]]) - 1
    between = np.concatenate([[0], np.where(same, first[1:] - last[:-1], 0)])
    silence = np.maximum.reduceat(np.maximum(hours["silence_us"].to_numpy(), between), firsts)
    begin = day[firsts] * US_DAY
    newest = {each: last[day == each].max() for each in np.unique(day)}
    until = np.array([newest[each] for each in day[firsts]])
    silence = np.maximum.reduce([silence, first[firsts] - begin, until - last[lasts]])
    before, after = (pc.fill_null(hours[name], NONE).to_numpy() for name in ("counter_last", "counter_first"))
    lost, restarts = (np.concatenate([[0], np.where(same, each, 0)]) for each in _steps(before[:-1], after[1:]))
    messages = np.add.reduceat(hours["messages"].to_numpy(), firsts)
    unknown = np.full(len(firsts), every is None)
    # The newest observation is due as well: one at the day's begin, and one after each whole interval.
    due = (until - begin) // (every // timedelta(microseconds=1)) + 1 if every else messages
    return pa.Table.from_arrays(
        [
            hours["device"].take(pa.array(firsts)).combine_chunks(),
            times(begin),
            pa.array(messages),
            pa.array(due, pa.int64(), mask=unknown),
            pa.array(np.maximum(due - messages, 0), pa.int64(), mask=unknown),
            pa.array(silence / 1e6),
            pa.array(np.add.reduceat(hours["lost"].to_numpy() + lost, firsts)),
            pa.array(np.add.reduceat(hours["restarts"].to_numpy() + restarts, firsts)),
            times(first[firsts]),
            times(last[lasts]),
        ],
        schema=HEALTH_SCHEMA,
    )
