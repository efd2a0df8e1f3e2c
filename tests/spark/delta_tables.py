#!/usr/bin/env python3
"""A job's tables in the format of Delta Lake against the oracle of the Parquet ones: crashes, repetitions, a day anew.

    PYTHONPATH=agent:. PYTHON tests/spark/delta_tables.py [--crashes 12]

PYTHON has pyspark 4.2.0 with a delta-spark that fits it, pytest, pyarrow, numpy and PyNaCl. Delta's jar comes by
Spark's own way (`spark.jars.packages`); LEAFD_DELTA_JARS names files instead, with commas. It needs no server: batches
are made as a run makes them. Status 1 and what differs, if the tables are not the oracle's.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from leafd_spark.jobs import delta
from leafd_spark.jobs.delta import DeltaStore
from leafd_spark.jobs.delta_versions import delta_fault, delta_settings
from leafd_spark.jobs.job import DELTA, Job
from leafd_spark.jobs.partitions import Layout, TableError
from leafd_spark.jobs.rerun import rerun
from leafd_spark.jobs.session import session
from leafd_spark.jobs.tables import Tables

from tests.unit.spark.joboracle import BEGIN, SCHEMA, Hub, check, history, job_in, split, take


class Crash(BaseException):
    """The process is gone."""


def reader(spark: Any) -> Callable[[Path], list[dict[str, Any]]]:
    """The rows of a table, as the oracle has them."""

    def rows_of(folder: Path) -> list[dict[str, Any]]:
        table = spark.read.format("delta").load(str(folder)).toArrow()
        rows: list[dict[str, Any]] = table.to_pylist()
        for row in rows:
            row.update({key: value.astimezone(UTC) for key, value in row.items() if hasattr(value, "astimezone")})
        return rows

    return rows_of


def once(spark: Any, folder: Path, crashes: int, hours: int) -> None:
    """Each run begins with the last batch of the one before, and some end at a transaction: before it or behind it."""
    chance = random.Random(1)
    job = replace(job_in(folder), format=DELTA)
    sent, hub = history(1, hours=hours), Hub()
    batches = split(sent, chance)
    transact, left = delta._again, [0, False]

    def crashing(work: Callable[[], Any]) -> Any:
        left[0] -= 1
        if left[0] == 0 and not left[1]:
            raise Crash
        found = transact(work)
        if left[0] == 0:
            raise Crash
        return found

    delta._again = crashing
    for number in range(crashes):
        left[:] = [number // 2 + 1, bool(number % 2)]
        try:
            take(job, hub, batches[:2], DeltaStore(spark, job))
            print(f"the run ended before transaction {number // 2 + 1}", flush=True)
        except Crash:
            print(f"crash {'behind' if number % 2 else 'before'} transaction {number // 2 + 1}", flush=True)
    delta._again = transact
    for begin in range(0, len(batches), 3):
        take(job, hub, batches[max(0, begin - 1) : begin + 3], DeltaStore(spark, job))
    check(job, sent, rows_of=reader(spark))
    print("the tables are the oracle's after crashes and repetitions", flush=True)
    shutil.rmtree(job.checkpoint, ignore_errors=True)
    take(job, hub, batches, DeltaStore(spark, job))
    check(job, sent, rows_of=reader(spark))
    print("and after all batches came once more", flush=True)
    done = DeltaStore(spark, job).compact()
    assert done.files_before > done.files_after, done
    check(job, sent, rows_of=reader(spark))
    print(f"and after OPTIMIZE and VACUUM: {done.files_before} files became {done.files_after}", flush=True)
    anew(spark, job, sent, hub)


def anew(spark: Any, job: Job, sent: list[Any], hub: Hub) -> None:
    """A day made anew is what it was; with a narrower schema it has less, and with the old one all of it again."""
    day = BEGIN.date()
    narrow = replace(SCHEMA, fields=tuple(replace(each, max=-1000.0) for each in SCHEMA.fields[:1]))
    counts = []
    for schema in (SCHEMA, narrow, SCHEMA):
        changed = replace(job, schemas=(schema,))
        store = DeltaStore(spark, changed)
        with Layout(job.tables).locked(), Tables(changed, store, hub.publish) as tables:
            counts.append(rerun(store, changed, day)[schema.name])
            tables.refresh()
        if schema is SCHEMA:
            check(job, sent, rows_of=reader(spark))
    assert counts[0] == counts[2] > counts[1], counts  # messages without the field are within any bound of it
    print(f"and after a day was made anew: {counts} rows", flush=True)


def other_format(spark: Any, folder: Path) -> None:
    """Tables of one format are not taken for the other's."""
    sent = history(2, hours=1)[:50]
    take(job_in(folder), Hub(), [sent])
    try:
        take(job_in(folder), Hub(), [sent], DeltaStore(spark, job_in(folder)))
    except TableError as error:
        print(f"refused: {error}", flush=True)
    else:
        raise AssertionError("Delta took a directory of Parquet")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crashes", type=int, default=12)
    parser.add_argument("--hours", type=int, default=6, help="of messages")
    given = parser.parse_args()
    if fault := delta_fault():
        raise SystemExit(fault)
    jars = os.environ.get("LEAFD_DELTA_JARS")
    settings = {"spark.ui.showConsoleProgress": "false"} | ({"spark.jars": jars} if jars else {})
    spark = session("local[2]", "delta", settings | delta_settings(settings))
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="leafd-delta-") as folder:
        once(spark, Path(folder) / "tables", given.crashes, given.hours)
        other_format(spark, Path(folder) / "parquet")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
