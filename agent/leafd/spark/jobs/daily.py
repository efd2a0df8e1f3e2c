"""Daily aggregates per station: from a stream of weather observations to Parquet tables and a stream.

    python -m leafd.spark.jobs.daily --servers nats://hub:4222 --stream TELEMETRY --tables /data/weather

One run takes everything that came since the last one (Trigger.AvailableNow) and ends; a timer starts it again.
Tables, below --tables:

    observations/period=P/batch=B/   one row an observation, as it came in batch B
    daily/period=P/                  one row a station and day: the aggregates
    rejected/batch=B/                messages that are no observations: kept, never aggregated

A period is a month or, with --period day, a day: the latter where a day fills a file worth reading.

Every step can be run again, and is after a crash, with the same outcome. A batch's sequences are in the
checkpoint, so it reads the same messages again and overwrites its own partitions. The days that a batch
touches are computed anew, never added to: the periods they lie in are read whole from the observations and
their partitions are overwritten whole. So rows that come days late (a box that was offline) correct their
day like any others. There is no watermark: it would drop them, and nobody would hear of it.

An observation counts once, by its message id (the publisher's `Nats-Msg-Id`; without one by its place in
the stream), also when it was published twice outside the stream's duplicate window.

The touched days' aggregates are published as `<prefix>.<station>.<day>`. In a stream with one message a subject that is
a table of the newest values, and publishing a value again changes nothing.

What a crash can leave for the moment is a period without its partition, in the midst of the overwrite; the
batch's next run puts it back. Readers that cannot bear that want a table format with transactions.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, functions as f

from leafd.spark.sink import QUERY_ID_PROPERTY
from leafd.spark.source import register

OBSERVATION = (
    "origin string, time_hour timestamp, temp double, dewp double, humid double, wind_dir double, "
    "wind_speed double, wind_gust double, precip double, pressure double, visib double"
)
TABLE = f"message_id string, sequence bigint, {OBSERVATION}, day date, period string, batch bigint"
MESSAGES_MAX = 200_000
PERIODS = {"month": "yyyy-MM", "day": "yyyy-MM-dd"}


def measures() -> list[Column]:
    """The aggregates of a station's day. What was not measured (null) takes no part; a day without any gives null."""
    return [
        f.count("*").alias("observations"),
        f.min("temp").alias("temp_min"),
        f.avg("temp").alias("temp_mean"),
        f.max("temp").alias("temp_max"),
        f.avg("humid").alias("humid_mean"),
        f.avg("pressure").alias("pressure_mean"),
        f.max("wind_speed").alias("wind_speed_max"),
        f.sum("precip").alias("precip_sum"),
    ]


@dataclass(frozen=True, slots=True)
class Job:
    """Where messages come from and results go to."""

    servers: str
    stream: str
    tables: Path
    domain: str = ""
    subject: str = ""
    publish_prefix: str = ""  # empty: publish nothing
    max_messages: int = MESSAGES_MAX  # a batch
    period: str = "month"  # of PERIODS

    @property
    def observations(self) -> str:
        return str(self.tables / "observations")

    @property
    def daily(self) -> str:
        return str(self.tables / "daily")

    @property
    def rejected(self) -> str:
        return str(self.tables / "rejected")

    @property
    def checkpoint(self) -> str:
        return str(self.tables / "_checkpoint")

    def connection(self) -> dict[str, str]:
        given = {"servers": self.servers, "domain": self.domain}
        return {name: value for name, value in given.items() if value}

    def source(self) -> dict[str, str]:
        given = {"stream": self.stream, "subject": self.subject, "maxMessagesPerTrigger": str(self.max_messages)}
        return self.connection() | {name: value for name, value in given.items() if value}


def parse(messages: DataFrame, period: str) -> DataFrame:
    """Messages to observations; what is none has no station or no time."""
    day = f.to_date("observation.time_hour")
    place = f.concat_ws(":", "stream", f.col("sequence").cast("string"))
    return messages.select(
        f.coalesce(f.col("headers")["Nats-Msg-Id"], place).alias("message_id"),
        "sequence",
        "data",
        f.from_json(f.col("data").cast("string"), OBSERVATION).alias("observation"),
    ).select(
        "message_id",
        "sequence",
        "data",
        "observation.*",
        day.alias("day"),
        f.date_format(day, PERIODS[period]).alias("period"),
    )


def overwrite(rows: DataFrame, path: str, *partitions: str) -> None:
    """Replace the partitions that the rows belong to, and no others."""
    # One file a partition: rows of one partition meet in one task.
    together = rows.repartition(*partitions)
    together.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(*partitions).parquet(path)


