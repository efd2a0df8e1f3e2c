"""The PySpark data source `nats`: JetStream streams as tables and as streaming sources and sinks.

    spark.read.format("nats").option("servers", "nats://hub:4222").option("stream", "TELEMETRY").load()

What lives here: Spark's interface for reading and nothing else. Options are `options`, offsets `ranges`, reading
`fetch`, writing `sink`.

Spark keeps the offsets, in its checkpoint; nothing is acknowledged to the broker, and no consumer is
left on it. So a batch that is run again reads the same rows again, whichever executor it lands on, and
dropping a checkpoint is all it takes to start over.

PySpark starts a Python process for the planner and others for the tasks; what is pickled between them
are the frozen options and ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from .batches import COLUMNS
from .fetch import LOSS_ADVICE, RangeReader, sequence_at, size_admitted, stream_state, with_connection
from .options import EARLIEST, LATEST, Options, parse_options
from .ranges import DataLoss, Offset, Range, StreamState, admit, lost_before, resume, split
from .sink import NatsStreamWriter, NatsWriter
from .wire import Connection


def register(spark: SparkSession) -> None:
    """Make the format `nats` known to a session."""
    spark.dataSource.register(NatsDataSource)


class NatsDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "nats"

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        return NatsReader(parse_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return NatsStreamReader(parse_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise ValueError("a stream cannot be overwritten; write with mode append")
        return NatsWriter(parse_options(self.options, writing=True), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return NatsStreamWriter(parse_options(self.options, writing=True), schema)


class RangePartition(InputPartition):
    """One task's share."""

    def __init__(self, wanted: Range, allows_direct: bool) -> None:
        super().__init__(None)
        self.wanted = wanted
        self.allows_direct = allows_direct


def _read(options: Options, partition: InputPartition) -> Iterator[Any]:
    if isinstance(partition, RangePartition):  # Spark makes a plain one when there are none
        yield from RangeReader(options, partition.wanted, partition.allows_direct).batches()


def _partitions(options: Options, whole: Range, allows_direct: bool) -> list[InputPartition]:
    pieces = split(whole, options.partitions, options.partition_rows_min)
    return [RangePartition(piece, allows_direct) for piece in pieces]


def _begin(connection: Connection, options: Options, state: StreamState) -> Offset:
    """Where reading begins without a checkpoint."""
    if options.starting_time:
        found = sequence_at(connection, options, options.starting_time)
        return Offset(state.created, found if found is not None else state.last + 1)
    if options.starting == EARLIEST:
        return Offset(state.created, state.first)
    if options.starting == LATEST:
        return Offset(state.created, state.last + 1)
    # A given sequence before the stream's first is a wish for everything from there on that still exists.
    return Offset(state.created, max(int(options.starting), state.first))


# --- batch -------------------------------------------------------------------


class NatsReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        def plan(connection: Connection) -> list[InputPartition]:
            state = stream_state(connection, self._options)
            start = _begin(connection, self._options, state)
            last = state.last if self._options.ending == LATEST else min(int(self._options.ending), state.last)
            return _partitions(self._options, Range(start.next, last), state.allows_direct)

        return with_connection(self._options, plan)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options, partition)


# --- streaming ---------------------------------------------------------------


class NatsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: Offset | None = None

    def _state(self) -> StreamState:
        return with_connection(self._options, lambda connection: stream_state(connection, self._options))

    def initialOffset(self) -> dict[str, Any]:
        def begin(connection: Connection) -> Offset:
            return _begin(connection, self._options, stream_state(connection, self._options))

        return with_connection(self._options, begin).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark passes one limit on. Where both options are given, latestOffset applies the other one too.
        if self._options.max_messages:
            return ReadMaxRows(self._options.max_messages)
        if self._options.max_bytes:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        state = self._state()
        self._target = Offset(state.created, state.last + 1)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        state = self._state()
        begin = self._on_from(Offset.of(start), state)
        rows, size = self._limits(limit)
        end = admit(begin, state, self._target, rows)
        if size and end.next > begin.next and state.bytes > size:
            wanted = Range(begin.next, end.next - 1)
            end = Offset(end.created, size_admitted(self._options, wanted, state.allows_direct, size))
        return end.as_json()

    def _limits(self, limit: ReadLimit) -> tuple[int, int]:
        """Rows and bytes that this batch may have; 0 is any."""
        if isinstance(limit, ReadMaxRows):
            return limit.max_rows, self._options.max_bytes
        if isinstance(limit, ReadMaxBytes):
            return self._options.max_messages, limit.max_bytes
        return 0, 0

    def _on_from(self, offset: Offset, state: StreamState) -> Offset:
        lost = lost_before(offset, state)
        if lost and self._options.fail_on_data_loss:
            raise DataLoss(f"stream {self._options.stream}: {lost}; {LOSS_ADVICE}")
        return resume(offset, state)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        state = self._state()
        return Offset(state.created, state.last + 1).as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, after = Offset.of(start), Offset.of(end)
        if begin == after:
            return []
        state = self._state()
        # Also when a batch is run again after a restart: its rows may be gone by now.
        begin = self._on_from(begin, state)
        if begin.created != after.created:
            raise DataLoss(f"stream {self._options.stream} was made anew between planning and reading")
        return _partitions(self._options, Range(begin.next, after.next - 1), state.allows_direct)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options, partition)
