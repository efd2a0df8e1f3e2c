"""Tables and JSON of the commands about a configuration and a running daemon. Each says whether all is well.

Not here: words and options (app.py), what the daemon's pages mean (leafd.status), how a table is drawn
(tables.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from leafd.cli import tables
from leafd.cli.pages import WAIT_S, Monitor
from leafd.cli.tables import ago, lasting, say, show, size
from leafd.config.bind import load_file
from leafd.config.differences import changed_settings, differences, spelt
from leafd.config.schema.section import Takes
from leafd.copies import HELD, Copier, Copy, copies
from leafd.errors import LeafdError
from leafd.group_status import Group, Shared, kept_by, part_of
from leafd.quoting import listed
from leafd.records import dataclass
from leafd.status import (
    STREAMS_PAGE,
    Link,
    Sessions,
    Status,
    consumers,
    links,
    status,
    streams,
)

Row = TypeVar("Row")
_EFFECT: Final = {
    Takes.LIVE: "a reload takes it up",
    Takes.LATER: "waits for the next restart",
    Takes.RESTART: "takes a restart: a reload is refused",
}
DISK_WAIT_S: Final = 30.0
"""The hub waits ten seconds for its boxes, and once more where somebody else asks."""
ROWS_MAX: Final = 30
"""Rows of a table of the whole, and lines of what needs attention: a hub has thousands of each."""
_DONE: Final = {"nothing": "nothing to do", "replace": "remove and make anew"}


@dataclass(frozen=True, slots=True)
class Change:
    """A key that is not the same in two configurations, and when a running daemon takes it up: "live" at a reload,
    "later" at the next restart, "restart": a reload is refused for it."""

    key: str
    place: str
    takes: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Intended:
    """A step for a stream, consumer or bucket that the configuration declares. refused: why it is not."""

    action: str
    what: str
    account: str
    place: str
    changes: str
    refused: str

    @property
    def line(self) -> str:
        """For people."""
        if self.refused:
            return f"{self.place}: {self.what} of account {self.account}: refused: {self.refused}"
        details = f": {self.changes}" if self.changes else ""
        return f"{self.place}: {self.what} of account {self.account}: {_DONE.get(self.action, self.action)}{details}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration that can be used. declared: None, if it declares nothing."""

    file: str
    warnings: tuple[str, ...]
    changes: tuple[Change, ...] | None
    declared: tuple[Intended, ...] | None


def show_check(
    file: Path,
    against: Path | Monitor | None,
    warnings: Sequence[str],
    declared: Sequence[Intended],
    *,
    as_json: bool,
) -> bool:
    """Shows the warnings about a configuration, its differences from a running daemon's, and the JetStream assets that
    it declares. Not well: one of them has something that needs attention. Raises LeafdError."""
    left = any(one.refused for one in declared)
    changes = None if against is None else _changes(against, file)
    refused = any(one.takes == Takes.RESTART for one in changes or ())
    if as_json:
        tables.as_json(Checked(str(file), tuple(warnings), changes, tuple(declared) or None))
        return not warnings and not refused and not left
    for line in warnings:
        say(f"warning: {line}")
    say(f"{file}: valid" + (f", {len(warnings)} warnings" if warnings else ""))
    if changes is not None:
        _show_changes(changes, against, refused=refused)
    for one in declared:
        say(one.line)
    return not warnings and not refused and not left


def _changes(old: Path | Monitor, new: Path) -> tuple[Change, ...]:
    loaded = load_file(new)
    if isinstance(old, Monitor):
        running = old.page("/varz").get("leafd", {}).get("settings")
        if not isinstance(running, dict):
            raise LeafdError(f"{old.url}: this server does not tell what it runs with: compare files (--against OLD)")
        found = changed_settings(running, loaded.server)
    else:
        _, found = differences(load_file(old).server, loaded.server)
    return tuple(
        Change(spelt(one.path), loaded.place(*one.path), str(one.takes), one.before, one.after) for one in found
    )


def _show_changes(changes: Sequence[Change], old: Path | Monitor | None, *, refused: bool) -> None:
    against = f"the daemon at {old.url}" if isinstance(old, Monitor) else str(old)
    if isinstance(old, Monitor):
        say("(blocks that a reload takes up as a whole, as accounts and remotes, are not compared)")
    if not changes:
        say(f"nothing differs from {against}")
        return
    say("")
    show(
        f"Changed against {against}",
        ("key", "before", "now", "in effect", "where"),
        [(one.key, one.before, one.after, _EFFECT[Takes(one.takes)], one.place) for one in changes],
    )
    say("")
    say(
        "! a reload would be refused as a whole: restart leafd, or change back what takes a restart"
        if refused
        else "a reload (systemctl reload leafd, or leafd --signal reload) takes up what can be taken up at once"
    )


