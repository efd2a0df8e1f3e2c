"""The content of the status page at one moment: small sections, and rows of streams and consumers, as JSON for the
browser.

    facts --reports, looks--> leafd.status --> View --> whole(view) for new readers
                                                    `-> changes(before, view) for the others

Rates are the difference of two views. A view has at most ROWS_MAX rows of a kind, and says how many it leaves out. All
texts of the wire are cut; the browser shows them as text and never as markup. Not here: when a view is
made (feed.py), the last hour (history.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from leafd.copies import Copier, Copy
from leafd.group_status import Group, Shared, kept_by, part_of
from leafd.monitor import reports
from leafd.monitor.facts import Facts
from leafd.monitor.jetstream_report import configuration
from leafd.monitor.page.history import History, look, streams_of
from leafd.quoting import listed, printable
from leafd.records import dataclass
from leafd.status import Consumer, Link, Server, Status, Stream, consumers, status, streams
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.monitor.rooms import JetStreamFacts

ROWS_MAX: Final = 1000
LINKS_MAX: Final = 300
BOXES_MAX: Final = 300
WARNINGS_MAX: Final = 20
PROBLEMS_MAX: Final = 8
TEXT_MAX: Final = 300
SUBJECTS_SHOWN: Final = 3

Report = dict[str, Any]
Rows = dict[str, list[Any]]
Counts = Mapping[str, float]


@dataclass(slots=True)
class View:
    """One moment. counts: what the next view's rates are made of."""

    at_s: float
    taken: int
    """Samples of the history until then."""
    sections: dict[str, Any]
    streams: Rows
    consumers: Rows
    counts: dict[str, float] = field(default_factory=dict)


async def glance(facts: Facts) -> tuple[Report, Report, Report]:
    """varz, leafz and jsz without anything for which streams would have to be asked one by one, and with few links."""
    stats = facts.plane.stats()
    jsz = {
        "streams": stats.streams,
        "consumers": stats.consumers,
        "messages": stats.store_messages,
        "storage": stats.store_bytes,
        "memory": stats.memory_bytes,
        "config": configuration(facts),
    }
    leafz = await reports.leafz(facts, {})
    leafz["leafs"] = leafz["leafs"][:LINKS_MAX]
    return await reports.varz(facts, {}, sums=False), leafz, jsz


async def view(facts: Facts, history: History, before: View | None) -> View:
    """The view of this moment."""
    varz, leafz, report = await glance(facts)
    report["account_details"], left_out = await _details(facts)
    found = status(varz, leafz, report)
    made = View(time.monotonic(), history.taken, {}, {}, {})
    rates = _Rates(made, before)
    pause = Pause()
    for stream in streams(report):
        await pause()
        made.streams[_key(stream.account, stream.name)] = _stream(stream, rates)
    for consumer in consumers(report):
        await pause()
        made.consumers[_key(consumer.account, consumer.stream, consumer.name)] = _consumer(consumer)
    rows, boxes_left = await _boxes(facts)
    made.sections = {
        "boxes": rows,
        "server": _server(found, varz, rates),
        "memory": {
            "used": found.memory_bytes,
            "limit": found.memory_limit,
            "stored": report["memory"],
            "bound": max(report["config"].get("max_memory", 0), 0),
        },
        "disk": _disk(facts, found),
        "links": [_link(one, rates) for one in found.links],
        "group": _group(found.group),
        "problems": [_cut(one) for one in found.problems[:PROBLEMS_MAX]],
        "warnings": [[int(at_s * 1000), level, _cut(text)] for at_s, level, text in facts.warnings()][-WARNINGS_MAX:],
        "left_out": left_out
        | {
            "boxes": boxes_left,
            "links": leafz["leafnodes"] - len(leafz["leafs"]),
            "group": 0,
            "problems": max(len(found.problems) - PROBLEMS_MAX, 0),
        },
    }
    for name, rows_of, shown in _PANELS:
        ones = rows_of(found)
        made.sections[name] = [shown(one) for one in islice(ones, ROWS_MAX)]
        made.sections["left_out"][name] = max(len(ones) - ROWS_MAX, 0)
    return made


class _Rates:
    """How much a count has risen each second since the view before."""

    def __init__(self, made: View, before: View | None) -> None:
        self._made = made
        self._before = before
        self._elapsed = max(made.at_s - before.at_s, 1e-3) if before is not None else 1.0

    def of(self, name: str, count: float) -> float | None:
        """The rate of a count; None: the count was not there before."""
        self._made.counts[name] = count
        last = self._before.counts.get(name) if self._before is not None else None
        return None if last is None else round(max(count - last, 0) / self._elapsed, 1)


