"""Key-value and object buckets as the streams that the official clients make of them.

The values are those of the Go client, which the `nats` command line uses: a bucket that is declared and one that was
made by `nats kv add` or `nats object add` have the same configuration. Not here: reading (read.py).
"""

from __future__ import annotations

import re
from typing import Final

from leafd.gojson import DURATION, FLAG, INT, INT32, INT64, TEXT, TEXT_MAP, Choice, ListOf, Nested, Struct, wire
from leafd.gotime import SECOND
from leafd.jetstream.models.stream import (
    FILE,
    MEMORY,
    External,
    Placement,
    Republish,
    StreamConfig,
    StreamSource,
    SubjectTransform,
)
from leafd.records import dataclass

HISTORY_MAX: Final = 64
_WINDOW: Final = 120 * SECOND
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_TEXTS: Final = ListOf(TEXT, "[]string")
_STORAGE: Final = Choice(FILE, (FILE, MEMORY))


@dataclass(frozen=True, slots=True)
class KeyValue(Struct):
    """The options of `nats kv add`."""

    description: str = wire(TEXT, "description")
    history: int = wire(INT, "history")
    storage: str = wire(_STORAGE, "storage")
    ttl: int = wire(DURATION, "ttl")
    marker_ttl: int = wire(DURATION, "marker_ttl")
    replicas: int = wire(INT, "replicas")
    max_value_size: int = wire(INT32, "max_value_size")
    max_bucket_size: int = wire(INT64, "max_bucket_size")
    tags: tuple[str, ...] = wire(_TEXTS, "tags")
    cluster: str = wire(TEXT, "cluster")
    compress: bool = wire(FLAG, "compress")
    metadata: dict[str, str] | None = wire(TEXT_MAP, "metadata")
    republish: Republish | None = wire(Nested(Republish), "republish")
    mirror: str = wire(TEXT, "mirror")
    mirror_domain: str = wire(TEXT, "mirror_domain")
    sources: tuple[str, ...] = wire(_TEXTS, "sources")


@dataclass(frozen=True, slots=True)
class Objects(Struct):
    """The options of `nats object add`."""

    description: str = wire(TEXT, "description")
    storage: str = wire(_STORAGE, "storage")
    ttl: int = wire(DURATION, "ttl")
    replicas: int = wire(INT, "replicas")
    max_bucket_size: int = wire(INT64, "max_bucket_size")
    tags: tuple[str, ...] = wire(_TEXTS, "tags")
    cluster: str = wire(TEXT, "cluster")
    compress: bool = wire(FLAG, "compress")
    metadata: dict[str, str] | None = wire(TEXT_MAP, "metadata")


def key_value_stream(bucket: str, options: KeyValue) -> StreamConfig:
    """Raises ValueError with the key to look at first."""
    _check_name(bucket)
    if not 0 <= options.history <= HISTORY_MAX:
        raise ValueError(f"history must be between 1 and {HISTORY_MAX}, not {options.history}")
    if options.mirror_domain and not options.mirror:
        raise ValueError("mirror_domain says where the bucket of mirror is: add mirror")
    placement = Placement(cluster=options.cluster, tags=options.tags) if options.cluster or options.tags else None
    mirror = _mirror(options) if options.mirror else None
    return StreamConfig(
        name=f"KV_{bucket}",
        description=options.description,
        subjects=() if mirror else (f"$KV.{bucket}.>",),
        max_consumers=-1,
        max_msgs=-1,
        max_bytes=options.max_bucket_size or -1,
        max_age=options.ttl,
        max_msgs_per_subject=options.history or 1,
        max_msg_size=options.max_value_size or -1,
        discard="new",
        storage=options.storage,
        num_replicas=options.replicas or 1,
        duplicate_window=min(options.ttl, _WINDOW) if options.ttl > 0 else _WINDOW,
        placement=placement,
        mirror=mirror,
        sources=() if mirror else tuple(_source(bucket, one) for one in options.sources),
        compression="s2" if options.compress else "none",
        republish=options.republish,
        allow_direct=True,
        mirror_direct=mirror is not None,
        deny_delete=True,
        allow_rollup_hdrs=True,
        allow_msg_ttl=options.marker_ttl != 0,
        subject_delete_marker_ttl=options.marker_ttl,
        metadata=options.metadata,
    )


def _mirror(options: KeyValue) -> StreamSource:
    name = options.mirror if options.mirror.startswith("KV_") else f"KV_{options.mirror}"
    external = External(api=f"$JS.{options.mirror_domain}.API") if options.mirror_domain else None
    return StreamSource(name=name, external=external)


def _source(bucket: str, origin: str) -> StreamSource:
    other = origin.removeprefix("KV_")
    renamed = SubjectTransform(source=f"$KV.{other}.>", destination=f"$KV.{bucket}.>")
    return StreamSource(name=f"KV_{other}", subject_transforms=(renamed,))


def objects_stream(bucket: str, options: Objects) -> StreamConfig:
    """Raises ValueError with the key to look at first."""
    _check_name(bucket)
    return StreamConfig(
        name=f"OBJ_{bucket}",
        description=options.description,
        subjects=(f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"),
        max_bytes=options.max_bucket_size or -1,
        max_age=options.ttl,
        discard="new",
        storage=options.storage,
        num_replicas=options.replicas or 1,
        placement=Placement(cluster=options.cluster, tags=options.tags),
        compression="s2" if options.compress else "none",
        allow_direct=True,
        allow_rollup_hdrs=True,
        metadata=options.metadata,
    )


def _check_name(bucket: str) -> None:
    if not _NAME.fullmatch(bucket):
        raise ValueError("a bucket's name has letters, digits, _ and - only")
