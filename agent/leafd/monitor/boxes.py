"""boxz: the boxes that are enrolled at this server, each with its link, and how far the copies here are behind it.

What is not known is null and never 0: when a box was last here that never came, how far behind it is
while it is away. nats-server has no such report. Not here: who is enrolled (leafd/enrol), links in all
detail (reports.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from leafd.monitor.facts import Facts, round_trip, stamp
from leafd.monitor.options import Options, flag, number, text
from leafd.records import dataclass
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd import native_types as t
    from leafd.monitor.rooms import LinkFacts

BOXES_LISTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class BoxRow:
    """One box. link: that is up. doubled: of the latest machine that was refused because this one was there."""

    name: str
    nkey: str
    token: str
    enrolled_s: int
    link: LinkFacts | None
    opened_ns: int
    seen_ns: int | None
    doubled: Mapping[str, Any] | None


async def boxz(
    facts: Facts,
    options: Options,
    jsz: Mapping[str, Any] | None = None,
    connections: Sequence[t.ConnectionRow] | None = None,
) -> dict[str, Any]:
    """All boxes, or those of a pattern (boxes=); away=1: only those that have no link; disk=1: linked ones are asked
    how much they store. jsz: a report with all streams, where there is one that tells how far all are behind;
    connections: as the plane has told them, where it has."""
    assert facts.boxes is not None
    known = connections if connections is not None else await facts.plane.connections()
    rows = {row.connection: row for row in known}
    behind = await facts.boxes.behind() if jsz is None else _behind(facts, jsz)
    pattern, away = text(options, "boxes") or "*", flag(options, "away")
    offset, limit = number(options, "offset", 0), number(options, "limit", 0) or BOXES_LISTED
    found, linked, total, pause = [], 0, 0, Pause()
    for box in facts.boxes.rows(pattern):
        await pause()
        total, linked = total + 1, linked + (box.link is not None)
        if not (away and box.link is not None):
            found.append(box)
    found = found[offset : offset + limit]
    shown = list[dict[str, Any]]()
    for box in found:
        await pause()
        shown.append(_shown(box, rows, behind))
    if flag(options, "disk"):
        disks = await facts.boxes.disks(found)
        for one in shown:
            disk = disks.get(one["name"])
            one["disk"] = {"stored": disk.stored, "max": disk.most} if disk is not None else None
    return facts.head() | {"total": total, "linked": linked, "offset": offset, "limit": limit, "boxes": shown}


def _behind(facts: Facts, jsz: Mapping[str, Any]) -> dict[str, int | None]:
    """The messages that each box is behind, by the boxes' names, from the sources of the streams of their account."""
    found: dict[str, int | None] = {}
    account = facts.config.enrol.account if facts.config.enrol is not None else ""
    details = (one for one in jsz.get("account_details", ()) if one["name"] == account)
    for stream in (one for account_detail in details for one in account_detail.get("stream_detail") or ()):
        for source in stream.get("sources") or ():
            api = (source.get("external") or {}).get("api", "").split(".")
            if len(api) == 3 and (api[0], api[2]) == ("$JS", "API"):
                now, before = source["leafd"]["behind"], found.get(api[1], 0)
                found[api[1]] = now + before if now is not None and before is not None else None
    return found


async def first(facts: Facts, most: int) -> tuple[list[dict[str, Any]], int]:
    """So many boxes as boxz shows them, those first that somebody should look at: two machines with one key, then those
    that are away, the longest first; then those that are most behind. And how many are left out."""
    if facts.boxes is None:
        return [], 0
    rows = {row.connection: row for row in await facts.plane.connections()}
    behind, pause, found = await facts.boxes.behind(), Pause(), list[tuple[tuple[Any, ...], BoxRow]]()
    for box in facts.boxes.rows("*"):
        await pause()
        late = behind.get(box.name)
        rank = (box.doubled is None, box.link is not None, box.seen_ns or 0 if box.link is None else -(late or 0))
        found.append(((*rank, box.name), box))
    chosen = nsmallest(most, found, key=itemgetter(0))
    return [_shown(box, rows, behind) for _, box in chosen], len(found) - len(chosen)


def _shown(box: BoxRow, rows: Mapping[int, t.ConnectionRow], behind: Mapping[str, int | None]) -> dict[str, Any]:
    link = box.link
    one: dict[str, Any] = {
        "name": box.name,
        "nkey": box.nkey,
        "token": box.token,
        "enrolled": stamp(box.enrolled_s * 1_000_000_000),
        "linked": link is not None,
        "seen": stamp(box.seen_ns) if box.seen_ns is not None else None,
        "behind": behind.get(box.name),
    }
    if link is not None:
        row = rows.get(link.connection)
        one |= {"since": stamp(box.opened_ns), "address": link.peer, "version": link.version}
        one["leafd"] = link.program or None
        if row is not None:
            one |= {"rtt": round_trip(row.rtt_ns), "heard": row.heard_ns, "rate": row.rate or None}
            one |= {"in_bytes": row.in_bytes, "out_bytes": row.out_bytes}
            one["loss"] = round(row.resent / row.sent, 4) if row.sent else None
    if box.doubled is not None:
        one["doubled"] = dict(box.doubled)
    return one
