#!/usr/bin/env python3
"""Measures the Spark source: rows a second that one core of Spark reads off a stream, from leafd and from nats-server.

    tests/bench/bench_spark.py [--rows 1000000] [--rounds 5] [--sizes 150,1000] [--without-spark]

Streams of messages of each size are filled once on each server, then read whole in turn, by a local[1] session (one
task at a time) that counts rows and sums their lengths, so that every payload crosses from Python into Spark. The first
round warms the session up and is not counted. Printed is the median of the others, and beside it the client alone: the
same ranges read into Arrow batches without Spark, as CPU time a row. "Bytes only" is what the server sends to a client
that looks at nothing but ends: by direct gets, and by a push consumer; the last column is the client alone as a share
of the faster one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from leafd_spark.fetch import api, dial
from leafd_spark.options import Options, parse_options
from leafd_spark.ranges import Range
from leafd_spark.sink.publish import Outgoing, Window
from leafd_spark.source.reader import RangeReader
from leafd_spark.wire import Connection

from tests import servers

# (A push consumer without flow control fills what a server holds back for a client.)
CONFIGURATION = 'listen: 127.0.0.1:{port}\nmax_pending: 2GB\njetstream { store_dir: "{store}" }\n'
SUBJECTS = 10
TAIL = 2000  # bytes beside a message in which the last delivery's line is found, also with an API's answer behind it
END_OF_BATCH = b"NATS/1.0 204 EOB"
NOTHING_PENDING = re.compile(rb"\.0( \d+)+\r\n")


@dataclass
class Case:
    """One stream of one server, and what was measured of it, in seconds."""

    kind: str
    size: int
    given: dict[str, str]
    spark: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)
    push: list[float] = field(default_factory=list)

    @property
    def options(self) -> Options:
        return parse_options(self.given)

    @property
    def stream(self) -> str:
        return self.given["stream"]


def fill(options: Options, rows: int, size: int = 150) -> None:
    name = options.stream
    config = {"name": name, "subjects": [f"{name}.>"], "storage": "file", "allow_direct": True}
    with dial(options) as connection:
        api(connection, options, f"STREAM.CREATE.{name}", config)
    window = Window(options)
    messages = [Outgoing(f"{name}.{number}", b"", b"x" * size) for number in range(SUBJECTS)]
    for number in range(rows):
        window.publish(messages[number % SUBJECTS])
    window.drain()
    window.close()


def read_in_spark(spark: Any, case: Case, rows: int) -> None:
    began = time.perf_counter()
    table = spark.read.format("nats").options(**case.given).load()
    counted = table.selectExpr("count(*) as rows", "sum(length(data)) as bytes").collect()[0]
    case.spark.append(time.perf_counter() - began)
    if (counted.rows, counted.bytes) != (rows, rows * case.size):
        raise SystemExit(f"read {counted.rows} rows of {counted.bytes} bytes, not {rows}")


def read_alone(case: Case, rows: int) -> None:
    """The client without Spark."""
    began, processor = time.perf_counter(), time.process_time()
    found = sum(batch.num_rows for batch in RangeReader(case.options, Range(1, rows)).batches())
    if found != rows:
        raise SystemExit(f"read {found} rows, not {rows}")
    case.alone.append(time.perf_counter() - began)
    case.processor.append(time.process_time() - processor)


def ends(connection: Connection, size: int) -> Iterator[bytes]:
    """The last bytes received, each time something came: enough of them to hold a message and its line."""
    intake, last = connection.intake, b""
    while True:
        intake.receive()
        fresh = intake.buffer[max(intake.start, intake.end - size - TAIL) : intake.end]
        last = (last + bytes(fresh))[-size - TAIL :]
        intake.start = intake.end
        yield last


def bytes_of_direct_gets(case: Case, rows: int) -> None:
    options = case.options
    began = time.perf_counter()
    with dial(options) as connection:
        arriving, reached = ends(connection, case.size), 0
        while reached < rows:
            body = {"seq": reached + 1, "batch": options.fetch_messages, "max_bytes": options.fetch_bytes}
            connection.publish_request(f"$JS.API.DIRECT.GET.{case.stream}", json.dumps(body).encode())
            last = next(end for end in arriving if END_OF_BATCH in end and end.endswith(b"\r\n\r\n\r\n"))
            reached = int(last.rpartition(b"Nats-Last-Sequence: ")[2].split()[0])
    case.direct.append(time.perf_counter() - began)


def bytes_of_a_push_consumer(case: Case) -> None:
    began = time.perf_counter()
    with dial(case.options) as connection:
        target = f"{connection.inbox}push"
        connection.send(b"SUB %b 2\r\n" % target.encode())
        config = {"deliver_subject": target, "ack_policy": "none", "mem_storage": True, "deliver_policy": "all"}
        body = {"stream_name": case.stream, "config": config}
        connection.publish_request(f"$JS.API.CONSUMER.CREATE.{case.stream}", json.dumps(body).encode())
        next(end for end in ends(connection, case.size) if NOTHING_PENDING.search(end))
    case.push.append(time.perf_counter() - began)


def measure(cases: list[Case], rows: int, rounds: int, spark: Any) -> None:
    for _ in range(rounds + 1):
        for case in cases:
            if spark is not None:
                read_in_spark(spark, case, rows)
            read_alone(case, rows)
            bytes_of_direct_gets(case, rows)
            bytes_of_a_push_consumer(case)


def row(case: Case, rows: int) -> str:
    def rate(seconds: list[float]) -> float:
        return rows / statistics.median(seconds[1:]) if seconds else 0

    alone, direct, push = rate(case.alone), rate(case.direct), rate(case.push)
    processor = 1e6 * statistics.median(case.processor[1:]) / rows
    rates = " | ".join(f"{value:,.0f}" if value else "" for value in (rate(case.spark), alone, direct, push))
    return f"| {case.kind} | {case.size} | {processor:.2f} | {rates} | {alone / max(direct, push):.2f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="150,1000", help="of messages, in bytes")
    parser.add_argument("--reference-only", action="store_true", help="nats-server alone")
    parser.add_argument("--without-spark", action="store_true", help="the client alone")
    given = parser.parse_args()
    kinds = [servers.REFERENCE] if given.reference_only else list(servers.KINDS)

    with contextlib.ExitStack() as stack:
        cases = []
        for kind in kinds:
            server = stack.enter_context(servers.running(kind, CONFIGURATION))
            for size in map(int, given.sizes.split(",")):
                case = Case(kind, size, {"servers": server.url, "stream": f"B{size}"})
                fill(case.options, given.rows, size)
                cases.append(case)
        spark = None
        if not given.without_spark:
            os.environ["PYSPARK_PYTHON"] = sys.executable
            from leafd_spark.datasource import register
            from leafd_spark.jobs.session import session

            spark = session("local[1]")
            stack.callback(spark.stop)
            spark.sparkContext.setLogLevel("ERROR")
            register(spark)
        measure(cases, given.rows, given.rounds, spark)
    print("| server | B | client CPU, us/row | Spark local[1], rows/s | client alone, rows/s", end="")
    print(" | bytes only, direct gets | bytes only, push consumer | client of bytes only |")
    print("|---|---|---|---|---|---|---|---|")
    for case in cases:
        print(row(case, given.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
