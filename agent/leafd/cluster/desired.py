"""The change of a stream's servers that is under way, as it is told: the servers that are to keep it, what it can be
taken back to, and what its leader waits for, in nats-server's members and words.

    origin     of a change of its configuration, which can be called off; an evacuation has none
    status     what the leader does next, or waits for

Pure. Not here: which servers (sharing.py), the next change of members (membership.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from leafd.cluster.membership import HEARD_NS, Seen
from leafd.cluster.sharing import moves, replicas_in
from leafd.cluster.table import Origin, StreamRow


class Looked(Seen, Protocol):
    """A member of the group, as its leader sees it."""

    @property
    def lag(self) -> int: ...


def desired(
    row: StreamRow,
    members: Collection[Looked] | None,
    shown: Callable[[int], Mapping[str, Any]],
    time: Callable[[int], str],
    own: int,
) -> dict[str, Any] | None:
    """A change as a stream's info has it; None: none is under way. members: of the stream's group, None: another server
    leads it than this one (own), so what it waits for is not known. shown: a server's name, number, and whether it is
    away. time: a moment as text."""
    if not moves(row):
        return None
    peers = (row.peer,) if replicas_in(row) == 1 and len(row.members) > 1 else row.peers
    found: dict[str, Any] = {"created": time(row.since), "name": row.cluster}
    found["replicas"] = [dict(shown(peer)) for peer in peers]
    if row.origin is not None:
        found["origin"] = _origin(row.origin)
    if members is None:
        return found
    kind, words = _status(members, peers, shown, own)
    return found | {"status": {"description": words, "type": kind}}


def _origin(origin: Origin) -> dict[str, Any]:
    found: dict[str, Any] = {"replicas": origin.replicas}
    if origin.placement:
        found["placement"] = origin.placement
    return found | ({"retention": origin.retention} if origin.retention else {})


def _status(
    members: Collection[Looked], peers: Collection[int], shown: Callable[[int], Mapping[str, Any]], own: int
) -> tuple[str, str]:
    there = {one.peer: one for one in members}
    if missing := [peer for peer in peers if peer not in there]:
        return "membership", f"adding peer {shown(missing[0])['name']}"
    if any(peer != own and not _is_level(there[peer]) for peer in peers):
        return "catchup", "waiting for desired peers to catch up"
    if leaving := [peer for peer in there if peer not in peers]:
        if leaving == [own]:
            return "membership", "stepping down before removing ourselves"
        return "membership", f"removing peer {shown(next(one for one in leaving if one != own))['name']}"
    return "meta", "reporting membership to meta leader"


def _is_level(member: Looked) -> bool:
    return bool(member.voter) and member.lag == 0 and 0 <= member.heard_ns < HEARD_NS
