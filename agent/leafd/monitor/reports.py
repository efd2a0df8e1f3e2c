"""The reports about the server, its links and accounts: varz, leafz, subsz, accountz, accstatz, statsz, and those of
what there is none of here (ipqueuesz, expvarz, profilez).

Each is a function of the facts and the request's options, whose names are those of the JSON requests on $SYS.
Not here: connz (connections.py), JetStream (jetstream_report.py), routez (cluster_report.py),
gatewayz (gateway_report.py).
"""

from __future__ import annotations

import base64
import json
import os
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leafd import native_types as t
from leafd.config.differences import settings
from leafd.config.exposure import open_listeners
from leafd.config.schema.mqtt import Mqtt
from leafd.config.schema.sharing import is_literal, valid
from leafd.config.schema.tls import DEFAULT_TIMEOUT, LINK_TIMEOUT, Tls, login_timeout
from leafd.config.schema.websocket import WebSocket
from leafd.monitor import subscriptions
from leafd.monitor.account_report import shared
from leafd.monitor.cluster_report import active_servers, cluster_block, counts, other_servers, route_stats
from leafd.monitor.facts import FEATURE_FLAGS, Facts, elapsed, memory_bytes, round_trip, stamp
from leafd.monitor.gateway_report import gateway_block, gateway_count, gateway_stats
from leafd.monitor.jetstream_report import configuration, totals
from leafd.monitor.options import Options, flag, number, text
from leafd.native_codes import COMPRESSION_LEVELS
from leafd.turns import Pause, aside
from leafd.versions import own_version

if TYPE_CHECKING:
    from leafd.accounts.graph import Account
    from leafd.auth.jwt_claims import AccountBody
    from leafd.monitor.rooms import LinkFacts

SUBSCRIPTIONS_MAX: Final = 1024
SECOND: Final = 1_000_000_000
_YEAR_9999: Final = 253_402_300_799


async def varz(facts: Facts, options: Options, *, sums: bool = True) -> dict[str, Any]:
    """The server at a glance. sums: also what all streams come to, for which each of them is asked."""
    config, stats = facts.config, facts.plane.stats()
    report: dict[str, Any] = {
        "server_id": facts.server_id,
        "server_name": facts.name,
        "version": facts.version,
        "proto": 1,
        "go": "none",
        "host": facts.host,
        "port": facts.port,
    }
    if config.operated or config.authorization or any(account.users for account in config.accounts.values()):
        report["auth_required"] = True
    if config.tls is not None:
        report |= _tls_flags(config.tls, required=not config.allow_non_tls or config.tls.handshake_first == (True, 0))
    secure = config.monitors_securely
    report |= {
        "max_connections": config.max_connections,
        "ping_interval": config.ping_interval,
        "ping_max": config.ping_max,
        "http_host": facts.monitor[0] if facts.monitor else "",
        "http_port": facts.monitor[1] if facts.monitor and not secure else 0,
        "http_base_path": config.http_base_path,
        "https_port": facts.monitor[1] if facts.monitor and secure else 0,
        "auth_timeout": login_timeout(config.authorization, config.tls) / SECOND,
        "max_control_line": config.max_control_line,
        "max_payload": config.max_payload,
        "max_pending": config.max_pending,
        "cluster": cluster_block(facts),
        "gateway": gateway_block(facts),
        "leaf": _leaf_block(facts),
        "mqtt": _mqtt_block(config.mqtt),
        "websocket": _web_block(config.websocket),
        "jetstream": await _jetstream_block(facts, sums),
        "tls_timeout": _tls_timeout(config.tls),
        "write_deadline": config.write_deadline,
        "start": stamp(facts.start_ns),
        "now": stamp(time.time_ns()),
        "uptime": elapsed(int((time.monotonic() - facts.start_monotonic) * SECOND)),
        "mem": memory_bytes(),
        "cores": os.cpu_count() or 1,
        "gomaxprocs": os.cpu_count() or 1,
        "cpu": facts.cpu_percent(),
    }
    report |= _traffic(stats, gateway_count(facts), *counts(facts))
    report |= {
        "http_req_stats": dict(facts.http_requests),
        "config_load_time": stamp(facts.loaded_ns),
        "config_digest": facts.digest,
        "feature_flags": FEATURE_FLAGS,
        "system_account": facts.graph.system.name if facts.graph.system else "",
        "slow_consumer_stats": {"clients": stats.slow_consumers, "routes": 0, "gateways": 0, "leafs": 0},
        "stale_connection_stats": {"clients": stats.stale_connections, "routes": 0, "gateways": 0, "leafs": 0},
        # Nothing waits for its turn at the disk here: one thread writes (/metrics tells how long it takes).
        "disk_io_wait_stats": dict.fromkeys(("waits", "waiters", "wait_time", "max_wait_time"), 0),
        "store": _store(stats),
        "leafd": await _own(facts, stats),
    }
    if facts.routes is not None and facts.routes.connect_urls:
        report["connect_urls"] = list(facts.routes.connect_urls)
    if config.server_tags:
        report["tags"] = list(config.server_tags)
    if config.server_metadata:
        report["metadata"] = dict(config.server_metadata)
    if facts.operators:
        report["trusted_operators_jwt"] = list(facts.operators)
        report["trusted_operators_claim"] = [decoded(token) for token in facts.operators]
    return report | _not_after(config.tls)


