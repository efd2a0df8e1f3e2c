"""A query's offset: where it stands in each of its streams, and the JSON that Spark keeps of it.

    {"version": 2, "streams": {"A": {"created": "2026-11-22T...", "next": 101, "stored": "2026-11-22T..."}}}

The first version was of one stream and did not name it: {"created": ..., "next": 101}. It stays readable.
What one stream's part means is `ranges`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leafd_spark.ranges import Offset

VERSION = 2
UNNAMED = ""  # the stream of an offset of the first version


@dataclass(frozen=True)
class Offsets:
    streams: Mapping[str, Offset]

    def as_json(self) -> dict[str, Any]:
        return {"version": VERSION, "streams": {name: self.streams[name].as_json() for name in sorted(self.streams)}}

    @staticmethod
    def of(data: Mapping[str, Any]) -> Offsets:
        """From a checkpoint, of this version or the first one."""
        if "version" not in data:
            return Offsets({UNNAMED: Offset.of(data)})
        if data["version"] != VERSION:
            raise ValueError(f"the checkpoint's offsets are of version {data['version']}; this leafd reads {VERSION}")
        return Offsets({name: Offset.of(part) for name, part in data["streams"].items()})

    def named(self, created: Mapping[str, str]) -> Offsets:
        """With the stream of a first version's offset: the one made at that time, or the only one there is.

        `created` says when each of the query's streams was made, in the order in which the options name them.
        """
        if UNNAMED not in self.streams or not created:
            return self
        old = self.streams[UNNAMED]
        name = next((name for name, made in created.items() if made == old.created), next(iter(created)))
        return Offsets({name: old})

    def __iter__(self) -> Iterator[str]:
        return iter(self.streams)

    def get(self, name: str) -> Offset | None:
        return self.streams.get(name)
