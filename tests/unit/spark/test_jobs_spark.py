"""A whole job in a Spark session, against a real server: after runs, repetitions, losses, hostile messages."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from leafd_spark.jobs.compaction import compact
from leafd_spark.jobs.job import Job
from leafd_spark.jobs.jobfile import parse_job
from leafd_spark.jobs.partitions import TableError
from leafd_spark.jobs.planning import plan
from leafd_spark.sink.publish import Outgoing, Window, header_block

from .hub import Hub, running
from .slow import was_slow

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("default")]  # PySpark's own warnings are not ours

JOB = """
name = "weather"
tables = "tables"
[connection]
servers = "{servers}"
[source]
stream = "W"
numPartitions = 2
minPartitionMessages = 2
[[silver]]
name = "obs"
subject = "w.*"
device = "origin"
time = "time_hour"
every = "1 h"
partition = "month"
[silver.fields]
temp = {{ type = "number", min = -90, max = 140 }}
[results]
last_values = "LAST"
windows = "agg"
[[results.alarms]]
name = "hot"
silver = "obs"
subject = "alarms"
field = "temp"
above = 100
"""


class World:
    """A hub with the job's streams, and the job."""

    def __init__(self, hub: Hub, spark: Any, folder: Path) -> None:
        self.hub, self.spark = hub, spark
        self.deadline = time.monotonic() + 600
        self.job: Job = parse_job(JOB.format(servers=hub.server.url), folder / "job.toml")
        hub.create("W", duplicate_window=100_000_000)
        hub.create("AGG")
        hub.create("ALARMS")
        hub.create("KV_LAST", subjects=["$KV.LAST.>"], max_msgs_per_subject=1)

    def publish(self, *messages: tuple[str, dict[str, Any] | str], subject: str = "w.a") -> None:
        window = Window(self.hub.options("W"))
        for name, value in messages:
            text = value if isinstance(value, str) else json.dumps(value)
            window.publish(Outgoing(subject, header_block(name, ()), text.encode()))
        window.drain()
        window.close()

    def again(self, name: str, value: dict[str, Any]) -> None:
        """Publish under an id that the stream knows, as soon as it has forgotten it."""
        before = self.hub.call("STREAM.INFO.W")["state"]["last_seq"]
        deadline = time.monotonic() + 30
        while self.hub.call("STREAM.INFO.W")["state"]["last_seq"] == before:
            assert time.monotonic() < deadline
            self.publish((name, value))

    def run(self) -> int:
        from leafd_spark.jobs.runner import Runner

        while True:
            try:
                return Runner(self.spark, self.job).run()
            except Exception as error:
                if not was_slow(error) or time.monotonic() > self.deadline:
                    raise

    def rerun(self, day: date, **schema: Any) -> dict[str, int]:
        """Make a day anew, perhaps by another schema."""
        from leafd_spark.jobs.runner import Runner

        changed = tuple(dataclasses.replace(each, **schema) for each in self.job.schemas)
        return Runner(self.spark, dataclasses.replace(self.job, schemas=changed)).rerun(day)

    def table(self, name: str) -> list[Any]:
        return list(self.spark.read.parquet(str(self.job.tables / name)).collect())

    def days(self) -> dict[tuple[str, str], tuple[int, float]]:
        """Count and mean of each device's days."""
        rows = self.table("gold/obs/day")
        return {(r.device, f"{r.start:%Y-%m-%d}"): (r["count"], r["mean"]) for r in rows}

    def subjects(self, stream: str) -> dict[str, int]:
        state = self.hub.call(f"STREAM.INFO.{stream}", {"subjects_filter": ">"})["state"]
        return dict(state.get("subjects") or {})


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running() as found:
        yield found


@pytest.fixture
def world(hub: Hub, spark: Any, tmp_path: Path) -> World:
    return World(hub, spark, tmp_path)


DEAD = (
    ("not an observation", "not JSON: Expecting value: line 1 column 1 (char 0)"),
    (
        '{"origin":"JFK","time_hour":"2013-01-01T01:00:00Z","temp":"12.5"}',
        "temp: a string '12.5' where a number is due",
    ),
    ('{"origin":"JFK","time_hour":"2013-01-01T01:00:00Z","temp":1e400}', "temp: a number too large: it is infinite"),
    ('{"origin":"JFK","time_hour":"2013-01-01T01:00:00Z","temp":NaN}', "not JSON: NaN is no number in JSON"),
    (
        '{"origin":"JFK","time_hour":"1970-01-01T00:00:00Z"}',
        "time (time_hour): '1970-01-01T00:00:00Z' is before 2000-01-01",
    ),
    (
        '{"origin":"JFK","time_hour":"9999-12-31T23:00:00Z"}',
        "time (time_hour): '9999-12-31T23:00:00Z' is ahead of the stream's clock by more than 1 day, 0:00:00",
    ),
    ('{"origin":"","time_hour":"2013-01-01T01:00:00Z","temp":1}', "device (origin): empty"),
    ('{"time_hour":"2013-01-01T01:00:00Z","temp":1}', "device (origin): missing"),
)


