"""A job's TOML file: every key with its kind and default, and what is wrong with a given file.

The rows of KEYS are the only list of keys: reading follows them, and packaging/doc/spark-jobs.md is held to them by a
test. All faults of a file are reported together, each with the key and what to write.

What does not live here: what a job does with a value. The options in [connection] and [source] are the data source's
own (`leafd.spark.options`), which judges them.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from leafd.spark.options import parse_options

from .delta_versions import delta_fault
from .job import (
    BOOLEAN,
    CONTINUOUS,
    DAY,
    DELTA,
    HOUR,
    INTEGER,
    MONTH,
    NEWEST,
    NUMBER,
    ONCE,
    PARQUET,
    STRING,
    Alarm,
    Field,
    Job,
    Results,
    Schema,
)

REQUIRED = object()
EPOCH = date(1970, 1, 1)
UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
TIME_UNITS = ("rfc3339", "seconds", "milliseconds", "microseconds", "nanoseconds")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
BUCKET = re.compile(r"[A-Za-z0-9_-]+\Z")
ROWS_MAX = 5_000_000  # a batch's rows pass through the driver's memory
# Columns that every table of silver has: no field may be called so, in capitals or not (Spark tells no difference).
OWN_COLUMNS = ("device", "time", "message_id", "stream", "sequence", "timestamp", "origin", "counter", DAY, MONTH)


class JobError(Exception):
    """A job's file cannot be used; the text has a line for each fault."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What may stand behind a key. `parse` gives the value or raises ValueError."""

    wanted: str
    parse: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: Kind
    default: Any
    about: str


def _typed(kind: type) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if type(value) is not kind:  # in Python True is an int
            raise ValueError
        return value

    return parse


