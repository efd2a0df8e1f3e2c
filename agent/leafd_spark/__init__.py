"""JetStream streams in Spark: the data source `nats`, and the jobs built on it.

Stands alone: it speaks NATS to whatever broker there is and imports nothing else of leafd, so that it can
go to a Spark cluster without the daemon. Nothing is imported here; `from leafd_spark.datasource import register`.

    datasource     Spark's interface: what `format("nats")` is
    source/        what a query reads: offsets, batches, rows
    sink/          what it writes: frames, ids, acknowledgements
    jobs/          tables made of a stream, by a file that describes them (`leafd-spark`)

The other files are what source and sink share: options, the connection, requests of JetStream.
"""
