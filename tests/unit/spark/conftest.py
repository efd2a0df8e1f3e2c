"""One Spark session for all tests of this folder, and servers for those of a file: a start takes longer than a test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark_nats
import pytest

from tests import servers

from .hub import Hub, running


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from leafd_spark.datasource import register
    from leafd_spark.jobs.session import session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # A JVM that lives for minutes gains nothing by its second compiler, which takes half of the processor time.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
    # Spark looks for modules that are called pyspark_*, which an editable install shows to imports only. (Any other is
    # on the path, and must not be hidden by the sources, which lack what was compiled.)
    place = str(Path(pyspark_nats.__file__).parents[1])
    if place not in sys.path:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [place, os.environ.get("PYTHONPATH")]))
    found = session("local[2]")
    found.sparkContext.setLogLevel("ERROR")
    register(found)
    yield found
    found.stop()


@pytest.fixture(params=servers.KINDS, scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Hub]:
    with running(request.param) as found:
        yield found


@pytest.fixture
def hub(server: Hub) -> Iterator[Hub]:
    """A server without streams."""
    yield server
    server.clear()
