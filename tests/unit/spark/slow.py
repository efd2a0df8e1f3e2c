"""Python workers that a busy machine starts too slowly: Spark gives them ten seconds, which no setting changes."""

from __future__ import annotations

import time
from typing import Any

SECONDS_MAX = 600.0  # for which a test tries again


def was_slow(error: Exception) -> bool:
    """Whether a query failed of nothing but that."""
    return "failed to connect back" in str(error)


def run_to_the_end(query: Any) -> None:
    """Start a query (a DataStreamWriter) and await its end; again if a worker was slow, as a supervisor would."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            query.start().awaitTermination()
        except Exception as error:
            if not was_slow(error) or time.monotonic() > deadline:
                raise
        else:
            return
