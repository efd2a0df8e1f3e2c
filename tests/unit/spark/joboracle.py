"""Messages of a hundred devices, and what tables must say of them by an oracle that knows neither Spark nor Arrow.

The oracle is dictionaries and Python's own arithmetic. One device reports a week late, some messages come twice, the
devices use the same ids. `take` is what a run does without Spark.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from leafd_spark.jobs.ingest import Plan, Staged, ingest
from leafd_spark.jobs.job import Alarm, Field, Job, Results, Schema
from leafd_spark.jobs.partitions import Layout
from leafd_spark.jobs.results import Message
from leafd_spark.jobs.store import FileStore, Store
from leafd_spark.jobs.tables import Tables
from leafd_spark.source.columns import ARROW_SCHEMA

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGIN = datetime(2026, 3, 1, 22, tzinfo=UTC)  # so that the first day ends soon
US = timedelta(microseconds=1)
DEVICES = [*(f"d{n}" for n in range(97)), "New York", "a/b", "K\u00f6ln"]
LATE = "d7"
SOURCED = ("d1", "d2")  # boxes whose streams are sourced and whose publishers give no ids


@dataclass(frozen=True)
class Sent:
    """A message in the stream."""

    sequence: int
    stored: datetime
    message_id: str
    device: str
    time: datetime
    temp: float | None
    number: int

    @property
    def row(self) -> dict[str, Any]:
        """As the data source gives it."""
        body = {"device": self.device, "time": self.time.isoformat(), "temp": self.temp, "n": self.number}
        sourced = self.device in SOURCED
        return {
            "stream": "W",
            "sequence": self.sequence,
            "subject": f"w.{self.sequence % 5}",
            "timestamp": self.stored,
            "headers": [] if sourced else [{"key": "Nats-Msg-Id", "value": self.message_id.encode()}],
            "data": json.dumps(body).encode(),
            "origin_stream": "T" if sourced else None,
            "origin_domain": self.device if sourced else None,
            "origin_sequence": self.number if sourced else None,
        }


def history(seed: int, hours: int = 6, devices: list[str] = DEVICES) -> list[Sent]:
    """What a stream has after some hours: LATE's rows are a week older than the rest, each tenth row comes twice."""
    chance = random.Random(seed)
    found: list[Sent] = []

    def store(device: str, time: datetime, temp: float | None, number: int, name: str) -> None:
        stored = BEGIN + timedelta(seconds=len(found))
        found.append(Sent(len(found) + 1, stored, name, device, time, temp, number))

    for hour in range(hours):
        for device in devices:
            for minute in (0, 20, 40):
                time = BEGIN + timedelta(hours=hour, minutes=minute, seconds=chance.randrange(600))
                if device == LATE:
                    time -= timedelta(days=7)
                if chance.random() < 0.1:
                    continue  # lost on its way
                temp = None if chance.random() < 0.05 else round(chance.uniform(-20, 40), 2)
                number = hour * 3 + minute // 20
                # Every device counts its ids from 0: they are the same ones as the other devices'.
                name = f"@{device}/T:{number}" if device in SOURCED else f"id-{number}"
                store(device, time, temp, number, name)
                if chance.random() < 0.1:
                    store(device, time, temp, number, name)
    return found


def record_batch(sent: list[Sent]) -> Any:
    return pa.Table.from_pylist([each.row for each in sent], schema=ARROW_SCHEMA).combine_chunks().to_batches()[0]


@dataclass(frozen=True)
class Oracle:
    """What the tables must say."""

    observations: set[tuple[str, datetime, str]]
    hours: dict[tuple[str, datetime], tuple[int, float, float, float]]  # count, min, max, sum
    days: dict[tuple[str, datetime], tuple[int, float, float, float]]
    health: dict[tuple[str, datetime], tuple[int, int, float, int]]  # messages, due, silence, lost
    last: dict[str, tuple[datetime, float]]


