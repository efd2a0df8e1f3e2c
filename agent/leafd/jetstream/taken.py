"""The bytes that the streams of an account reserve, and the subjects that they take.

Changed by the catalogue with every stream that comes, changes and goes, and by restore.py. What a stream has reserved
is remembered here and is what goes with it, so the sums are those of the streams, whatever became of a configuration
in the meantime. Not here: whether there is room (account_limits.py).
"""

from __future__ import annotations

from leafd.jetstream.models.stream import FILE, MEMORY, StreamConfig
from leafd.jetstream.subject_index import SubjectIndex


class Reserved:
    """Bytes that streams have reserved, by kind of storage."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = {FILE: 0, MEMORY: 0}

    def of(self, storage: str) -> int:
        """All that is reserved of one kind of storage."""
        return self._bytes[storage]

    def add(self, storage: str, count: int) -> None:
        """So many more, or less."""
        self._bytes[storage] += count


class Taken:
    """One account's. restoring: the streams that a backup is becoming, which reserve
    like the others; of these there are so few that their subjects are in no index."""

    __slots__ = ("_of", "_reserved", "_server", "restoring", "subjects")

    def __init__(self) -> None:
        self.subjects = SubjectIndex()
        self.restoring: dict[str, StreamConfig] = {}
        self._server = Reserved()
        self._reserved = Reserved()
        self._of: dict[tuple[str, bool], tuple[str, int]] = {}

    def count_in(self, server: Reserved) -> None:
        """From here on, before anything is taken, this is part of the server's sums."""
        self._server = server

    def reserved(self, storage: str, *, without: str = "") -> int:
        """Bytes that the streams of one storage kind have reserved, beside those of one name."""
        own = (self._of.get((without, restoring), ("", 0)) for restoring in (False, True))
        return self._reserved.of(storage) - sum(count for kind, count in own if kind == storage)

    def put(self, config: StreamConfig) -> None:
        """The stream of that name is like this from here on."""
        self._reserve((config.name, False), config)
        self.subjects.put(config.name, config.subjects)

    def drop(self, name: str) -> None:
        """The stream is gone."""
        self._reserve((name, False), None)
        self.subjects.drop(name)

    def restore(self, config: StreamConfig) -> None:
        """A backup is becoming the stream of that name, which will be like this."""
        self.restoring[config.name] = config
        self._reserve((config.name, True), config)

    def restored(self, name: str) -> None:
        """Releases what was held for a stream that now exists, or never will."""
        self.restoring.pop(name, None)
        self._reserve((name, True), None)

    def _reserve(self, key: tuple[str, bool], config: StreamConfig | None) -> None:
        storage, count = self._of.pop(key, (FILE, 0))
        self._add(storage, -count)
        if config is not None and config.max_bytes > 0:
            self._of[key] = (config.storage, config.max_bytes)
            self._add(config.storage, config.max_bytes)

    def _add(self, storage: str, count: int) -> None:
        self._reserved.add(storage, count)
        self._server.add(storage, count)
