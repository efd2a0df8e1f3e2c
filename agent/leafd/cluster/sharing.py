"""The servers that are to keep a stream together, when it is made, when it is to be kept by more or fewer of them, and
when one of them is to keep it no more.

    a server's alone --> kept by several   its server begins a group alone, with what it has; the others join that
    more             --> those with the fewest streams join          fewer --> the others leave
    less one         --> another one takes its place, or, when a server is evacuated or removed, fewer keep it
    a server's alone, less that one --> it moves
    asked for elsewhere --> others take the places of those that are not there
    called off       --> those that kept it before keep it again
    its majority lost --> one that has it keeps it alone, and others join that one
    a server is away --> a majority of as many as wanted begins without it, and it joins when it is back (refill)

A server that leaves takes part until those that are to keep it are the group's members, and deletes what it has only
then: until then its vote may be needed. Nobody who was told to delete it is taken in before he has said that it is
done: a disk that forgets what it acknowledged must not be counted among those that have it.

Pure. Not here: what a group does about it (membership.py), who decides (daemon/placing.py).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from leafd.cluster.placement import Site, Wish, choose, choose_more, fits, lacks
from leafd.cluster.table import Origin, StreamRow

LIMITS: Final = "limits"
"""The retention of a stream that names none."""
FOUNDED: Final = ((0, 0),)
"""No disk: a group that lets servers in and out is founded by nobody any more."""
Disk = tuple[int, int]
"""A server, and its disk's id."""
Servers = Mapping[int, tuple[int, Site]]
"""The servers that are there: their disks, and what they told of themselves."""


def share(row: StreamRow, wish: Wish, servers: Servers, count: int, *, away: int | None = None) -> StreamRow | str:
    """The row of a new stream that several servers found; or what is wrong, in nats-server's words. away: so many more
    might do and are away, None: that is not known."""
    others = {peer: one for peer, one in servers.items() if peer != row.peer}
    chosen: list[int] | str = ""
    if row.peer in servers:
        first = servers[row.peer][1]
        if why := lacks(first, wish):
            return why
        chosen = _more(wish, row.cluster, others, count - 1, (first,), all_there=away == 0)
        for some in _fewer(count, away or 0):
            chosen = _more(wish, row.cluster, others, some - 1, (first,)) if isinstance(chosen, str) else chosen
    if isinstance(chosen, str):
        return chosen
    peers = [row.peer, *chosen]
    random.shuffle(peers)  # the first one leads first
    return replace(row, group=_new_group(), members=tuple((peer, servers[peer][0]) for peer in peers), founders=())


def resize(row: StreamRow, wish: Wish, servers: Servers, count: int, *, leader: int, but: int = 0) -> StreamRow | str:
    """The row of a stream that so many are to keep, without `but`. leader: it stays, if anybody does."""
    there = row.members or ((row.peer, servers[row.peer][0] if row.peer in servers else 0),)
    kept = sorted((one for one in there if one[0] != but), key=lambda one: (one[0] != leader, one[0] not in servers))
    kept = kept[:count]
    if len(kept) < count:
        gone = {peer for peer, created in row.gone if created == row.created}
        barred = gone | {but, *row.excluded, *(peer for peer, _ in kept)}
        free = {peer: one for peer, one in servers.items() if peer not in barred}
        beside = [servers[peer][1] for peer, _ in kept if peer in servers]
        chosen = _more(wish, row.cluster, free, count - len(kept), beside)
        if isinstance(chosen, str):
            return chosen
        kept += [(peer, servers[peer][0]) for peer in chosen]
    if not row.members and kept[0][1] == 0:
        return ", peer offline"
    peers = {peer for peer, _ in kept}
    leaving = tuple(sorted({*row.leaving, *(peer for peer, _ in row.members)} - peers))
    changed = replace(row, members=tuple(kept), leaving=leaving, founders=FOUNDED if row.members else (kept[0],))
    if not row.members:
        changed = replace(changed, group=_new_group())
    if changed.peer not in peers:
        peer = kept[0][0]
        changed = replace(changed, peer=peer, server=servers[peer][1].name if peer in servers else row.server)
    return changed


def without(row: StreamRow, wish: Wish, servers: Servers, count: int, *, leader: int, but: int) -> StreamRow | str:
    """The row of a stream that so many are to keep, without `but`: where nobody can take its place fewer keep it."""
    changed = resize(row, wish, servers, count, leader=leader, but=but)
    for some in range(min(count - 1, len(row.members)), 0, -1):
        if isinstance(changed, str):
            found = resize(row, wish, servers, some, leader=leader, but=but)
            changed = changed if isinstance(found, str) else found
    return changed


