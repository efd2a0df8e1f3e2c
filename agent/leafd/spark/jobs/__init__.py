"""Jobs: programs that run on Spark and read and write streams through the data source `nats`."""
