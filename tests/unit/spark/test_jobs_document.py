"""spark-jobs.md says what the code does: its tables of keys are those of the code, its examples are jobs."""

from __future__ import annotations

import re
import tomllib
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from leafd.spark.jobs.command import COMMANDS
from leafd.spark.jobs.jobfile import KEYS, REQUIRED, UNITS, Key, parse_job

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "packaging" / "doc" / "spark-jobs.md").read_text()


def default_of(key: Key) -> str:
    if key.default is REQUIRED:
        return "required"
    if key.default in (None, "", 0) and not isinstance(key.default, bool):
        return ""
    if isinstance(key.default, timedelta):
        name, unit = next((n, u) for n, u in reversed(UNITS.items()) if not key.default % u)
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
    rows = [f"| `{key.name}` | {default_of(key)} | {key.about} | {key.kind.wanted} |" for key in KEYS[section]]
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
    assert {key.name for key in KEYS[""]} <= places[""].keys()
    for section, keys in KEYS.items():
        assert {key.name for key in keys} - excluded <= places[section].keys(), section


def test_the_page_names_every_command() -> None:
    """What `leafd-spark --help` lists, the page lists."""
    for name in COMMANDS:
        assert f"leafd-spark {name} " in PAGE
