"""The reports about a cluster: routez, and what varz and the server's statistics say of routes.

Rows and names are those of nats-server. Not here: the other reports (reports.py), the routes (links/).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.config.schema.tls import DEFAULT_TIMEOUT, LINK_TIMEOUT, login_timeout
from leafd.monitor import subscriptions
from leafd.monitor.facts import Facts, elapsed, round_trip, stamp
from leafd.native_codes import COMPRESSION_LEVELS
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.config.schema.permissions import Permissions, Subjects
    from leafd.monitor.options import Options
    from leafd.monitor.rooms import RouteFacts

SECOND: Final = 1_000_000_000


async def routez(facts: Facts, options: Options) -> dict[str, Any]:
    """Routes to other servers of the cluster. A parameter that is wrong is told all the same."""
    listed, detail = subscriptions.wanted(options)
    head, found = facts.head(), list[dict[str, Any]]()
    routes = facts.routes.rows() if facts.routes is not None else ()
    rows = {row.connection: row for row in await facts.plane.connections()} if routes else {}
    pause = Pause()
    for route in routes:
        await pause()
        row = rows.get(route.connection)
        if row is None:
            continue
        one = _row(facts, route, row)
        if listed and row.subscriptions:
            theirs = await subscriptions.of(facts.plane, route.connection)
            if detail:
                one["subscriptions_list_detail"] = [
                    {"subject": each.subject, "sid": each.sid, "msgs": each.messages, "cid": route.connection}
                    | ({"qgroup": each.queue} if each.queue else {})
                    for each in theirs
                ]
            else:
                one["subscriptions_list"] = [each.subject for each in theirs]
        found.append(one)
    rules = facts.config.cluster.rules if facts.config.cluster is not None else None
    return {
        "server_id": head["server_id"],
        "server_name": facts.name,
        "now": head["now"],
        **_told(rules),
        "num_routes": len(found),
        "routes": found,
    }


def _row(facts: Facts, route: RouteFacts, row: t.ConnectionRow) -> dict[str, Any]:
    host, _, port = route.peer.rpartition(":")
    up_ns = time.time_ns() - route.opened_ns
    one: dict[str, Any] = {
        "rid": route.connection,
        "remote_id": route.remote_id,
        "remote_name": route.remote_name,
        "did_solicit": route.dialled,
        "is_configured": route.explicit,
        "ip": host.strip("[]"),
        "port": int(port) if port.isdigit() else 0,
        "start": stamp(route.opened_ns),
        "last_activity": stamp(row.last_wall_ns),
        "rtt": round_trip(row.rtt_ns),
        "uptime": elapsed(up_ns),
        "idle": elapsed(time.time_ns() - row.last_wall_ns),
        **route.told,
        "pending_size": row.pending_bytes,
        "in_msgs": row.in_msgs,
        "out_msgs": row.out_msgs,
        "in_bytes": row.in_bytes,
        "out_bytes": row.out_bytes,
        "subscriptions": row.subscriptions,
    }
    if route.account:
        one["account"] = route.account
    one["compression"] = COMPRESSION_LEVELS[row.level] if row.compressed else route.compression
    return one


def _told(rules: Permissions | None) -> dict[str, Any]:
    if rules is None:
        return {}
    pairs = (("import", rules.publish), ("export", rules.subscribe))
    return {name: _lists(subjects) for name, subjects in pairs if subjects is not None}


def _lists(subjects: Subjects) -> dict[str, list[str]]:
    lists = {"allow": list(subjects.allow or ()), "deny": list(subjects.deny)}
    return {name: value for name, value in lists.items() if value}


def cluster_block(facts: Facts) -> dict[str, Any]:
    """The part of varz about the cluster."""
    block, named = facts.config.cluster, {"name": facts.cluster} if facts.cluster else {}
    if block is None or facts.routes is None:
        return named
    tls = {"tls_required": True, "tls_verify": True} if block.tls is not None else {}
    patience = block.tls.timeout if block.tls is not None and block.tls.timeout else DEFAULT_TIMEOUT
    urls = {"urls": list(facts.routes.places)} if facts.routes.places else {}
    return named | {
        "addr": facts.routes.host,
        "cluster_port": facts.routes.port,
        "auth_timeout": login_timeout(block.authorization, block.tls, LINK_TIMEOUT) / SECOND,
        **urls,
        "tls_timeout": patience / SECOND,
        **tls,
        "pool_size": block.pool_size,
    }


def counts(facts: Facts) -> tuple[int, int]:
    """Routes, and the servers at their other ends."""
    routes = facts.routes.rows() if facts.routes is not None else ()
    return len(routes), len({route.remote_id for route in routes})


def active_servers(facts: Facts) -> set[str]:
    """The servers of this cluster and of others, this one among them."""
    routes = facts.routes.rows() if facts.routes is not None else ()
    return {facts.server_id, *(route.remote_id for route in routes), *facts.elsewhere.servers()}


async def route_stats(facts: Facts) -> list[dict[str, Any]]:
    """The part of the server's statistics about each route."""
    if facts.routes is None:
        return []
    rows = {row.connection: row for row in await facts.plane.connections()}
    return [
        {
            "rid": route.connection,
            "name": route.remote_name,
            "sent": {"msgs": row.out_msgs, "bytes": row.out_bytes},
            "received": {"msgs": row.in_msgs, "bytes": row.in_bytes},
            "pending": row.pending_bytes,
        }
        for route in facts.routes.rows()
        if (row := rows.get(route.connection)) is not None
    ]


def other_servers(facts: Facts) -> list[dict[str, Any]]:
    """The servers of this cluster that there are routes to, and the clusters that there are gateways to or ought to be:
    each with its connections in both directions. A cluster is up when this server can send to it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for route in facts.routes.rows() if facts.routes is not None else ():
        row = found.setdefault((facts.cluster, route.remote_name), _server(facts.cluster, route.remote_name, up=True))
        row["connections"] += 1
    if facts.gateways is not None:
        for name in facts.gateways.clusters():
            found[name, ""] = _server(name, "", up=False)
        for gateway in facts.gateways.rows():
            row = found.setdefault((gateway.name, ""), _server(gateway.name, "", up=False))
            row["connections"] += 1
            row["up"] = row["up"] or gateway.outbound
    return [found[key] for key in sorted(found)]


def _server(cluster: str, name: str, *, up: bool) -> dict[str, Any]:
    return {"cluster": cluster, "name": name, "up": up, "connections": 0}
