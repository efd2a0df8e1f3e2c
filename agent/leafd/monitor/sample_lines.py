"""Samples of many things of one kind, such as links, as lines of metrics that C writes: an object for each sample takes
ten times as long.

    a record    size of the labels 8 | value 8

Not here: how rows are written (native_rows.py), which samples there are (metrics.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

from leafd.native_rows import RowColumn, RowKind, RowWriter

LINES_TOGETHER: Final = 256
_RECORD: Final = 16
_ALL: Final = 1 << 64


class SampleLines:
    """Labels of things, one text each, and the samples under them."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = [one.encode() for one in labels]
        self._sizes = array("Q", map(len, self._labels))

    def of(self, values: Sequence[int | None], kind: RowKind, name: str) -> Iterator[str]:
        """A line under that name for each thing that has a value, some hundred at a time."""
        columns = [
            RowColumn(f"{name}{{".encode(), RowKind.TEXT, 0),
            RowColumn(b"} ", kind, 8),
            RowColumn(b"\n", RowKind.NOTHING, 0),
        ]
        writer = RowWriter(columns, _RECORD)
        for begin in range(0, len(values), LINES_TOGETHER):
            end = begin + LINES_TOGETHER
            some, sizes, labels = values[begin:end], self._sizes[begin:end], self._labels[begin:end]
            if None in some:
                there = [at for at, value in enumerate(some) if value is not None]
                sizes, labels = array("Q", [sizes[at] for at in there]), [labels[at] for at in there]
            numbers = [value % _ALL for value in some if value is not None]
            cells = array("Q", bytes(_RECORD * len(numbers)))
            cells[0::2], cells[1::2] = sizes, array("Q", numbers)
            yield writer.text(cells.tobytes(), b"".join(labels))
