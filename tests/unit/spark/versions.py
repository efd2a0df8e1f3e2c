"""What each version of Spark can do with the data source: run by test_versions.py, in a process and a Spark of its own.

    PYTHONPATH=leafd-spark-VERSION.zip python versions.py SERVERS FOLDER

Prints one JSON object. Nothing is registered: Spark has to find the format by itself. The stream S holds 200 messages.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def stream(spark: Any, servers: str, folder: Path, **more: str) -> list[int]:
    """The sequences that a streaming query until now reads, batch by batch."""
    batches: list[int] = []
    frame = spark.readStream.format("nats").options(servers=servers, stream="S", **more).load()
    query = frame.writeStream.foreachBatch(lambda rows, _: batches.append(rows.count()))
    query.option("checkpointLocation", str(folder)).trigger(availableNow=True).start().awaitTermination()
    return batches


def refusal(spark: Any, servers: str, folder: Path, **more: str) -> str:
    try:
        return f"accepted: {stream(spark, servers, folder, **more)}"
    except Exception as error:
        return str(error)


def write(spark: Any, servers: str) -> str:
    rows = spark.range(3).selectExpr("concat('out.', id) as subject", "cast(string(id) as binary) as data")
    try:
        rows.write.format("nats").options(servers=servers).mode("append").save()
    except Exception as error:
        return str(error)
    return "written"


def main() -> None:
    import pyspark
    from pyspark.sql import SparkSession

    servers, folder = sys.argv[1], Path(sys.argv[2])
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    table = spark.read.format("nats").options(servers=servers, stream="S", endingOffsets="150").load()
    found = {
        "version": pyspark.__version__,
        "batch": table.count(),
        "unlimited": sum(stream(spark, servers, folder / "unlimited")),
        "limited": refusal(spark, servers, folder / "limited", maxOffsetsPerTrigger="120"),
        "write": write(spark, servers),
    }
    spark.stop()
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