def moved(row: StreamRow, wish: Wish, servers: Servers, *, but: int) -> StreamRow | str:
    """The row of a stream that one server keeps alone and another one is to keep alone: both do, until that one has all
    of it (thinned)."""
    changed = resize(row, wish, servers, 2, leader=but)
    if isinstance(changed, str):
        return changed
    (peer,) = (one for one, _ in changed.members if one != but)
    return replace(changed, peer=peer, server=servers[peer][1].name)


def relocated(row: StreamRow, wish: Wish, servers: Servers, count: int, *, leader: int) -> StreamRow | str:
    """The row of a stream that asks to be elsewhere, on so many servers: those that may keep it stay, others take the
    places of the rest. In the cluster that it asks for, or in its own one, or in another one where that is possible."""
    first, *rest = (site for _, site in servers.values())
    if isinstance(why := choose(wish, first, rest), str):
        return why
    others = sorted({site.cluster for _, site in servers.values()} - {row.cluster})
    found: list[StreamRow | str] = []
    for cluster in (wish.cluster,) if wish.cluster else (row.cluster, *others):
        found.append(_relocated(replace(row, cluster=cluster), wish, servers, count, leader))
        if not isinstance(found[-1], str):
            return found[-1]
    return found[0]


def _relocated(row: StreamRow, wish: Wish, servers: Servers, count: int, leader: int) -> StreamRow | str:
    unfit = [peer for peer in row.peers if peer not in servers or not fits(servers[peer][1], wish, row.cluster)]
    if not unfit:
        return row
    if not row.members:
        return moved(row, wish, servers, but=row.peer)
    there = replace(row, members=tuple(one for one in row.members if one[0] not in unfit))
    change = partial(resize, there, leader=leader) if there.members else partial(_elsewhere, row)
    changed = change(wish, servers, count)  # with those that are unfit: why nobody takes their place is about them, too
    if isinstance(changed, str):
        return changed
    leaving = {*row.leaving, *row.peers} - set(changed.peers)
    return replace(changed, group=row.group, founders=FOUNDED, leaving=tuple(sorted(leaving)))


def _elsewhere(row: StreamRow, wish: Wish, free: Servers, count: int) -> StreamRow | str:
    """A row whose servers all leave, for others of its cluster."""
    gone = {peer for peer, created in row.gone if created == row.created}
    chosen = _more(wish, row.cluster, {peer: one for peer, one in free.items() if peer not in gone}, count, ())
    if isinstance(chosen, str):
        return chosen
    members = tuple((peer, free[peer][0]) for peer in chosen)
    return replace(row, members=members, peer=chosen[0], server=free[chosen[0]][1].name)


def thinned(row: StreamRow, count: int) -> StreamRow:
    """The row of a stream whose group has come to more members than are to keep it, because it moves: the one that it
    moves to stays; the same, if there are not too many."""
    if not 0 < count < len(row.members) or row.leaving:
        return row
    kept = tuple(sorted(row.members, key=lambda one: one[0] != row.peer)[:count])
    leaving = tuple(sorted({peer for peer, _ in row.members} - {peer for peer, _ in kept}))
    return replace(row, members=kept, leaving=leaving, founders=FOUNDED)


def enlarge(row: StreamRow, wish: Wish, servers: Servers, count: int, *, leader: int, away: int) -> StreamRow | str:
    """The row of a stream that so many are to keep, of which some may be away: then a majority of them does."""
    changed = resize(row, wish, servers, count, leader=leader)
    for some in _fewer(count, away):
        if isinstance(changed, str) and some > len(row.members):
            found = resize(row, wish, servers, some, leader=leader)
            changed = changed if isinstance(found, str) else found
    begun = away and count // 2 < len(row.members) < count
    return row if begun and isinstance(changed, str) else changed


