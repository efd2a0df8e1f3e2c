"""The plan of a job's run, in words: what the run would read, write and publish. Nothing is done.

The server is asked how the streams stand, and the checkpoint how far they have been read. Secrets are not shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from leafd_spark.options import parse_options
from leafd_spark.source.offsets import Offsets
from leafd_spark.source.planner import Planner

from .job import CONTINUOUS, NEWEST, Job, Schema
from .partitions import Layout

PATIENCE = {"retrySeconds": "2", "timeoutSeconds": "5"}  # a person waits for this


def plan(job: Job) -> str:
    """Several lines. What the server refuses to say is an exception of the data source."""
    return "\n".join([*_work(job), *_reads(job), *_writes(job), *_publishes(job)])


def _work(job: Job) -> Iterator[str]:
    if job.mode == CONTINUOUS:
        every = f"a batch each {job.every}" if job.every else "one batch after the other"
        yield f"job {job.name}: goes on until it is stopped, {every}, windows each {job.gold_every}"
    else:
        yield f"job {job.name}: takes what is there and ends"


def without_secrets(servers: str) -> str:
    return re.sub(r"//[^/@,]*@", "//***@", servers)


def checkpoint_offsets(checkpoint: Path) -> Offsets | None:
    """How far the job has planned to read; None before its first batch."""
    folder = checkpoint / "offsets"
    numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    if not numbers:
        return None
    return Offsets.of(json.loads((folder / str(max(numbers))).read_text().splitlines()[-1]))


def _reads(job: Job) -> Iterator[str]:
    given = dict(job.connection)
    servers = without_secrets(given.get("servers", "the default server"))
    yield f"reads from {servers}, at most {job.rows_max:,} messages a batch"
    for name, value in job.source:
        yield f"    {name} = {value}"
    for name in sorted(given.keys() - {"servers"}):
        yield f"    {name} is given"
    reading = job.reading()
    patience = {name: value for name, value in PATIENCE.items() if name.lower() not in map(str.lower, reading)}
    planner = Planner(parse_options(reading | patience, streaming=True))
    try:
        states, begin = planner.states(fresh=True), planner.begin()
    finally:
        planner.close()
    read = checkpoint_offsets(job.checkpoint)
    for name, state in states.items():
        place = (read.get(name) or read.get("") if read else None) or begin.get(name)
        following = place.next if place else state.first
        rest = max(0, state.last + 1 - max(following, state.first))
        how = f"read before {following:,}" if read else f"begins at {following:,}: there is no checkpoint"
        yield f"    stream {name} has {state.first:,} to {state.last:,}; {how}; {rest:,} to come, deleted ones counted"


def _columns(schema: Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema.fields)


def _writes(job: Job) -> Iterator[str]:
    layout = Layout(job.tables)
    yield f"writes ({job.format})"
    yield f"    {layout.bronze}/day=...: each message, by the day on which the stream stored it"
    yield f"    {layout.dead}/day=...: messages that are no observation, with the reason"
    for schema in job.schemas:
        unit = f"{schema.partition}=..."
        device = f"token {schema.device_token} of the subject" if schema.device_token else f"field {schema.device}"
        time = "the stream's time" if schema.time == NEWEST else f"field {schema.time}, {schema.time_unit}"
        yield f"    {layout.silver(schema.name)}/{unit}: messages of {schema.subject}; device: {device}; time: {time}"
        yield f"        {_columns(schema)}"
        for kind in ("hour", "day", "health", "pulse"):
            yield f"    {layout.gold(schema.name, kind)}/{unit}"
        yield f"    {layout.last(schema.name)}"
    yield f"    {job.checkpoint}: Spark's checkpoint"


def _publishes(job: Job) -> Iterator[str]:
    results = job.results
    if not results.any:
        return
    yield "publishes"
    for schema in job.schemas if results.last_values else ():
        yield f"    $KV.{results.last_values}.{schema.name}.<device>: last values, when one changes"
    if results.windows:
        yield f"    {results.windows}.<device>.<{results.window}>: a {results.window}'s window, when it changes"
    for alarm in results.alarms:
        bounds = [
            (alarm.above, f"{alarm.field} above"),
            (alarm.below, f"{alarm.field} below"),
            (alarm.silence, "silence of"),
        ]
        what = " or ".join(f"{words} {bound}" for bound, words in bounds if bound is not None)
        yield f"    {alarm.subject}.{alarm.name}.<device>: {what}"
