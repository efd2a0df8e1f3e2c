"""Spark's session for jobs, tests and benches: days in UTC, workers with this Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

LOCAL = {
    # One machine: no more shuffle partitions than it has cores, nothing to look at, nobody else to listen to.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


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
        for key, value in LOCAL.items():
            builder = builder.config(key, value)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
