"""The subscriptions of connections in connz and subsz: subjects alone, or with queue groups, names and counts.

Read from the plane in slices, in pauses, and at most ROWS_MAX in a report. Not here: the report around
them (reports.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leafd import native_types as t
from leafd.config.schema.sharing import is_subset
from leafd.monitor.facts import Facts
from leafd.monitor.options import flag
from leafd.native_plane import Plane
from leafd.turns import Pause

ROWS_MAX: Final = 16_384
TOGETHER: Final = 32
"""So many connections are asked about at once, .."""
FEW: Final = 128
""".. unless one has more subscriptions: their rows are copied when they come, and so is a slice of 64 KB."""
Begun = t.SubscriptionSlice | None
"""The first subscriptions of a connection; None: they are not asked for yet."""


def wanted(options: Mapping[str, Any]) -> tuple[bool, bool]:
    """(whether they are wanted, whether in detail). Raises ValueError, which the caller answers with 400."""
    word = options.get("subs")
    if isinstance(word, str) and word.lower() == "detail":
        return True, True
    detail = options.get("subscriptions_detail") is True
    return flag(options, "subs", "subscriptions") or detail, detail


async def of(plane: Plane, connection: int) -> list[t.SubscriptionRow]:
    """The subscriptions of one connection."""
    return await _of(plane, connection, ROWS_MAX, Pause())


async def subjects(plane: Plane, counts: Mapping[int, int]) -> dict[int, list[str]]:
    """The subjects that each of some connections subscribes to, by how many these are."""
    found, pause, asked = dict[int, list[str]](), Pause(), list(counts)
    for at in range(0, len(asked), TOGETHER):
        some = asked[at : at + TOGETHER]
        begun = await _begun(plane, {one: counts[one] for one in some})
        for connection in some:
            rows = await _of(plane, connection, ROWS_MAX, pause, begun.get(connection))
            found[connection] = [row.subject for row in rows]
        await pause()
    return found


_NOTHING: Final = t.SubscriptionSlice((), 0)
"""The subscriptions of a connection that went away."""


class Listing:
    """Adds its subscriptions to each connection of a report, as long as they are not too many for one. ended: what is
    kept of those of connections that have gone, and what is said of each."""

    def __init__(self, plane: Plane, ended: Mapping[int, tuple[bytes, dict[str, str]]], *, detail: bool) -> None:
        self.whole = True
        self._plane, self._ended, self._detail = plane, ended, detail
        self._pause, self._left = Pause(), ROWS_MAX

    async def add_each(self, connections: Sequence[dict[str, Any]]) -> None:
        """To each of these connections. Afterwards whole says whether all of them are in it."""
        counts = {one["cid"]: one["subscriptions"] for one in connections if one["cid"] not in self._ended}
        begun = await _begun(self._plane, counts) if self.whole else {}
        for connection in connections:
            if self.whole and connection["subscriptions"]:
                await self._add(connection, begun.get(connection["cid"]))

    async def _add(self, connection: dict[str, Any], begun: Begun) -> None:
        gone = self._ended.get(connection["cid"])
        if gone is None:
            rows = await _of(self._plane, connection["cid"], self._left + 1, self._pause, begun)
            about = dict[str, str]()
        else:
            rows, about = list(t.subscription_rows(gone[0])), gone[1]
        shown = rows[: self._left]
        if self._detail:
            connection["subscriptions_list_detail"] = [about | _detail(row, connection) for row in shown]
        else:
            connection["subscriptions_list"] = [row.subject for row in shown]
        self.whole = len(rows) <= self._left
        self._left -= len(rows)
        await self._pause()


async def every(
    facts: Facts, account: str, published: str, wanted: range = range(ROWS_MAX)
) -> tuple[int, list[dict[str, Any]], bool]:
    """The subscriptions of all clients and links, of one account where that is given, and of those that hear what is
    published to a subject where that is given: how many, and the wanted ones. False: there were too many to look at
    all."""
    accounts = {one.id: one for one in facts.graph.by_id.values() if account in ("", one.name)}
    count, found, pause, left = 0, list[dict[str, Any]](), Pause(), ROWS_MAX
    asked = [one for one in await facts.plane.connections() if one.account in accounts and one.subscriptions]
    for begin in range(0, len(asked), TOGETHER):
        some = asked[begin : begin + TOGETHER]
        begun = await _begun(facts.plane, {one.connection: one.subscriptions for one in some})
        for connection in some:
            await pause()
            owner = accounts[connection.account]
            rows = await _of(facts.plane, connection.connection, left + 1, pause, begun.get(connection.connection))
            about = {"account": owner.name, "account_tag": owner.shown}
            for row in rows[:left]:
                if not published or is_subset(published, row.subject):
                    if count in wanted:
                        found.append(about | _detail(row, {"cid": connection.connection}))
                    count += 1
            left -= len(rows)
            if left < 0:
                return count, found, False
    return count, found, True


def _detail(row: t.SubscriptionRow, connection: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"subject": row.subject}
    if row.queue:
        found["qgroup"] = row.queue
    found |= {"sid": row.sid, "msgs": row.messages}
    if row.max:
        found["max"] = row.max
    return found | {"cid": connection["cid"]}


async def _begun(plane: Plane, counts: Mapping[int, int]) -> dict[int, t.SubscriptionSlice]:
    """The first subscriptions of those of these connections that have some, and few, by how many they have."""
    few = [connection for connection, count in counts.items() if 0 < count <= FEW]
    found = await plane.subscriptions_of(few) if few else []
    return {connection: one or _NOTHING for connection, one in zip(few, found, strict=True)}


async def _of(plane: Plane, connection: int, most: int, pause: Pause, begun: Begun = None) -> list[t.SubscriptionRow]:
    """The subscriptions of one connection, each once, also when its table grows meanwhile."""
    rows: list[t.SubscriptionRow] = []
    place = 0
    if begun is not None:
        rows += begun.rows
        place = begun.next
        if not place:
            return rows
    while len(rows) < most:
        try:
            part = await plane.subscriptions(connection, place)
        except t.PlaneError as error:
            if error.status == t.Status.NOT_FOUND:
                return []  # the connection went away
            raise
        rows += part.rows
        place = part.next
        if not place:
            break
        await pause()
    return rows