async def _details(facts: Facts) -> tuple[list[Report], dict[str, int]]:
    """As in jsz with streams and consumers, for so many of them and with no more of each than is shown; and how many
    are left out."""
    if facts.jetstream is None:
        return [], {"streams": 0, "consumers": 0}
    by_account: dict[str, list[dict[str, Any]]] = {}
    shown_consumers = total_consumers = shown = total = 0
    pause = Pause()
    for account, stream in streams_of(facts.jetstream):
        await pause()
        total, total_consumers = total + 1, total_consumers + len(stream.consumers)
        if total > ROWS_MAX:
            continue
        names = [one.name for one in list(stream.consumers.values()) if not one.hidden]
        total_consumers -= len(stream.consumers) - len(names)
        detail = await _detail(facts.jetstream, account.name, stream.name)
        if detail is None:
            continue
        shown += 1
        detail["consumer_detail"] = []
        for name in names[: ROWS_MAX - shown_consumers]:
            found = await look(facts.jetstream, account.name, f"CONSUMER.INFO.{stream.name}.{name}")
            if found:
                shown_consumers += 1
                detail["consumer_detail"].append(found)
        by_account.setdefault(account.name, []).append(detail)
    for name, _, _ in facts.jetstream.tight:
        by_account.setdefault(name, [])
    details = [{"name": name, "stream_detail": found} for name, found in by_account.items()]
    await _add_usage(facts.jetstream, details)
    return details, {"streams": max(total - shown, 0), "consumers": max(total_consumers - shown_consumers, 0)}


async def _add_usage(jetstream: JetStreamFacts, details: list[Report]) -> None:
    """Adds the use and the limits of the few accounts that come near their limits."""
    by_name = {detail["name"]: detail for detail in details}
    for (name, kind, tier), most in tuple(jetstream.tight.items()):
        member = "storage" if kind == "file" else kind
        if name in by_name and (usage := await look(jetstream, name, "INFO")):
            used = usage.get("tiers", {}).get(f"R{tier}", usage)
            by_name[name] |= {member: used[member], f"reserved_{member}": most}


async def _detail(jetstream: JetStreamFacts, account: str, name: str) -> dict[str, Any] | None:
    """The part of a stream's info that the page shows; None: the stream went away meanwhile."""
    info = await look(jetstream, account, f"STREAM.INFO.{name}")
    if not info:
        return None
    config = info.get("config") or {}
    detail: dict[str, Any] = {name: info[name] for name in ("state", "mirror", "sources", "leafd") if name in info}
    if "raft_group" in (cluster := info.get("cluster") or {}):
        detail["cluster"] = cluster
    shown = {"storage": config.get("storage", ""), "subjects": config.get("subjects") or ()}
    return detail | {"name": name, "config": shown}


def _key(*names: str) -> str:
    """The key by which the browser knows a row; no name has this character in it, and if one had, two rows would be
    one."""
    return "\n".join(map(_cut, names))


def _cut(text: str) -> str:
    return printable(text, TEXT_MAX)


def _other(one: Server) -> dict[str, Any]:
    return {"cluster": _cut(one.cluster), "name": _cut(one.name), "up": one.up, "connections": one.connections}


def _group(found: Group | None) -> list[dict[str, Any]] | None:
    """The members; None: there is no such group."""
    if found is None:
        return None
    return [
        {
            "cluster": _cut(one.cluster),
            "name": _cut(one.name),
            "part": part_of(one),
            "away_s": _whole(one.away_s),
            "streams": one.streams,
            "shared": one.shared,
            "lag": one.lag,
        }
        for one in found.members
    ]


def _shared(one: Shared) -> dict[str, Any]:
    away = one.led and any(keeper.away for keeper in one.keepers)
    return {
        "stream": _cut(one.name),
        "account": _cut(one.account),
        "leader": _cut(one.leader),
        "state": "bad" if not one.leader else "slow" if away else "good",
        "others": _cut(kept_by(one)),
    }


def _server(found: Status, varz: Mapping[str, Any], rates: _Rates) -> dict[str, Any]:
    return {
        "name": _cut(found.name),
        "program": found.program,
        "version": found.version,
        "domain": _cut(found.domain),
        "uptime": found.uptime,
        "cpu": found.cpu_percent,
        "clients": found.clients,
        "devices": {one.version: one.clients for one in found.devices},
        "sessions": found.sessions and {"kept": found.sessions.kept, "away": found.sessions.away},
        "streams": found.streams,
        "consumers": found.consumers,
        "messages": found.messages,
        "jetstream": bool(varz["jetstream"]),
        "now": time.time_ns() // 1_000_000,
        "rates": {
            name: rates.of(f"server {name}", varz[name]) for name in ("in_msgs", "out_msgs", "in_bytes", "out_bytes")
        },
    }


def _disk(facts: Facts, found: Status) -> dict[str, Any]:
    return {
        "stored": found.stored_bytes,
        "bound": found.stored_max,
        "files": found.disk_bytes,
        "free": found.disk_free,
        "used": facts.jetstream is not None,
    }


def _link(link: Link, rates: _Rates) -> dict[str, Any]:
    name = f"link {link.role} {link.peer} {link.account} {link.address}"
    return {
        "peer": _cut(link.peer),
        "role": link.role,
        "account": _cut(link.account),
        "address": _cut(link.address),
        "others": _cut(listed(link.others)),
        "up": link.up,
        "rtt": link.rtt,
        "rate": link.rate,
        "round_trip_s": link.round_trip_s,
        "loss": link.loss,
        "heard_s": _whole(link.heard_s),
        "waiting": link.waiting,
        "budgets": [[one.period, one.limit, one.used, one.anew] for one in link.budgets],
        "held": link.held,
        "error": _cut(link.error),
        "in": [link.messages_in, link.bytes_in, rates.of(f"{name} in", link.messages_in)],
        "out": [link.messages_out, link.bytes_out, rates.of(f"{name} out", link.messages_out)],
    }


