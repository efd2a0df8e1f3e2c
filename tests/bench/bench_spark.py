#!/usr/bin/env python3
"""Measures the Spark source: rows a second that one core of Spark reads off a stream, from leafd and from nats-server.

    tests/bench/bench_spark.py [--rows 1000000] [--rounds 5]

A stream of 150-byte messages is filled once on each server, then read whole in turn, by a local[1] session (one
task at a time) that counts rows and sums their lengths, so that every payload crosses from Python into Spark. The first
round warms the session up and is not counted. Printed is the median of the others, and beside it the client alone: the
same ranges read into Arrow batches without Spark, as CPU time a row.
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

from leafd.spark.fetch import api, dial
from leafd.spark.options import Options, parse_options
from leafd.spark.publish import Outgoing, Window
from leafd.spark.ranges import Range
from leafd.spark.reader import RangeReader

from tests import servers

CONFIGURATION = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
PAYLOAD = b"x" * 150
GOAL = 150_000  # rows/s of one core


def fill(options: Options, rows: int) -> None:
    config = {"name": "BENCH", "subjects": ["bench.>"], "storage": "file", "allow_direct": True}
    with dial(options) as connection:
        api(connection, options, "STREAM.CREATE.BENCH", config)
    window = Window(options)
    messages = [Outgoing(f"bench.{number}", b"", PAYLOAD) for number in range(10)]
    for number in range(rows):
        window.publish(messages[number % 10])
    window.drain()
    window.close()


def read_in_spark(spark: Any, options: dict[str, str], rows: int) -> float:
    """Seconds for the whole stream."""
    began = time.perf_counter()
    table = spark.read.format("nats").options(**options).load()
    counted = table.selectExpr("count(*) as rows", "sum(length(data)) as bytes").collect()[0]
    seconds = time.perf_counter() - began
    if (counted.rows, counted.bytes) != (rows, rows * len(PAYLOAD)):
        raise SystemExit(f"read {counted.rows} rows of {counted.bytes} bytes, not {rows}")
    return seconds


def read_alone(options: Options, rows: int) -> tuple[float, float]:
    """Seconds and CPU seconds of the client without Spark."""
    began, cpu = time.perf_counter(), time.process_time()
    found = sum(batch.num_rows for batch in RangeReader(options, Range(1, rows)).batches())
    if found != rows:
        raise SystemExit(f"read {found} rows, not {rows}")
    return time.perf_counter() - began, time.process_time() - cpu


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--reference-only", action="store_true", help="nats-server alone")
    given = parser.parse_args()
    kinds = [servers.REFERENCE] if given.reference_only else list(servers.KINDS)

    os.environ["PYSPARK_PYTHON"] = sys.executable
    from leafd.spark.jobs.session import session
    from leafd.spark.source import register

    with contextlib.ExitStack() as stack:
        named = {}
        for kind in kinds:
            server = stack.enter_context(servers.running(kind, CONFIGURATION))
            named[kind] = {"servers": server.url, "stream": "BENCH", "numPartitions": "4"}
            fill(parse_options(named[kind]), given.rows)
        spark = session("local[1]")
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("ERROR")
        register(spark)
        in_spark: dict[str, list[float]] = {kind: [] for kind in kinds}
        alone: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for _ in range(given.rounds + 1):
            for kind in kinds:
                in_spark[kind].append(read_in_spark(spark, named[kind], given.rows))
                alone[kind].append(read_alone(parse_options(named[kind]), given.rows))
    print("| server | Spark local[1], rows/s | goal | client alone, rows/s | client CPU, us a row |")
    print("|---|---|---|---|---|")
    for kind in kinds:
        rate = given.rows / statistics.median(in_spark[kind][1:])
        seconds, cpu = (statistics.median(values) for values in zip(*alone[kind][1:], strict=True))
        client = f"{given.rows / seconds:,.0f} | {1e6 * cpu / given.rows:.2f}"
        print(f"| {kind} | {rate:,.0f} | {GOAL:,} | {client} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
