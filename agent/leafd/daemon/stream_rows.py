"""Rows of the servers' table as JetStream understands them: configurations, groups, what an account may have.

Pure. Not here: the table itself (cluster/table.py), which servers (cluster/sharing.py), who decides (placing.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from leafd.cluster.placement import OFFLINE, Site, Spread, Wish, might
from leafd.cluster.sharing import (
    Disk,
    Servers,
    alone,
    begun,
    called_off,
    disks_in,
    enlarge,
    moved,
    refill,
    relocated,
    resize,
    settled,
    share,
    thinned,
    without,
)
from leafd.gojson import decode
from leafd.jetstream import errors
from leafd.jetstream.catalogue import Group
from leafd.jetstream.models.stream import MEMORY, StreamConfig
from leafd.jetstream.rules.account_limits import check_beside
from leafd.quoting import quoted

if TYPE_CHECKING:
    from leafd.cluster.table import StreamRow
    from leafd.config.schema.server import ServerConfig
    from leafd.jetstream.catalogue import JetStreamAccount
    from leafd.jetstream.ports import Wanted


def group_of(row: StreamRow) -> Group | None:
    """The group that keeps a stream; None: one server does."""
    return Group(row.group, row.founders or row.members) if row.members else None


class Sharing(NamedTuple):
    """How the servers of a stream are to be found. leader: of its group, 0: it is new. but: without that one. fills: or
    as many as there are, and not more. before: the row as it was, which may have asked for other servers. fewer:
    where nobody can take the place of `but` fewer servers keep it. excludes: that one is not taken in again for now.
    tags: a server that takes its place has these, too, and another cluster takes the whole stream where nobody else
    can; None: that was not asked for."""

    leader: int = 0
    but: int = 0
    fills: bool = False
    before: StreamRow | None = None
    fewer: bool = False
    excludes: bool = False
    tags: tuple[str, ...] | None = None

    def found(self, row: StreamRow, servers: Servers, away: Collection[Site | None], spread: Spread) -> StreamRow:
        """As _found, with the servers that are not taken in again while replicas are missing. Raises ApiError."""
        changed = self._found(row, servers, away, spread)
        missing = changed.members and len(changed.members) < config_of(row).num_replicas
        excluded = (*changed.excluded, self.but) if self.excludes else changed.excluded
        changed = replace(changed, excluded=tuple(dict.fromkeys(excluded)) if missing else ())
        return begun(changed, self.before) if self.before is not None else changed

    def _found(self, row: StreamRow, servers: Servers, away: Collection[Site | None], spread: Spread) -> StreamRow:
        """With the servers that are to keep it, as many as its configuration says. away: members that are not there, as
        far as it is known of what kind they are: a majority begins without them. spread: how this server's
        configuration has it. Raises ApiError."""
        leader, but = self.leader, self.but
        config = config_of(row)
        count, there = max(config.num_replicas, 1), len(row.members) or 1
        before = config_of(self.before) if self.before is not None else None
        moves = before is not None and _asks_elsewhere(config, before)
        moving = before is not None and there > count == max(before.num_replicas, 1)  # it goes on
        if leader and (count == there or moving) and not but and not moves:
            return row
        if before is not None and (moves or count != max(before.num_replicas, 1)):
            row = replace(row, excluded=())  # a change that asks for other servers may get any
        elif before is not None and there < count and not but:
            return refill(row, _wish(config, "", spread), servers, count, leader=leader)
        if not leader and count == 1:
            return replace(row, group=0, members=(), founders=(), leaving=())
        cluster = config.placement.cluster if moves and config.placement is not None else ""
        wish = _wish(config, cluster, spread, self.tags or ())
        first = servers.get(row.peer) if leader and count > 1 and not row.members else None
        if first is not None and 0 < spread.most <= first[1].shared:
            raise errors.INSUFFICIENT_RESOURCES.error()
        if self.fills and there > count:
            return thinned(row, count)
        if self.fills:
            return refill(row, wish, servers, count, leader=leader)
        one_cluster = len({site.cluster for _, site in servers.values()}) == 1
        absent = sum(might(wish, row.cluster, one) if one is not None else one_cluster for one in away)
        if moves:
            changed = relocated(row, wish, servers, count, leader=leader)
        elif not leader:
            changed = share(row, wish, servers, count, away=absent)
        elif but and not row.members:
            changed = moved(row, wish, servers, but=but)
        elif but:
            less = without if self.fewer else resize
            changed = less(row, wish, servers, count, leader=leader, but=but)
        else:
            changed = enlarge(row, wish, servers, count, leader=leader, away=absent)
        if isinstance(changed, str) and self.tags is not None:
            changed = _to_another_cluster(row, wish, servers, count, leader, why=changed)
        if isinstance(changed, str):
            too_few = leader and changed == OFFLINE and not absent
            if but and self.tags is None:
                raise errors.PEER_REMAP.error()
            raise errors.NO_SUITABLE_PEERS.error(why="" if too_few else changed)
        return changed


def regrouped(
    row: StreamRow, wish: Mapping[str, Any], shared: Callable[[StreamRow, Sharing], StreamRow], there: Collection[Disk]
) -> StreamRow | str:
    """The row of a stream whose servers are others, or are to be; or why not. shared: as Sharing.found; there: the
    disks that are there. Raises ApiError."""
    match wish["op"]:
        case "members":
            return settled(row, disks_in(wish["members"]))
        case "alone":
            return alone(row, (wish["peer"], wish["disk"]), wish["server"], there)
        case "fill":
            return shared(row, Sharing(int(wish["peer"]), fills=True))
        case "move":
            return shared(row, Sharing(wish["leader"], wish["peer"], before=row, tags=tuple(wish["tags"])))
        case "back":
            if row.origin is None:
                raise errors.STREAM_RECONFIGURE_NOT_IN_PROGRESS.error()
            return called_off(row)
    fewer, excludes = bool(wish.get("fewer")), bool(wish.get("excludes"))
    less = Sharing(int(wish["leader"]), int(wish["peer"]), fewer=fewer, excludes=excludes)
    return shared(row, less) if wish["peer"] in row.peers else row


def _to_another_cluster(
    row: StreamRow, wish: Wish, servers: Servers, count: int, leader: int, why: str
) -> StreamRow | str:
    """The row of a stream that moves to another cluster, or why nobody can take it in its own."""
    for cluster in sorted({site.cluster for _, site in servers.values()} - {row.cluster}):
        found = relocated(row, replace(wish, cluster=cluster), servers, count, leader=leader)
        if not isinstance(found, str):
            return found
    return why


def _wish(config: StreamConfig, cluster: str, spread: Spread, more: tuple[str, ...] = ()) -> Wish:
    tags = (*(config.placement.tags if config.placement is not None else ()), *more)
    replicas = max(config.num_replicas, 1)
    return Wish(cluster, tags, max(config.max_bytes, 0), config.storage != MEMORY, replicas, spread)


def _asks_elsewhere(config: StreamConfig, before: StreamConfig) -> bool:
    """Raises ApiError: it asks for another number of servers at once."""
    moves = config.placement is not None and config.placement != before.placement
    if moves and config.num_replicas != before.num_replicas:
        raise errors.STREAM_MOVE_AND_SCALE.error()
    return moves


def wish_of(wanted: Wanted, spread: Spread) -> Wish:
    """The wish of a new stream, with how the configuration has replicas spread."""
    return Wish(wanted.cluster, wanted.tags, wanted.size, wanted.storage != MEMORY, wanted.replicas, spread)


def spread_of(config: ServerConfig) -> Spread:
    """How a configuration has replicas spread over servers."""
    jetstream = config.jetstream
    return Spread(jetstream.unique_tag, jetstream.limits.max_ha_assets) if jetstream is not None else Spread()


def shown(account: str, name: str) -> str:
    """A stream, as the log names it."""
    return f"stream {quoted(name)} of account {quoted(account)}"


def config_of(row: StreamRow) -> StreamConfig:
    """The configuration in a row that has one. Raises JsonError, ValueError."""
    return decode(StreamConfig, json.dumps(row.config).encode(), strict=False)


def check_account(
    account: JetStreamAccount | None, rows: Mapping[str, StreamRow], row: StreamRow, before: StreamRow | None
) -> None:
    """The account's limits on its streams of all servers together, where one is to be like this. before: None: it is
    new. Raises ApiError."""
    if account is None:
        return
    beside = (one.config or {} for one in rows.values() if one.name != row.name)
    check_beside(account.limits, beside, config_of(row), config_of(before) if before is not None else None)
