"""The streams of all servers, as rows of the group's table.

    s/<16 bytes of SHA-256 of account and name>  >  {"account", "name", "peer", "server", "cluster", "created",
                                                     "author", "config", "gone": [[peer, created], ...],
                                                     "group", "members": [[peer, disk], ...],
                                                     "founders": [[peer, disk], ...], "leaving": [peer, ...],
                                                     "excluded": [peer, ...],
                                                     "origin": {"peer", "server", "cluster", "members", "replicas",
                                                     "placement", "retention"}, "since"}

A stream is the one of its name that was made at that time. A row without a config is of a stream that is deleted, and
stays until each server that may still have it, which `gone` names, has said that it has it no more: a server that was
away deletes what it reads there, and nothing else. A stream of several servers has the name of its group, and its
members; `peer` is one of them.

A row that this version cannot read is of a stream that may well be there: nobody is told that it is not, and nothing is
put in its place.

`members` are those that are to keep the stream, with the disks that they had when that was last seen to be so;
`founders` are those that it began with, where they are others. A server that is no founder waits until the group's
leader lets it in. Those in `leaving` are to keep it no more, and take part until the others are the group's only
members. Those in `excluded` were evacuated while nobody could take their place: they are not taken in again while
replicas are missing. `origin` says who kept it before the change of its servers that is under way, and what it asked
for then; `since`, when that change, or another one of its servers, began (Unix ns).

Pure. Not here: who writes rows (daemon/placing.py), what a configuration means (jetstream/).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from leafd.records import dataclass

PREFIX: Final = b"s/"


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that a stream had before it began to move. members: none, it was `peer`'s alone. retention: what it had
    then, if it was changed since to one that removes what nobody wants; "": it was not."""

    peer: int
    server: str
    cluster: str
    members: tuple[tuple[int, int], ...]
    replicas: int
    placement: dict[str, Any] | None
    retention: str = ""


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A stream of some account, wherever it is. created: Unix ns. gone: those of its name that are deleted."""

    account: str
    name: str
    peer: int = 0
    server: str = ""
    cluster: str = ""
    created: int = 0
    author: str = ""
    config: dict[str, Any] | None = None
    gone: tuple[tuple[int, int], ...] = ()
    revision: int = 0
    group: int = 0
    members: tuple[tuple[int, int], ...] = ()
    founders: tuple[tuple[int, int], ...] = ()
    leaving: tuple[int, ...] = ()
    excluded: tuple[int, ...] = ()
    origin: Origin | None = None
    since: int = 0

    @property
    def peers(self) -> tuple[int, ...]:
        """The servers that have the stream."""
        return tuple(peer for peer, _ in self.members) or (self.peer,)

    @property
    def key(self) -> bytes:
        """Its key in the table."""
        return key_of(self.account, self.name)


def key_of(account: str, name: str) -> bytes:
    """The key of a stream's row. Names may be longer than keys."""
    return PREFIX + hashlib.sha256(f"{account}\0{name}".encode()).digest()[:16]


def write_row(row: StreamRow) -> bytes:
    """The value of a row."""
    members: dict[str, Any] = {"account": row.account, "name": row.name}
    if row.config is not None:
        members |= {"peer": row.peer, "server": row.server, "cluster": row.cluster, "created": row.created}
        members |= {"author": row.author, "config": row.config}
        if row.group:
            members |= {"group": row.group, "members": [list(one) for one in row.members]}
            if row.founders:
                members["founders"] = [list(one) for one in row.founders]
            if row.leaving:
                members["leaving"] = list(row.leaving)
            if row.excluded:
                members["excluded"] = list(row.excluded)
            if row.origin is not None:
                members["origin"] = _write_origin(row.origin)
            if row.since:
                members["since"] = row.since
    if row.gone:
        members["gone"] = [list(one) for one in row.gone]
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


def read_row(revision: int, value: bytes) -> StreamRow:
    """Raises ValueError: another version wrote it, or nobody."""
    try:
        found = json.loads(value)
        gone = tuple((int(peer), int(created)) for peer, created in found.get("gone", ()))
        config = found.get("config")
        if config is not None and not isinstance(config, dict):
            raise ValueError("config is no object")
        group = int(found.get("group", 0))
        members = tuple((int(peer), int(disk)) for peer, disk in found.get("members", ()))
        founders = tuple((int(peer), int(disk)) for peer, disk in found.get("founders", ()))
        leaving = tuple(int(peer) for peer in found.get("leaving", ()))
        excluded = tuple(int(peer) for peer in found.get("excluded", ()))
        if (group != 0) != bool(members):
            raise ValueError("a group has members")
        return StreamRow(
            account=str(found["account"]),
            name=str(found["name"]),
            peer=int(found.get("peer", 0)),
            server=str(found.get("server", "")),
            cluster=str(found.get("cluster", "")),
            created=int(found.get("created", 0)),
            author=str(found.get("author", "")),
            config=config,
            gone=gone,
            revision=revision,
            group=group,
            members=members,
            founders=founders,
            leaving=leaving,
            excluded=excluded,
            origin=_read_origin(found["origin"]) if "origin" in found else None,
            since=int(found.get("since", 0)),
        )
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"no row of a stream: {error}") from None


def _write_origin(origin: Origin) -> dict[str, Any]:
    found: dict[str, Any] = {"peer": origin.peer, "server": origin.server, "cluster": origin.cluster}
    found |= {"members": [list(one) for one in origin.members], "replicas": origin.replicas}
    return found | {"placement": origin.placement} | ({"retention": origin.retention} if origin.retention else {})


