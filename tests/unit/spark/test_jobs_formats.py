"""Which versions of Spark and Delta Lake go together, and what an error of Spark's says in a line."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leafd_spark import datasource
from leafd_spark.jobs import delta_versions
from leafd_spark.jobs.command import _reason
from leafd_spark.jobs.delta import DeltaStore
from leafd_spark.jobs.delta_versions import delta_fault, delta_settings, fits
from leafd_spark.jobs.job import DELTA
from leafd_spark.jobs.partitions import TableError

from .joboracle import job_in


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("4.2.0", "pyspark<=4.2.0,>=4.0.1", True),
        ("4.3.0", "pyspark<=4.2.0,>=4.0.1", False),
        ("4.0.0", "pyspark (<=4.2.0,>=4.0.1)", False),
        ("4.0.3", "pyspark<4.1.0,>=4.0.0", True),
        ("4.1", "pyspark<4.1.0,>=4.0.0", False),
        ("4.3.0", "pyspark", True),
        ("3.5.0", "pyspark==3.5.0", True),
    ],
)
def test_a_version_fits_what_delta_wants(version: str, wanted: str, expected: bool) -> None:
    """As the requirements of its releases are written."""
    assert expected is fits(version, wanted)


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        found = versions.get(name.replace("-", "_"))
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    found = SimpleNamespace(
        version=version,
        requires=lambda name: ["importlib_metadata>=1", "pyspark<=4.2.0,>=4.0.1"],
        PackageNotFoundError=metadata.PackageNotFoundError,
    )
    monkeypatch.setattr(delta_versions, "metadata", found)


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({"pyspark": "4.2.0", "delta_spark": "4.4.0"}, ""),
        ({"pyspark": "4.3.0", "delta_spark": "4.4.0"}, "delta-spark 4.4.0 wants pyspark <=4.2.0,>=4.0.1, and 4.3.0 is"),
        ({"pyspark": "4.1.0", "delta_spark": "4.4.0"}, "jobs need Spark 4.2"),
        ({"pyspark": "4.2.0"}, "delta-spark is not installed"),
    ],
)
def test_versions_that_do_not_fit_are_named(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], said: str
) -> None:
    """A job of that format says so before it begins."""
    installed(monkeypatch, **versions)
    assert delta_fault().startswith(said)
    assert bool(said) == bool(delta_fault())


def test_the_jar_is_named_unless_the_job_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the versions that are installed, as its publishers name it."""
    installed(monkeypatch, pyspark="4.2.0", delta_spark="4.4.0")
    assert "io.delta:delta-spark_4.2_2.13:4.4.0" == delta_settings({})["spark.jars.packages"]
    assert "spark.jars.packages" not in delta_settings({"spark.jars": "/srv/delta.jar"})


def test_a_table_whose_first_transaction_did_not_end_is_no_table_yet(tmp_path: Path) -> None:
    """A crash there leaves a log without a transaction, and perhaps files; the next run makes the table."""
    job = replace(job_in(tmp_path), format=DELTA)
    (tmp_path / "bronze" / "_delta_log").mkdir(parents=True)
    (tmp_path / "bronze" / "part-0.parquet").touch()
    store = DeltaStore(None, job)  # type: ignore[arg-type]
    store.begin()
    assert set() == store.bronze_days()


def test_files_of_parquet_are_not_taken_for_delta(tmp_path: Path) -> None:
    """A directory that another format has begun is refused."""
    (tmp_path / "bronze" / "day=2026-03-01").mkdir(parents=True)
    with pytest.raises(TableError, match="is no Delta table"):
        DeltaStore(None, job_in(tmp_path)).begin()  # type: ignore[arg-type]


PLANNER = """[STREAM_FAILED] Query [id = b] terminated: Failed to plan: Traceback (most recent call last):
  File "/x/planner.py", line 1, in states
    raise error
leafd_spark.wire.Refused: the server refuses the login: 'Authorization Violation'
 SQLSTATE: 38000
\tat org.apache.spark.sql.X(X.scala:1)"""


def test_an_error_of_a_python_process_is_told_by_what_it_raised() -> None:
    """And not by Spark's words around it."""
    assert "leafd_spark.wire.Refused: the server refuses the login: 'Authorization Violation'" == _reason(
        RuntimeError(PLANNER)
    )
    assert "no such table" == _reason(RuntimeError("no such table\n\tat org.apache.X"))


def test_the_planner_is_told_where_an_archive_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark starts it without the files of --py-files; what else it was told stays."""
    archive = tmp_path / "leafd.zip"
    archive.touch()
    context: Any = SimpleNamespace(environment={"PYTHONPATH": "/else"})
    datasource._show_archive(context)
    assert {"PYTHONPATH": "/else"} == context.environment
    monkeypatch.setattr(datasource, "__file__", str(archive / "leafd_spark" / "datasource.py"))
    for _ in range(2):
        datasource._show_archive(context)
        assert {"PYTHONPATH": f"{archive}{os.pathsep}/else"} == context.environment
