"""Spark's session for jobs, tests and benches: days in UTC, workers with this Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import pyspark
from pyspark.sql import SparkSession

LOCAL = {
    # One machine: no more shuffle partitions than it has cores, nothing to look at, nobody else to listen to.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
# A batch is noted in two logs of the checkpoint. Spark's default starts some thirty processes for that on a local disk
# (chmod, readlink), and writes a checksum beside each file; both together cost more than reading a small batch.
LOGS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
LOGS_SINCE = (4, 2)  # the class had another name before


def session(master: str = "", name: str = "leafd", settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session at a master; without one at spark-submit's."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    if master:
        builder = builder.master(master)
    if master.startswith("local"):
        # Spark asks the resolver for this machine's name before it reads any setting; not every machine has one there.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
        logs = LOGS if tuple(map(int, pyspark.__version__.split(".")[:2])) >= LOGS_SINCE else {}
        for key, value in (LOCAL | logs).items():
            builder = builder.config(key, value)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
