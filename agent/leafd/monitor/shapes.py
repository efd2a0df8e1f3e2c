"""Configurations that differ in texts only have one shape, and what has one shape is written by one form: names,
subjects, a description, what metadata says.

    {"name": "A", "subjects": ["a.>"], "max_msgs": 7}    the shape {"name": Hole, "subjects": [Hole], "max_msgs": 7}
                                                         with the texts "A", "a.>"

Not here: how forms are written (encoding.py), of what (plain_rows.py, consumer_rows.py).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from leafd.monitor.encoding import Hole
from leafd.native_rows import RowKind

SHAPES_MAX: Final = 256
"""So many are kept for the next report. What has another one has it made for each."""
SIZE: Final = 8
"""Bytes of a text's size in a record."""

_Part = TypeVar("_Part")


class Shape:
    """The common form of configurations: a Hole in place of each text, as the records of a Shape alone have them."""

    def __init__(self, config: Mapping[str, Any], members: Sequence[str], metadata: Sequence[str], sizes: int) -> None:
        self.config = config
        self._members = members
        """The members that are texts or lists of texts, in their order .."""
        self._metadata = metadata
        """.. and the names of what the metadata say, which come behind them."""
        self.sizes = struct.Struct(f"={sizes}Q")

    def texts(self, config: Any) -> list[bytes]:
        """The texts for the holes, as JSON."""
        found: list[str] = []
        for name in self._members:
            value = getattr(config, name)
            if type(value) is str:
                found.append(value)
            else:
                found += value
        if self._metadata:
            found += [config.metadata[name] for name in self._metadata]
        return [encode_basestring_ascii(one).encode() for one in found]

    def placed(self, at: int) -> Mapping[str, Any]:
        """The same where the sizes begin there in the record."""
        placed: Mapping[str, Any] = _placed(self.config, at)
        return placed


class Shapes:
    """The shapes of streams and consumers, which are gone with them."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[str, Shape] = WeakValueDictionary()

    def of(self, config: Mapping[str, Any], texts: Sequence[str]) -> tuple[Shape, bool]:
        """The shape of a configuration with metadata, and whether it is kept. texts: the members that are texts."""
        shape = _shape(config, texts)
        key = json.dumps(shape.config, default=lambda hole: None)
        found = self._known.get(key)
        if found is not None:
            return found, True
        kept = len(self._known) < SHAPES_MAX
        if kept:
            self._known[key] = shape
        return shape, kept


def _shape(config: Mapping[str, Any], texts: Sequence[str]) -> Shape:
    shown, sizes = dict(config), 0
    members = [name for name in shown if name in texts]

    def hole() -> Hole:
        nonlocal sizes
        sizes += 1
        return Hole(RowKind.TEXT, (sizes - 1) * SIZE)

    for name in members:
        shown[name] = hole() if type(shown[name]) is str else [hole() for _ in shown[name]]
    metadata = list(shown["metadata"])
    shown["metadata"] = {name: hole() for name in metadata}
    return Shape(shown, members, metadata, sizes)


def _placed(part: _Part, by: int) -> Any:
    if isinstance(part, Hole):
        return Hole(part.kind, part.at + by)
    if isinstance(part, Mapping):
        return {name: _placed(value, by) for name, value in part.items()}
    return [_placed(one, by) for one in part] if isinstance(part, list) else part
