"""The bytes that the streams of an account reserve, and the subjects that they take.

Changed by the catalogue with every stream that comes, changes and goes, and by restore.py. What a stream has reserved
is remembered here and is what goes with it, so the sums are those of the streams, whatever became of a configuration
in the meantime. Not here: whether there is room (account_limits.py).
"""

from __future__ import annotations

from leafd.jetstream.models.stream import FILE, MEMORY, StreamConfig
from leafd.jetstream.subject_index import SubjectIndex


class Reserved:
    """Bytes that streams have reserved, by kind of storage and number of replicas."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes: dict[str, dict[int, int]] = {FILE: {}, MEMORY: {}}

    def of(self, storage: str, replicas: int = 0) -> int:
        """All that is reserved of one kind of storage. replicas: by streams with so many; 0: by all."""
        bytes_by = self._bytes[storage]
        return bytes_by.get(replicas, 0) if replicas else sum(bytes_by.values())

    def add(self, storage: str, replicas: int, count: int) -> None:
        """So many more, or less."""
        bytes_by = self._bytes[storage]
        bytes_by[replicas] = bytes_by.get(replicas, 0) + count


class Taken:
    """One account's. restoring: the streams that a backup is becoming, which reserve
    like the others; of these there are so few that their subjects are in no index."""

    __slots__ = ("_of", "_reserved", "_server", "_several", "restoring", "subjects")

    def __init__(self) -> None:
        self.subjects = SubjectIndex()
        self.restoring: dict[str, StreamConfig] = {}
        self._server = Reserved()
        self._reserved = Reserved()
        self._of: dict[tuple[str, bool], tuple[str, int, int]] = {}
        """Storage, replicas and bytes of the streams that reserve, or have more than one replica."""
        self._several: dict[int, int] = {}
        """How many streams have so many replicas; of one there are all others."""

    def count_in(self, server: Reserved) -> None:
        """From here on, before anything is taken, this is part of the server's sums."""
        self._server = server

    def reserved(self, storage: str, *, without: str = "", replicas: int = 0) -> int:
        """Bytes that the streams of one storage kind have reserved, beside those of one name. replicas: those that have
        so many; 0: all."""
        own = (self._of.get((without, restoring), ("", 0, 0)) for restoring in (False, True))
        taken = sum(count for kind, has, count in own if kind == storage and replicas in (0, has))
        return self._reserved.of(storage, replicas) - taken

    def number(self, streams: int, replicas: int) -> int:
        """How many of all streams have so many replicas. streams: how many there are."""
        return self._several.get(replicas, 0) if replicas > 1 else streams - sum(self._several.values())

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
        storage, replicas, count = self._of.pop(key, (FILE, 1, 0))
        self._add(storage, replicas, -count, -1)
        if config is not None and (config.max_bytes > 0 or config.num_replicas > 1):
            one = self._of[key] = (config.storage, max(config.num_replicas, 1), max(config.max_bytes, 0))
            self._add(*one, 1)

    def _add(self, storage: str, replicas: int, count: int, streams: int) -> None:
        self._reserved.add(storage, replicas, count)
        self._server.add(storage, replicas, count)
        if replicas > 1:
            self._several[replicas] = self._several.get(replicas, 0) + streams
