"""JetStream streams in Spark: the data source `nats`, and the jobs built on it.

Stands alone: it speaks NATS to whatever broker there is and imports nothing else of leafd, so that it can
go to a Spark cluster without the daemon. Nothing is imported here; `from leafd.spark.source import register`.
"""
