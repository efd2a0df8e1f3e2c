"""Rows of streams of which there is nothing to tell but their configuration and counters, as records that C writes.

    a record for jsz       size of the name's JSON 8 | created 8 | consumers 8 | stream_state_t | sizes of the texts of
                           its configuration, 8 each, where that is shown | records of its consumers (consumer_rows.py)
    a record for metrics   size of the name 8 | max_msgs 8 | max_bytes 8 | consumers 8 | stream_state_t

Not here: how rows are written (encoding.py, native_rows.py), which streams these are (jetstream/plain.py), all other
rows (jetstream_report.py, metrics.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from json.encoder import encode_basestring_ascii
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leafd.monitor.consumer_rows import ConsumerRows, size, specimen
from leafd.monitor.encoding import Alike, Form, Hole, in_labels
from leafd.monitor.shapes import Shape, Shapes
from leafd.native import layout
from leafd.native_rows import RowColumn, RowKind, RowWriter

if TYPE_CHECKING:
    from leafd.monitor.rooms import PlainFacts, PlainsFacts, RunFacts, StreamFacts

TEXTS: Final = ("name", "description", "subjects")
"""Members of a stream's configuration in which those of one shape may differ."""
_STATE: Final = layout("stream_state_t")
"""Its members have 8 bytes each."""
_RECORD: Final = struct.Struct("=QqQ")
_METRIC: Final = struct.Struct("=QqqQ")
_SIZE: Final = 8
_Shapes = tuple[Shape | None, ...]
"""The forms of a stream's configuration and of its consumers'. None: not shown."""
_BARE: Final[_Shapes] = (None,)


class _Told(NamedTuple):
    """The parts of a run's rows that are no counters: the begins of its records, and its names, as JSON or as labels
    have them."""

    heads: list[bytes]
    texts: bytes

    def with_states(self, states: Sequence[bytes]) -> bytes:
        """The records, one behind the other."""
        return b"".join(chain.from_iterable(zip(self.heads, states, strict=True)))


class Counted(NamedTuple):
    """Plain streams that follow one another by name, with the counters of each as stream_state_t, and what reports
    keep of them."""

    streams: Sequence[StreamFacts]
    states: Sequence[bytes]
    told: dict[str, object]


def counted(run: RunFacts, states: Sequence[bytes | None]) -> Counted:
    """A run of plain streams without those whose counters are not known."""
    if (every := known(states)) is not None:
        return Counted(run.streams, every, run.told)
    some = [(stream, state) for stream, state in zip(run.streams, states, strict=True) if state is not None]
    return Counted([stream for stream, _ in some], [state for _, state in some], {})


class PlainRows:
    """Rows of jsz. cluster: the streams' leader. consumers, config: whether these are shown. shared: consumers have
    the cluster, too."""

    def __init__(
        self,
        plains: PlainsFacts,
        shapes: Shapes,
        cluster: Mapping[str, Any],
        *,
        consumers: bool,
        config: bool,
        shared: bool = False,
    ) -> None:
        self._plains = plains
        self._make = lambda found: shapes.of(found, TEXTS)
        self._cluster = cluster
        self._of_consumers: Mapping[str, Any] = {"cluster": cluster} if shared else {}
        self._consumers = ConsumerRows(plains, shapes, config=config) if consumers else None
        self._config = config
        self._forms = dict[_Shapes, Form]()

    def of(self, streams: Sequence[PlainFacts]) -> Iterator[Alike]:
        """The rows of streams, with their consumers where these are shown."""
        if not self._config and self._consumers is None:
            texts = [encode_basestring_ascii(one.stream.name).encode() for one in streams]
            yield Alike(self._form_of(_BARE), [_record(*pair) for pair in zip(streams, texts, strict=True)], texts)
            return
        shaped = ((one, self._shapes(one)) for one in streams)
        for shapes, alike in groupby(shaped, itemgetter(1)):
            texts = []
            yield Alike(self._form_of(shapes), [self._record(one, shapes, texts) for one, _ in alike], texts)

    def one(self, stream: StreamFacts, state: bytes) -> Alike:
        """The row of one stream without consumers and configuration."""
        name = encode_basestring_ascii(stream.name).encode()
        return Alike(self._form_of(_BARE), [_head(stream, name) + state], [name])

    def run(self, run: RunFacts, states: Sequence[bytes]) -> Alike:
        """The rows of a run without consumers and configurations, as one record and one text. What does not change
        from one report to the next is kept with the run."""
        told = run.told.get("rows")
        if not isinstance(told, _Told):
            texts = [encode_basestring_ascii(one.name).encode() for one in run.streams]
            heads = [_head(one, name) for one, name in zip(run.streams, texts, strict=True)]
            told = run.told["rows"] = _Told(heads, b"".join(texts))
        return Alike(self._form_of(_BARE), [told.with_states(states)], [told.texts])

    def _shapes(self, one: PlainFacts) -> _Shapes:
        config = self._plains.remembered(one.stream, self._make) if self._config else None
        if self._consumers is None or not one.consumers:
            return (config,)
        return (config, *map(self._consumers.shape, one.consumers))

    def _record(self, one: PlainFacts, shapes: _Shapes, texts: list[bytes]) -> bytes:
        name, (shape, *others) = encode_basestring_ascii(one.stream.name).encode(), shapes
        texts.append(name)
        record = _record(one, name)
        if shape is not None:
            told = shape.texts(one.stream.config)
            texts += told
            record += shape.sizes.pack(*map(len, told))
        if self._consumers is None or not others:
            return record
        add = self._consumers.add
        return record + b"".join([add(name, each, own, texts) for each, own in zip(one.consumers, others, strict=True)])

    def _form_of(self, shapes: _Shapes) -> Form:
        """As jetstream_report.py tells of one stream."""
        found = self._forms.get(shapes)
        if found is None:
            shape, *others = shapes
            at, consumers = _RECORD.size + _STATE.size + (shape.sizes.size if shape is not None else 0), []
            for own in others:
                consumers.append({**specimen(own, at), **self._of_consumers})
                at += size(own)
            found = self._forms[shapes] = Form(self._specimen(shape, consumers), at)
        return found

    def _specimen(self, shape: Shape | None, consumers: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
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
            "cluster": self._cluster,
        }
        form |= {"config": shape.placed(_RECORD.size + _STATE.size)} if shape is not None else {}
        form["state"] = state
        return form | {"consumer_detail": list(consumers)} if self._consumers is not None else form


