"""Streams that collect from boxes: a source for each one of a pattern that is enrolled, and no more work than that.

    sources: [ { boxes: "box-*", name: TELEMETRY } ]    with box-0001 and box-0002 enrolled:
    sources: [ { name: TELEMETRY, external { api: "$JS.box-0001.API" } }, { ... "$JS.box-0002.API" } ]

While there is no such box, a stream that would have no source and no subject is left as it is: it is made with the
first box, and keeps the source of the last one that was retired, which has nobody at its other end. Not here: who is
enrolled (leafd/enrol).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from leafd.declared.assets import Declared, DeclaredStream
from leafd.jetstream.models.stream import External, StreamSource

Names = Callable[[str], tuple[str, ...]]
"""The boxes of a pattern, in order."""


def collects(declared: Declared) -> bool:
    """Whether any stream does."""
    return any(one.boxes for one in declared.streams)


def expanded(declared: Declared, names: Names, *, only_these: bool = False) -> Declared:
    """With the sources of today. only_these: nothing but the streams that collect."""
    streams = (_expanded(one, names) if one.boxes else one for one in declared.streams if one.boxes or not only_these)
    consumers = () if only_these else declared.consumers
    return Declared(tuple(one for one in streams if one is not None), consumers)


def _expanded(stream: DeclaredStream, names: Names) -> DeclaredStream | None:
    config = stream.config
    if config is None:
        return stream
    kinds: list[StreamSource] = []  # sources that differ in more than their box: a handful
    found: dict[tuple[str, int], None] = {}
    for one in stream.boxes:
        if one.source not in kinds:
            kinds.append(one.source)
        number = kinds.index(one.source)
        found |= {(box, number): None for box in names(one.pattern)}
    sources = (*config.sources, *(_source(kinds[number], box) for box, number in found))
    if not sources and not config.subjects:
        return None
    return replace(stream, config=replace(config, sources=sources), boxes=())


def _source(source: StreamSource, box: str) -> StreamSource:
    return replace(source, external=External(api=f"$JS.{box}.API"))
