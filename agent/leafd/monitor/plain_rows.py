"""Rows of streams of which there is nothing to tell but their configuration and counters, as records that C writes.

    a record for jsz       size of the name's JSON 8 | created 8 | consumers 8 | stream_state_t | sizes of the texts of
                           its configuration, 8 each, where that is shown
    a record for metrics   size of the labels 8 | max_msgs 8 | max_bytes 8 | stream_state_t

Configurations that differ in texts only (names, subjects, a description, what metadata says) have one shape, and what
has one shape is written by one form. Not here: how rows are written (encoding.py, native_rows.py), which
streams these are (jetstream/plain.py), all other rows (jetstream_report.py, metrics.py).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from json.encoder import encode_basestring_ascii
from typing import Any, Final
from weakref import WeakValueDictionary

from leafd.monitor.encoding import Alike, Form, Hole
from leafd.monitor.rooms import PlainFacts, PlainsFacts, StreamConfigFacts
from leafd.native import layout
from leafd.native_rows import RowColumn, RowKind, RowWriter

SHAPES_MAX: Final = 256
"""So many are kept for the next report. What has another one has it made for each."""
LINES_TOGETHER: Final = 256
_STATE: Final = layout("stream_state_t")
"""Its members have 8 bytes each."""
_RECORD: Final = struct.Struct("=QqQ")
_METRIC: Final = struct.Struct("=Qqq")
_SIZE: Final = 8


class Shape:
    """The common form of configurations that differ in texts only: a Hole in place of each text."""

    def __init__(self, config: Mapping[str, Any], metadata: Sequence[str], sizes: int) -> None:
        self.config = config
        self.metadata = metadata
        """The names of what it says, in their order."""
        self.sizes = struct.Struct(f"={sizes}Q")
        self.forms: dict[tuple[str, bool], Form] = {}

    def texts(self, config: StreamConfigFacts) -> list[bytes]:
        """The texts for the holes, as JSON."""
        found = (
            [config.name, config.description, *config.subjects]
            if config.description
            else [config.name, *config.subjects]
        )
        if self.metadata:
            told = config.metadata or {}
            found += [told[name] for name in self.metadata]
        return [encode_basestring_ascii(one).encode() for one in found]


class Shapes:
    """The shapes of streams, which are gone with the streams."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[str, Shape] = WeakValueDictionary()

    def of(self, config: dict[str, Any]) -> tuple[Shape, bool]:
        """The shape of a configuration, and whether it is kept."""
        shape = _shape(config)
        key = json.dumps(shape.config, default=lambda hole: None)
        found = self._known.get(key)
        if found is not None:
            return found, True
        kept = len(self._known) < SHAPES_MAX
        if kept:
            self._known[key] = shape
        return shape, kept


def _shape(config: dict[str, Any]) -> Shape:
    """The shape of a configuration."""
    shown, sizes = dict(config), 0

    def hole() -> Hole:
        nonlocal sizes
        sizes += 1
        return Hole(RowKind.TEXT, _RECORD.size + _STATE.size + (sizes - 1) * _SIZE)

    for name in ("name", "description"):
        if name in shown:
            shown[name] = hole()
    if "subjects" in shown:
        shown["subjects"] = [hole() for _ in shown["subjects"]]
    metadata = list(shown["metadata"])
    shown["metadata"] = {name: hole() for name in metadata}
    return Shape(shown, metadata, sizes)


