"""The bytes that streams of an account have at other servers, for limits that count on all servers together.

    stored    {"news": "stored", "account", "rows": [[storage, replicas, bytes], ..]}    when it changes

A server tells another one of the streams that it has alone or leads, and that the other one has no copy of: each
server knows of its own copies. A row sums up over streams, with the bytes of one copy. What a server that is away led
somebody else leads now, and tells of it; what it had alone is still there.

Pure. Not here: how news travel (letters.py), who is told when (daemon/stored.py), what is refused
(native/store/allowance.h).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from leafd.cluster.repetition import Repeated
from leafd.gojson import dump
from leafd.records import dataclass

Rows = tuple[tuple[int, int, int], ...]
"""Storage (0 file, 1 memory), replicas, bytes."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A stream that a server tells of, with the bytes of one copy. servers: which have one."""

    storage: int
    replicas: int
    bytes: int
    servers: frozenset[int]


class Stored:
    """One server's view."""

    def __init__(self) -> None:
        self._told: dict[str, dict[int, Rows]] = {}
        self._said: dict[int, Repeated[str]] = {}

    def hear(self, peer: int, news: Mapping[str, Any]) -> None:
        """News of another server. Raises ValueError, KeyError, TypeError."""
        rows = tuple((int(storage), int(replicas), int(count)) for storage, replicas, count in news["rows"])
        if any(storage not in (0, 1) or replicas < 1 or count < 0 for storage, replicas, count in rows):
            raise ValueError("a row of what is stored has a number that it cannot have")
        told = self._told.setdefault(str(news["account"]), {})
        told[peer] = rows
        if not rows:
            del told[peer]

    def tell(
        self, account: str, streams: Iterable[Kept], linked: Collection[int], now_s: float
    ) -> list[tuple[int, bytes]]:
        """Returns the news of an account, and the servers that are to hear them. One that was told nothing hears of
        streams alone."""
        streams = tuple(streams)
        for gone in self._said.keys() - set(linked):
            del self._said[gone]
        said = []
        for peer in linked:
            sums: dict[tuple[int, int], int] = {}
            for one in streams:
                if peer not in one.servers:
                    key = one.storage, one.replicas
                    sums[key] = sums.get(key, 0) + one.bytes
            before = self._said.setdefault(peer, Repeated())
            rows = [[*key, count] for key, count in sorted(sums.items())]
            if (rows or before.has(account)) and before.is_due(account, _news(account, rows), now_s):
                said.append((peer, _news(account, rows)))
        return said

    def elsewhere(self, account: str, reaches: Callable[[int], bool]) -> Rows:
        """The bytes of an account's streams that this server has no copy of, as it was told."""
        sums: dict[tuple[int, int], int] = {}
        for peer, rows in self._told.get(account, {}).items():
            for storage, replicas, count in rows:
                if replicas == 1 or reaches(peer):
                    sums[storage, replicas] = sums.get((storage, replicas), 0) + count
        return tuple((*key, count) for key, count in sorted(sums.items()))


def _news(account: str, rows: list[list[int]]) -> bytes:
    return dump({"news": "stored", "account": account, "rows": rows})
