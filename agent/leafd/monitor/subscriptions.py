"""The subscriptions of connections in connz and subsz: subjects alone, or with queue groups, names and counts.

Read from the plane in slices, in pauses, and at most ROWS_MAX in a report. What does not live here: the report around
them (reports.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from leafd import native_types as t
from leafd.config.schema.sharing import is_subset
from leafd.monitor.facts import Facts
from leafd.monitor.options import flag
from leafd.monitor.rooms import PlaneFacts
from leafd.turns import Pause

ROWS_MAX: Final = 16_384
_TRIES: Final = 3


def wanted(options: Mapping[str, Any]) -> tuple[bool, bool]:
    """(whether they are wanted, whether in detail). Raises ValueError, which the caller answers with 400."""
    word = options.get("subs")
    if isinstance(word, str) and word.lower() == "detail":
        return True, True
    detail = options.get("subscriptions_detail") is True
    return flag(options, "subs", "subscriptions") or detail, detail


async def of(plane: PlaneFacts, connection: int) -> list[t.SubscriptionRow]:
    """Those of one connection."""
    return await _of(plane, connection, ROWS_MAX, Pause())


async def add(
    plane: PlaneFacts,
    connections: Iterable[dict[str, Any]],
    ended: Mapping[int, tuple[bytes, dict[str, str]]],
    *,
    detail: bool,
) -> bool:
    """Adds its subscriptions to each connection of a report; False when there were too many to list all. ended: what is
    kept of those of connections that have gone, and what is said of each."""
    pause, left = Pause(), ROWS_MAX
    for connection in connections:
        if not connection["subscriptions"]:
            continue
        gone = ended.get(connection["cid"])
        if gone is None:
            rows, about = await _of(plane, connection["cid"], left + 1, pause), dict[str, str]()
        else:
            rows, about = list(t.subscription_rows(gone[0])), gone[1]
        shown = rows[:left]
        if detail:
            connection["subscriptions_list_detail"] = [about | _detail(row, connection) for row in shown]
        else:
            connection["subscriptions_list"] = [row.subject for row in shown]
        if len(rows) > left:
            return False
        left -= len(rows)
        await pause()
    return True


async def every(facts: Facts, account: str, published: str) -> tuple[list[dict[str, Any]], bool]:
    """Those of all clients and links, of one account where that is given, and of those that hear what is published to a
    subject where that is given; False: there were too many to list all."""
    accounts = {one.id: one for one in facts.graph.by_id.values() if account in ("", one.name)}
    found, pause, left = list[dict[str, Any]](), Pause(), ROWS_MAX
    for connection in await facts.plane.connections():
        await pause()
        owner = accounts.get(connection.account)
        if owner is None or not connection.subscriptions:
            continue
        rows = await _of(facts.plane, connection.connection, left + 1, pause)
        about = {"account": owner.name, "account_tag": owner.shown}
        for row in rows[:left]:
            if not published or is_subset(published, row.subject):
                found.append(about | _detail(row, {"cid": connection.connection}))
        left -= len(rows)
        if left < 0:
            return found, False
    return found, True


def _detail(row: t.SubscriptionRow, connection: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"subject": row.subject}
    if row.queue:
        found["qgroup"] = row.queue
    found |= {"sid": row.sid, "msgs": row.messages}
    if row.max:
        found["max"] = row.max
    return found | {"cid": connection["cid"]}


async def _of(plane: PlaneFacts, connection: int, most: int, pause: Pause) -> list[t.SubscriptionRow]:
    """Those of one connection; when its table grows meanwhile its rows have moved, and the listing begins anew."""
    rows: list[t.SubscriptionRow] = []
    bucket = buckets = tries = 0
    while len(rows) < most:
        try:
            part = await plane.subscriptions(connection, bucket)
        except t.PlaneError as error:
            if error.status == t.Status.NOT_FOUND:
                return []  # the connection went away
            raise
        if bucket and part.buckets != buckets and tries < _TRIES:
            rows, bucket, tries = [], 0, tries + 1
            continue
        rows += part.rows
        bucket, buckets = part.next, part.buckets
        if not bucket:
            break
        await pause()
    return rows
