"""spark-jobs.md says what the code does: its tables of keys are those of the code, its examples are jobs."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date, timedelta
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from leafd_spark.jobs.command import COMMANDS, SCHEMA
from leafd_spark.jobs.jobfile import json_schema, parse_job, wanted
from leafd_spark.jobs.model import SECTIONS, UNITS, Table
from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "packaging" / "doc" / "spark-jobs.md").read_text()


def is_table(key: FieldInfo) -> bool:
    """Whether its keys are listed in a section of their own, which no other key of the file leads to."""
    parts = (key.annotation, *get_args(key.annotation))
    return (
        any(isinstance(part, type) and issubclass(part, Table) for part in parts)
        and get_origin(key.annotation) is not dict
    )


KEYS: dict[str, dict[str, FieldInfo]] = {
    section: {name: key for name, key in model.model_fields.items() if not is_table(key)}
    for section, model in SECTIONS.items()
}
"""The keys of each table that are none themselves."""


def default_of(key: FieldInfo) -> str:
    if key.is_required():
        return "required"
    if key.default in (None, "", 0) and not isinstance(key.default, bool):
        return ""
    if isinstance(key.default, timedelta):
        name, unit = next(
            (n, u) for n, u in reversed(UNITS.items()) if (key.default and not key.default % u) or n == "s"
        )
        return f'`"{key.default // unit} {name}"`'
    if isinstance(key.default, date):
        return f"`{key.default}`"
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    if isinstance(key.default, dict):
        return ""
    return f"`{key.default:_}`" if isinstance(key.default, int) else f'`"{key.default}"`'


def table_of(section: str) -> str:
    """A section's keys as the page has them."""
    rows = [
        f"| `{name}` | {default_of(key)} | {key.description} | {wanted(key)} |" for name, key in KEYS[section].items()
    ]
    return "\n".join(["| key | default | what it is | what to write |", "|---|---|---|---|", *rows]) + "\n"


@pytest.mark.parametrize("section", KEYS, ids=lambda section: section or "top")
def test_the_page_has_every_key_as_the_code_has_it(section: str) -> None:
    """Name, default, meaning and form: a key that changes changes its line, which this test prints."""
    assert table_of(section) in PAGE, table_of(section)


def test_every_example_of_the_page_is_a_job() -> None:
    """What a reader copies is accepted, and the demo's job with it."""
    examples = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    examples.append((ROOT / "deploy" / "demo_job" / "weather.toml").read_text())
    assert len(examples) > 1
    for example in examples:
        parse_job(example, Path("job.toml"))


def test_the_first_example_uses_every_key() -> None:
    """Who reads it has seen each key in its place, but those that exclude another one."""
    given = tomllib.loads(re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0])
    places: dict[str, Any] = {
        "": given,
        "run": given["run"],
        "silver": given["silver"][0],
        "silver.fields": {name: 0 for field in given["silver"][0]["fields"].values() for name in dict(field)},
        "results": given["results"],
        "results.alarms": {name: 0 for alarm in given["results"]["alarms"] for name in alarm},
    }
    excluded = {"device_token"}
    for section, keys in KEYS.items():
        assert keys.keys() - excluded <= places[section].keys(), section


def test_the_page_names_every_command() -> None:
    """What `leafd-spark --help` lists, the page lists."""
    for name in (*COMMANDS, SCHEMA):
        assert f"leafd-spark {name} " in PAGE


def test_editors_are_told_each_key_with_its_meaning() -> None:
    """The JSON Schema has all tables, refuses keys that are not there, and knows what is required."""
    schema = json.loads(json_schema())
    definitions = schema["$defs"]
    assert ["name", "tables", "source"] == schema["required"]
    assert {"Silver", "FieldTable", "AlarmTable", "ResultsTable", "Run"} <= definitions.keys()
    assert schema["additionalProperties"] is False
    assert definitions["Silver"]["additionalProperties"] is False
    assert "messages a batch" == definitions["Run"]["properties"]["rows_max"]["description"]
    assert 5_000_000 == definitions["Run"]["properties"]["rows_max"]["maximum"]
