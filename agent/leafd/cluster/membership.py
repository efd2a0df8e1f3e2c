"""The next change of members of a stream's group, so that it comes to those that the servers' table wants.

    a disk that is not heard, of a wanted server that has another one now   --> REMOVE: it is gone
    a wanted disk that is no member                                         --> LEARN: it gets the log, or a copy first
    a learner that has nearly all                                           --> PROMOTE
    a member of a server that is not wanted                                 --> REMOVE, when all that are wanted vote

One change at a time, each of which a majority has to have before the next one. A disk that is gone goes first: until
it does, it counts among those of whom a majority is asked for. One that is heard is not gone, whatever the table says:
what this server knows of disks may be old.

Pure. Not here: who leads, and who asks for changes (daemon/replicas.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

from leafd.cluster.council import LEARN, PROMOTE, REMOVE, MemberSeen
from leafd.cluster.presence import AWAY_S


class Seen(MemberSeen, Protocol):
    """A member of the group, as its leader sees it."""

    @property
    def heard_ns(self) -> int: ...


HEARD_NS: Final = int(AWAY_S * 1_000_000_000)
"""A member that was heard so lately is there. (-1: it was not heard at all by this leader.)"""


MEMBERS_MAX: Final = 9
"""RAFT_MEMBERS_MAX of native/raft/raft.h."""


class Change(NamedTuple):
    """LEARN, PROMOTE or REMOVE, of a server's disk."""

    what: int
    peer: int
    disk: int


def next_change(members: Collection[Seen], wanted: Mapping[int, int], own: int) -> Change | None:
    """The change that the leader asks for; None: the members are those that are wanted, or only itself is too many.
    wanted: servers, with the disks that they have now; a server whose disk is not known is there with 0."""
    there = {(one.peer, one.disk): bool(one.voter) for one in members}
    heard = {(one.peer, one.disk) for one in members if 0 <= one.heard_ns < HEARD_NS}
    for peer, disk in there:
        if wanted.get(peer, 0) not in (0, disk) and peer != own and (peer, disk) not in heard:
            return Change(REMOVE, peer, disk)
    missing = [(peer, disk) for peer, disk in wanted.items() if disk != 0 and (peer, disk) not in there]
    if missing and len(there) >= MEMBERS_MAX:  # five others take the place of five
        return next((Change(REMOVE, peer, disk) for peer, disk in there if peer not in wanted and peer != own), None)
    if missing:
        return Change(LEARN, *missing[0])
    for (peer, disk), voter in there.items():
        if not voter and peer in wanted:
            return Change(PROMOTE, peer, disk)
    if all(there.get(one, False) for one in wanted.items()):
        for peer, disk in there:
            if peer not in wanted and peer != own:
                return Change(REMOVE, peer, disk)
    return None