async def _jetstream_block(facts: Facts, sums: bool) -> dict[str, Any]:
    if facts.jetstream is None:
        return {}
    return await totals(facts, facts.jetstream) if sums else {"config": configuration(facts)}


def _tls_flags(tls: Tls, *, required: bool) -> dict[str, Any]:
    return {name: True for name, on in (("tls_required", required), ("tls_verify", tls.verifies)) if on}


def _tls_timeout(tls: Tls | None, patience: int = DEFAULT_TIMEOUT) -> float:
    return (tls.timeout if tls is not None and tls.timeout else patience) / SECOND


def _not_after(tls: Tls | None) -> dict[str, Any]:
    """The end of the first of this side's certificates to expire."""
    if tls is None or not tls.material.pairs:
        return {}
    return {"tls_cert_not_after": stamp(tls.material.pairs[0].certificate.not_after_s * SECOND)}


def _web_block(web: WebSocket | None) -> dict[str, Any]:
    address = web.address() if web is not None else None
    if web is None or address is None:
        return {}
    block: dict[str, Any] = {"host": address[0], "port": address[1]}
    own = web.authorization.timeout if web.authorization is not None else 0
    others: dict[str, Any] = {
        "advertise": web.advertise,
        "handshake_timeout": web.handshake_timeout if "handshake_timeout" in web.given else 0,
        "no_auth_user": web.no_auth_user,
        "jwt_cookie": web.jwt_cookie,
        "auth_timeout": own / SECOND,
        "no_tls": web.no_tls,
        "tls_map": web.tls is not None and web.tls.verify_and_map,
        "tls_pinned_certs": list(web.tls.pinned_certs) if web.tls is not None else [],
        "same_origin": web.same_origin,
        "allowed_origins": list(web.allowed_origins),
        "compression": web.compression,
    }
    return block | {name: value for name, value in others.items() if value} | _not_after(web.tls)


def _mqtt_block(mqtt: Mqtt | None) -> dict[str, Any]:
    address = mqtt.address() if mqtt is not None else None
    if mqtt is None or address is None:
        return {}
    own = mqtt.authorization.timeout if mqtt.authorization is not None else 0
    others: dict[str, Any] = {
        "host": address[0],
        "port": address[1],
        "no_auth_user": mqtt.no_auth_user,
        "auth_timeout": own / SECOND,
        "tls_map": mqtt.tls is not None and mqtt.tls.verify_and_map,
        "tls_timeout": _tls_timeout(mqtt.tls, LINK_TIMEOUT),
        "tls_pinned_certs": list(mqtt.tls.pinned_certs) if mqtt.tls is not None else [],
    }
    return {name: value for name, value in others.items() if value} | _not_after(mqtt.tls)


