"""The rules for sending over links: priorities and limits, of hubs that are dialled and of leaves that dial. The rules
are those of the configuration of today.

Not here: what was used of a budget (budgets.py, which is imported with the first limit), who is
connected (leafs.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from leafd import native_types as t
from leafd.gojson import JsonError, present
from leafd.guard import Guard
from leafd.links import leaf
from leafd.links.addresses import place_of
from leafd.links.leaf_info import HubInfo, frame
from leafd.native_connections import Connections
from leafd.operator_log import Log

if TYPE_CHECKING:
    from leafd.links.budgets import Budgets
    from leafd.links.limits import Limits
    from leafd.links.link import Link

BUDGET_RECORD = b"budget/"
GOES = ("all", "normal", "high", "none")
"""limits.py, which is imported with the first limit."""
LAST_S = 5.0
"""So long may the last records take."""
NAME_MAX = 64


class Sending:
    """The rules of all links."""

    def __init__(
        self,
        plane: Connections,
        log: Log,
        guard: Guard,
        links: Mapping[int, Link],
        *,
        put: Callable[[bytes, bytes], Awaitable[None]] | None = None,
        memory_limit: int = 0,
    ) -> None:
        """put: stores a record; None: there is no store. memory_limit: 0: there is none."""
        self._plane, self._log, self._guard, self._links = plane, log, guard, links
        self._rules: dict[int, tuple[str, ...]] = {}
        """By remote; 0: of leaves that dial us."""
        self._limits: Limits | None = None
        """The limits of leaves that dial us."""
        self._budgets: Budgets | None = None
        self._records: dict[bytes, bytes] = {}
        self._needed = trio.Event()
        self._put = put
        self._memory_limit = memory_limit
        self._to: dict[tuple[int, str], dict[int, Link]] = {}
        """Links that are up, by their account and the domain at their other end."""

    def load_record(self, key: bytes, value: bytes) -> None:
        """A record of the store, before anything else."""
        if key.startswith(BUDGET_RECORD):
            self._records[key] = value

    def _need(self) -> Budgets:
        if self._budgets is None:
            from leafd.links.budgets import RESTING_BYTES, RESTING_MAX, Budgets

            most = min(self._memory_limit // RESTING_BYTES or RESTING_MAX, RESTING_MAX)
            self._budgets = Budgets(self._plane, self._log, self._guard, put=self._put, resting_max=most)
            self._budgets.on_change = self._tell
            for key, value in self._records.items():
                self._budgets.load_record(key, value)
            self._records.clear()
            self._needed.set()
        return self._budgets

    async def run(self) -> None:
        """Goes on for ever. Cancel to end it."""
        await self._needed.wait()
        await self._need().run()

    async def stop(self, rows: Callable[[], Awaitable[Iterable[t.ConnectionRow]]]) -> None:
        """The last records, before the store is closed."""
        if self._budgets is not None:
            with trio.move_on_after(LAST_S), self._guard.around("the last records of budgets"):
                self._budgets.take(await rows())
                await self._budgets.write(last=True)

    # ---- the configuration

    def change(self, remote: leaf.Remote | None, rules: tuple[str, ...], limits: Limits | None) -> None:
        """The rules of that hub, or of leaves that dial us (None), from now on, also over links that are up."""
        mine = [link for link in self._links.values() if link.remote is remote and link.bind is not None]
        if rules != self._rules.get(id(remote) if remote is not None else 0, ()):
            for link in mine:
                self._plane.precede(link.connection, rules)
        self._rules[id(remote) if remote is not None else 0] = rules
        if remote is not None:
            if limits is not None or self._budgets is not None:
                self._need().limit(key_of(remote), name_of(remote), limits, dialled=True)
        elif limits != self._limits:
            self._limits = limits
            for key in self._need().accepted():
                if limits is None:
                    self._need().limit(key, "", None, dialled=False)
        for link in mine:
            self._afford(link)

    def forget(self, remote: leaf.Remote) -> None:
        """Forgets a hub that is not dialled any more."""
        self._rules.pop(id(remote), None)
        if self._budgets is not None:
            self._budgets.limit(key_of(remote), "", None, dialled=True)

    # ---- links

    def up(self, link: Link) -> None:
        """Sets the rules of a link that was admitted."""
        rules = self._rules.get(id(link.remote) if link.remote is not None else 0, ())
        if rules:
            self._plane.precede(link.connection, rules)
        assert link.bind is not None
        self._to.setdefault((link.bind.account, link.bind.remote_domain), {})[link.connection] = link
        self._afford(link)

    def _afford(self, link: Link) -> None:
        if link.remote is None and self._limits is not None:
            self._need().limit(key_of(link), name_of(link), self._limits, dialled=False)
        if self._budgets is not None:
            self._budgets.up(key_of(link.remote or link), link.connection)

    def down(self, link: Link, wire: int) -> None:
        """Takes the end of a link, be it that it was never admitted, and the bytes that it has carried."""
        way = (link.bind.account, link.bind.remote_domain) if link.bind is not None else None
        if way is not None and self._to.get(way, {}).pop(link.connection, None) is not None and not self._to[way]:
            del self._to[way]
        if self._budgets is not None and (link.remote is not None or link.bind is not None):
            self._budgets.closed(key_of(link.remote or link), link.connection, wire)

    def carried(self, event: t.Carried) -> bool:
        """The plane has counted so far."""
        if self._budgets is not None:
            self._budgets.carried(event)
        return True

    # ---- what each end tells the other

    def _tell(self, connections: Iterable[int], goes: str) -> None:
        """A leafd at the other end is told what may go here, for people who look at its copies of what is here."""
        for connection in connections:
            link = self._links.get(connection)
            if link is not None and link.bind is not None and link.bind.orderly:
                self._plane.send(connection, frame("INFO", {"leafd_held": goes}))

    def heard(self, event: t.LeafInfo) -> bool:
        """Whether it is a link's: an INFO of the other end while the link is up."""
        link = self._links.get(event.connection)
        if link is not None:
            with contextlib.suppress(JsonError):
                info = present(HubInfo, event.payload)
                link.held = info["leafd_held"] if info.get("leafd_held") in GOES else link.held
                link.told(info)
        return link is not None

    def held(self, account: int, domain: str, *, there: bool) -> str:
        """The traffic that may go, here or there, over the link of that account to that domain; empty: the link has no
        budget, or its far end does not say."""
        links = self._to.get((account, domain), {})
        link = next(reversed(links.values()), None)
        if link is None or there:
            return link.held if link is not None else ""
        return "" if self._budgets is None else self._budgets.goes(link.connection)

    # ---- reports

    def report(self, connection: int, wire: int) -> dict[str, Any] | None:
        """The report on a link that is up, which has carried so much; None: it has no limits."""
        return None if self._budgets is None else self._budgets.report(connection, wire)

    def report_of(self, remote: leaf.Remote) -> dict[str, Any] | None:
        """The report on a hub that is dialled, be the link up or not."""
        return None if self._budgets is None else self._budgets.report_of(key_of(remote))


def key_of(one: leaf.Remote | Link) -> bytes:
    """The key of its record, whatever becomes of its connections and logins."""
    from leafd.links.budgets import key_of as key

    if isinstance(one, leaf.Remote):
        return key("remote", one.account_name, *sorted(place_of(url) for url in one.urls))
    if one.box:  # what it says to be gives it no second budget
        return key("box", one.box)
    bind = one.bind
    assert bind is not None
    return key("leaf", bind.remote_name, bind.cluster, bind.account_name, bind.remote_account)


def name_of(one: leaf.Remote | Link) -> str:
    """The name of a remote or a link in lines for people."""
    if isinstance(one, leaf.Remote):
        return f"to {', '.join(place_of(url) for url in one.urls)}, account {one.account_name}"
    bind = one.bind
    assert bind is not None
    return f"with {bind.remote_name[:NAME_MAX]}, account {bind.account_name}"
