"""Writing a DataFrame to JetStream: Spark's interface for batch and streaming sinks.

Here: Spark's writers, what they know of the task, the query and the batch they write for, and the end of a
batch on the driver. Not here: rows and ids (`outgoing`), the publishes themselves (`publish`), and the data source
that hands the writers out (`source`).

A batch ends on the driver, when all its tasks have ended: equal rows of different tasks are told apart there, since no
task sees another's rows (`outgoing` has the reasoning). Only then Spark notes the batch as done; if the driver
dies before, the batch runs again and publishes the same ids.
"""

from __future__ import annotations

import base64
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from leafd_spark.fetch import ApiError, api, dial, with_connection
from leafd_spark.options import Options
from leafd_spark.wire import NoResponders, WireError

from .frames import content_id
from .outgoing import Content, Missing, Report, RowWriter, header_lines, missing
from .publish import PublishError, Window

QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"

LOG = logging.getLogger("leafd_spark")


class Published(WriterCommitMessage):
    """The count of messages that one task published, and for how many seconds."""

    def __init__(self, stored: int, duplicates: int, streams: set[str], report: Report, seconds: float) -> None:
        self.stored = stored
        self.duplicates = duplicates
        self.streams = streams
        self.report = report
        self.seconds = seconds


def _publish(options: Options, names: list[str], scope: str, partition: int, batches: Iterator[Any]) -> Published:
    window = Window(options)
    began = time.monotonic()
    try:
        report = RowWriter(options, names, scope, partition, window).write(batches)
    finally:
        window.close()
    return Published(window.stored, window.duplicates, window.tally.streams, report, time.monotonic() - began)


def _task() -> tuple[int, Mapping[str, str | None]]:
    """The partition's number, and the query and batch it belongs to."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("publishing happens in a Spark task")
    properties = {name: context.getLocalProperty(name) for name in (QUERY_ID_PROPERTY, BATCH_ID_PROPERTY)}
    return context.partitionId(), properties


def _scope(name: str) -> str:
    """The beginning of a write's ids: short, and without a character that a header cannot hold."""
    return blake2b(name.encode(), digest_size=8).hexdigest()


# --- the end of a batch, on the driver ---------------------------------------


def finish(options: Options, tasks: list[Published], *, first: bool = True) -> None:
    """Publish the copies that no task could, and look at what the promise rests on."""
    if first or any(task.duplicates for task in tasks):  # that is: when a query begins, and when a batch runs again
        _check_memory(options, tasks)
    lacking = missing([task.report for task in tasks])
    if lacking:
        window = Window(options)
        try:
            for each in lacking:
                content = _content(options, each, tasks)
                for count in range(each.first, each.first + each.count):
                    message_id = content_id(tasks[0].report.scope, each.digest, count)
                    window.publish(content.with_id(message_id, "a row that several tasks have"))
            window.drain()
        finally:
            window.close()


def _check_memory(options: Options, tasks: list[Published]) -> None:
    """Does the stream remember ids for as long as a retry may take?"""
    # A task may fail at its end, and its first rows be published again after that; a connection may be lost as long
    # as the retries go on.
    needed = options.retry + max((task.seconds for task in tasks), default=0)
    for stream in sorted(set().union(*(task.streams for task in tasks))):
        try:
            with dial(options) as connection:
                info = api(connection, options, f"STREAM.INFO.{stream}", {})
        except (ApiError, WireError, NoResponders, OSError):
            continue  # a publisher may be allowed to publish and to ask nothing
        remembers = int(info["config"].get("duplicate_window", 0)) / 1e9
        if remembers < needed:
            LOG.warning(
                "stream %s forgets message ids after %g s (duplicate_window), but rows may be published again up to "
                "%.0f s later, after a restart of the query still later: what is published then is stored twice",
                *(stream, remembers, needed),
            )


def _content(options: Options, wanted: Missing, tasks: list[Published]) -> Content:
    for task in tasks:
        content = task.report.handed.get(wanted.digest)
        if content is not None:
            return content
    for task in tasks:
        place = task.report.places.get(wanted.digest)
        if place is not None:
            content = _stored(options, *place)
            if content is not None and content.digest() == wanted.digest:
                return content
    raise PublishError(
        f"{wanted.count} equal rows of several tasks were not published, since the first of them cannot be read back "
        "from the stream: name a column that holds ids (option messageIdColumn)"
    )


def _stored(options: Options, stream: str, sequence: int) -> Content | None:
    """A message of the stream as the row that it was published from."""
    try:
        answer = with_connection(
            options, lambda connection: api(connection, options, f"STREAM.MSG.GET.{stream}", {"seq": sequence})
        )
    except (ApiError, WireError, NoResponders):
        return None
    message = answer["message"]
    block = base64.b64decode(message.get("hdrs", "")).decode(errors="replace")
    fields = [line.partition(":")[::2] for line in block.split("\r\n")[1:] if ":" in line]
    lines = header_lines((name, value.strip()) for name, value in fields)
    return Content(str(message["subject"]), lines, base64.b64decode(message.get("data", "")))


# --- Spark's interface -------------------------------------------------------


class NatsWriter(DataSourceArrowWriter):
    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._names = schema.fieldNames()
        # Made once a write, on the driver: a task that is run again publishes under the same ids.
        self._scope = _scope(options.write_id or uuid.uuid4().hex)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        partition, _ = _task()
        return _publish(self._options, self._names, self._scope, partition, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        finish(self._options, [each for each in messages if isinstance(each, Published)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leaves published messages as they are; a write with the same writeId publishes them under the same ids."""


class NatsStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._names = schema.fieldNames()

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        partition, properties = _task()
        query, batch = properties[QUERY_ID_PROPERTY], properties[BATCH_ID_PROPERTY]
        if query is None or batch is None:
            raise RuntimeError("Spark did not say which query and batch this task belongs to")
        return _publish(self._options, self._names, f"{_scope(query)}-{batch}", partition, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        finish(self._options, [each for each in messages if isinstance(each, Published)], first=batchId == 0)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leaves published messages as they are; the batch's next run publishes them under the same ids."""