def _leaf_block(facts: Facts) -> dict[str, Any]:
    leafnodes = facts.config.leafnodes
    block: dict[str, Any] = {}
    if facts.leaf is not None:
        tls, own = (leafnodes.tls, leafnodes.authorization) if leafnodes is not None else (None, None)
        block = {"host": facts.leaf[0], "port": facts.leaf[1]}
        block["auth_timeout"] = login_timeout(own, tls, LINK_TIMEOUT) / SECOND
        block["tls_timeout"] = _tls_timeout(tls, LINK_TIMEOUT)
        if tls is not None:
            block |= _tls_flags(tls, required=True) | _not_after(tls)
    remotes = leafnodes.remotes if leafnodes is not None else ()
    if remotes:
        # The reference hides logins here, too.
        block["remotes"] = [
            {"local_account": one.account, "urls": [_without_login(url) for url in one.urls]}
            | ({"tls_timeout": _tls_timeout(one.tls, LINK_TIMEOUT)} if one.tls is not None else {})
            for one in remotes
        ]
    return block


def _traffic(stats: t.Stats, gateways: int, routes: int, remotes: int) -> dict[str, Any]:
    return {
        # The reference counts clients here; links have a number of their own.
        "connections": stats.connections - stats.leafs - routes - gateways,
        "total_connections": stats.total_connections,
        "routes": routes,
        "remotes": remotes,
        "leafnodes": stats.leafs,
        "in_msgs": stats.in_msgs,
        "in_bytes": stats.in_bytes,
        "out_msgs": stats.out_msgs,
        "out_bytes": stats.out_bytes,
        "in_client_msgs": stats.in_msgs - stats.link_in_msgs,
        "in_client_bytes": stats.in_bytes - stats.link_in_bytes,
        "out_client_msgs": stats.out_msgs - stats.link_out_msgs,
        "out_client_bytes": stats.out_bytes - stats.link_out_bytes,
        "slow_consumers": stats.slow_consumers,
        "stale_connections": stats.stale_connections,
        "stalled_clients": 0,
        "subscriptions": stats.subscriptions,
    }


async def _own(facts: Facts, stats: t.Stats) -> dict[str, Any]:
    """How this program is doing: figures that the reference has nothing like."""
    found = facts.guard.figures() | facts.turns() | _plane(stats) | {"memory": facts.plane.memory()}
    expiring = [line for block in facts.config.tls_blocks() for line in block.expiring()]
    found["remotes"] = [
        {
            "account": one.account_name,
            "urls": [_without_login(url) for url in one.urls],
            "connected": one.connected,
            "server": one.server,
            "learned": list(one.learned),
            "error": "" if one.connected else one.last_error,
            "budget": facts.leafs.sending.report_of(one.remote),
        }
        for one in facts.leafs.remotes
    ]
    if facts.routes is not None or facts.gateways is not None:
        found["servers"] = other_servers(facts)
    if facts.meta is not None:
        from leafd.monitor.group_report import group_block  # here, as the next one: a lone server has no such thing

        found["group"] = group_block(facts.meta, facts.placed)
    if facts.clients.devices is not None:
        from leafd.monitor.devices_report import devices_block

        found["mqtt"] = await devices_block(facts, facts.clients.devices)
    found["version"] = own_version()
    found |= _configured(facts)
    if twins := list(facts.leafs.twins.texts()):
        found["twins"] = twins
    if facts.jetstream is not None and (passed := await facts.jetstream.passed_over.texts()):
        found["passed_over"] = passed
    return found | ({"expiring_certificates": list(dict.fromkeys(expiring))} if expiring else {})


def _configured(facts: Facts) -> dict[str, Any]:
    """Settings and open listeners: found out once for each configuration."""
    if facts.configured is None or facts.configured[0] is not facts.config:
        listeners = [one.text for one in open_listeners(facts.config)]
        facts.configured = facts.config, {"settings": settings(facts.config), "open_listeners": listeners}
    return facts.configured[1]


def _without_login(url: str) -> str:
    return url.rpartition("@")[2].removeprefix("nats://")


def _plane(stats: t.Stats) -> dict[str, float]:
    """How the C side keeps up: its longest ticks, and how often a connection was not read for a moment because the
    control side had enough of its requests."""
    return {
        "longest_tick_ms": round(stats.tick_max_ns / 1e6, 3),
        "longest_tick_minute_ms": round(stats.tick_recent_ns / 1e6, 3),
        "times_held_back": stats.held_back,
    }


