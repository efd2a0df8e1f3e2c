"""A job's TOML file as pydantic models: every key with its kind, default and meaning.

The models are the only list of keys. Reading follows them (jobfile.py), and so do the tables of
packaging/doc/spark-jobs.md and the JSON Schema for editors (`leafd-spark schema`). A value that is wrong has no words
of its own here: each field says what to write (Wanted), and jobfile.py makes a sentence of that.

Not here: what a job is once its file is read (job.py), which travels to executors that have no pydantic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from .job import BOOLEAN, DAY, INTEGER, MONTH, NEWEST, NUMBER, STRING

EPOCH = date(1970, 1, 1)
UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
ROWS_MAX = 5_000_000  # a batch's rows pass through the driver's memory
# Columns that every table of silver has: no field may be called so, in capitals or not (Spark tells no difference).
OWN_COLUMNS = ("device", "time", "message_id", "stream", "sequence", "timestamp", "origin", "counter", DAY, MONTH)
FAULT = "fault"
"""The type of an error whose text stands as it is, behind the table's name."""
_DURATION = r"\d+(\.\d+)? ?(ms|s|min|h|d)"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The text that describes the value of a key."""

    text: str


def fault(text: str, below: str = "") -> PydanticCustomError:
    """The fault of several keys of a table together, or of the name of one below it."""
    return PydanticCustomError(FAULT, "{text}", {"text": text, "below": below})


def parse_duration(value: Any) -> timedelta:
    """ "10 s", "1.5 h": a number and a unit of UNITS."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(ms|s|min|h|d)", value) if isinstance(value, str) else None
    if not found:
        raise ValueError
    try:
        return float(found[1]) * UNITS[found[2]]
    except OverflowError:
        raise ValueError from None


def _that(holds: Callable[[Any], bool]) -> AfterValidator:
    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError
        return value

    return AfterValidator(check)


def _is_pattern(text: str) -> bool:
    tokens = text.split(".")
    return all(tokens) and ">" not in tokens[:-1] and not set(text) & set(" \t\r\n")


_SPAN = WithJsonSchema({"type": "string", "pattern": f"^{_DURATION}$"})
Identifier = Annotated[
    str,
    Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"),
    Wanted("a name of letters, digits, - and _, which begins with a letter"),
]
Text = Annotated[str, Wanted("a text")]
FieldName = Annotated[str, Field(min_length=1), Wanted("a field's name")]
Directory = Annotated[
    str,
    _that(lambda text: bool(text.strip()) and "\0" not in text and "://" not in text),  # a URL would become a directory
    Wanted("a directory that driver and executors share, no URL"),
]
Truth = Annotated[bool, Wanted("true or false")]
Number = Annotated[float, _that(lambda number: not math.isnan(number)), Wanted("a number")]
Bucket = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$"), Wanted("a bucket's name, of letters, digits, - and _")]
Duration = Annotated[
    timedelta, BeforeValidator(parse_duration), _SPAN, Wanted('a duration such as "10 s" (ms, s, min, h, d)')
]
Positive = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    _that(bool),
    _SPAN,
    Wanted('a duration longer than nothing, such as "10 s" (ms, s, min, h, d)'),
]
Day = Annotated[
    date,
    _that(lambda day: not isinstance(day, datetime) and day >= EPOCH),
    Wanted("a date such as 2000-01-01 (without quotation marks), not before 1970"),
]
Pattern = Annotated[
    str, _that(_is_pattern), Wanted('a subject, which may have wildcards, such as "weather.*.observation"')
]
Subject = Annotated[
    str,
    _that(lambda text: _is_pattern(text) and not set(text) & set("*>")),
    Wanted('a subject without wildcards, such as "weather.daily"'),
]
Options = Annotated[
    dict[
        str,
        Annotated[
            Any,
            _that(lambda value: isinstance(value, str | bool | int | float)),
            WithJsonSchema({"type": ["string", "boolean", "number"]}),
        ],
    ],
    Wanted("a table of keys"),
]