def _read_origin(found: dict[str, Any]) -> Origin:
    members = tuple((int(peer), int(disk)) for peer, disk in found["members"])
    peer, server, cluster = int(found["peer"]), str(found["server"]), str(found["cluster"])
    placement = found.get("placement")
    if placement is not None and not isinstance(placement, dict):
        raise ValueError("placement is no object")
    replicas, retention = int(found["replicas"]), str(found.get("retention", ""))
    return Origin(peer, server, cluster, members, replicas, placement, retention)


def _read_under(key: bytes, revision: int, value: bytes) -> StreamRow:
    row = read_row(revision, value)
    if row.key != key:
        raise ValueError("the row of another stream")
    return row


class Kept(NamedTuple):
    """A server's streams: how many it keeps alone, and with others; and what all reserve, on disk and in memory."""

    alone: int = 0
    shared: int = 0
    files: int = 0
    memory: int = 0


_NOTHING: Final = Kept()


class UnreadError(Exception):
    """The row of that stream is there, and this version cannot read it."""


class Table:
    """The rows of streams, by account and name."""

    def __init__(self) -> None:
        self.streams: dict[str, dict[str, StreamRow]] = {}
        """The streams that are there."""
        self._rows: dict[bytes, StreamRow] = {}
        self._unread: dict[bytes, int] = {}
        """The revisions of rows that this version cannot read."""
        self._kept: dict[int, Kept] = {}
        self._mirrors: dict[tuple[str, str], set[str]] = {}
        """The names of an account's streams that mirror the one of that name."""

    @property
    def unread(self) -> int:
        """How many rows this version cannot read."""
        return len(self._unread)

    def kept(self, peer: int) -> Kept:
        """The streams that a server keeps, and what they reserve."""
        return self._kept.get(peer, _NOTHING)

    def alternates(self, account: str, name: str) -> list[StreamRow]:
        """A stream and those that mirror it; none, if nothing does."""
        mirrors = self._mirrors.get((account, name))
        here = self.streams.get(account, {})
        return [here[one] for one in (name, *sorted(mirrors)) if one in here] if mirrors else []

    def get(self, account: str, name: str) -> StreamRow | None:
        """The row of a stream, also of one that is deleted. Raises UnreadError."""
        key = key_of(account, name)
        if key in self._unread:
            raise UnreadError
        return self._rows.get(key)

    def revision(self, account: str, name: str) -> int:
        """The revision of a stream's row, also of one that cannot be read. 0: there is none."""
        return self._revision(key_of(account, name))

    def _revision(self, key: bytes) -> int:
        row = self._rows.get(key)
        return row.revision if row is not None else self._unread.get(key, 0)

    def take(self, rows: Mapping[bytes, tuple[int, bytes]], applied: int) -> list[StreamRow]:
        """All rows as of that entry of the log, which are older than what the leader has told since. Returns those that
        are others, or gone: of these only the names."""
        changed: list[StreamRow] = []
        for key in [one for one in self._unread if one not in rows and self._unread[one] <= applied]:
            del self._unread[key]
        for key in [one for one, row in self._rows.items() if one not in rows and row.revision <= applied]:
            changed.append(self._drop(key))
        for key, (revision, value) in rows.items():
            if not key.startswith(PREFIX) or self._revision(key) >= revision:
                continue
            try:
                row = _read_under(key, revision, value)
            except ValueError:
                if key in self._rows:
                    changed.append(self._drop(key))
                self._unread[key] = revision
                continue
            self.put(row)
            changed.append(row)
        return changed

    def give_up(self, row: StreamRow) -> None:
        """Takes the row for one that cannot be read."""
        if row.key in self._rows:
            self._drop(row.key)
        self._unread[row.key] = row.revision

    def put(self, row: StreamRow) -> None:
        """The row is like this from here on."""
        self._unread.pop(row.key, None)
        self._rows[row.key] = row
        here = self.streams.setdefault(row.account, {})
        self._leave(row)
        if row.config is not None:
            here[row.name] = row
            self._count(row, 1)
            if origin := _origin_of(row):
                self._mirrors.setdefault((row.account, origin), set()).add(row.name)

    def remove(self, row: StreamRow) -> None:
        """The row is gone."""
        if row.key in self._rows:
            self._drop(row.key)

    def _drop(self, key: bytes) -> StreamRow:
        row = self._rows.pop(key)
        self._leave(row)
        return StreamRow(row.account, row.name)

    def _leave(self, row: StreamRow) -> None:
        """The stream of that name is not there for now."""
        before = self.streams.get(row.account, {}).pop(row.name, None)
        if before is not None:
            self._count(before, -1)
        origin = _origin_of(before) if before is not None else ""
        if mirrors := self._mirrors.get((row.account, origin)):
            mirrors.discard(row.name)
            if not mirrors:
                del self._mirrors[row.account, origin]

    def _count(self, row: StreamRow, by: int) -> None:
        config = row.config or {}
        size, in_memory = by * _bytes_in(config), config.get("storage") == "memory"
        for peer in row.peers:
            kept = self._kept.get(peer, _NOTHING)
            alone, shared = (kept.alone, kept.shared + by) if row.members else (kept.alone + by, kept.shared)
            files, memory = (kept.files, kept.memory + size) if in_memory else (kept.files + size, kept.memory)
            self._kept[peer] = Kept(alone, shared, files, memory)
            if self._kept[peer] == _NOTHING:
                del self._kept[peer]


def _bytes_in(config: Mapping[str, Any]) -> int:
    """The bytes that a stream reserves; none, where another version says it in another way."""
    found = config.get("max_bytes")
    return max(found, 0) if isinstance(found, int) else 0


def _origin_of(row: StreamRow) -> str:
    """The stream that this one mirrors; "": it is no mirror."""
    mirror = row.config.get("mirror") if row.config is not None else None
    return str(mirror.get("name", "")) if isinstance(mirror, dict) else ""