def _store(stats: t.Stats) -> dict[str, Any]:
    """Counters of the store, which the reference has no fields for."""
    names = (
        "disk_bytes", "journal_batches", "journal_bytes", "journal_syncs", "checkpoints", "overlay_bytes",
        "corrupt_records", "replayed_batches", "events_dropped", "disk_free", "disk_reserved",
        "schedules_refused",
    )  # fmt: skip
    return {name: getattr(stats, name) for name in names} | {"refusing": stats.refused_storage()}


Connections = list[t.ConnectionRow]


class Linked(NamedTuple):
    """A leaf link, the plane's figures of it, and its budget, if it has one."""

    link: LinkFacts
    row: t.ConnectionRow | None
    budget: dict[str, Any] | None

    def address(self) -> tuple[str, int]:
        """The other end's address and port."""
        host, _, port = self.link.peer.rpartition(":")
        return host.strip("[]"), int(port) if port.isdigit() else 0


async def linked(facts: Facts, connections: Connections) -> list[Linked]:
    """All leaf links, with what the plane has told."""
    rows, found, pause = {row.connection: row for row in connections}, list[Linked](), Pause()
    for link in facts.leafs.links():
        await pause()
        row = rows.get(link.connection)
        budget = facts.leafs.sending.report(link.connection, row.wire) if row is not None else None
        if row is not None and budget is not None:
            budget = budget | {"waiting": row.budgeted}
        found.append(Linked(link, row, budget))
    return found


async def leafz(facts: Facts, options: Options) -> dict[str, Any]:
    """Leaf links."""
    account, listed = text(options, "acc", "account"), flag(options, "subs", "subscriptions")
    found, pause = [], Pause()
    links = [one for one in await linked(facts, await facts.plane.connections()) if account in ("", one.link.account)]
    counts = {one.link.connection: one.row.subscriptions for one in links if one.row is not None}
    heard = await subscriptions.subjects(facts.plane, counts) if listed else {}
    for each in links:
        await pause()
        link, row, budget = each
        ip, port = each.address()
        one: dict[str, Any] = {
            "id": link.connection,
            "name": link.name,
            "is_spoke": link.spoke,
            **({"is_isolated": True} if link.isolated else {}),
            "account": link.account,
            "ip": ip,
            "port": port,
        }
        if row is not None:
            one["rtt"] = round_trip(row.rtt_ns)
            one |= {
                name: getattr(row, name) for name in ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions")
            }
            one["leafd"] = _measured(row)
            if link.others:
                one["leafd"]["others"] = list(link.others)
            if budget is not None:
                one["leafd"]["budget"] = budget
        if listed:
            one["subscriptions_list"] = heard.get(link.connection, [])
        packed = row is not None and row.compressed and link.compression != "off"  # else only its lines are terse
        one["compression"] = COMPRESSION_LEVELS[row.level] if row is not None and packed else link.compression
        found.append(one)
    return facts.head() | {"leafnodes": len(found), "leafs": found}


def _measured(row: t.ConnectionRow) -> dict[str, Any]:
    """The kernel's measurements of a link: null where the kernel has none. Times are ns; in bytes, as they are on the
    wire."""
    figures = {"rate": row.rate, "round_trip": row.trip_ns, "round_trip_least": row.trip_min_ns, "window": row.window}
    found: dict[str, Any] = {name: value or None for name, value in figures.items()}
    counted = row.sent > 0
    return found | {
        "heard": row.heard_ns,
        "waiting": row.pending_bytes,
        "unacknowledged": row.held,
        "sent": row.sent if counted else None,
        "sent_again": row.resent if counted else None,
        "received": row.received if counted else None,
        "loss": round(row.resent / row.sent, 4) if counted else None,
    }


