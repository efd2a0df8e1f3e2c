"""The PySpark data source `nats`: JetStream streams as tables and as streaming sources and sinks.

    spark.read.format("nats").option("servers", "nats://hub:4222").option("stream", "TELEMETRY").load()

Here: Spark's interface and nothing else. Options are `options`, what a query reads next `source.planner`, reading
`source.reader`, writing `sink.writers`.

Spark keeps the offsets, in its checkpoint; nothing is acknowledged to the broker, and no consumer is
left on it. So a batch that is run again reads the same rows again, whichever executor it lands on, and
dropping a checkpoint is all it takes to start over.

PySpark starts a Python process for the planner of each streaming query, which lives as long as the query, and others
for the tasks; what is pickled between them are the frozen options and ranges.

Limits of a batch came to Python's data sources with Spark 4.2. On 4.0 and 4.1 a streaming query takes all there is,
and an option that would limit it is refused. On 4.0 nothing is written: its streaming writers take no Arrow batches.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from .options import Options, parse_options
from .source.columns import COLUMNS
from .source.offsets import Offsets
from .source.planner import Piece, Planner
from .source.pushed import Bounds, Pushing
from .source.reader import RangeReader

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:
    HAS_LIMITS = False


def register(spark: SparkSession) -> None:
    """Make the format `nats` known to a session, and the session's default parallelism to the format.

    Spark finds the format by itself where the module pyspark_nats is installed; then it does not know the parallelism.
    """
    try:
        parallelism = int(spark.sparkContext.defaultParallelism)
        _show_archive(spark.sparkContext)
    except Exception:  # a session of Spark Connect has no context, and says so in errors of several kinds
        parallelism = 0
    spark.dataSource.register(type("NatsDataSource", (NatsDataSource,), {"parallelism": parallelism}))


def _show_archive(context: SparkContext) -> None:
    """Tell the planner of a streaming query where leafd is, if it came with --py-files.

    Spark gives those files to tasks, and starts the planner's process without them. (An executor that has no such file
    passes over its name.)
    """
    place = Path(__file__).parents[1]
    if place.is_file():
        known = context.environment.get("PYTHONPATH", "").split(os.pathsep)
        context.environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(place), *filter(None, known)]))


class NatsDataSource(DataSource):
    parallelism = 0  # the session's default; 0 if it is not known

    @classmethod
    def name(cls) -> str:
        return "nats"

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_options(self.options, parallelism=self.parallelism)
        return FilteringReader(options) if options.push_filters else NatsReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = parse_options(self.options, streaming=True, parallelism=self.parallelism)
        return NatsStreamReader(options) if HAS_LIMITS else UnlimitedStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise ValueError("a stream cannot be overwritten; write with mode append")
        found: DataSourceWriter = _sink().NatsWriter(parse_options(self.options, writing=True), schema)
        return found

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        found: DataSourceStreamWriter = _sink().NatsStreamWriter(parse_options(self.options, writing=True), schema)
        return found


def _sink() -> ModuleType:
    try:
        from .sink import writers
    except ImportError as error:
        raise ValueError(f"writing needs Spark 4.1 or later; this is {pyspark.__version__}") from error
    return writers


class PiecePartition(InputPartition):
    """A piece, as Spark pickles it."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(None)
        self.piece = piece


def _partitions(pieces: list[Piece]) -> list[InputPartition]:
    return [PiecePartition(piece) for piece in pieces]


def _read(options: Options, partition: InputPartition) -> Iterator[Any]:
    if isinstance(partition, PiecePartition):  # Spark makes a plain one when there are none
        piece = partition.piece
        named = replace(options, stream=piece.stream)
        yield from RangeReader(named, piece.wanted, created=piece.created).batches()


class NatsReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self._options)
        try:
            return _partitions(planner.whole(self._bounds))
        finally:
            planner.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options, partition)


class FilteringReader(NatsReader):
    """A class of its own, since Spark refuses readers that take filters in a session where it hands none out."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        pushing = Pushing(self._options)
        left = pushing.push(filters)
        self._options, self._bounds = pushing.options, pushing.bounds
        return left


class _Streaming(DataSourceStreamReader):
    """The questions of a streaming query, whatever Spark's version.

    Spark pickles a second one of these for the tasks, which plans nothing and therefore has no connection.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._planner = Planner(options)

    def __getstate__(self) -> Options:
        return self._options

    def __setstate__(self, options: Options) -> None:
        self.__init__(options)  # type: ignore[misc]

    def initialOffset(self) -> dict[str, Any]:
        return self._planner.begin().as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        return _partitions(self._planner.pieces(Offsets.of(start), Offsets.of(end)))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options, partition)

    def stop(self) -> None:
        self._planner.close()


if HAS_LIMITS:

    class NatsStreamReader(_Streaming, SupportsTriggerAvailableNow):
        def getDefaultReadLimit(self) -> ReadLimit:
            # Spark passes one limit on. Where both options are given, latestOffset applies the other one too.
            if self._options.max_messages:
                return ReadMaxRows(self._options.max_messages)
            if self._options.max_bytes:
                return ReadMaxBytes(self._options.max_bytes)
            return ReadAllAvailable()

        def prepareForTriggerAvailableNow(self) -> None:
            self._planner.aim()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            rows, size = self._limits(limit)
            end = self._planner.latest(Offsets.of(start), rows, size, at_least=self._options.min_messages)
            return start if end is None else end.as_json()

        def _limits(self, limit: ReadLimit) -> tuple[int, int]:
            """Rows and bytes that this batch may have; 0 is any."""
            if isinstance(limit, ReadMaxRows):
                return limit.max_rows, self._options.max_bytes
            if isinstance(limit, ReadMaxBytes):
                return self._options.max_messages, limit.max_bytes
            return 0, 0

        def reportLatestOffset(self) -> dict[str, Any] | None:
            return self._planner.report()


class UnlimitedStreamReader(_Streaming):
    """For Spark 4.0 and 4.1, which ask for the latest offset without saying where the query stands."""

    def __init__(self, options: Options) -> None:
        limits = {
            "maxOffsetsPerTrigger": options.max_messages,
            "minOffsetsPerTrigger": options.min_messages,
            "maxBytesPerTrigger": options.max_bytes,
        }
        if given := [name for name, value in limits.items() if value]:
            version = pyspark.__version__
            raise ValueError(f"option {', '.join(given)} needs Spark 4.2 or later; this is {version}")
        super().__init__(options)

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # as 4.0 and 4.1 have it
        return self._planner.ends().as_json()
