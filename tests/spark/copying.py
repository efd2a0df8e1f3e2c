"""The query of the proofs: every message of stream S to stream OUT, over a shuffle, as a Spark application of its own.

    python -m tests.spark.copying --master local[2] --servers nats://... --checkpoint FOLDER

It goes on until somebody ends it, which is what the proofs do. What a message becomes is a matter of its subject and
data alone, so that what OUT has to hold can be said without Spark.
"""

from __future__ import annotations

import argparse
import random

from leafd_spark.datasource import register
from leafd_spark.jobs.session import session

DEAD = "dead.rows"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", default="", help="default: spark-submit's")
    parser.add_argument("--servers", required=True)
    parser.add_argument("--checkpoint", required=True)
    given = parser.parse_args()
    spark = session(given.master, "copying")
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    source = {"servers": given.servers, "stream": "S", "maxOffsetsPerTrigger": "600", "minPartitions": "2"}
    messages = spark.readStream.format("nats").options(**source).load()
    rows = messages.selectExpr("regexp_replace(subject, '^s', 'out') as subject", "data")
    # Another number of partitions at every start: a batch that runs again deals its rows out anew.
    rows = rows.repartition(random.randint(1, 4))
    query = rows.writeStream.format("nats").options(servers=given.servers, deadLetterSubject=DEAD)
    query.option("checkpointLocation", given.checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
