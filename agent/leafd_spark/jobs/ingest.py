"""In Spark's tasks: messages become rows of bronze, silver and dead, in files that are staged aside.

A task writes one file for each table and partition that its messages belong to, and tells the driver about them; the
driver decides what of it is new (admission.py). A task that runs twice leaves files that nobody hears of.

Not here: the verdict on a message (judging.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leafd_spark.source.columns import ARROW_SCHEMA
from leafd_spark.subjects import matches

from .job import BOOLEAN, DAY, INTEGER, NUMBER, STRING, Schema
from .judging import Dead, Judge, Observation
from .partitions import US_DAY, Layout, partition_of, write_parquet

MESSAGE_ID = "Nats-Msg-Id"
BRONZE, DEAD, SILVER = "bronze", "dead", "silver"
REPORT = "kind string, schema string, partition string, tag string, low bigint, high bigint, rows bigint, path string"
REPORT_ARROW = pa.schema(
    [
        (name, pa.int64() if kind == "bigint" else pa.string())
        for name, kind in (c.split(" ") for c in REPORT.split(", "))
    ]
)
TIMESTAMP = pa.timestamp("us", tz="UTC")
ARROW_TYPES = {NUMBER: pa.float64(), INTEGER: pa.int64(), STRING: pa.string(), BOOLEAN: pa.bool_()}
ROWS_AT_ONCE = 50_000  # Python's values take ten times the memory of Arrow's
SUBJECTS_MAX = 100_000  # remembered with their schemas
DEAD_SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("sequence", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("subject", pa.string()),
        ("message_id", pa.string()),
        ("silver", pa.string()),
        ("reason", pa.string()),
        ("data", pa.binary()),
    ]
)


def silver_schema(schema: Schema) -> Any:
    """The columns of a silver table."""
    return pa.schema(
        [
            ("device", pa.string()),
            ("time", TIMESTAMP),
            *((each.name, ARROW_TYPES[each.type]) for each in schema.fields),
            ("counter", pa.int64()),
            ("message_id", pa.string()),
            ("stream", pa.string()),
            ("sequence", pa.int64()),
            ("timestamp", TIMESTAMP),
            ("origin", pa.string()),
        ]
    )


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that a task wrote: for which table and partition, and what bounds its rows."""

    kind: str
    schema: str
    partition: str
    tag: str
    low: int
    high: int
    rows: int
    path: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The facts that a task needs."""

    tables: Path
    schemas: tuple[Schema, ...]
    bronze: bool = True  # whether messages are to be kept; not when they come from there


def message_ids(headers: Any) -> list[str | None]:
    """The publisher's id of each message, from a column of headers."""
    found: list[str | None] = [None] * len(headers)
    keys, values = headers.values.field(0), headers.values.field(1)
    places = np.flatnonzero(pc.equal(pc.fill_null(keys, ""), MESSAGE_ID).to_numpy(zero_copy_only=False))
    offsets = headers.offsets.to_numpy()
    rows = np.searchsorted(offsets, places, side="right") - 1
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        if 0 <= row < len(found) and place < offsets[-1]:
            found[row] = (values[place].as_py() or b"").decode(errors="replace")
    return found


def identities(ids: list[str | None], columns: dict[str, list[Any]]) -> tuple[list[str], list[str | None]]:
    """The key that tells a message from the device's others, and the message's origin.

    Without an id of the publisher that is its place in the stream of its origin, or else in the stream that was read.
    """
    names, origins = [], []
    for given, domain, stream, sequence, here, place, stored in zip(
        ids,
        columns["origin_domain"],
        columns["origin_stream"],
        columns["origin_sequence"],
        columns["stream"],
        columns["sequence"],
        columns["timestamp"],
        strict=True,
    ):
        origin = None if stream is None else f"{domain}/{stream}" if domain else stream
        origins.append(origin)
        made_up = f"@{here}:{place}:{stored}" if origin is None or sequence is None else f"@{origin}:{sequence}"
        names.append(given or made_up)
    return names, origins