async def subsz(facts: Facts, options: Options) -> dict[str, Any]:
    """How many subscriptions there are; which, if that is asked for."""
    wanted, account = text(options, "test"), text(options, "acc", "account")
    if wanted and not (valid(wanted) and is_literal(wanted)):
        raise ValueError(f"invalid test subject, must be valid publish subject: {wanted[:256]}")
    offset, limit = number(options, "offset", 0), number(options, "limit", 0) or SUBSCRIPTIONS_MAX
    report = facts.head() | {
        **_routing(facts.plane.stats().subscriptions),
        "total": 0,
        "offset": offset,
        "limit": limit,
    }
    if not flag(options, "subs", "subscriptions"):
        return report
    found, listed, whole = await subscriptions.every(facts, account, wanted, range(offset, offset + limit))
    report |= {"total": found, "subscriptions_list": listed}
    return report if whole else report | {"subscriptions_cut": subscriptions.ROWS_MAX}


def _routing(subscriptions_: int) -> dict[str, Any]:
    """The reference's report on its tables of subscriptions and their cache; this server has no cache."""
    names = ("num_cache", "num_inserts", "num_removes", "num_matches", "cache_hit_rate", "max_fanout", "avg_fanout")
    return {"num_subscriptions": subscriptions_} | dict.fromkeys(names, 0)


async def raftz(facts: Facts, options: Options) -> dict[str, Any]:
    """The groups that servers keep together, where this server is one of several."""
    if facts.meta is None:
        return {}
    from leafd.monitor.raft_report import raftz as report  # here: a lone server has no such thing

    return await report(facts, options)


async def expvarz(facts: Facts, options: Options) -> dict[str, Any]:
    """The reference's report on Go's memory and the command line: empty here."""
    return {"memstats": {}, "cmdline": []}


async def profilez(facts: Facts, options: Options) -> dict[str, Any]:
    """A profile in Go's form: none."""
    return {"profile": None, "error": "leafd has no profiles: perf and py-spy can look into the process"}


async def ipqueuesz(facts: Facts, options: Options) -> dict[str, Any]:
    """Queues inside the server: of requests that wait for the control side."""
    flag(options, "all")
    return {}


async def accountz(facts: Facts, options: Options) -> dict[str, Any]:
    """The accounts' names, or one account in detail."""
    report = facts.head()
    report["system_account"] = facts.graph.system.name if facts.graph.system else ""
    name = text(options, "acc", "account")
    if not name:
        report["accounts"] = list(facts.graph.by_name)
        return report
    detail = await account_info(facts, name)
    if detail is None:
        raise ValueError(f"Account {name[:256]} does not exist")
    return report | {"account_detail": detail}


async def account_info(facts: Facts, name: str) -> dict[str, Any] | None:
    """One account in detail; None when there is no such account."""
    account = facts.graph.account(name)
    if account is None:
        return None
    rows = [row for row in await facts.plane.connections() if row.account == account.id]
    detail: dict[str, Any] = {"account_name": name, "update_time": stamp(facts.loaded_ns)}
    if account.system:
        detail["is_system"] = True
    detail |= {
        "expired": False,
        "complete": True,
        "jetstream_enabled": account.jetstream is not None,
        "leafnode_connections": facts.leafs.linked(name),
        "client_connections": facts.clients.count(account.id),
        "subscriptions": sum(row.subscriptions for row in rows),
        **shared(facts, account),
        "name_tag": account.shown,
    }
    detail["sublist_stats"] = _routing(detail["subscriptions"])
    trusted = facts.accounts.trusted.get(name) if facts.accounts is not None else None
    if facts.accounts is not None and trusted is not None and trusted.token:
        detail |= {
            "expired": trusted.expired(time.time()),
            "complete": not facts.accounts.notes.get(name),
            "jwt": trusted.token,
            "issuer_key": trusted.claims.iss,
            "decoded_jwt": await aside(len(trusted.token), decoded, trusted.token),
        }
        detail |= _told_by(trusted.claims.nats)
    return detail


def _told_by(claims: AccountBody) -> dict[str, Any]:
    """Tags and revoked users, where there are any."""
    revoked = {key: stamp(min(max(second, 0), _YEAR_9999) * SECOND) for key, second in claims.revocations.items()}
    return {name: value for name, value in (("tags", list(claims.tags)), ("revoked_user", revoked)) if value}


def decoded(token: str) -> Any:
    """The claims of a JWT, which were checked before."""
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


