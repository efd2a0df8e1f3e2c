#!/usr/bin/env python3
"""Kills what a job runs on at every stage of a batch; the tables must be those of an oracle without Spark.

    tests/spark/jobs_killed.py [--kind leafd] [--rounds 1] [--victims driver,JVM,server] [--stages 1,2,3,4,5,6,7]
                               [--cluster] [--replicas]

A hundred devices report, one of them a week late. `leafd-spark run` takes their messages. At each stage (a batch is
planned, files are staged, bronze has the rows, windows are noted, silver has the rows, the batch is noted as done,
windows are in place) one of the victims is killed; then more messages come, and compaction runs. A run whose server or
executor is killed has to come to its end: it bears this at one stage after the other. At the end the checkpoint is
removed and one run is left alone. Status 1 and what differs, if the tables are not the oracle's or a victim was missed.

With --cluster the job runs on a standalone cluster of a master and two workers, brought there by spark-submit with
--py-files, whose executors have no leafd of their own; `executor` is a victim then, too.

With --replicas the stream is on three nats-servers, and the server that is killed is the stream's leader.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from leafd_spark.fetch import api, dial
from leafd_spark.jobs.compaction import compact
from leafd_spark.jobs.job import Job
from leafd_spark.jobs.jobfile import read_job
from leafd_spark.options import Options, parse_options
from leafd_spark.sink.publish import Outgoing, Window, header_block

from tests import servers
from tests.spark import cluster as brokers, standalone
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
rows_max = 60
[[silver]]
name = "obs"
subject = "w.*"
sequence = "n"
every = "20 min"
[silver.fields]
temp = "number"
"""
STREAM = "W"
START_SECONDS = 1200.0  # until a stage is reached: three JVMs' start on a busy machine
LOOK_SECONDS = 0.005  # from one look at the files to the next
VICTIMS = ("driver", "JVM", "server", "executor")
OUTLIVED = ("server", "executor")  # by a run
AWAY_SECONDS = 1.0  # of a server


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
    "windows are noted": "_leafd/dirty/*",
    "silver has its rows": "silver/obs/*/*.parquet",
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


@contextlib.contextmanager
def world(kind: str, replicas: bool) -> Iterator[tuple[str, Callable[[], servers.Server]]]:
    """Where the stream is: the addresses, and which server it is to be without."""
    config = {"name": STREAM, "subjects": ["w.>"], "storage": "file", "allow_direct": True}
    if replicas:
        with brokers.running() as three:
            three.create(STREAM, **config)
            yield three.urls, lambda: three.leader(STREAM)
        return
    with servers.running(kind, CONFIGURATION) as server:
        options = parse_options({"servers": server.url, "stream": STREAM})
        with dial(options) as connection:
            api(connection, options, f"STREAM.CREATE.{STREAM}", config)
        yield server.url, lambda: server


class Place:
    """Where a job runs: here, or on a cluster that spark-submit brings it to."""

    def __init__(self, file: Path, server: Callable[[], servers.Server], cluster: standalone.Standalone | None) -> None:
        self.file = file
        self._server = server
        self.cluster = cluster
        self._command = [sys.executable, "-m", "leafd_spark.jobs"]
        self._environment = dict(os.environ)
        if cluster is not None:
            python = str(standalone.python_without_leafd(file.parent / "python"))
            archive = str(standalone.bundle(file.parent))
            main = str(standalone.ROOT / "agent" / "leafd_spark" / "jobs" / "__main__.py")
            submit = [str(standalone.HOME / "bin" / "spark-submit"), "--master", cluster.url]
            self._command = [*submit, "--executor-memory", "512m", "--py-files", archive, main]
            self._environment = standalone.environment() | {"PYSPARK_PYTHON": python}

    def _processes(self, process: subprocess.Popen[bytes]) -> dict[str, int]:
        """The driver's Python and its JVM, of which either may have started the other."""
        found: dict[str, int] = {}
        for pid in (process.pid, *standalone.children(process.pid)):
            program, _, arguments = standalone.command_line(pid).partition(" ")
            if program.endswith("java"):
                found.setdefault("JVM", pid)
            elif str(self.file) in arguments:
                found.setdefault("driver", pid)
        return found

    @property
    def log(self) -> str:
        return self.file.with_name("log").read_text(errors="replace")

    def start(self) -> subprocess.Popen[bytes]:
        with self.file.with_name("log").open("wb") as log:
            command = [*self._command, "run", str(self.file)]
            return subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)

    def kill(self, process: subprocess.Popen[bytes], victim: str) -> None:
        """What is killed comes back, or all of the run has ended."""
        if victim == "server":
            server = self._server()
            server.kill()
            time.sleep(AWAY_SECONDS)
            server.start()
        elif victim == "executor":
            assert self.cluster is not None, "only a cluster has executors"
            self.cluster.kill_executor(0)
        else:
            found = self._processes(process)
            with contextlib.suppress(ProcessLookupError, KeyError):  # it has ended by itself
                os.kill(found[victim], signal.SIGKILL)
            for pid in found.values():  # the other one notices; a run that began before would be refused
                until(lambda: not standalone.command_line(pid), None)  # noqa: B023


