#!/usr/bin/env python3
"""Measures the Spark sink: rows a second that one core of Spark publishes to a stream, on leafd and on nats-server.

    tests/bench/bench_spark_sink.py [--rows 300000] [--rounds 3]

A local[1] session (one task at a time) writes a cached table of 150-byte rows, each acknowledged, to ten subjects of a
file stream. The first round warms the session up and is not counted; printed is the median of the others. Beside it the
client alone: the same rows from Arrow batches through the window without Spark, with its CPU time a row.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa
from leafd_spark.fetch import api, dial
from leafd_spark.options import Options, parse_options
from leafd_spark.sink.outgoing import RowWriter
from leafd_spark.sink.publish import Window

from tests import servers

CONFIGURATION = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
STREAM = {"name": "BENCH", "subjects": ["bench.>"], "storage": "file"}
GOAL = 150_000  # rows/s of one core
BATCH = 10_000  # rows: what Spark hands over at a time


def fresh(options: Options) -> None:
    """An empty stream: a round is not to pay for what the rounds before it stored."""
    with dial(options) as connection, contextlib.suppress(Exception):
        api(connection, options, "STREAM.DELETE.BENCH", {})
    with dial(options) as connection:
        api(connection, options, "STREAM.CREATE.BENCH", STREAM)


def check(options: Options, rows: int) -> None:
    with dial(options) as connection:
        found = api(connection, options, "STREAM.INFO.BENCH", {})["state"]["messages"]
    if found != rows:
        raise SystemExit(f"the stream has {found} messages, not {rows}")


def write_in_spark(table: Any, options: dict[str, str]) -> float:
    began = time.perf_counter()
    table.write.format("nats").options(**options).mode("append").save()
    return time.perf_counter() - began


def batches(rows: int) -> list[Any]:
    found = []
    for start in range(0, rows, BATCH):
        numbers = range(start, min(rows, start + BATCH))
        data = [b"%0150d" % number for number in numbers]
        found.append(pa.record_batch({"subject": [f"bench.{number % 10}" for number in numbers], "data": data}))
    return found


def write_alone(options: Options, given: list[Any], scope: str) -> tuple[float, float]:
    """Seconds and CPU seconds of the client without Spark."""
    began, cpu = time.perf_counter(), time.process_time()
    window = Window(options)
    RowWriter(options, ["subject", "data"], scope, 0, window).write(given)
    window.close()
    return time.perf_counter() - began, time.process_time() - cpu


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="the client alone, without Spark")
    given = parser.parse_args()
    in_spark: dict[str, list[float]] = {kind: [] for kind in servers.KINDS}
    alone: dict[str, list[tuple[float, float]]] = {kind: [] for kind in servers.KINDS}
    with contextlib.ExitStack() as stack:
        urls = {kind: stack.enter_context(servers.running(kind, CONFIGURATION)).url for kind in servers.KINDS}
        table = None if given.alone else _table(stack, given.rows)
        rows = batches(given.rows)
        for round_number in range(given.rounds + 1):
            for kind, url in urls.items():
                options = parse_options({"servers": url, "stream": "BENCH"})
                if table is not None:
                    fresh(options)
                    in_spark[kind].append(write_in_spark(table, {"servers": url}))
                    check(options, given.rows)
                fresh(options)
                alone[kind].append(write_alone(options, rows, f"round-{round_number}"))
                check(options, given.rows)
    print("| server | Spark local[1], rows/s | goal | client alone, rows/s | client CPU, us a row |")
    print("|---|---|---|---|---|")
    for kind in servers.KINDS:
        rate = f"{given.rows / statistics.median(in_spark[kind][1:]):,.0f}" if table is not None else ""
        seconds, cpu = (statistics.median(values) for values in zip(*alone[kind][1:], strict=True))
        print(f"| {kind} | {rate} | {GOAL:,} | {given.rows / seconds:,.0f} | {1e6 * cpu / given.rows:.2f} |")
    return 0


def _table(stack: contextlib.ExitStack, rows: int) -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from leafd_spark.datasource import register
    from leafd_spark.jobs.session import session

    spark = session("local[1]")
    stack.callback(spark.stop)
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    numbers = spark.range(0, rows, 1, 1)
    table = numbers.selectExpr("concat('bench.', id % 10) as subject", "lpad(string(id), 150, '0') as data").cache()
    table.count()
    return table


if __name__ == "__main__":
    sys.exit(main())
