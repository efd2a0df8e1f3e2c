"""Which page of a file of LMDB's is what: read from the outside, for who damages one of a kind.

Knows the format of LMDB 0.9 on machines of 64 bits, and nothing of leafd but the names of its databases.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PAGE = 4096
HEAD = 16
NONE = 2**64 - 1
META_HEAD = 24  # magic, version, address, size of the map
DB = 48
BIG, SUB = 1, 2


@dataclass
class Tree:
    """A database: how deep it is, and its first page."""

    depth: int
    root: int


@dataclass
class Kinds:
    """The pages of the newest commit, by kind: meta, free list, main, and each database's branches, leaves and large
    values."""

    by: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, *pages: int) -> None:
        self.by[kind].extend(pages)


def _tree(data: bytes, at: int) -> Tree:
    _, _, depth = struct.unpack_from("<IHH", data, at)
    (root,) = struct.unpack_from("<Q", data, at + 40)
    return Tree(depth, root)


def _nodes(data: bytes, page: int) -> list[tuple[bytes, int, int, int]]:
    """Of each node: key, flags, size, and where its data begins (in a branch: the child's number)."""
    base = page * PAGE
    (lower,) = struct.unpack_from("<H", data, base + 12)
    (flags,) = struct.unpack_from("<H", data, base + 10)
    found = []
    for index in range((lower - HEAD) // 2):
        (offset,) = struct.unpack_from("<H", data, base + HEAD + 2 * index)
        low, high, node_flags, key_size = struct.unpack_from("<HHHH", data, base + offset)
        begin = base + offset + 8
        key = data[begin : begin + key_size]
        if flags & 1:
            found.append((key, 0, 0, low | high << 16 | node_flags << 32))
        else:
            found.append((key, node_flags, low | high << 16, begin + key_size))
    return found


def _walk(data: bytes, kinds: Kinds, name: str, tree: Tree) -> None:
    level = [tree.root] if tree.root != NONE else []
    for _ in range(tree.depth - 1):
        kinds.add(f"{name} branch", *level)
        level = [child for page in level for _, _, _, child in _nodes(data, page)]
    kinds.add(f"{name} leaf", *level)
    for page in level:
        for _, flags, size, at in _nodes(data, page):
            if flags & BIG:
                (first,) = struct.unpack_from("<Q", data, at)
                kinds.add(f"{name} overflow", *range(first, first + (HEAD + size - 1) // PAGE + 1))


def kinds_of(path: Path) -> dict[str, list[int]]:
    """The pages of the newest commit by what they are, such as "records leaf" or "m00000002 branch"."""
    data = path.read_bytes()
    commits = [struct.unpack_from("<Q", data, page * PAGE + HEAD + META_HEAD + 2 * DB + 8)[0] for page in (0, 1)]
    newest = commits.index(max(commits))
    base = newest * PAGE + HEAD + META_HEAD
    kinds = Kinds()
    kinds.add("meta newest", newest)
    kinds.add("meta older", 1 - newest)
    _walk(data, kinds, "free list", _tree(data, base))
    main = _tree(data, base + DB)
    _walk(data, kinds, "main", main)
    for page in list(kinds.by["main leaf"]):
        for key, flags, _, at in _nodes(data, page):
            if flags & SUB:
                _walk(data, kinds, key.decode(), _tree(data, at))
    return dict(kinds.by)


def values_in(data: bytes, page: int) -> Iterator[tuple[bytes, bytes, int]]:
    """Of each small value of a leaf its key, itself, and where it begins."""
    for key, flags, size, at in _nodes(data, page):
        if not flags & (BIG | SUB):
            yield key, data[at : at + size], at
