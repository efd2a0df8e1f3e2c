#!/usr/bin/env python3
"""Measures a job: an hour's batch as its tables grow, a late row, a back-fill, and how soon a message is in a table.

    tests/bench/bench_jobs.py history [--years 3] [--rounds 5]
    tests/bench/bench_jobs.py backfill [--devices 1000] [--days 3] [--every 60]
    tests/bench/bench_jobs.py latency [--rate 1000] [--seconds 30]

history: 100 devices report once a minute, so that an hour has 6,000 messages and a day 144,000. A few hours of a day go
through the job with nothing before them; then the tables get years of days before it (each a link to the files
of the day's first hours), and the next hours go through the job; then one message for a day of last month. All in
one session, which the first batches warm up. Printed are medians and their ratios.

backfill: the stream has days of messages already; one run takes them all. Printed are its time and the most memory
that the driver's Python, the JVM and the workers had together.

latency: messages come at a steady rate and carry the time at which they were published; a continuous job takes them.
A message is in the table when its file got its name there, which is the file's ctime.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow.parquet as pq
from leafd_spark.fetch import api, dial
from leafd_spark.jobs.job import Job
from leafd_spark.jobs.jobfile import parse_job
from leafd_spark.jobs.runner import Runner
from leafd_spark.options import parse_options
from leafd_spark.sink.publish import Outgoing, Window

from tests import servers

CONFIGURATION = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
JOB = """
name = "bench"
tables = "tables"
[connection]
servers = "{servers}"
[source]
stream = "BENCH"
[run]
mode = "{mode}"
rows_max = {rows_max}
gold_every = "5 s"
[[silver]]
name = "obs"
subject = "bench.>"
every = "1 min"
[silver.fields]
temperature = "number"
humidity = "number"
pressure = "number"
"""
DAY = datetime(2026, 3, 1, tzinfo=UTC)


@contextlib.contextmanager
def world(kind: str, mode: str = "once", rows_max: int = 200_000) -> Iterator[tuple[Job, Any, servers.Server]]:
    """The job, a session, and the server with the stream."""
    from leafd_spark.jobs.session import session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leafd-bench-")))
        server = stack.enter_context(servers.running(kind, CONFIGURATION))
        job = parse_job(JOB.format(servers=server.url, mode=mode, rows_max=rows_max), folder / "job.toml")
        options = parse_options({"servers": server.url, "stream": "BENCH"})
        with dial(options) as connection:
            config = {"name": "BENCH", "subjects": ["bench.>"], "storage": "file", "allow_direct": True}
            api(connection, options, "STREAM.CREATE.BENCH", config)
        spark = session("local[2]")
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("ERROR")
        yield job, spark, server


def observation(device: int, when: datetime) -> Outgoing:
    body = {"device": f"box-{device:04}", "time": when.isoformat(), "humidity": 50 + device % 40, "pressure": 1013.25}
    body["temperature"] = round(15 + (when.minute * 7 + device) % 100 / 10, 2)
    return Outgoing(f"bench.{device % 100}", b"", json.dumps(body).encode())


def publish(job: Job, messages: Iterator[Outgoing]) -> int:
    window = Window(parse_options(job.publishing() | {"stream": "BENCH"}))
    count = 0
    for message in messages:
        window.publish(message)
        count += 1
    window.drain()
    window.close()
    return count


def hour(number: int, devices: int = 100, every: int = 60) -> Iterator[Outgoing]:
    begin = DAY + timedelta(hours=number)
    for second in range(0, 3600, every):
        for device in range(devices):
            yield observation(device, begin + timedelta(seconds=second))


def timed(job: Job, spark: Any) -> float:
    began = time.perf_counter()
    Runner(spark, job).run()
    return time.perf_counter() - began


# --- history -----------------------------------------------------------------


def add_history(job: Job, days: int) -> int:
    """So many days before DAY in each table; the number of files."""
    count = 0
    tables = [job.tables / "bronze", *(job.tables / "silver").iterdir(), *(job.tables / "gold" / "obs").iterdir()]
    for table in tables:
        sample = next((path for path in table.iterdir() if path.name.startswith("day=")), None)
        if sample is None:
            continue  # last values: no partitions
        first = DAY if table.name != "bronze" else datetime.fromisoformat(sample.name[4:]).replace(tzinfo=UTC)
        files = [path for path in sample.iterdir() if path.is_file()]
        for back in range(1, days + 1):
            folder = table / f"day={first - timedelta(days=back):%Y-%m-%d}"
            folder.mkdir()
            for path in files:
                os.link(path, folder / path.name)
                count += 1
    return count


def history(given: argparse.Namespace) -> None:
    with world(given.kind) as (job, spark, _):
        for number in range(2):  # warm up
            publish(job, hour(number))
            timed(job, spark)
        first, later, late = [], [], []
        for number in range(2, 2 + given.rounds):
            publish(job, hour(number))
            first.append(timed(job, spark))
        files = add_history(job, round(given.years * 365))
        for number in range(2 + given.rounds, 2 + 2 * given.rounds):
            publish(job, hour(number))
            later.append(timed(job, spark))
        for number in range(given.rounds):
            publish(job, hour(2 + 2 * given.rounds + number))
            publish(job, iter([observation(3, DAY - timedelta(days=30 + number, hours=5))]))
            late.append(timed(job, spark))
        print(f"{given.years:g} years of history: {files:,} files")
        report("an hour's batch of 6,000 rows, nothing before it", first)
        report("the same with the history", later, statistics.median(first))
        report("the same with one row for a day of last month", late, statistics.median(first))


def report(what: str, seconds: list[float], beside: float = 0.0) -> None:
    median = statistics.median(seconds)
    ratio = f", {median / beside:.2f} times the first" if beside else ""
    print(f"{what}: {median:.2f} s ({min(seconds):.2f} to {max(seconds):.2f}){ratio}")


# --- back-fill ---------------------------------------------------------------


def memory_of(pid: int, kind: str) -> int:
    """Bytes of a process' memory: its Pss, which divides what it shares by those who share it, or Pss_Anon of that."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1024
    return 0


