"""`leafd-spark`: run a job, or say what it would do. Arguments and exit codes live here, nothing of the work itself.

0: done; 1: it could not be done; 2: the command line or the job's file is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .job import Job
from .jobfile import JobError, read_job
from .partitions import TableError


def _run(job: Job) -> None:
    from .runner import Runner

    spark = _session(job)
    try:
        print(f"{job.name}: read {Runner(spark, job).run():,} messages")
    finally:
        spark.stop()


def _session(job: Job):  # type: ignore[no-untyped-def]  # pyspark ships no types here
    import os

    from .session import session

    # spark-submit says its master to the JVM, which it has started already.
    master = job.master or ("" if "PYSPARK_GATEWAY_PORT" in os.environ else "local[*]")
    spark = session(master, job.name, dict(job.spark))
    spark.sparkContext.setLogLevel("ERROR")
    return spark


COMMANDS = {"run": (_run, "read what the stream has and bring the tables up to date")}


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="leafd-spark", description="Jobs on Spark: a stream becomes tables.")
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, about) in COMMANDS.items():
        one = commands.add_parser(name, help=about, description=about)
        one.add_argument("job", type=Path, metavar="JOB.toml")
    return found


def main(arguments: list[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    try:
        job = read_job(given.job)
    except JobError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        COMMANDS[given.command][0](job)
    except TableError as error:
        print(f"leafd-spark: {error}", file=sys.stderr)
        return 1
    return 0