def show_status(monitor: Monitor, *, as_json: bool, every: bool = False) -> bool:
    """The whole at a glance. every: with all rows of each table."""
    found = status(monitor.page("/varz"), monitor.page("/leafz"), monitor.page(STREAMS_PAGE))
    if as_json:
        tables.as_json(found)
    else:
        tell_status(found, None if every else ROWS_MAX)
    return not found.problems


def _most(rows: Sequence[Row], need: Callable[[Row], Any], most: int | None) -> Sequence[Row]:
    """All rows, or as many of those that need somebody most; in their order where that is all."""
    return rows if most is None or len(rows) <= most else sorted(rows, key=need)[:most]


def _left_out(rows: Sequence[object], most: int | None, what: str) -> None:
    if most is not None and len(rows) > most:
        say(f"... and {len(rows) - most:,} more {what}: leafd status --all")


def tell_status(found: Status, most: int | None = ROWS_MAX) -> None:
    """The tables, each with at most so many rows."""
    limit = f" of {size(found.memory_limit)}" if found.memory_limit else ""
    show(
        "",
        ("", ""),
        [
            ("server", f"{found.name}, {_program(found)}, up {found.uptime}"),
            ("domain", found.domain or "-"),
            ("memory, CPU", f"{size(found.memory_bytes)}{limit}, {found.cpu_percent} %"),
            ("clients", _clients(found)),
            *([("sessions", _sessions(found.sessions))] if found.sessions is not None else []),
            ("streams", f"{found.streams:,} with {found.messages:,} messages and {found.consumers:,} consumers"),
            (
                "store",
                f"{size(found.stored_bytes)} of {size(found.stored_max)}; {size(found.disk_free)} free on its disk",
            ),
        ],
    )
    if found.links:
        _show_links(_most(found.links, lambda one: (one.up, not one.held, -(one.waiting or 0)), most))
        _left_out(found.links, most, "links")
    if found.servers:
        say("")
        show(
            "Servers of the cluster",
            ("cluster", "server", "state", ">connections"),
            [
                (one.cluster, one.name or "-", "up" if one.up else "not reached", one.connections)
                for one in found.servers
            ],
        )
    if found.group is not None:
        _show_group(found.group, found.shared)
    if found.copies:
        copied = _most(found.copies, lambda one: (not one.lost, one.behind is not None, -(one.behind or 0)), most)
        say("")
        show(
            "Mirrors and sources",
            ("stream", "kind", "of", ">behind", ">bytes", "oldest", "level in", "heard"),
            [(one.stream, one.kind, one.origin, *_how_far(one), ago(one.heard_s)) for one in copied],
        )
        _left_out(found.copies, most, "mirrors and sources")
    if found.copiers:
        copiers = _most(found.copiers, lambda one: (one.behind is not None, -(one.behind or 0)), most)
        say("")
        show(
            "Copied elsewhere",
            ("stream", "kind", "in", ">unconfirmed", ">bytes", "oldest", "level in", "asked"),
            [(one.stream, one.kind, one.copy or "-", *_not_stored(one)) for one in copiers],
        )
        _left_out(found.copiers, most, "mirrors and sources elsewhere")
    say("")
    for line in found.problems[:most]:
        say(f"! {line}")
    _left_out(found.problems, most, "things that need attention")
    if not found.problems:
        say("nothing needs attention")


def _show_group(group: Group, shared: Sequence[Shared]) -> None:
    if group.members:
        say("")
        show(
            f"The group of all servers: it goes on with {group.needed} of these",
            ("cluster", "server", "part", "state", ">streams", ">with others", ">behind"),
            [
                (one.cluster or "-", one.name, part_of(one), _there(one.away_s), one.streams, one.shared, _lag(one.lag))
                for one in group.members
            ],
        )
    if shared:
        say("")
        show(
            "Streams of several servers",
            ("stream", "account", "leader", "others"),
            [(one.name, one.account, one.leader or "-", kept_by(one)) for one in shared],
        )


def _there(away_s: float | None) -> str:
    return "up" if away_s is None else f"away for {lasting(away_s)}"


def _lag(lag: int | None) -> str:
    return "" if lag is None else f"{lag:,}"