def memory_of_tree(pid: int, without: int) -> int:
    """Bytes that a process and its children hold in memory, but for one of them."""
    total = 0
    with contextlib.suppress(OSError):
        if pid != without:
            total += memory_of(pid, "Pss")
            for task in Path(f"/proc/{pid}/task").iterdir():
                children = map(int, (task / "children").read_text().split())
                total += sum(memory_of_tree(child, without) for child in children)
    return total


def watched(server: servers.Server, work: Callable[[], float]) -> tuple[float, int, int]:
    """What some work returns, and the most memory meanwhile: Spark's, and the server's beside its mapped files."""
    assert server.process is not None
    most, most_of_server, ended, pid = 0, 0, threading.Event(), server.process.pid

    def watch() -> None:
        nonlocal most, most_of_server
        while not ended.wait(0.5):
            most = max(most, memory_of_tree(os.getpid(), pid))
            most_of_server = max(most_of_server, memory_of(pid, "Pss_Anon"))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        return work(), most, most_of_server
    finally:
        ended.set()
        thread.join()


def backfill(given: argparse.Namespace) -> None:
    with world(given.kind, rows_max=1_000_000) as (job, spark, server):
        count = sum(publish(job, hour(n, given.devices, given.every)) for n in range(24 * given.days))
        print(f"{count:,} messages are in the stream", flush=True)
        seconds, most, most_of_server = watched(server, lambda: timed(job, spark))
        rows = sum(pq.read_metadata(p).num_rows for p in (job.tables / "silver").rglob("t.*.parquet"))
        print(
            f"{rows:,} rows in {seconds:.0f} s: {rows / seconds:,.0f} rows/s; at most {most / 2**30:.1f} GB of memory, "
            f"and the server {most_of_server / 2**20:.0f} MB"
        )
        size = sum(path.stat().st_size for path in job.tables.rglob("*.parquet"))
        print(f"tables of {size / 2**20:,.0f} MB, {size / rows:.0f} bytes a message")
        shutil.rmtree(job.tables)


# --- latency -----------------------------------------------------------------


def steady(job: Job, rate: int, seconds: float) -> None:
    """Publish at a rate, each message with the time of its publishing."""
    window = Window(parse_options(job.publishing() | {"stream": "BENCH"}))
    began = time.monotonic()
    for number in range(int(rate * seconds)):
        wait = began + number / rate - time.monotonic()
        if wait > 0:
            window.drain()
            time.sleep(wait)
        window.publish(observation(number % 1000, datetime.now(UTC)))
    window.drain()
    window.close()


def latency(given: argparse.Namespace) -> None:
    with world(given.kind, mode="continuous") as (job, spark, _):
        publish(job, hour(0))
        runner = Runner(spark, job)
        thread = threading.Thread(target=runner.run)
        thread.start()
        while not any(job.tables.glob("silver/obs/day=*/*.parquet")):
            if not thread.is_alive():
                raise SystemExit("the job ended")
            time.sleep(0.5)
        steady(job, given.rate, given.warm)
        begin = time.time()
        steady(job, given.rate, given.seconds)
        time.sleep(3)
        for query in spark.streams.active:
            query.stop()
        thread.join()
        for table, column in (("bronze", "timestamp"), ("silver/obs", "time")):
            delays = []
            for path in (job.tables / table).glob("day=*/*.parquet"):
                named = path.stat().st_ctime
                moments = pq.read_table(path, columns=[column], partitioning=None)[column].to_pylist()
                delays += [named - moment.timestamp() for moment in moments if moment.timestamp() > begin]
            if not delays:
                raise SystemExit(f"nothing came to {table}")
            delays.sort()
            print(
                f"{table}: {len(delays):,} rows, median {statistics.median(delays):.3f} s, "
                f"99 of 100 within {delays[int(len(delays) * 0.99)]:.3f} s, at most {delays[-1]:.3f} s"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=servers.KINDS, default="leafd", help="the server (default: leafd)")
    commands = parser.add_subparsers(dest="what", required=True)
    one = commands.add_parser("history")
    one.add_argument("--years", type=float, default=3)
    one.add_argument("--rounds", type=int, default=5)
    one.set_defaults(work=history)
    one = commands.add_parser("backfill")
    one.add_argument("--devices", type=int, default=1000)
    one.add_argument("--days", type=int, default=3)
    one.add_argument("--every", type=int, default=60, help="seconds between two messages of a device")
    one.set_defaults(work=backfill)
    one = commands.add_parser("latency")
    one.add_argument("--rate", type=int, default=1000)
    one.add_argument("--seconds", type=float, default=30)
    one.add_argument("--warm", type=float, default=10, help="seconds of messages that do not count")
    one.set_defaults(work=latency)
    given = parser.parse_args()
    given.work(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
