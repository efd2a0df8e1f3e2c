"""/metrics: the reports as OpenMetrics text, or as that of Prometheus for a client that does not ask for the former.

    # TYPE jetstream_stream_total_messages gauge
    # HELP jetstream_stream_total_messages Messages of the stream
    jetstream_stream_total_messages{server_id="N...",account="$G",stream_name="TELEMETRY",...} 12

What prometheus-nats-exporter makes of nats-server's reports has the exporter's names, labels and types (all gauges), so
that its dashboards work; labels that tell servers of a cluster apart are left out. What nats-server has nothing like is
named leafd_*. Pure functions of the reports. Not here: the reports (reports.py, jetstream_report.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.config.schema.base import SECOND
from leafd.gotime import parse_time
from leafd.monitor.consumer_rows import Consumed, ConsumerLines
from leafd.monitor.encoding import in_label
from leafd.monitor.plain_rows import Counted, MetricLines
from leafd.monitor.sample_lines import SampleLines
from leafd.native_rows import RowKind
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.monitor.reports import Linked

OPENMETRICS: Final = "application/openmetrics-text"
OPENMETRICS_TYPE: Final = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
PROMETHEUS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Report = Mapping[str, Any]
Labels = Mapping[str, object]
_Values = Sequence[int | None]

_VARZ: Final = {
    "connections": "Clients that are connected",
    "total_connections": "Connections since the start",
    "max_connections": "Clients that may be connected",
    "leafnodes": "Leaf links that are up",
    "subscriptions": "Subscriptions",
    "in_msgs": "Messages that came in",
    "out_msgs": "Messages that went out",
    "in_bytes": "Bytes of messages that came in",
    "out_bytes": "Bytes of messages that went out",
    "slow_consumers": "Connections that were closed because they did not read",
    "stale_connections": "Connections that were closed because they did not answer",
    "cores": "Processors of the machine",
    "mem": "Resident memory in bytes",
    "cpu": "Processor time in percent of one processor",
    "max_payload": "Largest message in bytes",
    "max_pending": "Bytes that may wait for one connection",
}
_ACCOUNT: Final = {
    "current_connections": ("conns", "Clients of the account"),
    "leaf_nodes": ("leafnodes", "Leaf links of the account"),
    "subscriptions": ("num_subscriptions", "Subscriptions of the account"),
    "slow_consumers": ("slow_consumers", "Connections of the account that were closed because they did not read"),
}
_STREAM: Final = {
    "total_messages": ("messages", "Messages of the stream"),
    "total_bytes": ("bytes", "Bytes of the stream"),
    "first_seq": ("first_seq", "First sequence of the stream"),
    "last_seq": ("last_seq", "Last sequence of the stream"),
    "consumer_count": ("consumer_count", "Consumers of the stream"),
    "subject_count": ("num_subjects", "Subjects of the stream"),
}
_LIMITS: Final = {"limit_messages": "max_msgs", "limit_bytes": "max_bytes"}
_LIMIT: Final = "{} of the stream, -1: none"
_CONSUMER: Final = {
    "num_pending": "Messages that the consumer has still to get",
    "num_ack_pending": "Messages that were delivered and are not acknowledged",
    "num_redelivered": "Messages that were delivered again and are not acknowledged",
    "num_waiting": "Pull requests that wait",
    "delivered_consumer_seq": "consumer_seq of the consumer's delivered",
    "delivered_stream_seq": "stream_seq of the consumer's delivered",
    "ack_floor_consumer_seq": "consumer_seq of the consumer's ack_floor",
    "ack_floor_stream_seq": "stream_seq of the consumer's ack_floor",
    "last_delivery_seconds": "Seconds since the last delivery",
    "last_ack_seconds": "Seconds since the last acknowledgement",
}
_DISK: Final = {
    "sync": "How long syncs of the journal took: an acknowledgement waits for one",
    "commit": "How long checkpoints of the store took: commits of LMDB",
}
_PLANE: Final = {
    "times_held_back": "Times that a connection was not read for a moment, since control had enough of its requests",
    "unexpected_errors": "Errors that nobody foresaw",
}
_TURNS: Final = {
    "longest_turn": "Longest turn of the control thread since the start",
    "longest_turn_minute": "Longest turn of the control thread in the last minute or two",
    "longest_tick": "Longest turn of the plane since the start",
    "longest_tick_minute": "Longest turn of the plane in the last minute or two",
}
_MQTT: Final = {
    "sessions": "MQTT sessions that outlive their connection",
    "sessions_away": "MQTT sessions whose client is not here",
}
_MQTT_COUNTS: Final = {
    "refused_logins": "Logins of MQTT clients that were refused, or did not come in time",
    "refused_sessions": "MQTT clients that were told that there are too many sessions",
    "refused_messages": "MQTT messages of QoS 1 or 2 that were not stored, for lack of room or since a stream refused",
    "dropped_messages": "Messages that MQTT clients do not get: beyond their bounds, or QoS 0 while they do not read",
    "expired_sessions": "MQTT sessions that ended since their client did not come back in time",
}
_MQTT_HELD: Final = {
    "waiting": "{} that MQTT sessions have still to acknowledge",
    "retained": "{} of retained MQTT messages",
}
_STORE: Final = {
    "journal_batches": "Batches that were appended to the journal",
    "journal_bytes": "Bytes that were appended to the journal",
    "journal_syncs": "Syncs of the journal to the disk",
    "checkpoints": "Checkpoints: commits of LMDB",
    "corrupt_records": "Records that were damaged and set aside",
    "replayed_batches": "Batches of the journal that the start replayed",
}


@dataclass(slots=True)
class Family:
    """One metric: its name, "gauge", "counter" or "histogram", and its samples: what follows the name, and the rest."""

    name: str
    kind: str
    help: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)
    plain: list[Callable[[], Iterator[str]]] = field(default_factory=list)
    """Makes the lines of further samples, some hundred at a time."""


class _Families:
    """The families in the order of their first sample: OpenMetrics wants the samples of each together."""

    def __init__(self) -> None:
        self.by_name: dict[str, Family] = {}

    def gauge(self, name: str, text: str, labels: Labels, value: float) -> None:
        self._family("gauge", name, text).samples.append(("", labels, value))

    def counter(self, name: str, text: str, labels: Labels, value: float) -> None:
        self._family("counter", name, text).samples.append(("_total", labels, value))

    def histogram(self, name: str, text: str, found: t.Histogram) -> None:
        samples, count = self._family("histogram", name, text).samples, 0
        for bound, often in found.spans:
            count += often
            samples.append(("_bucket", {"le": "+Inf" if math.isinf(bound) else bound}, count))
        samples += [("_count", {}, count), ("_sum", {}, found.seconds)]

    def gauges(self, name: str, text: str, lines: Callable[[str], Iterator[str]]) -> None:
        self._family("gauge", name, text).plain.append(partial(lines, name))

    def each(self, name: str, text: str, lines: SampleLines, values: _Values, kind: RowKind = RowKind.NUMBER) -> None:
        """A gauge of each of many things, as far as it has a value."""
        if any(value is not None for value in values):
            self._family("gauge", name, text).plain.append(partial(lines.of, values, kind, name))

    def count_each(self, name: str, text: str, lines: SampleLines, values: _Values) -> None:
        """The same as a counter."""
        if any(value is not None for value in values):
            total = partial(lines.of, values, RowKind.NUMBER, f"{name}_total")
            self._family("counter", name, text).plain.append(total)

    def _family(self, kind: str, name: str, text: str) -> Family:
        family = self.by_name.get(name)
        if family is None:
            family = self.by_name[name] = Family(name, kind, text)
        return family


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports that the metrics are made of; jsz with accounts, streams and their configurations."""

    varz: Report
    links: Sequence[Linked]
    accstatz: Report
    jsz: Report
    disk: Mapping[str, t.Histogram]
    """How long it took."""
    boxz: Report | None = None
    """The report of boxes, where boxes are enrolled."""
    plain: Mapping[str, Sequence[Counted]] = field(default_factory=dict)
    """By account: streams that jsz leaves out, since there is nothing to tell of them but their counters."""
    consumers: Mapping[str, Consumed] = field(default_factory=dict)
    """By account: those of all streams."""