def _clients(found: Status) -> str:
    speak = ", ".join(f"{one.clients} MQTT {one.version}" for one in found.devices)
    refused = f", {found.devices_refused} logins refused" if found.devices_refused else ""
    return f"{found.clients} ({speak}{refused})" if speak else f"{found.clients}"


def _sessions(found: Sessions) -> str:
    away = f", {found.away:,} of them away" if found.away else ""
    oldest = "" if found.oldest_s is None else f", the oldest {ago(found.oldest_s)}"
    waiting = f"; {found.waiting:,} messages wait ({size(found.waiting_bytes)}{oldest})" if found.waiting else ""
    refused = f"; {found.refused:,} were refused" if found.refused else ""
    lost = f"; {found.not_stored:,} messages were not stored" if found.not_stored else ""
    return f"{found.kept:,}{away}{waiting}{refused}{lost}; {found.retained:,} retained messages"


def _program(found: Status) -> str:
    """Versions: leafd tells the clients that of the nats-server that it behaves like."""
    theirs = f"nats-server {found.version}"
    return f"leafd {found.program} (speaks as {theirs})" if found.program else theirs


def _how_far(copy: Copy) -> tuple[object, str, str, str]:
    """Messages, bytes, age of the oldest, and when it is level; what is not known is no number."""
    if copy.behind is None:
        told = "" if copy.told_s is None else f", {copy.told:,} {ago(copy.told_s)} ago".replace("now ago", "just now")
        return f"not known{told}", "", "" if copy.level_s is None else f"at most {lasting(copy.level_s)}", ""
    if not copy.behind:
        return 0, "", "", ""
    oldest = "" if copy.oldest_s is None else f"at most {lasting(copy.oldest_s)}"
    ready = copy.held or ("not known" if copy.ready_s is None else f"about {lasting(copy.ready_s)}")
    return copy.behind, _about(copy.bytes_behind), oldest, ready


def _not_stored(copier: Copier) -> tuple[object, str, str, str, str]:
    """Messages, bytes, age of the oldest, when it is level, and when it asked; what is not known is no number."""
    asked = "now" if copier.asks else f"{lasting(copier.seen_s)} ago"
    if not copier.behind:
        return "not known" if copier.behind is None else 0, "", "", "", asked
    oldest = "" if copier.oldest_s is None else lasting(copier.oldest_s)
    ready = copier.held or ("not known" if copier.ready_s is None else f"about {lasting(copier.ready_s)}")
    return copier.behind, _about(copier.bytes_behind), oldest, ready, asked


def _about(count: int | None) -> str:
    return f"about {size(count)}" if count else ""


def show_links(monitor: Monitor, *, as_json: bool) -> bool:
    """Leaf links, and hubs that do not answer. Not well: there is one of these."""
    found = tuple(links(monitor.page("/varz"), monitor.page("/leafz")))
    if as_json:
        tables.as_json(found)
    else:
        _show_links(found)
    return all(one.up for one in found)


def _show_links(found: Sequence[Link]) -> None:
    say("")
    show(
        "Links",
        ("to", "", "account", "address", "state", "rtt", ">in", ">out"),
        [
            (
                one.peer or "-",
                one.role,
                one.account,
                f"{one.address} (or {listed(one.others)})" if one.others else one.address,
                "up" if one.up else f"down: {one.error}",
                one.rtt,
                size(one.bytes_in),
                size(one.bytes_out),
            )
            for one in found
        ],
    )
    measured = [one for one in found if one.heard_s is not None]
    if measured:
        say("")
        show(
            "As measured",
            ("to", "account", ">carries", ">round trip", ">sent again", ">under way", "heard"),
            [(one.peer or one.address, one.account, *_line(one)) for one in measured],
        )
    limited = [one for one in found if one.budgets or one.held]
    if limited:
        say("")
        show(
            "What they may carry",
            ("to", "account", "in a", ">may", ">used", ">left", "begins anew", "waits for it"),
            [row for one in limited for row in _spent(one)],
        )


def _spent(link: Link) -> Iterator[tuple[str, ...]]:
    """A row for each budget of a link; one that only waits for the time of the day has one, too."""
    waits = HELD.get(link.goes, "nothing")
    waits += f", {size(link.budgeted)} here" if link.budgeted else ""
    name = link.peer or link.address
    for one in link.budgets:
        yield name, link.account, one.period, size(one.limit), size(one.used), size(one.left), one.anew, waits
    if not link.budgets:
        yield name, link.account, "", "", "", "", "", waits