class Table(BaseModel):
    """A table of the file. Nothing is converted: what has quotation marks is a text."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=False)


class FieldTable(Table):
    """[silver.fields]: a field of the payload. Its type alone may stand in place of the table."""

    type: Literal["number", "integer", "string", "boolean"] = Field(
        description="`number` and `integer` are metrics of gold"
    )
    min: Number | None = Field(None, description="a lower value makes the message a dead letter")
    max: Number | None = Field(None, description="a higher one")
    required: Truth = Field(False, description="without this field, or with null, the message is a dead letter")

    @model_validator(mode="before")
    @classmethod
    def _type_alone(cls, given: Any) -> Any:
        return {"type": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.type not in (NUMBER, INTEGER) and (self.min is not None or self.max is not None):
            raise fault("only a number or an integer has min and max")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise fault(f"min is {self.min:g} and max is {self.max:g}, and nothing lies between")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"enum": [NUMBER, INTEGER, STRING, BOOLEAN]}, handler(core)]}


class Silver(Table):
    """[[silver]]: a table of observations, from messages of some subjects."""

    name: Identifier = Field(description="the table's name")
    subject: Pattern = Field(
        description="messages of these subjects; the first table whose pattern fits takes a message"
    )
    fields: Annotated[dict[str, FieldTable], Wanted("a table of keys")] = Field(
        description="the payload's fields and their types, see below"
    )
    device: FieldName = Field("device", description="the field that names the device")
    device_token: Annotated[int, Field(ge=1, le=255), Wanted("a token's number, from 1")] = Field(
        0, description="instead: the token of the subject that does"
    )
    time: FieldName = Field(
        "time",
        description="the field with the observation's time; `stream`: when the stream stored the message",
    )
    time_unit: Literal["rfc3339", "seconds", "milliseconds", "microseconds", "nanoseconds"] = Field(
        "rfc3339", description="how that field gives it: a text, or a number since 1970"
    )
    not_before: Day = Field(date(2000, 1, 1), description="an earlier observation is a dead letter")
    ahead_max: Duration = Field(
        timedelta(days=1), description="one that is so much later than the stream's time of its message is, too"
    )
    age_max: Positive | None = Field(
        None,
        description="one that is so much earlier than that time is, too; bounds how many partitions a batch touches",
    )
    every: Positive | None = Field(
        None, description="a device is expected to report so often: `health` counts what is missing"
    )
    sequence: Text = Field(
        "", description="a field with the device's own counter: `health` counts what is missing in it"
    )
    partition: Literal["day", "month"] = Field(
        "day", description="what a directory of the table covers; `month` where a day has few rows"
    )

    @field_validator("fields", mode="after")
    @classmethod
    def _no_column_twice(cls, fields: dict[str, FieldTable]) -> dict[str, FieldTable]:
        lower = [name.lower() for name in fields]
        for name in fields:
            if name.lower() in OWN_COLUMNS or not name:
                text = f'the table has a column "{name}" of its own; give the payload\'s field another name'
                raise fault(text, name)
            if lower.count(name.lower()) > 1:
                raise fault("two names that differ in capitals only are one column to Spark", name)
        return fields

    @model_validator(mode="after")
    def _together(self) -> Self:
        if {"device", "device_token"} <= self.model_fields_set:
            raise fault("device and device_token exclude each other")
        if self.time == NEWEST and "time_unit" in self.model_fields_set:
            raise fault(f'time_unit has no meaning with time = "{NEWEST}"')
        return self


class AlarmTable(Table):
    """[[results.alarms]]: a message when an hour of a device begins to be out of bounds."""

    name: Identifier = Field(description="the alarm's name")
    silver: Text = Field(description="the table that it watches")
    subject: Subject = Field(description="published as `<subject>.<alarm>.<device>`")
    field: Text = Field("", description="the metric that it watches")
    above: Number | None = Field(None, description="an hour with a higher value raises it, once")
    below: Number | None = Field(None, description="an hour with a lower value")
    silence: Positive | None = Field(None, description="a day in which a device was silent for longer")

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        bounds = self.above is not None or self.below is not None
        if bounds != bool(self.field):
            raise fault("a field needs above or below, and they need a field")
        if not bounds and self.silence is None:
            raise fault("it watches nothing; write field with above or below, or silence")
        if bounds and self.silence is not None:
            raise fault("a field and silence are two alarms; write each as one")
        return self


class ResultsTable(Table):
    """[results]: what is published of the tables."""

    last_values: Bucket = Field(
        "", description="key-value bucket (stream `KV_<bucket>`) that gets each device's last values"
    )
    windows: Subject = Field("", description="prefix of the subjects under which changed windows are published")
    window: Literal["hour", "day"] = Field("day", description="which windows")
    alarms: list[AlarmTable] = Field([], description="see below")


class Run(Table):
    """[run]: how a run goes."""

    mode: Literal["once", "continuous"] = Field(
        "once", description="`once`: take what is there and end; `continuous`: go on until stopped"
    )
    every: Duration = Field(
        timedelta(), description="continuous: time from one batch's begin to the next; `0 s`: at once"
    )
    rows_max: Annotated[int, Field(ge=1, le=ROWS_MAX), Wanted(f"a whole number from 1 to {ROWS_MAX:,}")] = Field(
        200_000, description="messages a batch"
    )
    gold_every: Duration = Field(
        timedelta(seconds=10),
        description="continuous: how often touched windows are computed; mode `once` does so at its end",
    )
    master: Text = Field("", description="Spark's master, such as `local[*]`; default: spark-submit's, or `local[*]`")


class JobTable(Table):
    """The file."""

    name: Identifier = Field(description="the job's name; part of the ids of what it publishes")
    tables: Directory = Field(description="directory of the tables; a relative one is beside the file")
    checkpoint: Directory = Field("", description="Spark's checkpoint; default: `_checkpoint` in the tables' directory")
    format: Literal["parquet", "delta"] = Field(
        "parquet", description="of the tables; `delta` needs delta-spark, see below"
    )
    connection: Options = Field(
        {}, description="options of the data source for reading and publishing: `servers`, `domain`, `user` ..."
    )
    source: Options = Field(description="options of the data source for reading: `stream`, `subject` ...")
    spark: Options = Field({}, description="Spark's own settings, each under its full name in quotation marks")
    run: Run = Field(default_factory=lambda: Run.model_validate({}), description="how a run goes")
    silver: list[Silver] = Field([], description="a table of observations each")
    results: ResultsTable = Field(
        default_factory=lambda: ResultsTable.model_validate({}), description="what is published"
    )


SECTIONS: dict[str, type[Table]] = {
    "": JobTable,
    "run": Run,
    "silver": Silver,
    "silver.fields": FieldTable,
    "results": ResultsTable,
    "results.alarms": AlarmTable,
}
"""The tables by what a page calls them."""