def oracle(sent: list[Sent], every: timedelta) -> Oracle:
    once = {(each.device, each.time, each.message_id): each for each in reversed(sent)}
    ordered = sorted(once.values(), key=lambda each: (each.time, each.device))

    def windows(begin: Callable[[datetime], datetime]) -> dict[tuple[str, datetime], tuple[int, float, float, float]]:
        values: dict[tuple[str, datetime], list[float]] = defaultdict(list)
        for each in ordered:
            if each.temp is not None:
                values[each.device, begin(each.time)].append(each.temp)
        return {key: (len(some), min(some), max(some), sum(some)) for key, some in values.items()}

    def day(time: datetime) -> datetime:
        return time.replace(hour=0, minute=0, second=0, microsecond=0)

    reports: dict[tuple[str, datetime], list[Sent]] = defaultdict(list)
    for each in ordered:
        reports[each.device, day(each.time)].append(each)
    newest: dict[datetime, datetime] = {}
    for each in ordered:
        newest[day(each.time)] = max(newest.get(day(each.time), each.time), each.time)
    health = {}
    for (device, begin), some in reports.items():
        moments = [begin, *(each.time for each in some), newest[begin]]
        silence = max((b - a).total_seconds() for a, b in itertools.pairwise(moments))
        due = (newest[begin] - begin) // every + 1
        lost = sum(max(0, b.number - a.number - 1) for a, b in itertools.pairwise(some))
        health[device, begin] = (len(some), due, silence, lost)
    last = {each.device: (each.time, each.temp) for each in ordered if each.temp is not None}
    return Oracle(
        observations=set(once),
        hours=windows(lambda time: time.replace(minute=0, second=0, microsecond=0)),
        days=windows(day),
        health=health,
        last=last,
    )


SCHEMA = Schema(name="obs", subject="w.*", fields=(Field("temp", "number"),), sequence="n", every=timedelta(minutes=20))


def job_in(tables: Path) -> Job:
    alarms = (Alarm("hot", "obs", "alarms", field="temp", above=39.0),)
    results = Results(last_values="LAST", windows="agg", alarms=alarms)
    return Job("j", tables, tables / "_checkpoint", (), (("stream", "W"),), schemas=(SCHEMA,), results=results)


class Hub:
    """A stream that drops ids which it knows, as the real one does, and for ever."""

    def __init__(self) -> None:
        self.stored: dict[str, Message] = {}

    def publish(self, messages: list[Message]) -> None:
        for message in messages:
            self.stored.setdefault(message.id, message)


def take(job: Job, hub: Hub, batches: list[list[Sent]], store: Store | None = None) -> None:
    """One run: batches come, each in two tasks, and windows are computed at the end."""
    with Layout(job.tables).locked(), Tables(job, store or FileStore(job), hub.publish) as tables:
        tables.begin()
        tables.refresh()
        for batch in batches:
            halves = (batch[: len(batch) // 2], batch[len(batch) // 2 :])
            reports = [ingest(Plan(job.tables, job.schemas), iter([record_batch(h)])) for h in halves if h]
            tables.admit([Staged(**row) for report in reports for each in report for row in each.to_pylist()])
        tables.refresh()


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a table as a reader who knows nothing of jobs finds them: no names with _ or a dot."""
    found: list[dict[str, Any]] = []
    for path in folder.rglob("*.parquet"):
        if not any(part[0] in "_." for part in path.relative_to(folder).parts):
            found += pq.read_table(path, partitioning=None).to_pylist()
    return found


def check(job: Job, sent: list[Sent], metric: str = "temp", rows_of: Callable[[Path], list[Any]] = rows_of) -> None:
    """The tables say what the oracle says of a metric, each row once."""
    wanted = oracle(sent, SCHEMA.every or timedelta())
    bronze = [row["sequence"] for row in rows_of(job.tables / "bronze")]
    assert [each.sequence for each in sent] == sorted(bronze)
    silver = [(row["device"], row["time"], row["message_id"]) for row in rows_of(job.tables / "silver" / "obs")]
    assert len(silver) == len(wanted.observations)
    assert set(silver) == wanted.observations
    gold = job.tables / "gold" / "obs"
    for name, windows in (("hour", wanted.hours), ("day", wanted.days)):
        rows = [row for row in rows_of(gold / name) if row["metric"] == metric]
        assert len(rows) == len(windows)
        for row in rows:
            count, low, high, total = windows[row["device"], row["start"]]
            assert (count, low, high) == (row["count"], row["min"], row["max"])
            assert pytest.approx((total, total / count)) == (row["sum"], row["mean"])
    health = {(row["device"], row["start"]): row for row in rows_of(gold / "health")}
    assert health.keys() == wanted.health.keys()
    for key, (messages, due, silence, lost) in wanted.health.items():
        row = health[key]
        assert (messages, due, lost) == (row["messages"], row["expected"], row["lost"])
        assert pytest.approx(silence) == row["longest_silence_s"]
        assert row["missing"] == max(0, due - messages)
    assert wanted.last == {
        row["device"]: (row["time"], row["value"]) for row in rows_of(gold / "last") if row["metric"] == metric
    }


def split(sent: list[Sent], chance: random.Random) -> list[list[Sent]]:
    """Into batches of any size."""
    found, rest = [], sent
    while rest:
        size = chance.randrange(1, 400)
        found.append(rest[:size])
        rest = rest[size:]
    return found
