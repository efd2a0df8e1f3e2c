"""Backups as a nats-server before 2.15 wrote them: a tar of its files. Turned into entries of today's archive, piece by
piece.

    meta.inf, meta.sum    the configuration, which the request has, too: it must be there, and is not looked at
    msgs/NUMBER.blk       records, one behind the other
    msgs/index.db         what can be found out from the records: not looked at
    obs/NAME/meta.inf     a consumer's configuration
    obs/NAME/o.dat        where it stood

    record: size 4 (top bit: it has a header), sequence 8, time 8, subject size 2, subject, [header size 4, header],
    payload, checksum 8; little-endian. Two bits of the sequence say that it is no message: it was erased here, or the
    message of that sequence was removed later.

What came in is sound as far as the checksums of the S2 stream around it say; the records' own (HighwayHash) are not
looked at. Pure. Not here: what becomes of the entries (restoring.py).
"""

from __future__ import annotations

import json
import re
import struct
from typing import Final

from leafd import native_types as t
from leafd.gojson import JsonError, decode, loose
from leafd.gotime import SECOND
from leafd.jetstream.backup.archive import (
    CONSUMER_MAX,
    CONSUMER_WEIGHT,
    TAR_HEAD,
    ArchivedConsumer,
    ArchiveError,
    is_tar,
    number,
)
from leafd.jetstream.models.consumer import ConsumerConfig

_SIZE_MAX: Final = 1 << 40
_RECORD: Final = struct.Struct("<IQqH")
_CHECKSUM: Final = 8
_RECORD_MAX: Final = 64 << 20
_HAS_HEADER: Final = 1 << 31
_ERASED: Final = 1 << 63
_REMOVED: Final = 1 << 62
_REMOVED_MAX: Final = 1_000_000
_REMOVED_WEIGHT: Final = 80  # bytes that one takes in a set
_POSITION_MAGIC: Final = 22
_EXTENDED_MAX: Final = 64 << 10
_KINDS: Final = (b"0", b"\0", b"x")  # files, and what says more of the next one
_LONG_NAME: Final = re.compile(rb"(?:^|\n)[0-9]+ path=([^\n]*)\n")
_UINT64_MAX: Final = (1 << 64) - 1
_WRONG: Final = "archive/tar: invalid tar header"


