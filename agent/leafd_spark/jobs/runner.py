"""A job at work: Spark's query over the stream, what happens in a batch, and when windows are computed.

    batch     Spark's tasks read messages, judge them, stage files (ingest.py): one Spark job;
              the driver admits what is new to bronze, dead, silver (admission.py)
    refresh   touched windows are computed (gold.py), what changes is published (results.py), then put in place

Spark's checkpoint holds which sequences a batch has, so a batch that died is read again with the same ones. If the
checkpoint is lost, reading begins at the stream's start: the tables keep all they have and get nothing twice.
"""

from __future__ import annotations

import time
from datetime import date, timedelta
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from leafd_spark.datasource import register

from .formats import FORMATS
from .ingest import BRONZE, REPORT, Plan, Staged, ingest
from .job import ONCE, Job
from .partitions import COMPACT, Layout
from .rerun import rerun
from .results import Message
from .tables import Tables

IDLE_SECONDS = 1.0


class Runner:
    """One job over one session."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self._spark = spark
        self._job = job
        self._days = FORMATS[job.format].tables(spark, job)
        self._tables = Tables(job, self._days, self._publish)
        self._refreshed = time.monotonic()
        self.rows = 0  # read by this run

    def run(self) -> int:
        """Until the stream is read (mode once) or the query ends; the number of messages that were read."""
        job = self._job
        with Layout(job.tables).locked(), self._tables:
            self._tables.begin()
            self._tables.refresh()  # what an earlier run left
            register(self._spark)
            messages = self._spark.readStream.format("nats").options(**job.reading()).load()
            query = messages.writeStream.foreachBatch(self.batch).queryName(job.name)
            query = query.option("checkpointLocation", str(job.checkpoint))
            if job.mode == ONCE:
                query.trigger(availableNow=True).start().awaitTermination()
            else:
                self._go_on(query.trigger(processingTime=_interval(job.every)).start())
            self._tables.refresh()
        return self.rows

    def rerun(self, day: date) -> dict[str, int]:
        """Make a day anew from bronze; the rows of its partition in each table of silver."""
        with Layout(self._job.tables).locked(), Layout(self._job.tables, COMPACT).locked(), self._tables:
            self._tables.begin()
            found = rerun(self._days, self._job, day)
            self._tables.refresh()
        return found

    def _go_on(self, query: Any) -> None:
        try:
            while not query.awaitTermination(IDLE_SECONDS):
                self._refresh_if_due()
        finally:
            query.stop()

    def _refresh_if_due(self) -> None:
        if time.monotonic() - self._refreshed >= self._job.gold_every.total_seconds():
            self._tables.refresh()
            self._refreshed = time.monotonic()

    def batch(self, frame: DataFrame, number: int) -> None:
        """One batch. Its number decides nothing: what is new is seen by the rows' keys."""
        plan = Plan(self._job.tables, self._job.schemas)
        report = frame.mapInArrow(partial(ingest, plan), REPORT).collect()
        staged = [Staged(**row.asDict()) for row in report]
        self._tables.admit(staged)
        self.rows += sum(each.rows for each in staged if each.kind == BRONZE)
        if self._job.mode != ONCE:
            self._refresh_if_due()

    def _publish(self, messages: list[Message]) -> None:
        register(self._spark)
        rows = [(message.subject, message.data, message.id) for message in messages]
        frame = self._spark.createDataFrame(rows, "subject string, data string, message_id string").coalesce(1)
        options = self._job.publishing() | {"messageIdColumn": "message_id"}
        frame.write.format("nats").options(**options).mode("append").save()


def _interval(every: timedelta) -> str:
    return f"{every // timedelta(milliseconds=1)} milliseconds"
