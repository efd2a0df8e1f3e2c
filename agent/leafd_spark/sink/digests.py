"""The digests that a task has had: in a table of C's where the module is there, or in a set.

Here: which rows' digests were there before, and all of them in the order in which they came. Not here:
what a digest is of (`frames`), how often it came (`outgoing`).
"""

from __future__ import annotations

import numpy as np

from leafd_spark.machine import native

from .frames import DIGEST_BYTES

SLOTS = 8192  # of the table at first; at most half of them are used


class Seen:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0
        self._table = bytearray()
        self._set: set[bytes] = set()

    def __len__(self) -> int:
        return self._count

    def all(self) -> bytes:
        """Each digest once, one behind the other."""
        return b"".join(self._parts)

    def add(self, digests: bytes) -> list[int]:
        """The places of those digests that are there already or among those before them."""
        rows = len(digests) // DIGEST_BYTES
        again = self._again_in_set(digests) if native is None else self._again_in_table(digests, rows)
        if again:
            digests = np.delete(np.frombuffer(digests, f"V{DIGEST_BYTES}"), again).tobytes()
        self._parts.append(digests)
        self._count += rows - len(again)
        return again

    def _again_in_set(self, digests: bytes) -> list[int]:
        again = []
        for row in range(len(digests) // DIGEST_BYTES):
            digest = digests[row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES]
            if digest in self._set:
                again.append(row)
            self._set.add(digest)
        return again

    def _again_in_table(self, digests: bytes, rows: int) -> list[int]:
        slots = max(SLOTS, len(self._table) // DIGEST_BYTES)
        while slots < 2 * (self._count + rows):
            slots *= 2
        if slots * DIGEST_BYTES > len(self._table):
            self._table = bytearray(slots * DIGEST_BYTES)
            for part in self._parts:
                native.seen(self._table, part)
        again: list[int] = np.frombuffer(native.seen(self._table, digests), np.int64).tolist()
        return again
