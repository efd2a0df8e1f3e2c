"""Writing a DataFrame to JetStream: Spark's interface for batch and streaming sinks.

What lives here: Spark's writers, and what they know of the task, the query and the batch they write for. What
doesn't: the publishes themselves (`publish`), and the data source that hands the writers out (`source`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from .options import Options
from .publish import RowReader, Window

QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"


class Published(WriterCommitMessage):
    """What one task published."""

    def __init__(self, stored: int, duplicates: int) -> None:
        self.stored = stored
        self.duplicates = duplicates


def _publish(options: Options, names: list[str], id_prefix: str, batches: Iterator[Any]) -> Published:
    window = Window(options)
    try:
        for message in RowReader(options, names, id_prefix).messages(batches):
            window.publish(message)
        window.drain()
    finally:
        window.close()
    return Published(window.stored, window.duplicates)


def _task() -> tuple[int, Mapping[str, str | None]]:
    """The partition's number, and the query and batch it belongs to."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("publishing happens in a Spark task")
    properties = {name: context.getLocalProperty(name) for name in (QUERY_ID_PROPERTY, BATCH_ID_PROPERTY)}
    return context.partitionId(), properties


class NatsWriter(DataSourceArrowWriter):
    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._names = schema.fieldNames()
        # Made once a write, on the driver: a task that is run again publishes under the same ids.
        self._write_id = uuid.uuid4().hex

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        partition, _ = _task()
        return _publish(self._options, self._names, f"{self._write_id}-{partition}", iterator)


class NatsStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._names = schema.fieldNames()

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        partition, properties = _task()
        query, batch = properties[QUERY_ID_PROPERTY], properties[BATCH_ID_PROPERTY]
        if query is None or batch is None:
            raise RuntimeError("Spark did not say which query and batch this task belongs to")
        return _publish(self._options, self._names, f"{query}-{batch}-{partition}", iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Every message was acknowledged before its task ended: there is nothing left to do."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was published stays; the batch's next run publishes it under the same ids."""