def observation(hour: str, temperature: Any, device: Any = "JFK") -> dict[str, Any]:
    return {"origin": device, "time_hour": f"{hour}:00:00Z", "temp": temperature}


@pytest.mark.usefixtures("spark")
def test_a_job_survives_what_it_meets(world: World) -> None:
    """Late rows correct their day, no row or name stops a run, a lost checkpoint over a purged stream loses nothing."""
    world.publish(("a", observation("2013-01-01T00", 10.0)))
    world.publish(("b", observation("2013-01-01T23", 20.0)))
    world.publish(("c", observation("2013-01-02T00", 5.0)))
    assert 3 == world.run()
    assert {("JFK", "2013-01-01"): (2, 15.0), ("JFK", "2013-01-02"): (1, 5.0)} == world.days()

    world.publish(("d", observation("2013-01-01T12", 30.0)))  # late
    world.again("c", observation("2013-01-02T00", 5.0))  # outside the stream's window for duplicates
    world.again("a", observation("2013-01-01T00", 50.0, "LGA"))  # the same id, another device
    names = ("New York", "a/b", "..", "K\u00f6ln", "x" * 100)
    world.publish(*((f"n{n}", observation("2013-01-03T00", 1.0, name)) for n, name in enumerate(names)))
    world.publish(*((f"dead{n}", text) for n, (text, _) in enumerate(DEAD)))
    world.publish(("hot", observation("2013-01-04T05", 101.5)))
    assert 3 + len(names) + len(DEAD) + 1 == world.run()
    wanted = {
        ("JFK", "2013-01-01"): (3, 20.0),
        ("JFK", "2013-01-02"): (1, 5.0),
        ("JFK", "2013-01-04"): (1, 101.5),
        ("LGA", "2013-01-01"): (1, 50.0),
    } | {(name, "2013-01-03"): (1, 1.0) for name in names}
    assert wanted == world.days()
    assert sorted(reason for _, reason in DEAD) == sorted(row.reason for row in world.table("dead"))

    devices = {"JFK", "LGA", "New=20York", "a=2Fb", "=2E=2E", "K=C3=B6ln", "x" * 100}
    assert {f"$KV.LAST.obs.{device}" for device in devices} == set(world.subjects("KV_LAST"))
    # Each of JFK's three days once, and the first once more when its late row came.
    of_jfk = {name: count for name, count in world.subjects("AGG").items() if name.startswith("agg.JFK.")}
    assert {"agg.JFK.2013-01-01": 2, "agg.JFK.2013-01-02": 1, "agg.JFK.2013-01-04": 1} == of_jfk
    assert {"alarms.hot.JFK": 1} == world.subjects("ALARMS")

    before = {(row.sequence, row.timestamp) for row in world.table("bronze")}
    world.hub.call("STREAM.PURGE.W", {"keep": 2})
    shutil.rmtree(world.job.checkpoint)
    assert 2 == world.run()
    assert before == {(row.sequence, row.timestamp) for row in world.table("bronze")}
    assert len(before) == len(world.table("bronze"))
    assert wanted == world.days()
    assert {"alarms.hot.JFK": 1} == world.subjects("ALARMS")

    last = world.hub.call("STREAM.INFO.W")["state"]["last_seq"]
    said = plan(world.job)
    assert f"stream W has {last - 1} to {last}; read before {last + 1}; 0 to come" in said
    assert "$KV.LAST.obs.<device>: last values" in said

    compact(world.job)
    assert 1 == len(list((world.job.tables / "silver" / "obs" / "month=2013-01").glob("*.parquet")))
    silver = sum(count for count, _ in wanted.values())
    assert {"obs": silver} == world.rerun(date(2013, 1, 4))
    assert wanted == world.days()
    # By a schema with another bound two observations become dead letters; by the old one they come back.
    narrow = (dataclasses.replace(world.job.schemas[0].fields[0], max=45.0),)
    assert {"obs": silver - 2} == world.rerun(date(2013, 1, 4), fields=narrow)
    assert wanted.keys() - {("LGA", "2013-01-01"), ("JFK", "2013-01-04")} == world.days().keys()
    assert len(DEAD) + 2 == len(world.table("dead"))
    assert {"obs": silver} == world.rerun(date(2013, 1, 4))
    assert wanted == world.days()
    assert len(DEAD) == len(world.table("dead"))
    shutil.rmtree(world.job.tables / "bronze")
    with pytest.raises(TableError, match=r"which is gone: made anew it would lose them. Nothing was changed"):
        world.rerun(date(2013, 1, 4))
    assert wanted == world.days()
