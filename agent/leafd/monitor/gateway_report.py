"""The reports about gateways: gatewayz, and what varz and the server's statistics say of them.

Rows and names are those of nats-server. Not here: the other reports (reports.py), the gateways (links/).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from leafd import native_types as t
from leafd.config.schema.tls import DEFAULT_TIMEOUT, LINK_TIMEOUT, login_timeout
from leafd.monitor import subscriptions
from leafd.monitor.facts import Facts, elapsed, round_trip, stamp
from leafd.monitor.options import flag, text
from leafd.turns import Pause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leafd.monitor.options import Options
    from leafd.monitor.rooms import GatewayFacts

SECOND: Final = 1_000_000_000
THRESHOLD: Final = 1000
"""After how many subjects without interest nats-server ends its guessing: shown, since its tools read it."""
MODE: Final = "Interest-Only"


async def gatewayz(facts: Facts, options: Options) -> dict[str, Any]:
    """Gateways to other clusters."""
    wanted = text(options, "gw_name", "name")
    account = text(options, "acc_name", "account_name")
    accounts = flag(options, "accs", "accounts") or bool(account)
    listed, detail = subscriptions.wanted(options)
    outbound: dict[str, Any] = {}
    inbound: dict[str, list[Any]] = {}
    gateways, pause = facts.gateways, Pause()
    rows = {row.connection: row for row in await facts.plane.connections()} if gateways is not None else {}
    for one in gateways.rows() if gateways is not None else ():
        await pause()
        row = rows.get(one.connection)
        if row is None or wanted not in ("", one.name):
            continue
        found: dict[str, Any] = {"configured": one.explicit, "connection": _connection(one, row)}
        if accounts:
            found["accounts"] = await _accounts(facts, one, account, listed=listed, detail=detail)
        if one.outbound:
            outbound[one.name] = found
        else:
            inbound.setdefault(one.name, []).append(found)
    named = {"name": gateways.own.name, "host": gateways.own.host, "port": gateways.own.port} if gateways else {}
    return facts.head() | named | {"outbound_gateways": outbound, "inbound_gateways": inbound}


def _connection(one: GatewayFacts, row: t.ConnectionRow) -> dict[str, Any]:
    host, _, port = one.peer.rpartition(":")
    return {
        "cid": one.connection,
        "kind": "Gateway",
        "ip": host.strip("[]"),
        "port": int(port) if port.isdigit() else 0,
        "start": stamp(one.opened_ns),
        "last_activity": stamp(row.last_wall_ns),
        "rtt": round_trip(row.rtt_ns),
        "uptime": elapsed(time.time_ns() - one.opened_ns),
        "idle": elapsed(time.time_ns() - row.last_wall_ns),
        "pending_bytes": row.pending_bytes,
        "in_msgs": row.in_msgs,
        "out_msgs": row.out_msgs,
        "in_bytes": row.in_bytes,
        "out_bytes": row.out_bytes,
        "subscriptions": row.subscriptions,
        "name": one.remote_id,
    }


async def _accounts(
    facts: Facts, one: GatewayFacts, account: str, *, listed: bool, detail: bool
) -> list[dict[str, Any]]:
    """How much interest the other cluster has told, account by account."""
    known = {each.id: each.name for each in facts.graph.by_id.values() if account in ("", each.name)}
    theirs: dict[int, list[t.SubscriptionRow]] = {}
    if one.outbound:
        for each in await subscriptions.of(facts.plane, one.connection):
            theirs.setdefault(each.account, []).append(each)
    found = []
    for number, name in known.items():
        rows = theirs.get(number, [])
        shown: dict[str, Any] = {"name": name, "interest_mode": MODE, "interest_only_threshold": THRESHOLD}
        queues = sum(bool(each.queue) for each in rows)
        shown |= {"num_subs": len(rows)} if rows else {}
        shown |= {"num_queue_subs": queues} if queues else {}
        if listed and rows:  # before the details, unlike in the other reports: as in nats-server
            shown["subscriptions_list"] = [each.subject for each in rows]
        elif detail and rows:
            shown["subscriptions_list_detail"] = [
                {"subject": each.subject, "sid": each.sid, "msgs": each.messages, "cid": one.connection}
                | ({"qgroup": each.queue} if each.queue else {})
                for each in rows
            ]
        found.append(shown)
    return found


def gateway_block(facts: Facts) -> dict[str, Any]:
    """The part of varz about gateways."""
    block, gateways = facts.config.gateway, facts.gateways
    if block is None or gateways is None:
        return {}
    patience = block.tls.timeout if block.tls is not None and block.tls.timeout else DEFAULT_TIMEOUT
    own = gateways.own
    found: dict[str, Any] = {
        "name": own.name,
        "host": own.host,
        "port": own.port,
        "auth_timeout": login_timeout(block.authorization, block.tls, LINK_TIMEOUT) / SECOND,
        "tls_timeout": patience / SECOND,
    }
    if block.tls is not None:
        found |= {"tls_required": True, "tls_verify": True}
    known = gateways.clusters()  # without this one, which may stand in the list, too
    optional: Mapping[str, Any] = {
        "advertise": block.advertise,
        "connect_retries": block.connect_retries,
        "gateways": [
            {"name": one.name} | ({"urls": list(known[one.name])} if one.name in known else {})
            for one in block.gateways
        ],
        "reject_unknown": block.reject_unknown_cluster,
    }
    return found | {name: value for name, value in optional.items() if value}


def gateway_count(facts: Facts) -> int:
    """Connections with other clusters, in both directions."""
    return len(facts.gateways.rows()) if facts.gateways is not None else 0


async def gateway_stats(facts: Facts) -> list[dict[str, Any]]:
    """The part of the server's statistics about each cluster that this server sends to."""
    if facts.gateways is None:
        return []
    rows = {row.connection: row for row in await facts.plane.connections()}
    every = facts.gateways.rows()
    return [
        {
            "gwid": one.connection,
            "name": one.name,
            "sent": {"msgs": row.out_msgs, "bytes": row.out_bytes},
            "received": _received([rows.get(each.connection) for each in every if _comes_from(each, one.name)]),
            "inbound_connections": sum(_comes_from(each, one.name) for each in every),
        }
        for one in every
        if one.outbound and (row := rows.get(one.connection)) is not None
    ]


def _comes_from(one: GatewayFacts, name: str) -> bool:
    return not one.outbound and one.name == name


def _received(rows: list[t.ConnectionRow | None]) -> dict[str, int]:
    there = [row for row in rows if row is not None]
    return {"msgs": sum(row.in_msgs for row in there), "bytes": sum(row.in_bytes for row in there)}