async def accstatz(facts: Facts, options: Options, connections: Connections | None = None) -> dict[str, Any]:
    """Traffic by account. Without "unused" only accounts that have connections. connections: as the plane has told
    them; None: it is asked."""
    names = options.get("accounts")
    wanted = {str(name) for name in names} if isinstance(names, list) and names else None
    rows: dict[int, list[t.ConnectionRow]] = {}
    pause = Pause()
    for row in connections if connections is not None else await facts.plane.connections():
        rows.setdefault(row.account, []).append(row)
        await pause()
    stats = []
    for account in list(facts.graph.by_id.values()):
        await pause()
        if wanted is not None and account.name not in wanted:
            continue
        found = account_stat(facts, account, rows.get(account.id, []))
        if found["conns"] or found["leafnodes"] or flag(options, "unused", "include_unused"):
            stats.append(found)
    return facts.head() | {"account_statz": stats}


def account_stat(facts: Facts, account: Account, rows: list[t.ConnectionRow]) -> dict[str, Any]:
    """Connections of one account, and all that these and earlier ones have carried."""
    mine = [row for row in rows if row.account == account.id]
    clients = facts.clients.count(account.id)
    leafs = facts.leafs.linked(account.name)
    none = {"msgs": 0, "bytes": 0}
    leaf_rows = [row for row in mine if row.kind == t.ConnKind.LEAF]

    def traffic(messages: str, size: str) -> dict[str, Any]:
        def total(of: list[t.ConnectionRow]) -> dict[str, int]:
            return {"msgs": sum(getattr(one, messages) for one in of), "bytes": sum(getattr(one, size) for one in of)}

        return total(mine) | {"gateways": none, "routes": none, "leafs": total(leaf_rows)}

    return {
        "acc": account.name,
        "name": account.shown,
        "conns": clients,
        "leafnodes": leafs,
        "total_conns": clients + leafs,
        "num_subscriptions": sum(row.subscriptions for row in mine),
        "sent": traffic("out_msgs", "out_bytes"),
        "received": traffic("in_msgs", "in_bytes"),
        "slow_consumers": sum(row.slow for row in mine),
    }


async def statsz(facts: Facts, options: Options) -> dict[str, Any]:
    """The answer to $SYS.REQ.SERVER.PING."""
    stats = facts.plane.stats()
    routes, _ = counts(facts)
    report: dict[str, Any] = {
        "start": stamp(facts.start_ns),
        "mem": memory_bytes(),
        "cores": os.cpu_count() or 1,
        "cpu": facts.cpu_percent(),
        # The reference counts clients here; links have a number of their own.
        "connections": stats.connections - stats.leafs - routes - gateway_count(facts),
        "total_connections": stats.total_connections,
        "active_accounts": sum(bool(facts.clients.count(account)) for account in facts.graph.by_id),
        "subscriptions": stats.subscriptions,
        "sent": {"msgs": stats.out_msgs, "bytes": stats.out_bytes},
        "sent_to_clients": {
            "msgs": stats.out_msgs - stats.link_out_msgs,
            "bytes": stats.out_bytes - stats.link_out_bytes,
        },
        "received": {"msgs": stats.in_msgs, "bytes": stats.in_bytes},
        "received_from_clients": {
            "msgs": stats.in_msgs - stats.link_in_msgs,
            "bytes": stats.in_bytes - stats.link_in_bytes,
        },
        "slow_consumers": stats.slow_consumers,
        "active_servers": len(active_servers(facts)),
    }
    if routes:
        report["routes"] = await route_stats(facts)
    if gateways := await gateway_stats(facts):
        report["gateways"] = gateways
    none = {"routes": 0, "gateways": 0, "leafs": 0}
    if stats.slow_consumers:
        report["slow_consumer_stats"] = {"clients": stats.slow_consumers} | none
    if stats.stale_connections:
        report["stale_connections"] = stats.stale_connections
        report["stale_connection_stats"] = {"clients": stats.stale_connections} | none
    if facts.jetstream is not None:
        report["jetstream"] = await totals(facts, facts.jetstream, brief=True)
        report["jetstream"]["config"].pop("store_dir", None)
    report["gomaxprocs"] = os.cpu_count() or 1
    return report