def aggregate(spark: SparkSession, job: Job, periods: list[str]) -> DataFrame:
    """The aggregates of all days of some periods, from all their observations."""
    table = spark.read.schema(TABLE).parquet(job.observations)
    rows = table.where(f.col("period").isin(periods)).dropDuplicates(["message_id"])
    return rows.groupBy(f.col("origin").alias("station"), "day", "period").agg(*measures())


def publish(daily: DataFrame, job: Job, batch_key: str) -> None:
    """Aggregates as messages, each under a subject and an id of its own."""
    token = f.concat_ws(".", f.lit(job.publish_prefix), "station", f.col("day").cast("string"))
    # The batch is part of the id: a batch that is run again publishes nothing twice, and a later batch that
    # brings a value back to what it was is not taken for a repetition.
    message_id = f.concat_ws("-", f.lit(batch_key), "station", f.col("day").cast("string"))
    rows = daily.select(
        token.alias("subject"),
        f.to_json(f.struct(*daily.drop("period").columns)).alias("data"),
        message_id.alias("message_id"),
    )
    options = job.connection() | {"messageIdColumn": "message_id"}
    rows.write.format("nats").options(**options).mode("append").save()


def process(messages: DataFrame, batch: int, job: Job) -> None:
    """One batch: keep its observations, compute its days anew, publish them."""
    spark = messages.sparkSession
    parsed = parse(messages, job.period).withColumn("batch", f.lit(batch).cast("bigint")).persist()
    try:
        good = f.col("origin").isNotNull() & f.col("time_hour").isNotNull()
        bad = parsed.where(~good).select("message_id", "sequence", "data", "batch")
        if not bad.isEmpty():
            overwrite(bad, job.rejected, "batch")
        observations = parsed.where(good).drop("data")
        touched = observations.select("period", "day").distinct().collect()
        if not touched:
            return
        overwrite(observations, job.observations, "period", "batch")
    finally:
        parsed.unpersist()
    daily = aggregate(spark, job, sorted({row.period for row in touched})).persist()
    try:
        overwrite(daily, job.daily, "period")
        if job.publish_prefix:
            changed = daily.where(f.col("day").isin([row.day for row in touched]))
            publish(changed, job, f"{spark.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)}-{batch}")
    finally:
        daily.unpersist()


def run(spark: SparkSession, job: Job) -> int:
    """Take in all there is; the number of messages that this run read."""
    register(spark)
    messages = spark.readStream.format("nats").options(**job.source()).load()
    query = (
        messages.writeStream.foreachBatch(lambda frame, batch: process(frame, batch, job))
        .option("checkpointLocation", job.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(int(progress.numInputRows) for progress in query.recentProgress)


def session(master: str) -> SparkSession:
    """A session with what the job relies on: days in UTC, and workers with this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("daily").config("spark.sql.session.timeZone", "UTC")
    if master:
        builder = builder.master(master)
    if master.startswith("local"):
        # Spark asks the resolver for this machine's name before it reads any setting; not every machine has one there.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
        # One machine: no more shuffle partitions than it has cores, nothing to look at, nobody else to listen to.
        local = {
            "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # A job of Spark's own to list a few hundred directories takes longer than listing them.
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        }
        for name, value in local.items():
            builder = builder.config(name, value)
    return builder.getOrCreate()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="daily", description="Daily weather aggregates per station, from a stream.")
    parser.add_argument("--servers", required=True, help="addresses of the hub, nats://host:4222,...")
    parser.add_argument("--domain", default="", help="JetStream domain of the hub, if it isn't the server's own")
    parser.add_argument("--stream", required=True, help="stream with the observations")
    parser.add_argument("--subject", default="", help="read these subjects of the stream only")
    parser.add_argument("--tables", required=True, type=Path, help="directory of the tables and the checkpoint")
    parser.add_argument("--publish-prefix", default="", help="publish aggregates as PREFIX.<station>.<day>")
    parser.add_argument("--max-messages", type=int, default=MESSAGES_MAX, help="messages a batch at most")
    parser.add_argument("--period", choices=PERIODS, default="month", help="what a partition of the tables covers")
    parser.add_argument("--master", default="", help="Spark master, such as local[*]; default: spark-submit's")
    given = parser.parse_args(arguments)
    job = Job(
        servers=given.servers,
        stream=given.stream,
        tables=given.tables.resolve(),
        domain=given.domain,
        subject=given.subject,
        publish_prefix=given.publish_prefix,
        max_messages=given.max_messages,
        period=given.period,
    )
    spark = session(given.master)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        print(f"read {run(spark, job)} messages")
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