class TarArchive:
    """One archive on its way. consumers, removed: what has come of them; ended: nothing of use follows; of_stream: it
    has a stream's configuration, without which it is no backup of one."""

    def __init__(self, first_seq: int) -> None:
        self.ended = False
        self.of_stream = False
        self.consumers: list[ArchivedConsumer] = []
        self.removed: set[int] = set()
        self._first_seq = first_seq
        self._last_seq = 0
        self._name = ""
        self._extended = False  # it says more of the file behind it
        self._long_name = b""
        self._left = 0  # of the file, that have still to come
        self._padding = 0
        self._file = bytearray()
        self._configs: dict[str, ConsumerConfig] = {}
        self._consumer_bytes = 0

    @property
    def held(self) -> int:
        """Memory that it takes, in bytes."""
        return len(self._file) + CONSUMER_WEIGHT * self._consumer_bytes + _REMOVED_WEIGHT * len(self.removed)

    def take(self, data: bytearray) -> bytes:
        """Takes what is whole off the data; the messages in it as entries. Raises ArchiveError."""
        entries: list[bytes] = []
        while not self.ended:
            if not self._left:
                gone = min(self._padding, len(data))
                del data[:gone]
                self._padding -= gone
                if self._padding or len(data) < TAR_HEAD:
                    break
                self._begin(bytes(data[:TAR_HEAD]))
                del data[:TAR_HEAD]
                continue
            if not data:
                break
            part = bytes(data[: self._left])
            del data[: len(part)]
            self._left -= len(part)
            self._content(part, entries)
        return b"".join(entries)

    def _begin(self, head: bytes) -> None:
        if head == bytes(TAR_HEAD):
            self.ended = True
            return
        try:
            size = int(head[124:136].split(b"\0")[0].strip() or b"0", 8)
        except ValueError:
            raise ArchiveError(_WRONG) from None
        if not is_tar(head) or not 0 <= size < _SIZE_MAX:
            raise ArchiveError(_WRONG)
        prefix, name = (head[at : at + length].split(b"\0")[0] for at, length in ((345, 155), (0, 100)))
        kind = head[156:157]
        self._extended = kind == b"x"
        if self._extended:
            if size > _EXTENDED_MAX:
                raise ArchiveError(_WRONG)
        else:
            name, self._long_name = self._long_name or (prefix + b"/" + name if prefix else name), b""
        self._name = name.decode("utf-8", "replace")
        if ".." in self._name.split("/") or kind not in _KINDS:
            raise ArchiveError(f"unexpected content ({json.dumps(self._name)})")
        self.of_stream |= self._name == "meta.inf" and size > 0 and not self._extended
        self._left, self._padding = size, -size % TAR_HEAD
        self._file.clear()
        if self._name.startswith("obs/") and not self._extended:
            self._consumer_bytes += size
            if self._consumer_bytes > CONSUMER_MAX:
                raise ArchiveError(f"consumers of more than {CONSUMER_MAX} bytes")

    def _content(self, part: bytes, entries: list[bytes]) -> None:
        if self._extended:
            self._file += part
            if not self._left:
                # Of what is written so ("30 path=...", "30 mtime=..."), the name alone matters here.
                found = _LONG_NAME.search(self._file)
                self._long_name = found[1] if found else b""
        elif self._name.startswith("msgs/") and self._name.endswith(".blk"):
            self._file += part
            self._records(entries)
            if not self._left and self._file:
                raise ArchiveError(f"{self._name} ends in the midst of a message")
        elif self._name.startswith("obs/"):
            self._file += part
            if not self._left:
                self._consumer(*self._name.split("/")[1:])

    # ---- messages

    def _records(self, entries: list[bytes]) -> None:
        at, data = 0, self._file
        while len(data) - at >= _RECORD.size:
            size, sequence, ts, subject_size = _RECORD.unpack_from(data, at)
            has_header, size = size & _HAS_HEADER, size & ~_HAS_HEADER
            head = _RECORD.size + subject_size + (4 if has_header else 0)
            if not head + _CHECKSUM <= size <= _RECORD_MAX:
                raise ArchiveError(f"{self._name} has a message of an impossible size")
            if len(data) - at < size:
                break
            self._record(bytes(data[at : at + size]), sequence, ts, subject_size, bool(has_header), entries)
            at += size
        del data[:at]

    def _record(
        self, record: bytes, sequence: int, ts: int, subject_size: int, has_header: bool, entries: list[bytes]
    ) -> None:
        if sequence & _REMOVED and not sequence & _ERASED:
            self.removed.add(sequence & ~_REMOVED)
            if len(self.removed) > _REMOVED_MAX:
                raise ArchiveError(f"more than {_REMOVED_MAX} removed messages")
            return
        if sequence & (_ERASED | _REMOVED) or sequence < self._first_seq:
            return
        if sequence <= self._last_seq:
            raise ArchiveError(f"{self._name} has sequence {sequence} behind {self._last_seq}")
        self._last_seq = sequence
        at = _RECORD.size + subject_size
        subject, header = record[_RECORD.size : at], b""
        if has_header:
            (header_size,) = struct.unpack_from("<I", record, at)
            at += 4
            if header_size > len(record) - _CHECKSUM - at:
                raise ArchiveError(f"{self._name} has a message with a header of an impossible size")
            header = record[at : at + header_size]
            at += header_size
        payload = record[at:-_CHECKSUM]
        numbers = (len(subject), (ts << 1) ^ (ts >> 63), sequence, len(header), len(payload))
        entries += [*map(number, numbers), subject, header, payload]

    # ---- consumers

    def _consumer(self, name: str = "", file: str = "", *rest: str) -> None:
        if rest or file not in ("meta.inf", "o.dat"):
            return
        try:
            if file == "meta.inf":
                record = {key: value for key, value in loose(bytes(self._file)).items() if key != "Name"}
                self._configs[name] = decode(ConsumerConfig, json.dumps(record).encode(), strict=False)
                self.consumers.append(ArchivedConsumer(name, self._configs[name], t.Position(0, 0, 0, 0, ())))
                return
            position = _position(bytes(self._file))
        except (JsonError, ValueError, IndexError) as error:
            raise ArchiveError(f"failed to decode consumer {json.dumps(name)} state: {error}") from None
        if name in self._configs:
            others = [one for one in self.consumers if one.name != name]
            self.consumers = [*others, ArchivedConsumer(name, self._configs[name], position)]


class _Numbers:
    """LEB128 numbers, one behind the other. Raises IndexError at the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def unsigned(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if value >> 64:
                    raise ValueError("a number has more than 64 bits")
                return value

    def signed(self) -> int:
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)


def _position(data: bytes) -> t.Position:
    """o.dat: magic, version, then what is acknowledged, what was delivered, what is in between."""
    if len(data) < 2 or data[0] != _POSITION_MAGIC or data[1] != 2:
        raise ValueError("an unknown version")
    numbers = _Numbers(data[2:])
    floor_consumer, floor_stream, delivered_consumer, delivered_stream = (numbers.unsigned() for _ in range(4))
    pending: dict[int, tuple[int, int]] = {}
    count = numbers.unsigned()
    latest = numbers.signed() if count else 0
    for _ in range(count):
        stream_seq, consumer_seq = floor_stream + numbers.unsigned(), floor_consumer + numbers.unsigned()
        pending[stream_seq] = consumer_seq, (latest - numbers.signed()) * SECOND
    redelivered = {floor_stream + numbers.unsigned(): numbers.unsigned() for _ in range(numbers.unsigned())}
    if any(max(stream_seq, consumer_seq) > _UINT64_MAX for stream_seq, (consumer_seq, _) in pending.items()):
        raise ValueError("a sequence has more than 64 bits")
    rows = [
        t.PendingEntry(
            stream_seq=stream_seq,
            consumer_seq=consumer_seq,
            delivered_ts=min(max(ts, 0), (1 << 63) - 1),
            deliveries=min(redelivered.get(stream_seq, 0), 1 << 31) + 1,
        )
        for stream_seq, (consumer_seq, ts) in sorted(pending.items())
        if 0 < stream_seq <= delivered_stream
    ]
    return t.Position(
        delivered_consumer=delivered_consumer,
        delivered_stream=delivered_stream,
        floor_consumer=floor_consumer,
        floor_stream=floor_stream,
        pending=tuple(rows),
    )