def until(reached: Callable[[], bool], process: subprocess.Popen[bytes] | None) -> bool:
    """Whether something came to be before the process ended."""
    deadline = time.monotonic() + START_SECONDS
    while not reached():
        if (process is not None and process.poll() is not None) or time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def perform(place: Place, job: Job, options: Options, sent: list[Sent], runs: list[list[tuple[str, str]]]) -> int:
    """How many of the victims were missed."""
    share = len(sent) // sum(map(len, runs)) + 1
    missed = 0
    for turns in runs:
        count = share * len(turns)
        publish(options, sent[:count])
        sent = sent[count:]
        before = {stage: newest(job.tables, STAGES[stage]) for stage, _ in turns}
        process = place.start()
        for stage, victim in turns:
            if until(lambda: newest(job.tables, STAGES[stage]) > before[stage], process):  # noqa: B023
                place.kill(process, victim)
                before = {each: newest(job.tables, STAGES[each]) for each, _ in turns}
                print(f"{victim} killed when {stage}", flush=True)
            else:
                missed += 1
                print(f"{victim} not killed when {stage}: it did not come to that\n{place.log[-2000:]}", flush=True)
        code = process.wait(START_SECONDS)
        if code != 0 and turns[-1][1] in OUTLIVED:
            raise SystemExit(f"the run ended with {code} after its {turns[-1][1]} was killed:\n{place.log[-3000:]}")
        compact(job)
    return missed


def runs_of(stages: list[str], victims: list[str]) -> list[list[tuple[str, str]]]:
    """Who is killed when, by runs."""
    outlived = [[(stage, victim) for stage in stages] for victim in victims if victim in OUTLIVED]
    return outlived + [[(stage, victim)] for stage in stages for victim in victims if victim not in OUTLIVED]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=servers.KINDS, default="leafd")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--victims", default="", help=f"of {', '.join(VICTIMS)}, with commas")
    parser.add_argument("--stages", default="", help="1 to 7, with commas; all of them without this")
    parser.add_argument("--cluster", action="store_true", help="on a standalone cluster, by spark-submit")
    parser.add_argument("--replicas", action="store_true", help="the stream is on three nats-servers")
    given = parser.parse_args()
    default = VICTIMS if given.cluster else VICTIMS[:3]
    victims = given.victims.split(",") if given.victims else default
    if set(victims) - set(default):
        parser.error(f"victims are {', '.join(default)}")
    stages = [list(STAGES)[int(each) - 1] for each in given.stages.split(",")] if given.stages else list(STAGES)
    runs = runs_of(stages, list(victims)) * given.rounds
    sent = stored(history(1))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leafd-killed-")))
        urls, server = stack.enter_context(world(given.kind, given.replicas))
        cluster = stack.enter_context(standalone.running(folder)) if given.cluster else None
        file = folder / "job.toml"
        file.write_text(JOB.replace("SERVERS", urls))
        place = Place(file, server, cluster)
        job = read_job(file)
        assert job.schemas[0].fields == SCHEMA.fields
        options = parse_options({"servers": urls, "stream": STREAM, "retrySeconds": "60"})
        missed = perform(place, job, options, sent, runs)
        if job.checkpoint.exists():
            shutil.rmtree(job.checkpoint)
        code = place.start().wait()
        print(f"the last run ended with {code}", flush=True)
        check(job, sent)
    print(f"the tables are the oracle's; {missed} of {sum(map(len, runs))} victims were missed")
    return code or int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
