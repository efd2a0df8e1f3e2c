"""The Spark job of weather.toml in a process of its own, which runs it when it is told, in one session.

To make a session takes longer than the job, and a first run, which starts Python workers and has the JVM compile, four
times as long as a second. So the session is made while the stations still send, the first run takes in what is there by
then, and the one at the end the rest: each goes on from the checkpoint of the one before, as with a timer.

A line "run" on standard input is one run; its answer on standard output is "done ROWS" or "failed WHY". The end of the
input ends the process. Not here: when it is told (computing.py), the job itself.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from leafd_spark.jobs.jobfile import read_job
from leafd_spark.jobs.runner import Runner
from leafd_spark.jobs.session import session

JOB = Path(__file__).with_name("weather.toml")


def main() -> int:
    parser = argparse.ArgumentParser(prog="spark_side")
    parser.add_argument("servers")
    parser.add_argument("tables", type=Path)
    given = parser.parse_args()
    tables = given.tables.resolve()
    job = dataclasses.replace(
        read_job(JOB), connection=(("servers", given.servers),), tables=tables, checkpoint=tables / "_checkpoint"
    )
    spark = session("local[*]", job.name)
    spark.sparkContext.setLogLevel("ERROR")
    print("ready", flush=True)
    try:
        for _ in sys.stdin:
            try:
                print(f"done {Runner(spark, job).run()}", flush=True)
            except Exception as error:  # the hub may be killed meanwhile: the next run goes on from the checkpoint
                print(f"failed {' '.join(str(error).split())[:300]}", flush=True)
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