def _fewer(count: int, away: int) -> range:
    """How many may begin where so many are away."""
    return range(count - 1, max(count // 2, count - 1 - away), -1)


def refill(row: StreamRow, wish: Wish, servers: Servers, count: int, *, leader: int) -> StreamRow:
    """The row of a stream that fewer keep than are to keep it, with as many more as there are."""
    for some in range(count, len(row.members), -1):
        changed = resize(row, wish, servers, some, leader=leader)
        if not isinstance(changed, str):
            return changed
    return row


def alone(row: StreamRow, disk: Disk, server: str, there: Collection[Disk]) -> StreamRow | str:
    """The row of a stream that one disk keeps on without the others, which delete what they have of it when they come
    back; or why not. A server that keeps it alone may have another disk's id since. there: the disks that are there
    now."""
    if disk not in row.members and (row.peers != (disk[0],) or row.leaving):  # (what it lost, nobody else has)
        return "this server's disk is not one of those that keep it"
    count = sum(one in there for one in row.members)
    if 2 * count > len(row.members):
        return f"{count} of the {len(row.members)} disks that keep it are there, which elect a leader"
    others = tuple((peer, row.created) for peer in (*row.peers, *row.leaving) if peer != disk[0])
    changed = replace(row, group=_new_group(), members=(disk,), founders=(disk,), leaving=(), excluded=(), origin=None)
    return replace(changed, peer=disk[0], server=server, gone=(*row.gone, *others))


def dropped(row: StreamRow) -> StreamRow:
    """The row of a stream that is deleted."""
    gone = (*row.gone, *((peer, row.created) for peer in (*row.peers, *row.leaving)))
    return replace(row, config=None, gone=gone, group=0, members=(), founders=(), leaving=())


def settled(row: StreamRow, members: tuple[Disk, ...]) -> StreamRow:
    """The row of a stream whose group has come to these members; the same, if that is known, or others are wanted."""
    same = {peer for peer, _ in members} == set(row.peers)
    arrived = row.origin is not None and len(members) == replicas_in(row)
    if not same or (members == row.members and not row.leaving and not arrived):
        return row
    gone = (*row.gone, *((peer, row.created) for peer in row.leaving))
    origin = None if arrived else row.origin
    founders = row.founders or row.members
    return replace(row, members=members, founders=founders, leaving=(), gone=gone, origin=origin)


def disks_in(rows: Iterable[Iterable[int]]) -> tuple[Disk, ...]:
    """The disks in a letter: servers, each with its disk."""
    return tuple((peer, disk) for peer, disk in rows)


def replicas_in(row: StreamRow) -> int:
    """How many servers are to keep the stream, as its configuration says."""
    return max(int((row.config or {}).get("num_replicas") or 1), 1)


def begun(row: StreamRow, before: StreamRow) -> StreamRow:
    """The row of a stream that others keep than before, because somebody has asked for that: where it was is noted,
    unless it has been on its way already. Of the retentions that it has on its way the first one is noted, while it has
    another one than `limits`."""
    origin = row.origin
    if origin is None and set(row.peers) == set(before.peers):
        return row
    if origin is None:
        placement = (before.config or {}).get("placement")
        origin = Origin(before.peer, before.server, before.cluster, before.members, replicas_in(before), placement)
    then, now = _retention(before), _retention(row)
    if now != then:
        origin = replace(origin, retention="" if now == LIMITS else origin.retention or then)
    return replace(row, origin=origin)


def _retention(row: StreamRow) -> str:
    return str((row.config or {}).get("retention") or LIMITS)


def moves(row: StreamRow) -> bool:
    """Whether a change of a stream's servers is under way."""
    return bool(row.members) and (row.origin is not None or bool(row.leaving) or len(row.members) > replicas_in(row))


def timed(row: StreamRow, now_ns: int) -> StreamRow:
    """The row with when the change of its servers began."""
    if moves(row) == bool(row.since):
        return row
    return replace(row, since=now_ns if not row.since else 0)


def called_off(row: StreamRow) -> StreamRow:
    """The row of a stream that is on its way: those that kept it before keep it, and it asks for what it asked for
    then. One that has been told to delete it since is not among them, and is filled in later."""
    origin = row.origin
    assert origin is not None
    gone = {peer for peer, created in row.gone if created == row.created}
    disks = dict(row.members)
    before = origin.members or ((origin.peer, disks.get(origin.peer, 0)),)
    kept = tuple((peer, disks.get(peer, disk)) for peer, disk in before if peer not in gone)
    if not kept or not row.members:
        return row
    config = dict(row.config or {}) | {"num_replicas": origin.replicas, "placement": origin.placement}
    if origin.placement is None:
        del config["placement"]
    if origin.retention:
        config["retention"] = origin.retention
    peers = {peer for peer, _ in kept}
    leaving = tuple(sorted({*row.leaving, *row.peers} - peers))
    first = origin.peer in peers
    peer, server = (origin.peer, origin.server) if first else (kept[0][0], row.server)
    back = replace(row, members=kept, leaving=leaving, founders=row.founders or row.members, config=config, excluded=())
    return replace(back, peer=peer, server=server, cluster=origin.cluster)


def _new_group() -> int:
    return random.getrandbits(63) | 1


def _more(
    wish: Wish, cluster: str, free: Servers, count: int, beside: Collection[Site], *, all_there: bool = False
) -> list[int] | str:
    """So many of the free ones, in that cluster, beside those."""
    sites = [site for _, site in free.values()]
    chosen = choose_more(wish, Site("", cluster), sites, count + 1, beside=beside, all_there=all_there)
    if isinstance(chosen, str):
        return chosen
    return [next(peer for peer, (_, site) in free.items() if site is one) for one in chosen[1:]]