def _counted(member: str, kind: RowKind = RowKind.NUMBER) -> Hole:
    return Hole(kind, _RECORD.size + _SIZE * _STATE.names.index(member))


def known(states: Sequence[bytes | None]) -> Sequence[bytes] | None:
    """The states, if each of them is known."""
    found = [one for one in states if one is not None]
    return found if len(found) == len(states) else None


def _record(one: PlainFacts, name: bytes) -> bytes:
    return _head(one.stream, name) + one.state


def _head(stream: StreamFacts, name: bytes) -> bytes:
    return _RECORD.pack(len(name), stream.created, len(stream.names))


_Value = tuple[RowKind, int]


def _sample(member: str) -> _Value:
    return RowKind.NUMBER, _METRIC.size + _SIZE * _STATE.names.index(member)


METRICS: Final = {
    "messages": _sample("messages"),
    "bytes": _sample("bytes"),
    "first_seq": _sample("first_seq"),
    "last_seq": _sample("last_seq"),
    "consumer_count": (RowKind.NUMBER, 24),
    "num_subjects": _sample("subjects"),
    "max_msgs": (RowKind.SIGNED, 8),
    "max_bytes": (RowKind.SIGNED, 16),
}
"""The values behind a stream's labels: the kind of each, and its place in the record."""


class MetricLines:
    """Samples of streams. before, after: what stands before a stream's name among its labels, and what behind it.
    Records are put together when the first metric is written, and kept for the others."""

    def __init__(self, runs: Sequence[Counted], before: str, after: str) -> None:
        self._runs = runs
        self._before, self._after = before, after
        self._known = dict[int, tuple[bytes, bytes]]()

    def of(self, member: str, name: str) -> Iterator[str]:
        """One sample of each stream: what it says of that member, under the metric's name."""
        columns = [
            RowColumn(f"{name}{{{self._before}".encode(), RowKind.TEXT, 0),
            RowColumn(f"{self._after}}} ".encode(), *METRICS[member]),
            RowColumn(b"\n", RowKind.NOTHING, 0),
        ]
        writer = RowWriter(columns, _METRIC.size + _STATE.size)
        for number, run in enumerate(self._runs):
            if number not in self._known:
                self._known[number] = _sampled(run)
            yield writer.text(*self._known[number])


def _sampled(run: Counted) -> tuple[bytes, bytes]:
    told = run.told.get("samples")
    if not isinstance(told, _Told):
        sizes, texts = in_labels([one.name for one in run.streams])
        heads = [
            _METRIC.pack(size, one.config.max_msgs, one.config.max_bytes, len(one.names))
            for size, one in zip(sizes, run.streams, strict=True)
        ]
        told = run.told["samples"] = _Told(heads, texts)
    return told.with_states(run.states), told.texts