def _line(link: Link) -> tuple[str, str, str, str, str]:
    """The measurements of a link as a row: the rate it carried, round trip, loss, bytes under way, and when anything
    last came."""
    heard_s = link.heard_s or 0.0
    return (
        "not known" if link.rate is None else f"{size(link.rate)}/s",
        "" if link.round_trip_s is None else f"{link.round_trip_s * 1e3:,.0f} ms",
        "" if link.loss is None else f"{100 * link.loss:.1f} %",
        "" if link.waiting is None else size(link.waiting),
        ago(heard_s) if heard_s < 1 else f"{ago(heard_s)} ago",
    )


def show_boxes(monitor: Monitor, pattern: str, *, away: bool, disk: bool, as_json: bool) -> bool:
    """Boxes that are enrolled. Not well: one has no link, or another machine has its key."""
    page = monitor.page(
        f"/boxz?boxes={quote(pattern, safe='')}" + "&away=1" * away + "&disk=1" * disk, DISK_WAIT_S if disk else WAIT_S
    )
    found = page["boxes"]
    if as_json:
        tables.as_json(found)
    else:
        say(f"{page['linked']:,} of {page['total']:,} boxes are linked")
        show(
            "",
            ("box", "link", "since", ">behind", *((">disk",) if disk else ()), "version", "rtt", "address"),
            [_box(one, disk=disk) for one in found],
        )
        for one in found:
            if other := one.get("doubled"):
                say(
                    f"! {one['name']}: another machine has its key, at {other['address']}: refused {other['count']} "
                    f"times, the last time {_short(other['last'])}"
                )
    return page["linked"] == page["total"] and not any("doubled" in one for one in found)


def _box(one: dict[str, Any], *, disk: bool) -> tuple[object, ...]:
    behind = "not known" if one["behind"] is None else one["behind"]
    if not one["linked"]:
        since = "not known" if one["seen"] is None else _short(one["seen"])
        return one["name"], "away", since, behind, *(("",) if disk else ()), "", "", ""
    stored = (_disk(one["disk"]),) if disk else ()
    # A hub of an older version does not tell which leafd a box runs.
    version = f"leafd {one['leafd']}" if one.get("leafd") else one["version"]
    return one["name"], "up", _short(one["since"]), behind, *stored, version, one.get("rtt", ""), one["address"]


def _disk(told: dict[str, Any] | None) -> str:
    if told is None:
        return "not known"
    return size(told["stored"]) + (f" of {size(told['max'])}" if told["max"] else "")


def _short(stamp: str) -> str:
    return stamp[5:16].replace("T", " ")


def _streams_page(monitor: Monitor, account: str | None) -> dict[str, Any]:
    return monitor.page(STREAMS_PAGE + (f"&acc={quote(account, safe='')}" if account else ""))


def show_streams(monitor: Monitor, account: str | None, *, as_json: bool) -> None:
    """Streams and what they hold."""
    page = _streams_page(monitor, account)
    found, behind = tuple(streams(page)), _behind_by_stream(copies(page))
    if as_json:
        tables.as_json(found)
        return
    show(
        "",
        ("stream", "account", "storage", ">messages", ">size", ">first", ">last", "newest", ">consumers", ">behind"),
        [
            (
                *(one.name, one.account, one.storage, one.messages, size(one.bytes), one.first, one.last),
                *(one.last_time[:19].replace("T", " "), one.consumers, behind.get((one.account, one.name), "")),
            )
            for one in found
        ],
    )


def _behind_by_stream(found: Iterable[Copy]) -> dict[tuple[str, str], int | str]:
    """The messages that a stream's sources are behind, all sources of a stream together."""
    sums: dict[tuple[str, str], int | str] = {}
    for one in found:
        key, before = (one.account, one.stream), sums.get((one.account, one.stream), 0)
        sums[key] = "not known" if one.behind is None or isinstance(before, str) else before + one.behind
    return sums


def show_consumers(monitor: Monitor, account: str | None, stream: str | None, *, as_json: bool) -> None:
    """Consumers, of one stream or all."""
    found = tuple(consumers(_streams_page(monitor, account)))
    if stream is not None:
        found = tuple(one for one in found if one.stream == stream)
    if as_json:
        tables.as_json(found)
        return
    show(
        "",
        ("consumer", "stream", "account", ">pending", ">unacknowledged", ">redelivered", ">pulls waiting", ""),
        [
            (
                *(one.name, one.stream, one.account, one.pending, one.unacknowledged, one.redelivered, one.waiting),
                "paused" if one.paused else "",
            )
            for one in found
        ],
    )
