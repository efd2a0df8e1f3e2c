#!/usr/bin/env python3
"""A job in Delta Lake beside the same job in files of Parquet, on one stream of a real server: row by row the same.

    PYTHONPATH=. PYTHON tests/spark/delta_job.py [--kind leafd]

PYTHON has what delta_tables.py needs, and leafd installed, since `leafd-spark` is what runs here. Both jobs run,
run again with more messages and late ones, are compacted, lose their checkpoints, make a day anew as it was, by a
schema that takes nothing, and as it was again. After each step every table of the one has the rows of the other's,
and often they are held against the oracle. Last, each job finds the tables of the other format and refuses them.

Delta's tables are read by their log and no Spark: what any other reader will find.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import urllib.parse
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow.parquet as pq
from leafd_spark.jobs.command import main as leafd_spark
from leafd_spark.jobs.delta_versions import delta_fault
from leafd_spark.jobs.jobfile import read_job
from leafd_spark.options import parse_options

from tests import servers
from tests.spark.jobs_killed import STREAM, publish, stored, world
from tests.unit.spark.joboracle import BEGIN, check, history, rows_of

JOB = """
name = "FORMAT"
format = "FORMAT"
tables = "FORMAT"
[connection]
servers = "SERVERS"
[source]
stream = "W"
parallelism = 2
minPartitionMessages = 20
[run]
rows_max = 1000
[spark]
"spark.ui.showConsoleProgress" = "false"
JARS
[[silver]]
name = "obs"
subject = "w.*"
sequence = "n"
every = "20 min"
[silver.fields]
temp = { type = "number", max = MAX }
"""
TABLES = ("bronze", "dead", "silver/obs", *(f"gold/obs/{kind}" for kind in ("hour", "day", "pulse", "health", "last")))
DAY = BEGIN.date().isoformat()


def delta_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a table as its log has them."""
    files: dict[str, set[str]] = {}  # and their partitions' columns, which the tables of Parquet have in names only
    for commit in sorted((folder / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                assert not action["add"].get("deletionVector"), "rows that are marked as gone are more than this reads"
                files[action["add"]["path"]] = set(action["add"]["partitionValues"])
            elif "remove" in action:
                files.pop(action["remove"]["path"], None)
    rows = []
    for path, partition in files.items():
        table = pq.read_table(folder / urllib.parse.unquote(path), partitioning=None, coerce_int96_timestamp_unit="us")
        rows += table.drop_columns(sorted(partition & set(table.column_names))).to_pylist()
    for row in rows:  # Spark's oldest type of a time says nothing of its zone, which is UTC
        row.update({key: each.replace(tzinfo=UTC) for key, each in row.items() if isinstance(each, datetime)})
    return rows


class Jobs:
    """The two jobs, and what is asked of both."""

    def __init__(self, folder: Path, urls: str) -> None:
        jars = os.environ.get("LEAFD_DELTA_JARS")
        text = JOB.replace("SERVERS", urls).replace("JARS", f'"spark.jars" = "{jars}"' if jars else "")
        self.folder = folder
        for kind in ("delta", "parquet"):
            for name, most in ((kind, 1000), (f"{kind}-narrow", -1000)):
                file = text.replace("FORMAT", kind).replace("MAX", str(most))
                (folder / f"{name}.toml").write_text(file)

    def call(self, command: str, name: str, *more: str, status: int = 0) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            found = leafd_spark([command, str(self.folder / f"{name}.toml"), *more])
        said = out.getvalue().strip().splitlines()[-1:]
        print(f"leafd-spark {command} {name} {' '.join(more)}: {' '.join(said)}", flush=True)
        assert found == status, f"status {found}, and {status} is due:\n{out.getvalue()}"
        return " ".join(said)

    def both(self, command: str, suffix: str = "", *more: str) -> None:
        said = [self.call(command, kind + suffix, *more) for kind in ("delta", "parquet")]
        if command != "compact":
            assert said[0] == said[1], said
        self.compare()

    def compare(self) -> None:
        """Every row of every table, and no other; a repetition may leave another copy's place."""
        for table in TABLES:
            ours, theirs = delta_rows(self.folder / "delta" / table), rows_of(self.folder / "parquet" / table)
            found, wanted = Counter(map(plain, ours)), Counter(map(plain, theirs))
            more, less = found - wanted, wanted - found
            assert not more, "\n".join(
                [
                    f"{table}: only Delta has {len(more)}",
                    *sorted(more)[:1],
                    f"only Parquet has {len(less)}",
                    *sorted(less)[:1],
                ]
            )
            assert not less, "\n".join(
                [
                    f"{table}: only Delta has {len(more)}",
                    *sorted(more)[:1],
                    f"only Parquet has {len(less)}",
                    *sorted(less)[:1],
                ]
            )

    def counts(self) -> str:
        return ", ".join(f"{table} {len(delta_rows(self.folder / 'delta' / table))}" for table in TABLES)


def plain(row: dict[str, Any]) -> str:
    times = {key: each.astimezone(UTC).isoformat() for key, each in row.items() if isinstance(each, datetime)}
    return repr(sorted((row | times).items()))


def prove(kind: str, folder: Path) -> None:
    sent = stored(history(1, hours=3))
    with world(kind, False) as (urls, _):
        jobs = Jobs(folder, urls)
        options = parse_options({"servers": urls, "stream": STREAM})
        oracle_jobs = [(read_job(folder / "delta.toml"), delta_rows), (read_job(folder / "parquet.toml"), rows_of)]

        def judge() -> None:
            for job, reader in oracle_jobs:
                check(job, sent, rows_of=reader)
            print(f"the tables are the oracle's: {jobs.counts()}", flush=True)

        half = len(sent) // 2
        publish(options, sent[:half])
        jobs.both("run")
        publish(options, sent[half:])
        jobs.both("run")
        judge()
        jobs.both("compact")
        for job, _ in oracle_jobs:
            shutil.rmtree(job.checkpoint)
        jobs.both("run")
        jobs.both("rerun", "", "--day", DAY)
        judge()
        jobs.both("rerun", "-narrow", "--day", DAY)
        print(f"by a narrower schema: {jobs.counts()}", flush=True)
        jobs.both("rerun", "", "--day", DAY)
        judge()
        for name, other in (("delta", "parquet"), ("parquet", "delta")):
            file = (folder / f"{name}.toml").read_text().replace(f'tables = "{name}"', f'tables = "{other}"')
            (folder / "other.toml").write_text(file)
            said = jobs.call("run", "other", status=1)
            assert "of its own" in said or "its own directory" in said, said
        judge()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=servers.KINDS, default="leafd")
    given = parser.parse_args()
    if fault := delta_fault():
        raise SystemExit(fault)
    with tempfile.TemporaryDirectory(prefix="leafd-delta-") as folder:
        prove(given.kind, Path(folder))
    print("the tables of both formats are the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