def families(reports: Reports) -> Iterable[Family]:
    """All metrics."""
    varz = reports.varz
    # The name stays when the server is started again, and with it each series; its id does not.
    found, server = _Families(), {"server_id": varz["server_name"]}
    for name, text in _VARZ.items():
        found.gauge(f"gnatsd_varz_{name}", text, server, varz[name])
    found.gauge("gnatsd_varz_version", "Version", {**server, "value": varz["version"]}, 1)
    started_ns = parse_time(varz["start"])
    found.gauge("gnatsd_varz_start", "Start, as milliseconds since 1970", server, started_ns // 10**6)
    found.gauge("process_start_time_seconds", "Start, as seconds since 1970", {}, started_ns / SECOND)
    _accounts(found, server, reports.accstatz)
    _links(found, server, varz, reports.links)
    _jetstream(found, {**server, "server_name": varz["server_name"], "domain": _domain(varz)}, reports)
    _store(found, varz, reports.disk)
    _own(found, varz)
    if reports.boxz is not None:
        _boxes(found, reports.boxz)
    return found.by_name.values()


def _domain(varz: Report) -> str:
    return str(varz["jetstream"].get("config", {}).get("domain", ""))


def _accounts(found: _Families, server: Labels, accstatz: Report) -> None:
    for one in accstatz["account_statz"]:
        labels = {**server, "account": one["acc"], "account_name": one["name"], "account_id": one["acc"]}
        for name, (member, text) in _ACCOUNT.items():
            found.gauge(f"gnatsd_accstatz_{name}", text, labels, one[member])
        for way in ("sent", "received"):
            for name, member in (("messages", "msgs"), ("bytes", "bytes")):
                found.gauge(f"gnatsd_accstatz_{way}_{name}", f"{name} of the account", labels, one[way][member])


def _links(found: _Families, server: Labels, varz: Report, links: Sequence[Linked]) -> None:
    found.gauge("gnatsd_leafz_conn_nodes_total", "Leaf links that are up", server, len(links))
    _each_link(found, server, links)
    for one in varz["leafd"]["remotes"]:
        labels = {"account": one["account"], "url": ", ".join(one["urls"])}
        found.gauge("leafd_remote_up", "Whether the link to the hub is up", labels, int(one["connected"]))
        _budget(found, "leafd_remote", labels, one.get("budget") or {})
    _servers(found, varz["leafd"].get("servers", ()))
    if "group" in varz["leafd"]:
        _group(found, varz["leafd"]["group"])


def _each_link(found: _Families, server: Labels, links: Sequence[Linked]) -> None:
    """The samples of the links; what is not known of one is left out."""
    accounts = {
        one.link.account: {**server, "account": one.link.account, "account_id": one.link.account} for one in links
    }
    heads = {name: _inner(labels) for name, labels in accounts.items()}
    places = [one.address() for one in links]
    lines = SampleLines(
        [
            f'{heads[one.link.account]},ip="{in_label(ip)}",port="{port}",name="{in_label(one.link.name)}"'
            for one, (ip, port) in zip(links, places, strict=True)
        ]
    )
    rows = [one.row for one in links]
    trips = [row.rtt_ns if row is not None and row.rtt_ns > 0 else None for row in rows]
    found.each("gnatsd_leafz_conn_rtt", "Round-trip time in seconds", lines, trips, RowKind.SECONDS)
    for name in ("in_msgs", "out_msgs", "in_bytes", "out_bytes"):
        values = [getattr(row, name, 0) for row in rows]
        found.each(f"gnatsd_leafz_conn_{name}", f"{name} of the link", lines, values)
    subscriptions = [getattr(row, "subscriptions", 0) for row in rows]
    found.each("gnatsd_leafz_conn_subscriptions_total", "Subscriptions of the link", lines, subscriptions)
    for one, (ip, port) in zip(links, places, strict=True):
        if one.budget:
            labels = accounts[one.link.account] | {"ip": ip, "port": port, "name": one.link.name}
            _budget(found, "leafd_link", labels, one.budget)
            text = "Bytes of messages that wait for the budget"
            found.gauge("leafd_link_budget_waiting_bytes", text, labels, one.budget["waiting"])
    for member, (name, text, unit) in _LINE.items():
        kind = RowKind.SECONDS if unit == SECOND else RowKind.NUMBER
        found.each(f"leafd_link_{name}", text, lines, [_known(row, member) for row in rows], kind)
    for member, (name, text) in _LINE_COUNTS.items():
        # Where the kernel has counted nothing as sent it does not count.
        values = [getattr(row, member) if row is not None and row.sent > 0 else None for row in rows]
        found.count_each(f"leafd_link_{name}", text, lines, values)


def _known(row: t.ConnectionRow | None, member: str) -> int | None:
    """A measurement; None where the kernel has none: 0 of those in _MEASURED."""
    value: int | None = getattr(row, member) if row is not None else None
    return None if value == 0 and member in _MEASURED else value


def _members(
    found: _Families,
    name: str,
    lines: SampleLines,
    members: Mapping[str, tuple[str, str, int]],
    rows: Sequence[Report],
) -> None:
    """A gauge for each of these members of the rows: times are ns, and seconds in metrics."""
    for member, (ending, text, unit) in members.items():
        kind = RowKind.SECONDS if unit == SECOND else RowKind.NUMBER
        found.each(f"{name}_{ending}", text, lines, [one.get(member) for one in rows], kind)


def _servers(found: _Families, servers: Iterable[Report]) -> None:
    """Adds the samples of the cluster's servers by their names, and of other clusters by theirs."""
    for one in servers:
        labels = {"cluster": one["cluster"], "server": one["name"]}
        found.gauge(
            "leafd_server_up", "Whether messages can go to the server, or the other cluster", labels, int(one["up"])
        )
        text = "Connections with the server, or the other cluster, in both directions"
        found.gauge("leafd_server_connections", text, labels, one["connections"])


def _group(found: _Families, group: Report) -> None:
    """Adds the samples of the group of all servers."""
    found.gauge("leafd_group_led", "Whether the group of all servers has a leader", {}, int(bool(group["leader"])))
    text = "Rows of the servers' table that this version cannot read: streams that are offline"
    found.gauge("leafd_group_unread_streams", text, {}, group["unread"])
    for one in group["servers"]:
        labels = {"server": one["name"]}
        text = "How long this server has missed a member of the group of all servers, 0: it is there"
        found.gauge("leafd_group_server_away_seconds", text, labels, one["away"] or 0)
        text = "Streams that a server of the group keeps"
        for kept, member in (("alone", "streams"), ("shared", "shared")):
            found.gauge("leafd_group_server_streams", text, labels | {"kept": kept}, one[member])


def _boxes(found: _Families, boxz: Report) -> None:
    """A series a box for what is asked of each of a thousand: is it here, how far is it behind, is there another."""
    found.gauge("leafd_boxes_enrolled", "Boxes that are enrolled", {}, boxz["total"])
    found.gauge("leafd_boxes_linked", "Boxes whose link is up", {}, boxz["linked"])
    boxes = boxz["boxes"]
    lines = SampleLines([f'box="{in_label(one["name"])}"' for one in boxes])
    found.each("leafd_box_up", "Whether the box's link is up", lines, [int(one["linked"]) for one in boxes])
    text = "Messages of the box that streams here have not taken yet"
    found.each("leafd_box_behind_messages", text, lines, [one["behind"] for one in boxes])
    for one in boxes:
        if "doubled" in one:
            text = "Logins refused of another machine that has the box's key, since the start"
            hosts = {"linked": one.get("address", "").rpartition(":")[0], "refused": one["doubled"]["address"]}
            found.gauge("leafd_box_doubled_logins", text, {"box": one["name"]} | hosts, one["doubled"]["count"])


def _jetstream(found: _Families, server: Labels, reports: Reports) -> None:
    jsz = reports.jsz
    found.gauge("jetstream_server_jetstream_disabled", "JetStream is off", server, int(jsz.get("disabled", False)))
    for name, member in (("streams", "streams"), ("consumers", "consumers"), ("messages", "messages")):
        found.gauge(f"jetstream_server_total_{name}", f"{name} of all accounts", server, jsz[member])
    found.gauge("jetstream_server_total_message_bytes", "Bytes of all streams", server, jsz["bytes"])
    for name in ("max_memory", "max_storage"):
        found.gauge(f"jetstream_server_{name}", f"{name} in bytes", server, jsz["config"].get(name, 0))
    for account in jsz.get("account_details", ()):
        name = account["name"]
        labels = {**server, "account": name, "account_name": name, "account_id": name}
        found.gauge("jetstream_account_storage_used", "Bytes of file streams", labels, account["storage"])
        found.gauge("jetstream_account_memory_used", "Bytes of memory streams", labels, account["memory"])
        tiers = account.get("leafd", {}).get("tiers", {})
        for name in ("storage", "memory"):
            if tiers:
                _tiers(found, labels, name, tiers)
                continue  # there the reference reports a limit of 0, which is none
            text = f"{name} that the account may take, 2^64 - 1: no bound"
            found.gauge(f"jetstream_account_max_{name}", text, labels, account[f"reserved_{name}"])
        for stream in account.get("stream_detail", ()):
            leads = stream["cluster"].get("leader") == server["server_name"]
            _stream(found, {**labels, "stream_name": stream["name"], "is_stream_leader": str(leads).lower()}, stream)
        if plain := reports.plain.get(account["id"]):
            _plain_streams(found, labels, plain)
        if consumers := reports.consumers.get(account["id"]):
            _consumers(found, labels, consumers)


def _around(account: Labels) -> tuple[str, str]:
    """The text before the name of an account's stream among its labels, and that behind it."""
    return _inner(account) + ',stream_name="', '",is_stream_leader="true"'


def _consumers(found: _Families, account: Labels, consumers: Consumed) -> None:
    """The samples of consumers."""
    before, after = _around(account)
    lines = ConsumerLines(consumers, before, f'{after},consumer_name="', '",is_consumer_leader="true"')
    for name, text in _CONSUMER.items():
        if lines.has(name):
            found.gauges(f"jetstream_consumer_{name}", text, partial(lines.of, name))


def _plain_streams(found: _Families, account: Labels, runs: Sequence[Counted]) -> None:
    """The same samples as _stream() makes of a stream without copies, without an object for each: with thousands of
    streams these are all there is."""
    lines = MetricLines(runs, *_around(account))
    for name, (member, text) in _STREAM.items():
        found.gauges(f"jetstream_stream_{name}", text, partial(lines.of, member))
    for name, member in _LIMITS.items():
        found.gauges(f"jetstream_stream_{name}", _LIMIT.format(member), partial(lines.of, member))


def _tiers(found: _Families, labels: Labels, name: str, tiers: Mapping[str, Report]) -> None:
    for tier, one in tiers.items():
        own = {**labels, "tier": tier}
        found.gauge(f"leafd_account_tier_{name}_used", f"{name} that the account has taken by replicas", own, one[name])
        text = f"{name} that the account may take by replicas, 2^64 - 1: no bound"
        found.gauge(f"leafd_account_tier_max_{name}", text, own, one["limits"][f"max_{name}"] % (1 << 64))


def _stream(found: _Families, labels: Labels, stream: Report) -> None:
    state, config = stream.get("state") or {}, stream.get("config") or {}
    for name, (member, text) in _STREAM.items():
        found.gauge(f"jetstream_stream_{name}", text, labels, state.get(member, 0))
    for name, member in _LIMITS.items():
        found.gauge(f"jetstream_stream_{name}", _LIMIT.format(member), labels, config.get(member, -1))
    if stream.get("mirror"):
        _copies(found, labels, "mirror", [stream["mirror"]])
    if stream.get("sources"):
        _copies(found, labels, "source", stream["sources"])
    for one in (stream.get("leafd") or {}).get("copiers", ()):
        taken = {**labels, "kind": one["kind"], "copy": one["copy"], "copy_domain": one["domain"]}
        if one["behind"] is not None:
            text = "Messages of the stream that a mirror or source elsewhere has not stored"
            found.gauge("leafd_copier_behind", text, taken, one["behind"])
        for member, (name, text, unit) in _NOT_STORED.items():
            if one.get(member) is not None:
                found.gauge(f"leafd_copier_{name}", text, taken, one[member] / unit)
        text = "Seconds since a mirror or source elsewhere was there, 0: it is there now"
        found.gauge("leafd_copier_away_seconds", text, taken, 0 if one["asks"] else one["seen"] / SECOND)


_NOT_STORED: Final = {
    "behind_bytes": ("behind_bytes", "Bytes of those messages, by the mean of the stream's", 1),
    "oldest": ("oldest_seconds", "Age of the first of those messages", SECOND),
    "level_in": ("level_in_seconds", "When none will be missing, at the pace of late", SECOND),
}
_FAR: Final = {
    "behind_bytes": ("behind_bytes", "Bytes behind the origin, by the mean of what came", 1),
    "oldest": ("oldest_seconds", "How old the oldest missing message can be", SECOND),
    "level_in": ("level_in_seconds", "When nothing will be missing, at the pace of late", SECOND),
    "told": ("told_seconds", "Seconds since the origin told how far behind it is", SECOND),
    "level": ("level_seconds", "Seconds since nothing was missing", SECOND),
}


def _copies(found: _Families, labels: Labels, kind: str, copies: Sequence[Report]) -> None:
    """The samples of a stream's mirror or sources: how far each is from its origin."""
    around = _inner(labels)
    apis = [(one.get("external") or {}).get("api", "") for one in copies]
    lines = SampleLines(
        [
            f'{around},{kind}_name="{in_label(one["name"])}",{kind}_api="{in_label(api)}"'
            for one, api in zip(copies, apis, strict=True)
        ]
    )
    far = [one.get("leafd") or {"behind": one.get("lag", 0)} for one in copies]
    behind = [one["behind"] for one in far]
    found.each(f"jetstream_stream_{kind}_lag", "Messages behind the origin", lines, behind)
    _members(found, f"leafd_{kind}", lines, _FAR, far)
    text = "Nanoseconds since the origin was heard of, -1: never"
    active = [one.get("active", -1) for one in copies]
    found.each(f"jetstream_stream_{kind}_active_duration_ns", text, lines, active, RowKind.SIGNED)
    text = "1: it gets nothing, or comes no nearer; the API's info of the stream says why"
    unfollowed = [1 if one.get("error") else None for one in copies]
    found.each(f"leafd_{kind}_unfollowed", text, lines, unfollowed)


_GOES: Final = ("all", "normal", "high", "none")
_LINE: Final = {
    "rate": ("rate_bytes", "Bytes a second that the link has carried while more waited", 1),
    "trip_ns": ("round_trip_seconds", "Round-trip time as the kernel sees it now", SECOND),
    "trip_min_ns": ("round_trip_least_seconds", "Least round-trip time of late: without queues", SECOND),
    "window": ("window_bytes", "Bytes that the link may have under way", 1),
    "heard_ns": ("heard_seconds", "Seconds since anything came by the link", SECOND),
    "pending_bytes": ("waiting_bytes", "Bytes that wait to be sent", 1),
    "held": ("unacknowledged_bytes", "Bytes that were sent and are not acknowledged", 1),
}
_MEASURED: Final = ("rate", "trip_ns", "trip_min_ns", "window")
_LINE_COUNTS: Final = {
    "sent": ("sent_bytes", "Bytes on the wire, with those that were sent again"),
    "resent": ("sent_again_bytes", "Bytes that were sent again, since the network lost them"),
    "received": ("received_bytes", "Bytes that came by the link, as they are on the wire"),
}


def _budget(found: _Families, name: str, labels: Labels, budget: Report) -> None:
    for period in ("day", "month"):
        one = budget.get(period)
        if one is not None:
            of = {**labels, "period": period}
            found.gauge(f"{name}_budget_bytes", "What the link may carry in a period", of, one["limit"])
            found.gauge(f"{name}_budget_used_bytes", "What it has carried in this one", of, one["used"])
            found.gauge(f"{name}_budget_anew_seconds", "When the next begins", of, one["anew_in"] / SECOND)
    if budget:
        text = "What waits for the budget or the time of the day: 0 nothing, 1 bulk, 2 all but urgent or high, 3 all"
        found.gauge(f"{name}_held", text, labels, _GOES.index(budget["goes"]))


def _store(found: _Families, varz: Report, disk: Mapping[str, t.Histogram]) -> None:
    store = varz["store"]
    for name, text in _DISK.items():
        found.histogram(f"leafd_store_{name}_seconds", text, disk[name])
    for name, text in _STORE.items():
        found.counter(f"leafd_store_{name}", text, {}, store[name])
    found.gauge("leafd_store_disk_bytes", "Bytes that the store takes on its disk", {}, store["disk_bytes"])
    found.gauge("leafd_store_disk_free_bytes", "Bytes that are free on the store's disk", {}, store["disk_free"])
    for kind in ("file", "memory"):
        refuses = int(kind in store["refusing"])
        found.gauge("leafd_store_refusing", "Publishes are refused for lack of room", {"storage": kind}, refuses)


def _own(found: _Families, varz: Report) -> None:
    own = varz["leafd"]
    if "mqtt" in own:
        _devices(found, own["mqtt"])
    for name, text in _PLANE.items():
        found.counter(f"leafd_{name}", text, {}, own[name])
    for name, text in _TURNS.items():
        found.gauge(f"leafd_{name}_seconds", text, {}, own[f"{name}_ms"] / 1e3)
    expiring = len(own.get("expiring_certificates", ()))
    found.gauge("leafd_expiring_certificates", "Certificates that expire within 30 days", {}, expiring)
    twins = len(own.get("twins", ()))
    found.gauge("leafd_twin_boxes", "Names and domains that several boxes have at once", {}, twins)
    passed = len(own.get("passed_over", ()))
    text = "Streams that were put back from an old copy, of which a copy elsewhere passes over messages"
    found.gauge("leafd_passed_over_streams", text, {}, passed)
    found.gauge("leafd_memory_limit_bytes", "memory_limit", {}, own["memory"]["limit"])
    for name, one in own["memory"].items():
        if name != "limit":
            found.gauge("leafd_memory_used_bytes", "Taken of a share of memory_limit", {"part": name}, one["used"])
            found.gauge("leafd_memory_share_bytes", "A share of memory_limit", {"part": name}, one["share"])


def _devices(found: _Families, mqtt: Report) -> None:
    for version, count in mqtt["clients"].items():
        found.gauge("leafd_mqtt_clients", "Clients of MQTT that are logged in", {"version": version}, count)
    for name, text in _MQTT_COUNTS.items():
        found.counter(f"leafd_mqtt_{name}", text, {}, mqtt[name])
    for name, text in _MQTT.items():
        found.gauge(f"leafd_mqtt_{name}", text, {}, mqtt[name])
    for name, text in _MQTT_HELD.items():
        for unit in ("messages", "bytes"):
            found.gauge(f"leafd_mqtt_{name}_{unit}", text.format(unit.capitalize()), {}, mqtt[name][unit])
    oldest, text = mqtt["waiting"]["oldest_seconds"], "Age of the oldest message that waits for an MQTT session"
    if oldest is not None:
        found.gauge("leafd_mqtt_waiting_oldest_seconds", text, {}, oldest)


def content_type(accept: str) -> str:
    """OpenMetrics for a client that accepts that."""
    return OPENMETRICS_TYPE if OPENMETRICS in accept else PROMETHEUS_TYPE


def page(found: Iterable[Family], accept: str) -> Iterator[str]:
    """The text of the families, some lines at a time."""
    openmetrics = OPENMETRICS in accept
    texts: dict[int, str] = {}
    """Texts of labels, which the samples of one thing share: the labels live as long as the families."""
    for family in found:
        # A counter's name ends with _total; OpenMetrics tells type and help without that.
        name = family.name if openmetrics or family.kind != "counter" else f"{family.name}_total"
        yield f"# TYPE {name} {family.kind}\n# HELP {name} {in_label(family.help)}\n"
        for ending, labels, value in family.samples:
            inner = texts.get(id(labels))
            if inner is None:
                inner = texts[id(labels)] = _inner(labels)
            yield f"{family.name}{ending}{{{inner}}} {value}\n" if inner else f"{family.name}{ending} {value}\n"
        for lines in family.plain:
            yield from lines()
    if openmetrics:
        yield "# EOF\n"


def _inner(labels: Labels) -> str:
    return ",".join([f'{label}="{in_label(str(said))}"' for label, said in labels.items()])
