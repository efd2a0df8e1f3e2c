"""Rows of consumers in jsz, and their samples in metrics, as records that C writes.

    a record for jsz       sizes of the JSON of the stream's name and of its own 8 8 | created 8 | now 8 |
                           consumer_state_t | sizes of the texts of its configuration, 8 each, where that is shown
    a record for metrics   sizes of both names 8 8 | since the last delivery and acknowledgement 8 8 | consumer_state_t

A stream of few consumers has them in its own record (plain_rows.py). Not here: how rows are written (encoding.py,
native_rows.py), whose they are (jetstream/plain.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Final

from leafd.cluster.consumers import as_asked, replicas_of
from leafd.gotime import now_ns
from leafd.monitor.encoding import Alike, Form, Hole, in_labels
from leafd.monitor.shapes import Shape, Shapes
from leafd.native import layout
from leafd.native_rows import RowColumn, RowKind, RowWriter

if TYPE_CHECKING:
    from leafd.monitor.rooms import PlainConsumerFacts, PlainsFacts, StreamFacts

LINES_TOGETHER: Final = 256
TEXTS: Final = (
    "durable_name", "name", "description", "filter_subject", "filter_subjects", "deliver_subject", "deliver_group",
)  # fmt: skip
"""Members of a consumer's configuration in which those of one shape may differ."""
_STATE: Final = layout("consumer_state_t")
"""Its members have 8 bytes each."""
_RECORD: Final = struct.Struct("=QQqq")
_SIZE: Final = 8
_LAST: Final = ("last_delivered_ts", "last_acked_ts")


def _offset(member: str) -> int:
    return _SIZE * _STATE.names.index(member)


class ConsumerRows:
    """The rows of a stream's consumers, a part of the stream's row. config: whether their configurations are shown."""

    def __init__(self, plains: PlainsFacts, shapes: Shapes, *, config: bool) -> None:
        self._plains = plains
        self._make = lambda found: shapes.of(found, TEXTS)
        self._config = config
        self._now = now_ns()

    def shape(self, one: PlainConsumerFacts) -> Shape | None:
        """The shape of a consumer's configuration; None: configurations are not shown."""
        if not self._config:
            return None
        shape: Shape = self._plains.remembered(one.consumer, self._make)
        return shape

    def add(self, stream: bytes, one: PlainConsumerFacts, shape: Shape | None, texts: list[bytes]) -> bytes:
        """Returns a consumer's record and adds its texts. stream: the name of its stream, as JSON."""
        name = encode_basestring_ascii(one.consumer.name).encode()
        record = _RECORD.pack(len(stream), len(name), one.consumer.created, self._now) + one.state
        texts += (stream, name)
        if shape is None:
            return record
        told = shape.texts(one.consumer.config)
        texts += told
        return record + shape.sizes.pack(*map(len, told))

    def of(
        self, stream: StreamFacts, consumers: Sequence[PlainConsumerFacts], cluster: dict[str, Any] | None
    ) -> Iterator[Alike]:
        """Rows of consumers of a stream. cluster: their leader, and the other servers that have them; None: this server
        alone."""
        name = encode_basestring_ascii(stream.name).encode()
        by_shape = groupby(
            consumers, lambda one: (self.shape(one), replicas_of(one.consumer.config, stream.config) if cluster else 1)
        )
        for (shape, replicas), alike in by_shape:
            common = {"cluster": as_asked(cluster, replicas, stream.config)} if cluster else {}
            texts = list[bytes]()
            records = [self.add(name, one, shape, texts) for one in alike]
            yield Alike(Form({**specimen(shape, 0), **common}, size(shape)), records, texts)


def size(shape: Shape | None) -> int:
    """The bytes of a record."""
    return _RECORD.size + _STATE.size + (shape.sizes.size if shape is not None else 0)