def _copy(copy: Copy) -> dict[str, Any]:
    known = "unknown" if copy.behind is None else "behind" if copy.behind else "level"
    return {
        "stream": _cut(copy.stream),
        "account": _cut(copy.account),
        "kind": copy.kind,
        "origin": _cut(copy.origin),
        "behind": copy.behind,
        "bytes": copy.bytes_behind,
        "told": [copy.told, _whole(copy.told_s)],
        "state": "lost" if copy.lost else known,
        "error": _cut(copy.error),
        "heard_s": _whole(copy.heard_s),
        "missing_s": _whole(copy.level_s if copy.oldest_s is None else copy.oldest_s),
        "ready_s": _whole(copy.ready_s),
        "rate": round(copy.pace or 0, 1),
        "held": copy.held,
    }


def _copier(copier: Copier) -> dict[str, Any]:
    return {
        "stream": _cut(copier.stream),
        "account": _cut(copier.account),
        "kind": copier.kind,
        "copy": _cut(copier.copy),
        "behind": copier.behind,
        "bytes": copier.bytes_behind,
        "missing_s": _whole(copier.oldest_s),
        "ready_s": _whole(copier.ready_s),
        "rate": round(copier.pace or 0, 1),
        "asks": copier.asks,
        "seen_s": _whole(copier.seen_s),
        "held": copier.held,
    }


async def _boxes(facts: Facts) -> tuple[list[dict[str, Any]] | None, int]:
    """The rows of boxes, and how many were left out; None: this server enrols no boxes. When a box was last here is
    told of those that are away: of the others it would change with every view."""
    if facts.boxes is None:
        return None, 0
    from leafd.monitor.boxes import first  # here: most configurations enrol nobody

    found, left_out = await first(facts, BOXES_MAX)
    return [_box(one) for one in found], left_out


def _box(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": _cut(one["name"]),
        "linked": one["linked"],
        "at": one["since"] if one["linked"] else one["seen"],
        "behind": one["behind"],
        "version": f"leafd {one['leafd']}" if one.get("leafd") else _cut(one.get("version", "")),
        "address": _cut(one.get("address", "")),
        "rtt": one.get("rtt", ""),
        "doubled": _cut(str(one["doubled"].get("address", ""))) if "doubled" in one else "",
    }


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds)


_PANELS: Final[tuple[tuple[str, Callable[[Status], Sequence[Any]], Callable[[Any], dict[str, Any]]], ...]] = (
    ("copies", lambda found: found.copies, _copy),
    ("copiers", lambda found: found.copiers, _copier),
    ("servers", lambda found: found.servers, _other),
    ("shared", lambda found: found.shared, _shared),
)
"""The panels of rows that leafd.status has found: the name in the page, the rows, and one row as the page has it."""


def _stream(stream: Stream, rates: _Rates) -> list[Any]:
    """In the order of the table's columns in page.js."""
    more = len(stream.subjects) - SUBJECTS_SHOWN
    subjects = ", ".join(stream.subjects[:SUBJECTS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    rate = rates.of(f"stream {stream.account} {stream.name}", stream.last)
    return [
        _cut(stream.account), _cut(stream.name), _cut(subjects), stream.storage, stream.messages, stream.bytes, rate,
        stream.first, stream.last, stream.last_time, stream.consumers, stream.deleted,
    ]  # fmt: skip


def _consumer(consumer: Consumer) -> list[Any]:
    """In the order of the table's columns in page.js."""
    return [
        _cut(consumer.account), _cut(consumer.stream), _cut(consumer.name), consumer.pending, consumer.unacknowledged,
        consumer.redelivered, consumer.waiting, consumer.delivered, consumer.paused,
    ]  # fmt: skip


def whole(seen: View, history: History) -> dict[str, Any]:
    """For a reader that sees nothing yet."""
    return seen.sections | {
        "whole": True,
        "streams": seen.streams,
        "consumers": seen.consumers,
        "history": history.since(0, seen.taken),
    }


def changes(before: View, now: View, history: History) -> dict[str, Any]:
    """For a reader that has seen the view before."""
    found: dict[str, Any] = {name: part for name, part in now.sections.items() if before.sections.get(name) != part}
    gone: dict[str, list[str]] = {}
    for name, old, new in (("streams", before.streams, now.streams), ("consumers", before.consumers, now.consumers)):
        changed = dict(_changed(old, new))
        if changed:
            found[name] = changed
        if missing := [key for key in old if key not in new]:
            gone[name] = missing
    if gone:
        found["gone"] = gone
    if now.taken > before.taken:
        found["history"] = history.since(before.taken, now.taken)
    return found


def _changed(old: Rows, new: Rows) -> Iterator[tuple[str, list[Any]]]:
    for key, row in new.items():
        if old.get(key) != row:
            yield key, row
