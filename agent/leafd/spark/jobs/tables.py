"""A job's tables taken together: staged files are admitted, touched windows computed, published and put in place.

All of it runs on the driver, and nothing of it knows Spark: what publishes messages is handed in.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from .admission import admit_by_place, settle
from .gold import HOURS, Computed, compute, last_values
from .ingest import SILVER, Staged
from .job import Job
from .partitions import Layout, check_shape, put
from .results import Message, alarm_messages, last_messages, window_messages
from .touched import Touched, by_schema, settled, touched

THREADS = 4  # what they do is done by Arrow, outside Python's lock
UNITS_AT_ONCE = 32  # partitions whose windows are in memory together

Publish = Callable[[list[Message]], None]


class Tables:
    """Used by whoever holds the layout's lock."""

    def __init__(self, job: Job, publish: Publish) -> None:
        self._job = job
        self._publish = publish
        self._layout = Layout(job.tables)
        self._one_at_a_time = threading.Lock()  # Spark calls with batches in a thread of its own
        self._pool = ThreadPoolExecutor(THREADS)

    def begin(self) -> None:
        """Check that the tables fit the job."""
        for schema in self._job.schemas:
            check_shape(self._layout, schema)

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def admit(self, staged: list[Staged]) -> None:
        """What the tables don't have of a batch's rows enters them."""
        silver: dict[tuple[str, str], list[str]] = defaultdict(list)
        places: dict[tuple[str, str], list[Staged]] = defaultdict(list)
        for each in staged:
            if each.kind == SILVER:
                silver[each.schema, each.partition].append(each.path)
            else:
                places[each.kind, each.partition].append(each)
        with self._one_at_a_time:
            # Bronze first: whatever is in silver can be made anew from bronze.
            list(self._pool.map(self._admit_places, places.values()))
            work = [(self._job.schema(name), partition, paths) for (name, partition), paths in silver.items()]
            list(self._pool.map(lambda unit: settle(self._layout, *unit), work))

    def _admit_places(self, staged: list[Staged]) -> None:
        for each in staged:
            admit_by_place(self._layout, each)

    def refresh(self) -> None:
        """Compute the windows that rows have touched, publish what changes, put them in place."""
        with self._one_at_a_time:
            for name, units in by_schema(touched(self._layout)).items():
                if name not in {schema.name for schema in self._job.schemas}:
                    continue  # it was taken out of the job; its notes wait for its return
                for begin in range(0, len(units), UNITS_AT_ONCE):
                    self._refresh_some(name, units[begin : begin + UNITS_AT_ONCE])

    def _refresh_some(self, name: str, units: list[Touched]) -> None:
        schema, results = self._job.schema(name), self._job.results
        computed = list(self._pool.map(lambda unit: compute(self._layout, schema, unit), units))
        last, file = last_values(self._layout, schema, [each.changes[HOURS].after for each in computed])
        if results.any:
            messages = [message for each in computed for message in self._messages(name, each)]
            if results.last_values:
                messages += last_messages(self._job, name, last)
            if messages:
                self._publish(messages)
        for each in computed:
            each.put_in_place()
        put(*file)
        for unit in units:
            settled(unit)

    def _messages(self, schema: str, computed: Computed) -> Iterator[Message]:
        if self._job.results.windows:
            yield from window_messages(self._job, computed)
        yield from alarm_messages(self._job, schema, computed)
