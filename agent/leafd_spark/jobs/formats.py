"""The formats that a job's tables can have: what a format is, and the two that there are.

A further one is a class here and an object with the calls of `Days` (rerun.py): files of Parquet are `FileDays` there,
tables of Delta Lake `DeltaStore` (delta.py). No other place asks which format a job has.

Not here: the tables themselves, and which releases of Delta Lake fit which Spark (delta_versions.py). What needs
pyspark is imported when a job is run, since a job's file is checked on machines without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from .delta_versions import delta_fault, delta_settings
from .job import DELTA, PARQUET, Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .compaction import Compacted
    from .rerun import Days


class TableFormat(Protocol):
    """A format of tables. Its objects keep nothing."""

    def fault(self) -> str:
        """The reason why jobs cannot have this format on this machine; empty: they can."""

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """The settings that a session needs for it beside `given`, those of the job."""

    def tables(self, spark: SparkSession, job: Job) -> Days:
        """The tables of a job."""

    def compact(self, job: Job, spark: Callable[[], SparkSession]) -> Compacted:
        """Merges small files. `spark` starts a session, for a format that needs one for this."""


class Parquet:
    """Files of Parquet."""

    def fault(self) -> str:
        return ""

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        return {}

    def tables(self, spark: SparkSession, job: Job) -> Days:
        from .rerun import FileDays

        return FileDays(spark, job)

    def compact(self, job: Job, spark: Callable[[], SparkSession]) -> Compacted:
        from .compaction import compact

        return compact(job)


class Delta:
    """Tables of Delta Lake."""

    def fault(self) -> str:
        return delta_fault()

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        return delta_settings(given)

    def tables(self, spark: SparkSession, job: Job) -> Days:
        from .delta import DeltaStore

        return DeltaStore(spark, job)

    def compact(self, job: Job, spark: Callable[[], SparkSession]) -> Compacted:
        from .delta import DeltaStore
        from .partitions import COMPACT, Layout

        with Layout(job.tables, COMPACT).locked():
            return DeltaStore(spark(), job).compact()


FORMATS: dict[str, TableFormat] = {PARQUET: Parquet(), DELTA: Delta()}
