"""The block about the group of all servers of /varz: who is a member, who leads, who is away and for how long, and how
many streams each of them has.

    part        what this server's disk is: member; stranger (the group has not let it in); founding; none (it takes no
                part, the log says why)
    idle        servers that are there and have no JetStream, while others are missing to found the group
    needed      so many members have to be there for a leader
    away        seconds that this server has missed a member, since its own start at most; null: it is there
    streams     that the server has alone; shared: with others

Imported only where there is such a group. Not here: nats-server's reports on it (raft_report.py, jsz's meta_cluster).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leafd.monitor.raft_report import WAITS
from leafd.native_meta import LEADER, MetaLook, MetaMember

if TYPE_CHECKING:
    from leafd.monitor.rooms import MetaFacts, PlacedFacts


def group_block(meta: MetaFacts, placed: PlacedFacts | None) -> dict[str, Any]:
    """The block."""
    seen = meta.seen
    found: dict[str, Any] = {"part": meta.part, "expected": meta.expected, "unread": meta.unread}
    if seen is None:
        found |= {"missing": meta.missing, "idle": list(meta.idle)}
        return found | {"leader": "", "needed": meta.expected // 2 + 1, "servers": []}
    look, members = seen
    rows = [_row(one, look, meta, placed) for one in members]
    return found | {
        "missing": 0,
        "leader": meta.named(look.leader) if look.leader else "",
        "needed": sum(bool(one.voter) for one in members) // 2 + 1,
        "waits": WAITS[look.state],
        "servers": sorted(rows, key=lambda row: str(row["name"])),
    }


def _row(member: MetaMember, look: MetaLook, meta: MetaFacts, placed: PlacedFacts | None) -> dict[str, Any]:
    own = member.peer == meta.peer
    kept = placed.kept(member.peer) if placed is not None else None
    row: dict[str, Any] = {
        "name": meta.named(member.peer),
        "cluster": placed.cluster_at(member.peer) if placed is not None else "",
        "voter": bool(member.voter),
        "away": placed.missed_s(member.peer) if placed is not None and not own else None,
        "streams": kept.alone if kept is not None else 0,
        "shared": kept.shared if kept is not None else 0,
    }
    if look.role == LEADER and not own:
        row["lag"] = member.lag
    return row
