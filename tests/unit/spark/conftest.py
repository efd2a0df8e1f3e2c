"""One Spark session for all tests of this folder: starting one takes longer than most of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from leafd.spark.jobs.session import session
    from leafd.spark.source import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = session("local[2]")
    found.sparkContext.setLogLevel("ERROR")
    register(found)
    yield found
    found.stop()
