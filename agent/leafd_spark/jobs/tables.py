"""A job's tables taken together: staged files are admitted, touched windows computed, published and put in place.

All of it runs on the driver, and nothing of it knows Spark: what publishes messages and what keeps rows is handed in.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from .gold import HOURS, Computed, compute, last_values
from .ingest import SILVER, Staged
from .job import Job
from .results import Message, alarm_messages, last_messages, window_messages
from .store import THREADS, Store
from .touched import Touched, by_schema, settled, touched

UNITS_AT_ONCE = 32  # partitions whose windows are in memory together

Publish = Callable[[list[Message]], None]


class Tables:
    """Used by the holder of the layout's lock."""

    def __init__(self, job: Job, store: Store, publish: Publish) -> None:
        self._job = job
        self._store = store
        self._publish = publish
        self._one_at_a_time = threading.Lock()  # Spark calls with batches in a thread of its own
        self._pool = ThreadPoolExecutor(THREADS)

    def begin(self) -> None:
        """Check that the tables fit the job."""
        self._store.begin()

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def admit(self, staged: list[Staged]) -> None:
        """Enters the rows of a batch that the tables do not have yet."""
        silver: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for each in staged:
            if each.kind == SILVER:
                silver[each.schema][each.partition].append(each.path)
        with self._one_at_a_time:
            # Bronze first: whatever is in silver can be made anew from bronze.
            self._store.admit_places([each for each in staged if each.kind != SILVER])
            for name, parts in silver.items():
                self._store.admit_observations(self._job.schema(name), parts)

    def refresh(self) -> None:
        """Compute the windows that rows have touched, publish what changes, put them in place."""
        with self._one_at_a_time:
            for name, units in by_schema(touched(self._store.layout)).items():
                if name not in {schema.name for schema in self._job.schemas}:
                    continue  # it was taken out of the job; its notes wait for its return
                for begin in range(0, len(units), UNITS_AT_ONCE):
                    self._refresh_some(name, units[begin : begin + UNITS_AT_ONCE])

    def _refresh_some(self, name: str, units: list[Touched]) -> None:
        schema, results = self._job.schema(name), self._job.results
        computed = list(self._pool.map(lambda unit: compute(self._store, schema, unit), units))
        last = last_values(self._store.last(name), [each.changes[HOURS].after for each in computed])
        if results.any:
            messages = [message for each in computed for message in self._messages(name, each)]
            if results.last_values:
                messages += last_messages(self._job, name, last)
            if messages:
                self._publish(messages)
        self._store.put(schema, computed)
        self._store.put_last(name, last)
        for unit in units:
            settled(unit)

    def _messages(self, schema: str, computed: Computed) -> Iterator[Message]:
        if self._job.results.windows:
            yield from window_messages(self._job, computed)
        yield from alarm_messages(self._job, schema, computed)