class Rows:
    """Rows of one table, which become columns by the thousands."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []
        self._parts: list[Any] = []

    def add(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) >= ROWS_AT_ONCE:
            self._pack()

    def _pack(self) -> None:
        arrays = []
        for values, each in zip(zip(*self._rows, strict=True), self._schema, strict=True):
            if pa.types.is_timestamp(each.type):  # times are microseconds
                arrays.append(pa.array(values, pa.int64()).cast(each.type))
            else:
                arrays.append(pa.array(values, each.type))
        self._parts.append(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows = []

    def table(self) -> Any:
        if self._rows:
            self._pack()
        return pa.concat_tables(self._parts) if self._parts else self._schema.empty_table()


class Sorter:
    """Takes messages, keeps rows by table and partition, writes them when the task has them all."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._layout = Layout(plan.tables)
        self._judges = [Judge(schema) for schema in plan.schemas]
        self._schema_of: dict[str, int] = {}
        self._bronze: dict[tuple[str, str], list[Any]] = {}
        self._silver: dict[tuple[int, str], Rows] = {}
        self._silver_of: dict[tuple[int, int], Rows] = {}  # by schema and day: the same, found faster
        self._dead = Rows(DEAD_SCHEMA)

    def take(self, batch: Any) -> None:
        if not batch.num_rows:
            return
        table = pa.Table.from_batches([batch]).select(ARROW_SCHEMA.names).cast(ARROW_SCHEMA)
        if self._plan.bronze:
            self._keep(table)
        if not self._plan.schemas:
            return
        times = table["timestamp"].cast(pa.int64()).to_pylist()
        columns = {name: table[name].to_pylist() for name in table.column_names if name not in ("headers", "timestamp")}
        columns["timestamp"] = times
        ids = message_ids(table["headers"].combine_chunks())
        names, origins = identities(ids, columns)
        for row in zip(
            columns["subject"],
            times,
            columns["data"],
            names,
            columns["stream"],
            columns["sequence"],
            origins,
            strict=True,
        ):
            self._judge(*row)

    def _keep(self, table: Any) -> None:
        """A message as it came, in the partition of the stream's own time: when it is read again it is found there."""
        days = table["timestamp"].cast(pa.int64()).to_numpy() // US_DAY
        streams = pc.unique(table["stream"]).to_pylist()
        for day in np.unique(days).tolist():
            for stream in streams:
                mask = pc.and_(pa.array(days == day), pc.equal(table["stream"], stream))
                rows = table.filter(mask)
                if rows.num_rows:
                    self._bronze.setdefault((stream, partition_of(DAY, day * US_DAY)), []).append(rows)

    def _schema(self, subject: str) -> int:
        """The place of the schema whose pattern fits a subject; -1: none."""
        found = self._schema_of.get(subject)
        if found is None:
            fits = (i for i, each in enumerate(self._plan.schemas) if matches(subject, each.subject))
            found = next(fits, -1)
            if len(self._schema_of) >= SUBJECTS_MAX:
                self._schema_of.clear()
            self._schema_of[subject] = found
        return found

    def _judge(
        self,
        subject: str,
        stored: int,
        data: bytes,
        name: str,
        stream: str,
        sequence: int,
        origin: str | None,
    ) -> None:
        place = self._schema(subject)
        table = self._plan.schemas[place].name if place >= 0 else None
        try:
            if table is None:
                raise Dead("no silver table takes this subject")
            seen: Observation = self._judges[place].judge(subject, stored, data)
        except Exception as error:
            # What nobody foresaw is kept with the rest: one message must not stop all those behind it.
            reason = str(error) if isinstance(error, Dead) else f"cannot be judged: {error!r}"
            self._dead.add((stream, sequence, stored, subject, name, table, reason, data))
            return
        rows = self._silver_of.get((place, seen.time // US_DAY)) or self._rows(place, seen.time)
        rows.add((seen.device, seen.time, *seen.values, seen.counter, name, stream, sequence, stored, origin))

    def _rows(self, place: int, time: int) -> Rows:
        """The rows that gather the observations of a day."""
        schema = self._plan.schemas[place]
        key = (place, partition_of(schema.partition, time))
        rows = self._silver.get(key)
        if rows is None:
            rows = self._silver[key] = Rows(silver_schema(schema))
        self._silver_of[place, time // US_DAY] = rows
        return rows

    def finish(self) -> Iterator[Staged]:
        for (stream, partition), parts in self._bronze.items():
            yield self._write(BRONZE, "", partition, stream, pa.concat_tables(parts), "sequence")
        for (place, partition), rows in self._silver.items():
            yield self._write(SILVER, self._plan.schemas[place].name, partition, "t", rows.table(), "time")
        dead = self._dead.table()
        if dead.num_rows:
            days = dead["timestamp"].cast(pa.int64()).to_numpy() // US_DAY
            for day in np.unique(days).tolist():
                for stream in pc.unique(dead["stream"]).to_pylist():
                    some = dead.filter(pc.and_(pa.array(days == day), pc.equal(dead["stream"], stream)))
                    if some.num_rows:
                        yield self._write(DEAD, "", partition_of(DAY, day * US_DAY), stream, some, "sequence")

    def _write(self, kind: str, schema: str, partition: str, tag: str, table: Any, by: str) -> Staged:
        bounds = pc.min_max(table[by].cast(pa.int64())).as_py()
        path = self._layout.aside()
        write_parquet(table, path, durable=kind != SILVER)  # observations are written once more before they are seen
        return Staged(kind, schema, partition, tag, bounds["min"], bounds["max"], table.num_rows, str(path))


def ingest(plan: Plan, batches: Iterator[Any]) -> Iterator[Any]:
    """A task: record batches of messages in, one record batch of REPORT out."""
    sorter = Sorter(plan)
    for batch in batches:
        sorter.take(batch)
    staged = list(sorter.finish())
    columns = [[getattr(each, name) for each in staged] for name in REPORT_ARROW.names]
    yield pa.RecordBatch.from_arrays(
        [pa.array(values, each.type) for values, each in zip(columns, REPORT_ARROW, strict=True)], schema=REPORT_ARROW
    )
