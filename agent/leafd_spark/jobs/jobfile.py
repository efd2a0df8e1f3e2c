"""A job's TOML file read: into the frozen job that it describes, or into a line for each fault.

    text --tomllib--> tables --model.py--> JobTable --> Job (job.py)
                                 `-> errors of pydantic --> "silver[0].every is 5; write a duration ..."

All faults of a file are reported together, each with the key and what to write. Not here: which keys
there are (model.py), what a job does with a value, the options in [connection] and [source], which the data source
itself judges (`leafd_spark.options`).
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from leafd_spark.options import parse_options

from .formats import FORMATS
from .job import Alarm, Field, Job, Results, Schema
from .model import FAULT, JobTable, ResultsTable, Silver, Wanted

Place = tuple[str | int, ...]


class JobError(Exception):
    """A job's file cannot be used; the text has a line for each fault."""


def parse_job(text: str, path: Path) -> Job:
    """The job that a file's text describes; a JobError names each fault."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{path}: not TOML: {error}") from None
    try:
        table = JobTable.model_validate(given)
        faults = list(_beyond_one_table(table))
    except ValidationError as error:
        table, faults = None, list(dict.fromkeys(map(_told, error.errors(include_url=False))))
    faults += _judged_options(given)
    if table is None or faults:
        raise JobError("\n".join(f"{path}: {fault}" for fault in faults))
    return _job(table, path)


def read_job(path: Path) -> Job:
    """The same of a file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{path}: cannot be read: {error}") from None
    return parse_job(text, path)


def json_schema() -> str:
    """For editors that know TOML: keys, kinds and meanings."""
    return json.dumps(JobTable.model_json_schema(), indent=2)


# ---- what is wrong, in words


def wanted(field: FieldInfo) -> str:
    """The text that describes the value of a key."""
    for one in field.metadata:
        if isinstance(one, Wanted):
            return one.text
    for part in (field.annotation, *get_args(field.annotation)):
        found = next((one.text for one in getattr(part, "__metadata__", ()) if isinstance(one, Wanted)), "")
        if found:
            return found
    if get_origin(field.annotation) is Literal:
        quoted = [f'"{word}"' for word in get_args(field.annotation)]
        return " or ".join(quoted) if len(quoted) < 3 else f"one of {', '.join(quoted)}"
    return "a table of keys"


def _told(error: Mapping[str, Any]) -> str:
    """A fault as pydantic found it, as a sentence."""
    place: Place = error["loc"]
    kind, given = error["type"], error["input"]
    where = spelt(place)
    if kind == FAULT:
        below = error["ctx"]["below"]
        return f"{where}.{below}: {error['ctx']['text']}" if below else f"{where}: {error['ctx']['text']}"
    if kind == "extra_forbidden":
        model, _ = _declared(place[:-1])
        names = list(model.model_fields) if model is not None else []
        near = difflib.get_close_matches(str(place[-1]), names, 1)
        return f"{where}: no such key; " + (f"do you mean {near[0]}?" if near else f"there are {', '.join(names)}")
    if kind == "list_type":
        return f"{where} must be tables: [[{where}]]"
    if kind in ("model_type", "dict_type"):
        return f"{where} must be a table: [{where}]"
    _, field = _declared(place)
    if kind == "missing" and field is not None:
        return f"{where} is missing; write {wanted(field)}: {field.description}"
    return (
        f"{where} is {_shown(given)}; write {wanted(field) if field is not None else 'a text, a number, true or false'}"
    )


def spelt(place: Place) -> str:
    """silver[0].fields.temp.type"""
    found = ""
    for part in place:
        found += f"[{part}]" if isinstance(part, int) else f".{part}" if found else part
    return found


def _declared(place: Place) -> tuple[type[BaseModel] | None, FieldInfo | None]:
    """The model that a place leads to, if it is a table; and what is declared for its last key."""
    model: type[BaseModel] | None = JobTable
    field: FieldInfo | None = None
    named = False  # the next key is a name of the user's choice
    for part in place:
        if isinstance(part, int):
            continue
        if named:
            named = False
            continue
        if model is None:
            return None, None
        field = model.model_fields.get(part)
        model = next(_models(field.annotation), None) if field is not None else None
        named = field is not None and get_origin(field.annotation) is dict and model is not None
    return model, field


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 60 else f"{text[:57]}..."


# ---- what no table can know by itself


def _beyond_one_table(table: JobTable) -> Iterator[str]:
    if fault := FORMATS[table.format].fault():
        yield f'format is "{table.format}", which does not go here: {fault}'
    yield from _unique("silver", [one.name for one in table.silver])
    yield from _unique("results.alarms", [one.name for one in table.results.alarms])
    metrics = {one.name: _schema(one).metrics for one in table.silver}
    for number, alarm in enumerate(table.results.alarms):
        where = f"results.alarms[{number}]"
        if alarm.silver not in metrics:
            yield f"{where}.silver is {_shown(alarm.silver)}; write the name of a [[silver]] table"
        elif alarm.field and alarm.field not in metrics[alarm.silver]:
            yield f"{where}.field is {_shown(alarm.field)}; write one of {', '.join(metrics[alarm.silver])}"


def _unique(where: str, names: list[str]) -> Iterator[str]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f'{where}: two are called "{name}"'


def _judged_options(given: Mapping[str, Any]) -> list[str]:
    """The data source's own opinion, so that a fault shows before Spark has been started."""
    found = [given.get(name, {}) for name in ("connection", "source")]
    if not all(isinstance(one, dict) and all(map(_is_option, one.values())) for one in found) or "source" not in given:
        return []  # that is a fault, and told as one
    connection, source = (dict(_options(one)) for one in found)
    faults = [
        f"source.{name} stands in [connection] as well; leave out one"
        for name in sorted(connection.keys() & source.keys())
    ]
    limits = ("maxoffsetspertrigger", "maxmessagespertrigger")
    if taken := [name for name in source if name.lower() in limits]:
        return [*faults, f"source.{taken[0]}: write rows_max in [run]"]
    try:
        parse_options(connection | source, streaming=True)
    except ValueError as error:
        faults += [f"source: {line}" for line in str(error).splitlines()]
    return faults


def _is_option(value: Any) -> bool:
    return isinstance(value, str | bool | int | float)


def _options(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """In the words of Spark, which knows texts only."""
    return tuple((name, _shown(value) if isinstance(value, bool) else str(value)) for name, value in given.items())


# ---- the job


def _job(table: JobTable, path: Path) -> Job:
    folder = path.resolve().parent
    tables = (folder / table.tables).resolve()
    return Job(
        name=table.name,
        tables=tables,
        checkpoint=(folder / table.checkpoint).resolve() if table.checkpoint else tables / "_checkpoint",
        format=table.format,
        connection=_options(table.connection),
        source=_options(table.source),
        spark=_options(table.spark),
        schemas=tuple(map(_schema, table.silver)),
        results=_results(table.results),
        **dict(table.run),
    )


def _schema(table: Silver) -> Schema:
    fields = tuple(Field(name, **dict(one)) for name, one in table.fields.items())
    return Schema(**{**dict(table), "fields": fields})


def _results(table: ResultsTable) -> Results:
    alarms = []
    for one in table.alarms:
        values = dict(one)
        alarms.append(Alarm(schema=values.pop("silver"), **values))
    return Results(**{**dict(table), "alarms": tuple(alarms)})