class PlainRows:
    """Rows of jsz. leader: who leads the streams. consumers, config: whether these are shown."""

    def __init__(self, plains: PlainsFacts, shapes: Shapes, leader: str, *, consumers: bool, config: bool) -> None:
        self._plains = plains
        self._shapes = shapes
        self._leader = leader
        self._consumers = consumers
        self._config = config
        self._form = self._form_of(None)

    def of(self, streams: Sequence[PlainFacts]) -> Iterator[Alike]:
        """The rows of streams without consumers, or where these are not shown."""
        if not self._config:
            texts = [encode_basestring_ascii(one.stream.name).encode() for one in streams]
            yield Alike(self._form, [_record(*pair) for pair in zip(streams, texts, strict=True)], texts)
            return
        make = self._shapes.of
        shaped = ((one, self._plains.remembered(one.stream, make)) for one in streams)
        for shape, alike in groupby(shaped, lambda pair: pair[1]):
            records, texts = list[bytes](), list[bytes]()
            for one, _ in alike:
                name, *others = shape.texts(one.stream.config)
                records.append(_record(one, name) + shape.sizes.pack(len(name), *map(len, others)))
                texts += (name, name, *others)
            yield Alike(self._form_of(shape), records, texts)

    def _form_of(self, shape: Shape | None) -> Form:
        """As jetstream_report.py tells of one stream."""
        if shape is None:
            return Form(self._specimen(None), _RECORD.size + _STATE.size)
        key = self._leader, self._consumers
        if key not in shape.forms:
            shape.forms[key] = Form(self._specimen(shape), _RECORD.size + _STATE.size + shape.sizes.size)
        return shape.forms[key]

    def _specimen(self, shape: Shape | None) -> Mapping[str, Any]:
        state = {
            "messages": _counted("messages"),
            "bytes": _counted("bytes"),
            "first_seq": _counted("first_seq"),
            "first_ts": _counted("first_ts", RowKind.STAMP),
            "last_seq": _counted("last_seq"),
            "last_ts": _counted("last_ts", RowKind.STAMP),
            "num_subjects": _counted("subjects", RowKind.OPTIONAL),
            "num_deleted": _counted("deleted_count", RowKind.OPTIONAL),
            "consumer_count": Hole(RowKind.NUMBER, 16),
        }
        form: dict[str, Any] = {
            "name": Hole(RowKind.TEXT, 0),
            "created": Hole(RowKind.TIME, 8),
            "cluster": {"leader": self._leader},
        }
        form |= {"config": shape.config} if shape is not None else {}
        return form | {"state": state} | ({"consumer_detail": []} if self._consumers else {})


def _counted(member: str, kind: RowKind = RowKind.NUMBER) -> Hole:
    return Hole(kind, _RECORD.size + _SIZE * _STATE.names.index(member))


def _record(one: PlainFacts, name: bytes) -> bytes:
    stream = one.stream
    return _RECORD.pack(len(name), stream.created, len(stream.names)) + one.state


def _sample(member: str) -> RowColumn:
    return RowColumn(b"} ", RowKind.NUMBER, _METRIC.size + _SIZE * _STATE.names.index(member))


METRICS: Final = {
    "messages": _sample("messages"),
    "bytes": _sample("bytes"),
    "first_seq": _sample("first_seq"),
    "last_seq": _sample("last_seq"),
    "consumer_count": RowColumn(b"} 0", RowKind.NOTHING, 0),
    "num_subjects": _sample("subjects"),
    "max_msgs": RowColumn(b"} ", RowKind.SIGNED, 8),
    "max_bytes": RowColumn(b"} ", RowKind.SIGNED, 16),
}
"""What follows the labels of a stream without consumers."""


class MetricLines:
    """Samples of streams without consumers. labels: of a stream, by its name. They are put together when the first
    metric is written, some at a time, and kept for the others."""

    def __init__(self, streams: Sequence[PlainFacts], labels: Callable[[str], str]) -> None:
        self._streams = streams
        self._labels = labels
        self._known = dict[int, tuple[bytes, bytes]]()

    def of(self, member: str, name: str) -> Iterator[str]:
        """One sample of each stream: what it says of that member, under the metric's name."""
        columns = [RowColumn(f"{name}{{".encode(), RowKind.TEXT, 0), METRICS[member]]
        writer = RowWriter([*columns, RowColumn(b"\n", RowKind.NOTHING, 0)], _METRIC.size + _STATE.size)
        for begin in range(0, len(self._streams), LINES_TOGETHER):
            if begin not in self._known:
                self._known[begin] = self._some(self._streams[begin : begin + LINES_TOGETHER])
            yield writer.text(*self._known[begin])

    def _some(self, streams: Sequence[PlainFacts]) -> tuple[bytes, bytes]:
        records, texts = list[bytes](), list[bytes]()
        for one in streams:
            text, config = self._labels(one.stream.name).encode(), one.stream.config
            texts.append(text)
            records.append(_METRIC.pack(len(text), config.max_msgs, config.max_bytes) + one.state)
        return b"".join(records), b"".join(texts)
