"""`leafd-spark`: run a job, look after its tables, or say what it would do. Arguments and exit codes, not the work.

0: done; 1: it could not be done; 2: the command line or the job's file is wrong. What needs no Spark imports none.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .formats import FORMATS
from .job import Job
from .jobfile import JobError, json_schema, read_job
from .partitions import TableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .runner import Runner


def _run(job: Job, given: argparse.Namespace) -> str:
    return _with_runner(job, lambda runner: f"read {runner.run():,} messages")


def _plan(job: Job, given: argparse.Namespace) -> str:
    from .planning import plan

    return plan(job)


def _compact(job: Job, given: argparse.Namespace) -> str:
    with ExitStack() as sessions:
        done = FORMATS[job.format].compact(job, lambda: sessions.enter_context(_session(job)))
    return f"{done.files_before:,} files in {done.places:,} {done.kind} became {done.files_after:,}"


def _rerun(job: Job, given: argparse.Namespace) -> str:
    def work(runner: Runner) -> str:
        found = runner.rerun(given.day)
        return "; ".join(f"silver {name}: {rows:,} rows" for name, rows in found.items())

    return _with_runner(job, work)


def _with_runner(job: Job, work: Callable[[Runner], str]) -> str:
    from .runner import Runner

    with _session(job) as spark:
        return work(Runner(spark, job))


@contextmanager
def _session(job: Job) -> Iterator[SparkSession]:
    from .session import session

    # spark-submit says its master to the JVM, which it has started already.
    master = job.master or ("" if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]")
    settings = dict(job.spark)
    spark = session(master, job.name, settings | FORMATS[job.format].settings(settings))
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@dataclass(frozen=True, slots=True)
class Command:
    work: Callable[[Job, argparse.Namespace], str]
    about: str


COMMANDS = {
    "run": Command(_run, "read what the stream has and bring the tables up to date"),
    "plan": Command(_plan, "say what a run would read, write and publish, and do nothing"),
    "compact": Command(_compact, "merge small files; also while the job runs"),
    "rerun": Command(_rerun, "make a day of silver and gold anew from bronze"),
}


SCHEMA = "schema"
SCHEMA_ABOUT = "print a JSON Schema of jobs' files, for editors"


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="leafd-spark", description="Jobs on Spark: a stream becomes tables.")
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        one = commands.add_parser(name, help=command.about, description=command.about)
        one.add_argument("job", type=Path, metavar="JOB.toml")
        if name == "rerun":
            one.add_argument("--day", type=date.fromisoformat, required=True, help="such as 2026-01-31, in UTC")
    commands.add_parser(SCHEMA, help=SCHEMA_ABOUT, description=SCHEMA_ABOUT)
    return found


def _reason(error: BaseException) -> str:
    """The line of an error that says what happened; Spark puts stack traces around it."""
    text = str(error)
    behind = text.rpartition("Traceback (most recent call last):")[2] if "Traceback (most" in text else text
    if behind != text:  # of a Python process of Spark's: what was raised stands behind its calls, at the margin
        raised = [line for line in behind.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
        behind = raised[0] if raised else text
    lines = [line.strip() for line in behind.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("at ", "File ", "Traceback"))]
    return told[0] if told else type(error).__name__


def main(arguments: list[str] | None = None) -> int:
    given: Any = parser().parse_args(arguments)
    if given.command == SCHEMA:
        print(json_schema())
        return 0
    try:
        job = read_job(given.job)
    except JobError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        print(COMMANDS[given.command].work(job, given))
    except KeyboardInterrupt:
        return 130
    except TableError as error:
        print(f"leafd-spark: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"leafd-spark: {error}; pip install 'leafd[spark]' brings what is needed", file=sys.stderr)
        return 1
    except Exception as error:  # of Spark, the data source or the server
        print(f"leafd-spark: {_reason(error)}", file=sys.stderr)
        return 1
    return 0
