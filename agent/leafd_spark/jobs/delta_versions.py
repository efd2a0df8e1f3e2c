"""Whether Delta Lake can be used with the Spark that is installed, and the settings of a session that uses it.

delta-spark on PyPI is Python alone; what does the work is a jar, which Spark fetches by its name when a session starts
(setting `spark.jars.packages`), or which `spark.jars` names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata

PACKAGE = "delta-spark"
SCALA = "2.13"
JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Tasks that read a table's log before each transaction. Delta's 50 take seconds where cores are few.
    "spark.databricks.delta.snapshotPartitions": "4",
    # Tasks by which VACUUM lists a table's files. Spark's 10,000 take a minute for each table, however small.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}
COMPARISONS = {"<": (-1,), "<=": (-1, 0), "==": (0,), ">=": (0, 1), ">": (1,)}


def delta_fault() -> str:
    """Why jobs cannot keep their tables in this format here; empty: they can."""
    try:
        installed, spark = metadata.version(PACKAGE), metadata.version("pyspark")
        wanted = next((each for each in metadata.requires(PACKAGE) or () if re.match(r"pyspark\b", each)), "")
    except metadata.PackageNotFoundError as error:
        return f"{error.name} is not installed: pip install {PACKAGE} brings one that fits an older Spark"
    if not fits(spark, wanted):
        asked = wanted.removeprefix("pyspark").strip("() ")
        return f"{PACKAGE} {installed} wants pyspark {asked}, and {spark} is installed"
    if release(spark) < (4, 2):
        return f"jobs need Spark 4.2 or later for the limits of their batches, and {spark} is installed"
    return ""


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version; 4.2 is 4.2.0."""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:3]]
    return (*numbers, *[0] * (3 - len(numbers)))


def fits(version: str, wanted: str) -> bool:
    """Whether a requirement such as `pyspark<=4.2.0,>=4.0.1` takes a version."""
    given = release(version)
    for comparison, bound in re.findall(r"(<=|>=|==|<|>)\s*([\d.]+)", wanted):
        limit = release(bound)
        if (given > limit) - (given < limit) not in COMPARISONS[comparison]:
            return False
    return True


def delta_settings(given: Mapping[str, str]) -> dict[str, str]:
    """The settings that a session needs beside the job's own; the job's say where the jar is, or Spark fetches it."""
    found = {key: value for key, value in SETTINGS.items() if key not in given}
    if not set(JARS) & set(given):
        spark = ".".join(metadata.version("pyspark").split(".")[:2])
        found["spark.jars.packages"] = f"io.delta:{PACKAGE}_{spark}_{SCALA}:{metadata.version(PACKAGE)}"
    return found
