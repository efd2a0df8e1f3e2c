#!/usr/bin/env python3
"""Kills a job's driver and its JVM at every stage of a batch; the tables must be those of an oracle without Spark.

    tests/spark/jobs_killed.py [--kind leafd] [--rounds 1]

A hundred devices report, one of them a week late. `leafd-spark run` takes their messages. At each stage (a batch is
planned, files are staged, bronze has the rows, silver has them, windows are noted, the batch is noted as done, windows
are in place) the driver is killed, and in another run the JVM; then more messages come, and compaction runs. At the end
the checkpoint is removed and one run is left alone. Status 1 and what differs, if the tables are not the oracle's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from leafd.spark.fetch import api, dial
from leafd.spark.jobs.compaction import compact
from leafd.spark.jobs.job import Job
from leafd.spark.jobs.jobfile import read_job
from leafd.spark.options import Options, parse_options
from leafd.spark.publish import Outgoing, Window, header_block

from tests import servers
from tests.unit.spark.joboracle import SCHEMA, Sent, check, history

CONFIGURATION = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
JOB = """
name = "killed"
tables = "tables"
[connection]
servers = "SERVERS"
[source]
stream = "W"
parallelism = 2
minPartitionMessages = 20
[run]
rows_max = 200
[[silver]]
name = "obs"
subject = "w.*"
sequence = "n"
every = "20 min"
[silver.fields]
temp = "number"
"""
START_SECONDS = 300.0  # until a stage is reached: a JVM's start on a busy machine
VICTIMS = ("driver", "JVM")


def newest(folder: Path, pattern: str) -> int:
    """When a matching file last came, in nanoseconds; 0: never."""
    found = 0
    for path in folder.glob(pattern):
        try:
            found = max(found, path.stat().st_ctime_ns)
        except FileNotFoundError:
            continue
    return found


# A stage is reached when a file of this kind is there that was not when the run began.
STAGES = {
    "a batch is planned": "_checkpoint/offsets/[0-9]*",
    "files are staged": "_leafd/run/stage/*",
    "bronze has its rows": "bronze/*/*.parquet",
    "silver has its rows": "silver/obs/*/*.parquet",
    "windows are noted": "_leafd/dirty/*",
    "a batch is noted as done": "_checkpoint/commits/[0-9]*",
    "windows are in place": "gold/obs/hour/*/*.parquet",
}


def publish(options: Options, sent: list[Sent]) -> None:
    window = Window(options)
    for each in sent:
        row = each.row
        window.publish(Outgoing(str(row["subject"]), header_block(each.message_id, ()), bytes(row["data"])))
    window.drain()
    window.close()


def stored(sent: list[Sent]) -> list[Sent]:
    """What the stream will have: it knows ids for longer than this takes, so each device's are its own here."""
    qualified = {f"{each.device}-{each.message_id}": each for each in reversed(sent)}
    ordered = sorted(qualified.items(), key=lambda item: item[1].sequence)
    return [replace(each, message_id=name, sequence=n) for n, (name, each) in enumerate(ordered, 1)]


def jvm_of(driver: int) -> int | None:
    """The Java process below a driver."""
    for pid in Path(f"/proc/{driver}/task/{driver}/children").read_text().split():
        try:
            if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
                return int(pid)
            if found := jvm_of(int(pid)):
                return found
        except FileNotFoundError:
            continue
    return None


def start(file: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "leafd.spark.jobs", "run", str(file)]
    with file.with_name("log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))


def until(reached: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
    """Whether something came to be before the process ended."""
    deadline = time.monotonic() + START_SECONDS
    while not reached():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def kill(process: subprocess.Popen[bytes], victim: str) -> None:
    target = process.pid if victim == "driver" else jvm_of(process.pid)
    if target is not None:
        os.kill(target, signal.SIGKILL)
    process.wait(START_SECONDS)


def perform(file: Path, job: Job, options: Options, sent: list[Sent], rounds: int) -> None:
    turns = [(stage, victim) for _ in range(rounds) for stage in STAGES for victim in VICTIMS]
    share = len(sent) // len(turns) + 1
    for number, (stage, victim) in enumerate(turns):
        publish(options, sent[number * share : (number + 1) * share])
        before = newest(job.tables, STAGES[stage])
        process = start(file)
        if until(lambda: newest(job.tables, STAGES[stage]) > before, process):  # noqa: B023
            kill(process, victim)
            print(f"{victim} killed when {stage}", flush=True)
        else:
            print(f"{victim}: the run ended with {process.wait()} before {stage}", flush=True)
            print(file.with_name("log").read_text()[-2000:], flush=True)
        compact(job)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=servers.KINDS, default="leafd")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    sent = stored(history(1))
    place = tempfile.TemporaryDirectory(prefix="leafd-killed-")
    with place as folder, servers.running(given.kind, CONFIGURATION) as server:
        file = Path(folder) / "job.toml"
        file.write_text(JOB.replace("SERVERS", server.url))
        job = read_job(file)
        assert job.schemas[0].fields == SCHEMA.fields
        options = parse_options({"servers": server.url, "stream": "W"})
        with dial(options) as connection:
            config = {"name": "W", "subjects": ["w.>"], "storage": "file", "allow_direct": True}
            api(connection, options, "STREAM.CREATE.W", config)
        perform(file, job, options, sent, given.rounds)
        if job.checkpoint.exists():
            shutil.rmtree(job.checkpoint)
        code = start(file).wait()
        print(f"the last run ended with {code}", flush=True)
        check(job, sent)
    print("the tables are the oracle's")
    return code


if __name__ == "__main__":
    sys.exit(main())
