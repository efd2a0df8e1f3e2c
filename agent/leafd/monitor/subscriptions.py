"""The subscriptions of connections in connz: subjects alone, or with queue groups, names and counts.

Read from the plane in slices, in pauses, and at most ROWS_MAX in a report. What does not live here: the report around
them (reports.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from leafd import native_types as t
from leafd.monitor.rooms import PlaneFacts
from leafd.turns import Pause

ROWS_MAX: Final = 16_384
_TRIES: Final = 3
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_FALSE: Final = ("", "0", "f", "F", "FALSE", "false", "False")


def wanted(options: Mapping[str, Any]) -> tuple[bool, bool]:
    """(whether they are wanted, whether in detail). Raises ValueError, which the caller answers with 400."""
    word = options.get("subs")
    if isinstance(word, str):
        if word.lower() == "detail":
            return True, True
        if word not in (*_TRUE, *_FALSE):
            raise ValueError(f"subs is a switch or detail, not {word[:100]!r}")
        return word in _TRUE, False
    detail = options.get("subscriptions_detail") is True
    return detail or options.get("subscriptions") is True, detail


async def add(plane: PlaneFacts, connections: Iterable[dict[str, Any]], *, detail: bool) -> bool:
    """Adds its subscriptions to each connection of a report; False when there were too many to list all."""
    pause, left = Pause(), ROWS_MAX
    for connection in connections:
        if not connection["subscriptions"]:
            continue
        rows = await _of(plane, connection["cid"], left + 1, pause)
        shown = rows[:left]
        if detail:
            connection["subscriptions_list_detail"] = [_detail(row, connection) for row in shown]
        else:
            connection["subscriptions_list"] = [row.subject for row in shown]
        if len(rows) > left:
            return False
        left -= len(rows)
        await pause()
    return True


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
