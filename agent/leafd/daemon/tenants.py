"""The accounts in the plane and in JetStream: made known at the start, changed and withdrawn by a reload.

    make_known()   _announce(): name, flags, mappings, and who answers its JetStream requests; then
                   _share(): what it imports
    withdraw()     accounts that the configuration no longer has

Each says everything about one account and takes the place of what was said before; what stays the same is not taken
away in between. Orders reach the plane in the order of the calls. Not here: which accounts there are
(accounts/), in which order a reload changes them (takeover.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from leafd import native_types as t
from leafd.accounts.graph import Account
from leafd.config.schema.jetstream import AccountJetStream
from leafd.guard import Guard
from leafd.turns import Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from leafd.jetstream.catalogue import JetStreamLimits
    from leafd.jetstream.service import JetStream
    from leafd.native_plane import Plane

API_ALL: Final = "$JS.API.>"
ORDERS_AT_ONCE: Final = 256
"""Accounts that are made known or withdrawn before the plane is waited for."""


class Tenants:
    """The accounts of one server, as those who carry messages for them know them."""

    def __init__(
        self,
        plane: Plane,
        jetstream: JetStream | None,
        domain: str,
        guard: Guard,
        mark: str = "",
        *,
        linked: bool = False,
        pinned: Collection[str] = (),
        on_measured: Callable[[], None] = lambda: None,
    ) -> None:
        """linked: whether leaf links may come: the plane then counts an account's subscriptions for them as they come,
        and need not go through all of them when the first link is there. pinned: accounts with routes of their own.
        on_measured: called for each account that imports a measured service."""
        self._plane = plane
        self._jetstream = jetstream
        self._domain = domain
        self._guard = guard
        self._mark = mark
        """The end of the replies of measured requests, by which a server behind a link measures, too."""
        self._linked = linked
        self.pinned = frozenset(pinned)
        self._on_measured = on_measured
        self._subscriptions: dict[int, dict[str, int]] = {}

    async def make_known(self, accounts: Sequence[Account]) -> None:
        """New and changed accounts. An error with one of them does not stop the others."""
        # Two passes: an import needs its exporter.
        await self._with_each(accounts, self._announce, "making an account known")
        await self._with_each(accounts, self._share, "making an account's imports known")
        await self._plane.settled()
        if self._jetstream is not None:
            with self._guard.around("taking up an account's streams"):
                await self._jetstream.take_up()

    async def withdraw(self, accounts: Sequence[Account]) -> None:
        """Accounts that the configuration no longer has."""
        await self._with_each(accounts, self._withdraw, "withdrawing an account")

    async def _with_each(self, accounts: Sequence[Account], work: Callable[[Account], None], what: str) -> None:
        pause = Pause()
        for number, account in enumerate(accounts, start=1):
            with self._guard.around(what):
                work(account)
            if number % ORDERS_AT_ONCE == 0:
                await self._plane.settled()
            await pause()

    def _announce(self, account: Account) -> None:
        """Makes an account known, or what is new about it."""
        flags = t.AccountFlag(0) if account.jetstream is None else t.AccountFlag.JETSTREAM
        if account.serves:
            flags |= t.AccountFlag.SERVES
        if self._linked:
            flags |= t.AccountFlag.LINKED
        if account.name in self.pinned:
            flags |= t.AccountFlag.PINNED
        self._plane.account(account.id, account.name, self._domain, int(flags))
        self._plane.traces(account.id, account.trace.dest, account.trace.sampling)
        self._plane.set_mappings(account.id, account.mappings)
        if self._jetstream is None:
            return
        share = account.jetstream
        limits = share_limits(share, account.tiers) if share is not None else None
        if limits is not None:
            self._allow(account.id, limits, self._jetstream)
        self._jetstream.add_account(account.id, account.name, limits, enabled=share is not None, system=account.system)
        self._answer(account.id, self._wanted(account, self._jetstream))

    def _allow(self, account: int, limits: JetStreamLimits, jetstream: JetStream) -> None:
        from leafd.jetstream.allowed import allowances

        known = jetstream.catalogue.accounts.get(account)
        for allowed in allowances(limits, known.elsewhere if known is not None else ()):
            self._plane.allow(account, allowed)

    def _wanted(self, account: Account, jetstream: JetStream) -> dict[str, t.Handler]:
        """Accounts without JetStream ask, too, and are told that they have none. The plane maps the domain's subjects
        only for those that have it. An import over the API's own subjects takes their place."""
        wanted: dict[str, t.Handler] = {}
        if not account.imports_service("$JS.API.INFO"):
            wanted[API_ALL] = jetstream.message
        if account.jetstream is None and self._domain:
            wanted[f"$JS.{self._domain}.API.>"] = self._without_domain
        return wanted

    def _answer(self, account: int, wanted: dict[str, t.Handler]) -> None:
        """Subscribes to exactly these. One that stays is not touched: a request in between would find nobody."""
        known = self._subscriptions.setdefault(account, {})
        for subject, handler in wanted.items():
            if subject not in known:
                known[subject] = self._plane.subscribe(account, subject, handler, flags=int(t.SubscribeFlag.API))
        for subject in known.keys() - wanted.keys():
            self._plane.unsubscribe(account, known.pop(subject))

    def _without_domain(self, message: t.Message) -> bool:
        subject = message.subject.replace(f"$JS.{self._domain}.API.", "$JS.API.", 1)
        return self._jetstream is not None and self._jetstream.message(replace(message, subject=subject))

    def _share(self, account: Account) -> None:
        """Tells the plane what an account imports; every account is known to it by now."""
        rows = (
            t.ImportRow(
                one.exporter,
                t.ImportKind.SERVICE if one.service else t.ImportKind.STREAM,
                t.Response.SINGLETON if one.singleton else t.Response.STREAM,
                one.threshold_ns,
                one.subject,
                one.local,
                one.order,
                one.traced,
                one.shared,
                one.placed,
                one.sampling,
                one.results,
                self._mark if one.results else "",
            )
            for one in account.imports
        )
        if any(one.results for one in account.imports):
            self._on_measured()
        self._plane.imports(account.id, rows)

    def _withdraw(self, account: Account) -> None:
        """An account that the configuration no longer has: its streams stay on disk, unserved."""
        self._answer(account.id, {})
        if self._jetstream is not None:
            self._jetstream.add_account(account.id, account.name, enabled=False)
        self._plane.set_mappings(account.id, ())
        self._plane.imports(account.id, ())
        self._plane.account(account.id, account.name, "", int(t.AccountFlag.REMOVED))


def share_limits(share: AccountJetStream, tiers: tuple[tuple[str, AccountJetStream], ...] = ()) -> JetStreamLimits:
    """An account's limits as JetStream takes them."""
    from leafd.jetstream.catalogue import JetStreamLimits

    return JetStreamLimits(
        max_memory=share.max_memory,
        max_store=share.max_store,
        max_streams=share.max_streams,
        max_consumers=share.max_consumers,
        max_ack_pending=share.max_ack_pending,
        memory_max_stream_bytes=share.mem_max_stream_bytes,
        store_max_stream_bytes=share.disk_max_stream_bytes,
        max_bytes_required=share.max_bytes_required,
        tiers=tuple((name, share_limits(one)) for name, one in tiers),
    )
