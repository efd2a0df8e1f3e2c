"""One Spark session for all tests of this folder: starting one takes longer than most of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

AGENT = Path(__file__).parents[3] / "agent"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from leafd.spark.jobs.session import session
    from leafd.spark.source import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark looks for modules that are called pyspark_*, which an editable install shows to imports only.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(AGENT), os.environ.get("PYTHONPATH")]))
    found = session("local[2]")
    found.sparkContext.setLogLevel("ERROR")
    register(found)
    yield found
    found.stop()
