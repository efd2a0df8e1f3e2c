"""A job's file: what is wrong with it is said with file, key and what to write, all at once."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from leafd_spark.jobs.command import main
from leafd_spark.jobs.job import Alarm, Field
from leafd_spark.jobs.jobfile import JobError, parse_job

GOOD = """
name = "j"
tables = "t"
[source]
stream = "S"
[[silver]]
name = "obs"
subject = "a.>"
[silver.fields]
temp = "number"
"""
PATH = Path("/etc/jobs/j.toml")


def faults(text: str) -> list[str]:
    with pytest.raises(JobError) as found:
        parse_job(text, PATH)
    return str(found.value).splitlines()


def test_a_file_becomes_a_job_with_defaults() -> None:
    """Directories are beside the file; what is not given has the documented value."""
    job = parse_job(GOOD, PATH)
    assert (job.tables, job.checkpoint) == (Path("/etc/jobs/t"), Path("/etc/jobs/t/_checkpoint"))
    assert job.schemas[0].fields == (Field("temp", "number"),)
    assert (job.schemas[0].not_before, job.schemas[0].ahead_max) == (date(2000, 1, 1), timedelta(days=1))
    assert job.reading() == {"maxOffsetsPerTrigger": "200000", "stream": "S"}


def test_all_values_of_a_file_arrive() -> None:
    """Numbers, durations, dates, options of every type."""
    job = parse_job(
        GOOD.replace('stream = "S"', 'stream = "S"\nincludeHeaders = false\nparallelism = 3\n[run]\nevery = "250 ms"')
        + 'n = { type = "integer", min = 0, required = true }\n[results]\nlast_values = "L"\n'
        + '[[results.alarms]]\nname = "x"\nsilver = "obs"\nsubject = "al"\nfield = "n"\nabove = 5\n',
        PATH,
    )
    assert dict(job.source) == {"stream": "S", "includeHeaders": "false", "parallelism": "3"}
    assert job.every == timedelta(milliseconds=250)
    assert job.schemas[0].fields[1] == Field("n", "integer", min=0.0, required=True)
    assert job.results.alarms == (Alarm("x", "obs", "al", field="n", above=5.0),)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[source]", "[source"), "not TOML: "),
        (('tables = "t"', ""), "tables is missing; write a directory that driver"),
        (('name = "j"', "name = 5"), "name is 5; write a name of letters, digits, - and _, which begins with a letter"),
        (('tables = "t"', 'tables = "t"\ncheckpiont = "x"'), "checkpiont: no such key; do you mean checkpoint?"),
        (('tables = "t"', 'tables = "t"\nformat = "iceberg"'), 'format is "iceberg"; write "parquet" or "delta"'),
        (('tables = "t"', 'tables = "t"\n[run]\nmode = "twice"'), 'run.mode is "twice"; write "once" or "continuous"'),
        (('tables = "t"', 'tables = "t"\n[run]\nevery = 5'), 'run.every is 5; write a duration such as "10 s"'),
        (('tables = "t"', 'tables = "t"\n[run]\nrows_max = true'), "run.rows_max is true; write a whole number"),
        (('stream = "S"', ""), "source: option stream is missing"),
        (('stream = "S"', 'stream = "S"\nstraem = "x"'), "source: no such option: straem"),
        (('stream = "S"', 'stream = "S"\nmaxOffsetsPerTrigger = 5'), "source.maxOffsetsPerTrigger: write rows_max in"),
        (('stream = "S"', 'stream = ["S"]'), "source.stream is ['S']; write a text, a number, true or false"),
        (('subject = "a.>"', 'subject = "a..b"'), 'silver[0].subject is "a..b"; write a subject'),
        (('subject = "a.>"', 'subject = "a.>"\nnot_before = "2000-01-01"'), "silver[0].not_before is"),
        (('subject = "a.>"', 'subject = "a.>"\nnot_before = 1960-01-01'), "silver[0].not_before is"),
        (('subject = "a.>"', 'subject = "a.>"\ndevice = "d"\ndevice_token = 2'), "silver[0]: device and device_token"),
        (
            ('temp = "number"', 'temp = "float"'),
            'silver[0].fields.temp.type is "float"; write one of "number", "integer"',
        ),
        (('temp = "number"', 'Sequence = "number"'), "silver[0].fields.Sequence: the table has a column"),
        (
            ('temp = "number"', 'a = "number"\nA = "string"'),
            "silver[0].fields.a: two names that differ in capitals only",
        ),
        (
            ('temp = "number"', 'temp = { type = "string", min = 3 }'),
            "silver[0].fields.temp: only a number or an integer",
        ),
        (("[[silver]]", "[silver]"), "silver must be tables: [[silver]]"),
        (('subject = "a.>"', 'subject = "a.>"\ndevice = ""'), 'silver[0].device is ""; write a field\'s name'),
        (('tables = "t"', 'tables = ""'), 'tables is ""; write a directory'),
        (('tables = "t"', 'tables = "a\\u0000b"'), 'tables is "a\0b"; write a directory'),
        (('tables = "t"', 'tables = "s3a://bucket/t"'), 'tables is "s3a://bucket/t"; write a directory'),
        (('tables = "t"', 'tables = "t"\nspark = { a = [1] }'), "spark.a is [1]; write a text"),
        (
            ('temp = "number"', 'temp = { type = "number", min = 5, max = 1 }'),
            "silver[0].fields.temp: min is 5 and max",
        ),
    ],
)
def test_a_fault_is_named_with_its_key_and_what_to_write(change: tuple[str, str], said: str) -> None:
    """Each fault begins with the file and the key."""
    assert change[0] in GOOD
    assert any(fault.startswith(f"{PATH}: {said}") for fault in faults(GOOD.replace(*change))), faults(
        GOOD.replace(*change)
    )


@pytest.mark.parametrize(
    ("alarm", "said"),
    [
        ('silver = "other"\nfield = "temp"\nabove = 1', 'silver is "other"; write the name of a [[silver]] table'),
        ('silver = "obs"\nfield = "humid"\nabove = 1', 'field is "humid"; write one of temp'),
        ('silver = "obs"\nfield = "temp"', "a field needs above or below"),
        ('silver = "obs"', "watches nothing"),
        ('silver = "obs"\nfield = "temp"\nabove = 1\nsilence = "1 h"', "a field and silence are two alarms"),
    ],
)
def test_an_alarm_watches_one_thing_that_is_there(alarm: str, said: str) -> None:
    """A metric of a table with a bound, or silence."""
    found = faults(f'{GOOD}[[results.alarms]]\nname = "x"\nsubject = "al"\n{alarm}\n')
    assert any(said in fault for fault in found), found


def test_all_faults_are_said_together() -> None:
    """A person mends them in one go."""
    assert len(faults(GOOD.replace('name = "j"', "name = 5").replace('"number"', '"float"'))) == 2


def test_the_command_says_what_is_wrong_and_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file as well as a wrong one, before anything is started."""
    path = tmp_path / "j.toml"
    assert main(["run", str(path)]) == 2
    assert f"{path}: cannot be read" in capsys.readouterr().err
    path.write_text(GOOD + "x = 1\n")
    assert main(["run", str(path)]) == 2
    assert "silver[0].fields.x" in capsys.readouterr().err