def specimen(shape: Shape | None, at: int) -> Mapping[str, Any]:
    """The form of a row whose record begins there."""
    state = at + _RECORD.size

    def place(consumer: str, stream: str, last: str) -> dict[str, Any]:
        return {
            "consumer_seq": counted(consumer),
            "stream_seq": counted(stream),
            "last_active": counted(last, RowKind.MOMENT),
        }

    def counted(member: str, kind: RowKind = RowKind.NUMBER) -> Hole:
        return Hole(kind, state + _offset(member))

    form: dict[str, Any] = {
        "stream_name": Hole(RowKind.TEXT, at),
        "name": Hole(RowKind.TEXT, at + _SIZE),
        "created": Hole(RowKind.TIME, at + 2 * _SIZE),
        "delivered": place("delivered_consumer", "delivered_stream", "last_delivered_ts"),
        "ack_floor": place("floor_consumer", "floor_stream", "last_acked_ts"),
        "num_ack_pending": counted("ack_pending"),
        "num_redelivered": counted("redelivered"),
        "num_waiting": counted("waiting"),
        "num_pending": counted("pending"),
        "push_bound": counted("push_bound", RowKind.TRUE),
        "paused": counted("paused", RowKind.TRUE),
        "ts": Hole(RowKind.TIME, at + 3 * _SIZE),
    }
    return form | ({"config": shape.placed(state + _STATE.size)} if shape is not None else {})


_METRIC: Final = struct.Struct("=4Q")
METRICS: Final = {
    "num_pending": "pending",
    "num_ack_pending": "ack_pending",
    "num_redelivered": "redelivered",
    "num_waiting": "waiting",
    "delivered_consumer_seq": "delivered_consumer",
    "delivered_stream_seq": "delivered_stream",
    "ack_floor_consumer_seq": "floor_consumer",
    "ack_floor_stream_seq": "floor_stream",
}
"""Samples, and the members of the state that they are."""
SINCE: Final = {"last_delivery_seconds": _LAST[0], "last_ack_seconds": _LAST[1]}
"""Likewise, of those that have such a time."""
_Rows = tuple[bytes, bytes]
Consumed = Sequence[tuple["StreamFacts", "PlainConsumerFacts"]]


class ConsumerLines:
    """Samples of an account's consumers. before, between, after: what stands before the stream's name among the labels,
    between that and the consumer's own, and behind it. Records are put together some at a time, when the first metric
    is written, and kept for the others."""

    def __init__(self, consumers: Consumed, before: str, between: str, after: str) -> None:
        self._consumers = consumers
        self._before, self._between, self._after = before, between, after
        self._now = now_ns()
        self._known = dict[int, dict[str, _Rows]]()
        self._last: dict[str, list[int]] = {name: [] for name in _LAST}
        """When each was given something the last time, and acknowledged it; 0: never."""
        for begin in range(0, len(consumers), LINES_TOGETHER):
            states = b"".join([one.state for _, one in consumers[begin : begin + LINES_TOGETHER]])
            for name, stamps in self._last.items():
                stamps += memoryview(states).cast("q")[_STATE.names.index(name) :: len(_STATE.names)].tolist()

    def has(self, sample: str) -> bool:
        """Whether a consumer has such a sample."""
        return sample in METRICS or any(self._last[SINCE[sample]])

    def of(self, sample: str, name: str) -> Iterator[str]:
        """One line of each consumer that has such a sample, under the metric's name."""
        since = SINCE.get(sample, "")
        kind, at = RowKind.NUMBER, _METRIC.size + _offset(since or METRICS[sample])
        if since:
            kind, at = RowKind.SECONDS, _SIZE * (2 + _LAST.index(since))
        columns = [
            RowColumn(f"{name}{{{self._before}".encode(), RowKind.TEXT, 0),
            RowColumn(self._between.encode(), RowKind.TEXT, _SIZE),
            RowColumn(f"{self._after}}} ".encode(), kind, at),
            RowColumn(b"\n", RowKind.NOTHING, 0),
        ]
        writer = RowWriter(columns, _METRIC.size + _STATE.size)
        for begin in range(0, len(self._consumers), LINES_TOGETHER):
            known = self._known.setdefault(begin, {})
            if since not in known:
                known[since] = self._some(begin, self._last.get(since))
            yield writer.text(*known[since])

    def _some(self, begin: int, wanted: list[int] | None) -> _Rows:
        """The records and names of some; wanted: 0 where one is to be left out."""
        which = range(begin, min(begin + LINES_TOGETHER, len(self._consumers)))
        chosen = [at for at in which if wanted is None or wanted[at]]
        some = [self._consumers[at] for at in chosen]
        ages = [[max(self._now - stamps[at], 0) for at in chosen] for stamps in self._last.values()]
        sizes, texts = in_labels([name for stream, one in some for name in (stream.name, one.consumer.name)])
        records = list[bytes]()
        for of_stream, own, delivered, acked, (_, one) in zip(sizes[::2], sizes[1::2], *ages, some, strict=True):
            records += (_METRIC.pack(of_stream, own, delivered, acked), one.state)
        return b"".join(records), texts