def _matching(pattern: re.Pattern[str]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or not pattern.match(value):
            raise ValueError
        return value

    return parse


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _directory(value: Any) -> str:
    # A URL would become a directory of that name beside the file.
    if not isinstance(value, str) or not value.strip() or "\0" in value or "://" in value:
        raise ValueError
    return value


def _integer(lowest: int, highest: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if type(value) is not int or not lowest <= value <= highest:
            raise ValueError
        return value

    return parse


def _number(value: Any) -> float:
    if type(value) not in (int, float) or value != value:
        raise ValueError
    return float(value)


def parse_duration(value: Any) -> timedelta:
    """ "10 s", "1.5 h": a number and a unit of UNITS."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(ms|s|min|h|d)", value) if isinstance(value, str) else None
    if not found:
        raise ValueError
    try:
        return float(found[1]) * UNITS[found[2]]
    except OverflowError:
        raise ValueError from None


def _positive(value: Any) -> timedelta:
    found = parse_duration(value)
    if not found:
        raise ValueError
    return found


def _date(value: Any) -> date:
    # A datetime is a date in Python, too.
    if not isinstance(value, date) or isinstance(value, datetime) or value < EPOCH:
        raise ValueError
    return value


def _pattern(value: Any) -> str:
    tokens = value.split(".") if isinstance(value, str) else [""]
    if "" in tokens or ">" in tokens[:-1] or any(set(token) & set(" \t\r\n") for token in tokens):
        raise ValueError
    return str(value)


def _subject(value: Any) -> str:
    if set(_pattern(value)) & set("*>"):
        raise ValueError
    return str(value)


def _choice(*words: str) -> Kind:
    def parse(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    quoted = [f'"{word}"' for word in words]
    return Kind(" or ".join(quoted) if len(quoted) < 3 else f"one of {', '.join(quoted)}", parse)


TEXT = Kind("a text", _typed(str))
FIELD = Kind("a field's name", _name)
DIRECTORY = Kind("a directory that driver and executors share, no URL", _directory)
TRUTH = Kind("true or false", _typed(bool))
NUMERIC = Kind("a number", _number)
IDENTIFIER = Kind("a name of letters, digits, - and _, which begins with a letter", _matching(NAME))
BUCKET_NAME = Kind("a bucket's name, of letters, digits, - and _", _matching(BUCKET))
DURATION = Kind('a duration such as "10 s" (ms, s, min, h, d)', parse_duration)
POSITIVE = Kind('a duration longer than nothing, such as "10 s" (ms, s, min, h, d)', _positive)
DATE = Kind("a date such as 2000-01-01 (without quotation marks), not before 1970", _date)
PATTERN = Kind('a subject, which may have wildcards, such as "weather.*.observation"', _pattern)
SUBJECT = Kind('a subject without wildcards, such as "weather.daily"', _subject)
TABLE = Kind("a table of keys", _typed(dict))

KEYS: dict[str, tuple[Key, ...]] = {
    "": (
        Key("name", IDENTIFIER, REQUIRED, "the job's name; part of the ids of what it publishes"),
        Key("tables", DIRECTORY, REQUIRED, "directory of the tables; a relative one is beside the file"),
        Key("checkpoint", DIRECTORY, "", "Spark's checkpoint; default: `_checkpoint` in the tables' directory"),
        Key("format", _choice(PARQUET, DELTA), PARQUET, "of the tables; `delta` needs delta-spark, see below"),
        Key(
            "connection",
            TABLE,
            {},
            "options of the data source for reading and publishing: `servers`, `domain`, `user` ...",
        ),
        Key("source", TABLE, REQUIRED, "options of the data source for reading: `stream`, `subject` ..."),
        Key("spark", TABLE, {}, "Spark's own settings, each under its full name in quotation marks"),
    ),
    "run": (
        Key(
            "mode",
            _choice(ONCE, CONTINUOUS),
            ONCE,
            "`once`: take what is there and end; `continuous`: go on until stopped",
        ),
        Key("every", DURATION, "0 s", "continuous: time from one batch's begin to the next; `0 s`: at once"),
        Key(
            "rows_max",
            Kind(f"a whole number from 1 to {ROWS_MAX:,}", _integer(1, ROWS_MAX)),
            200_000,
            "messages a batch",
        ),
        Key(
            "gold_every",
            DURATION,
            "10 s",
            "continuous: how often touched windows are computed; mode `once` does so at its end",
        ),
        Key("master", TEXT, "", "Spark's master, such as `local[*]`; default: spark-submit's, or `local[*]`"),
    ),
    "silver": (
        Key("name", IDENTIFIER, REQUIRED, "the table's name"),
        Key(
            "subject",
            PATTERN,
            REQUIRED,
            "messages of these subjects; the first table whose pattern fits takes a message",
        ),
        Key("fields", TABLE, REQUIRED, "the payload's fields and their types, see below"),
        Key("device", FIELD, "device", "the field that names the device"),
        Key(
            "device_token",
            Kind("a token's number, from 1", _integer(1, 255)),
            0,
            "instead: the token of the subject that does",
        ),
        Key(
            "time", FIELD, "time", "the field with the observation's time; `stream`: when the stream stored the message"
        ),
        Key("time_unit", _choice(*TIME_UNITS), "rfc3339", "how that field gives it: a text, or a number since 1970"),
        Key("not_before", DATE, date(2000, 1, 1), "an earlier observation is a dead letter"),
        Key("ahead_max", DURATION, "1 d", "one that is so much later than the stream's time of its message is, too"),
        Key(
            "age_max",
            POSITIVE,
            None,
            "one that is so much earlier than that time is, too; bounds how many partitions a batch touches",
        ),
        Key("every", POSITIVE, None, "a device is expected to report so often: `health` counts what is missing"),
        Key("sequence", TEXT, "", "a field with the device's own counter: `health` counts what is missing in it"),
        Key(
            "partition",
            _choice(DAY, MONTH),
            DAY,
            "what a directory of the table covers; `month` where a day has few rows",
        ),
    ),
    "silver.fields": (
        Key("type", _choice(NUMBER, INTEGER, STRING, BOOLEAN), REQUIRED, "`number` and `integer` are metrics of gold"),
        Key("min", NUMERIC, None, "a lower value makes the message a dead letter"),
        Key("max", NUMERIC, None, "a higher one"),
        Key("required", TRUTH, False, "without this field, or with null, the message is a dead letter"),
    ),
    "results": (
        Key(
            "last_values",
            BUCKET_NAME,
            "",
            "key-value bucket (stream `KV_<bucket>`) that gets each device's last values",
        ),
        Key("windows", SUBJECT, "", "prefix of the subjects under which changed windows are published"),
        Key("window", _choice(HOUR, DAY), DAY, "which windows"),
    ),
    "results.alarms": (
        Key("name", IDENTIFIER, REQUIRED, "the alarm's name"),
        Key("silver", TEXT, REQUIRED, "the table that it watches"),
        Key("subject", SUBJECT, REQUIRED, "published as `<subject>.<alarm>.<device>`"),
        Key("field", TEXT, "", "the metric that it watches"),
        Key("above", NUMERIC, None, "an hour with a higher value raises it, once"),
        Key("below", NUMERIC, None, "an hour with a lower value"),
        Key("silence", POSITIVE, None, "a day in which a device was silent for longer"),
    ),
}


class _Reader:
    """Reads tables by KEYS and collects what is wrong."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def fault(self, text: str) -> None:
        self.faults.append(text)

    def section(self, section: str, where: str, given: Any, also: tuple[str, ...] = ()) -> dict[str, Any]:
        """The values of a table; those that are wrong have their default. `also`: keys that are tables of their own."""
        keys = {key.name: key for key in KEYS[section]}
        prefix = f"{where}." if where else ""
        if not isinstance(given, dict):
            self.fault(f"{where} must be a table: [{where}]")
            given = {}
        for name in given:
            if name not in keys and name not in also:
                near = difflib.get_close_matches(name, [*keys, *also], 1)
                hint = f"do you mean {near[0]}?" if near else f"there are {', '.join([*keys, *also])}"
                self.fault(f"{prefix}{name}: no such key; {hint}")
        return {name: self._value(f"{prefix}{name}", key, given) for name, key in keys.items()}

    def _value(self, where: str, key: Key, given: dict[str, Any]) -> Any:
        if key.name not in given:
            if key.default is REQUIRED:
                self.fault(f"{where} is missing; write {key.kind.wanted}: {key.about}")
                return None
            usable = isinstance(key.default, str) and key.kind in (DURATION, POSITIVE)
            return parse_duration(key.default) if usable else key.default
        try:
            return key.kind.parse(given[key.name])
        except ValueError:
            self.fault(f"{where} is {_shown(given[key.name])}; write {key.kind.wanted}")
            return None if key.default is REQUIRED else key.default


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 60 else f"{text[:57]}..."


def _options(reader: _Reader, where: str, given: Any) -> tuple[tuple[str, str], ...]:
    """Options in the words of Spark, which knows texts only."""
    found = []
    for name, value in (given or {}).items():
        if isinstance(value, bool):
            value = str(value).lower()
        elif not isinstance(value, str | int | float):
            reader.fault(f"{where}.{name} is {_shown(value)}; write a text, a number, true or false")
        found.append((name, str(value)))
    return tuple(found)


def _field(reader: _Reader, where: str, name: str, given: Any) -> Field | None:
    if isinstance(given, str):
        given = {"type": given}
    values = reader.section("silver.fields", where, given)
    if name.lower() in OWN_COLUMNS or not name:
        reader.fault(f'{where}: the table has a column "{name}" of its own; give the payload\'s field another name')
        return None
    numeric = values["type"] in (NUMBER, INTEGER)
    if not numeric and (values["min"] is not None or values["max"] is not None):
        reader.fault(f"{where}: only a number or an integer has min and max")
    if values["min"] is not None and values["max"] is not None and values["min"] > values["max"]:
        reader.fault(f"{where}: min is {values['min']:g} and max is {values['max']:g}, and nothing lies between")
    return Field(name=name, **values) if values["type"] else None


def _schema(reader: _Reader, where: str, given: Any) -> Schema | None:
    before = len(reader.faults)
    values = reader.section("silver", where, given)
    named = values.pop("fields") or {}
    fields = [_field(reader, f"{where}.fields.{name}", name, each) for name, each in named.items()]
    lower = [name.lower() for name in named]
    for name in named:
        if lower.count(name.lower()) > 1:
            reader.fault(f"{where}.fields.{name}: two names that differ in capitals only are one column to Spark")
    if isinstance(given, dict) and "device" in given and "device_token" in given:
        reader.fault(f"{where}: device and device_token exclude each other")
    if values["time"] == NEWEST and isinstance(given, dict) and "time_unit" in given:
        reader.fault(f'{where}.time_unit has no meaning with time = "{NEWEST}"')
    if len(reader.faults) > before:
        return None
    return Schema(fields=tuple(field for field in fields if field), **values)


def _alarm(reader: _Reader, where: str, given: Any, schemas: tuple[Schema, ...]) -> Alarm | None:
    before = len(reader.faults)
    values = reader.section("results.alarms", where, given)
    values["schema"] = values.pop("silver")
    watched = next((schema for schema in schemas if schema.name == values["schema"]), None)
    if watched is None:
        reader.fault(f"{where}.silver is {_shown(values['schema'])}; write the name of a [[silver]] table")
    elif values["field"] and values["field"] not in watched.metrics:
        reader.fault(f"{where}.field is {_shown(values['field'])}; write one of {', '.join(watched.metrics)}")
    bounds = values["above"] is not None or values["below"] is not None
    if bounds != bool(values["field"]):
        reader.fault(f"{where}: a field needs above or below, and they need a field")
    if not bounds and values["silence"] is None:
        reader.fault(f"{where} watches nothing; write field with above or below, or silence")
    if bounds and values["silence"] is not None:
        reader.fault(f"{where}: a field and silence are two alarms; write each as one")
    return Alarm(**values) if len(reader.faults) == before else None


def _tables(reader: _Reader, where: str, given: Any) -> list[Any]:
    if not isinstance(given, list):
        reader.fault(f"{where} must be tables: [[{where}]]")
        return []
    return given


def _unique(reader: _Reader, where: str, names: list[str]) -> None:
    for name in sorted({name for name in names if names.count(name) > 1}):
        reader.fault(f'{where}: two are called "{name}"')


def parse_job(text: str, path: Path) -> Job:
    """The job that a file's text describes; a JobError names each fault."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{path}: not TOML: {error}") from None
    reader = _Reader()
    top = reader.section("", "", given, ("run", "silver", "results"))
    if top["format"] == DELTA and (fault := delta_fault()):
        reader.fault(f'format is "{DELTA}", which does not go here: {fault}')
    run = reader.section("run", "run", given.get("run", {}))
    listed = [
        _schema(reader, f"silver[{number}]", each)
        for number, each in enumerate(_tables(reader, "silver", given.get("silver", [])))
    ]
    schemas = tuple(schema for schema in listed if schema)
    _unique(reader, "silver", [schema.name for schema in schemas])
    results = _results(reader, given.get("results", {}), schemas)
    connection, source = _options(reader, "connection", top["connection"]), _options(reader, "source", top["source"])
    spark = _options(reader, "spark", top["spark"])
    _judge_options(reader, dict(connection), dict(source))
    if reader.faults:
        raise JobError("\n".join(f"{path}: {fault}" for fault in reader.faults))
    tables = (path.resolve().parent / top["tables"]).resolve()
    return Job(
        name=top["name"],
        tables=tables,
        checkpoint=(path.resolve().parent / top["checkpoint"]).resolve()
        if top["checkpoint"]
        else tables / "_checkpoint",
        format=top["format"],
        connection=connection,
        source=source,
        spark=spark,
        schemas=schemas,
        results=results,
        **run,
    )


def _results(reader: _Reader, given: Any, schemas: tuple[Schema, ...]) -> Results:
    values = reader.section("results", "results", given, ("alarms",))
    more = _tables(reader, "results.alarms", given.get("alarms", [])) if isinstance(given, dict) else []
    alarms = [_alarm(reader, f"results.alarms[{number}]", each, schemas) for number, each in enumerate(more)]
    found = tuple(alarm for alarm in alarms if alarm)
    _unique(reader, "results.alarms", [alarm.name for alarm in found])
    return Results(alarms=found, **values)


def _judge_options(reader: _Reader, connection: dict[str, str], source: dict[str, str]) -> None:
    """Ask the data source for its own opinion, so that a fault shows before Spark has been started."""
    for name in sorted(connection.keys() & source.keys()):
        reader.fault(f"source.{name} stands in [connection] as well; leave out one")
    for name in source:
        if name.lower() in ("maxoffsetspertrigger", "maxmessagespertrigger"):
            reader.fault(f"source.{name}: write rows_max in [run]")
            return
    try:
        parse_options(connection | source, streaming=True)
    except ValueError as error:
        reader.fault(f"source: {error}")


def read_job(path: Path) -> Job:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{path}: cannot be read: {error}") from None
    return parse_job(text, path)
