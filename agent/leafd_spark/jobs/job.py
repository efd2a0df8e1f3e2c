"""A job: the frozen values that a TOML file becomes. They travel to Spark's tasks by pickle.

Not here: reading the file and what is wrong with it (jobfile.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

ONCE, CONTINUOUS = "once", "continuous"
NUMBER, INTEGER, STRING, BOOLEAN = "number", "integer", "string", "boolean"
PARQUET, DELTA = "parquet", "delta"
DAY, MONTH, HOUR = "day", "month", "hour"
NEWEST = "stream"  # in place of a field of the payload: the time at which the stream stored the message


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a payload: its type and its bounds."""

    name: str
    type: str
    min: float | None = None
    max: float | None = None
    required: bool = False

    @property
    def numeric(self) -> bool:
        return self.type in (NUMBER, INTEGER)

    @property
    def bounded(self) -> bool:
        return self.min is not None or self.max is not None


@dataclass(frozen=True, slots=True)
class Schema:
    """How messages of a subject become observations: a table of silver."""

    name: str
    subject: str  # pattern with * and >
    fields: tuple[Field, ...]
    device: str = "device"  # field of the payload
    device_token: int = 0  # or token of the subject, counted from 1
    time: str = "time"  # field of the payload, or NEWEST
    time_unit: str = "rfc3339"
    not_before: date = date(2000, 1, 1)
    ahead_max: timedelta = timedelta(days=1)
    age_max: timedelta | None = None
    every: timedelta | None = None  # a device is expected to report so often
    sequence: str = ""  # field of the payload with the device's own counter
    partition: str = DAY

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields if field.numeric)


@dataclass(frozen=True, slots=True)
class Alarm:
    """A message when an hour of a device begins to be out of bounds."""

    name: str
    schema: str
    subject: str
    field: str = ""
    above: float | None = None
    below: float | None = None
    silence: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """The results that a job publishes of its tables."""

    last_values: str = ""  # a key-value bucket
    windows: str = ""  # prefix of subjects
    window: str = DAY
    alarms: tuple[Alarm, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.last_values or self.windows or self.alarms)


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    tables: Path
    checkpoint: Path
    connection: tuple[tuple[str, str], ...]  # options of the data source for reading and for publishing
    source: tuple[tuple[str, str], ...]  # those for reading
    format: str = PARQUET
    mode: str = ONCE
    every: timedelta = timedelta()
    rows_max: int = 200_000
    gold_every: timedelta = timedelta(seconds=10)
    master: str = ""
    spark: tuple[tuple[str, str], ...] = ()
    schemas: tuple[Schema, ...] = ()
    results: Results = Results()

    def schema(self, name: str) -> Schema:
        return next(schema for schema in self.schemas if schema.name == name)

    def reading(self) -> dict[str, str]:
        """Options of the stream that is read."""
        limit = {"maxOffsetsPerTrigger": str(self.rows_max)}
        return limit | dict(self.connection) | dict(self.source)

    def publishing(self) -> dict[str, str]:
        return dict(self.connection)
