"""Operator mode while the server runs: accounts that are looked up, updated, deleted, and that expire.

    look_up()   a login names an account that is not known --> resolver, or other servers --> known to plane and rooms
    update()    a new JWT of an account                    --> kept by the resolver, then as a reload of that account
    delete()    what an operator deletes                   --> the same without these accounts
    run()       accounts and activations whose time is over, at the second

Accounts that are only added are put into the tables that are there; everything else takes the path of a reload
(takeover.py), in its slices, one after the other. JWTs are read and files written on one worker thread.
Not here: requests and replies (monitor/claims.py), what a JWT comes to (accounts/claims.py).
"""

from __future__ import annotations

import heapq
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from leafd.accounts.activations import activation
from leafd.accounts.claims import ClaimedAccounts, unknown
from leafd.accounts.graph import Account, common, compare
from leafd.auth.jwt import JwtError
from leafd.auth.nkeys import PREFIX_ACCOUNT, is_public_key
from leafd.auth.operators import read_account, read_deletion
from leafd.auth.resolver import ClaimsError, Resolver, ResolverError, make_resolver
from leafd.auth.trust import TrustedAccount
from leafd.daemon.compiled import SECOND
from leafd.daemon.operator import Operated
from leafd.daemon.takeover import Plan
from leafd.operator_log import Log
from leafd.quoting import printable
from leafd.turns import Pause

if TYPE_CHECKING:
    from leafd.daemon.current import Current
    from leafd.guard import Guard

LOOKUPS_MAX: Final = 64
"""Accounts that other servers are asked for at a time: strangers can name accounts that do not exist."""
MISSING_MAX: Final = 4096
MISSING_S: Final = 1.0
"""How long an account that was not found is not looked for again."""
LIGHT_MAX: Final = 500
"""Accounts that are less work than this are taken in at once, others by the path of a reload: well below a turn."""
BATCH_MAX: Final = 64
"""Accounts that the resolver is asked for at a time."""
EXPORTERS_MAX: Final = 256
"""Accounts that one look-up may bring along, because they are imported of."""
AGAIN_S: Final = 5.0
"""How soon accounts that the server needs itself are looked for again."""
_Result = TypeVar("_Result")


class AccountBook:
    """The accounts of a server in operator mode.

    linked: whether there are other servers in the system account. waiting: the accounts that stored streams wait for.
    make_known: has the rooms know new accounts. take_over: carries out a change of others.
    """

    def __init__(
        self,
        current: Current,
        log: Log,
        guard: Guard,
        *,
        linked: Callable[[], bool],
        waiting: Callable[[], Iterable[str]],
        make_known: Callable[[Sequence[Account]], Awaitable[None]],
        take_over: Callable[[Plan], Awaitable[None]],
    ) -> None:
        """Raises ResolverError."""
        self._current, self._log, self._guard = current, log, guard
        self._linked, self._waiting = linked, waiting
        self._make_known, self._take_over = make_known, take_over
        self._configured = self._operated.resolver
        self.resolver: Resolver = make_resolver(self._configured, self._operated.resolver_tls)
        self._worker = trio.CapacityLimiter(1)
        self._looking: dict[str, trio.Event] = {}
        self._asking = 0
        self._batch: dict[str, trio.Event] = {}
        self._resolving = False
        self._missing: OrderedDict[str, float] = OrderedDict()
        self._ends: list[tuple[int, str]] = []
        self.ask_others: Callable[[str], Awaitable[str]] | None = None
        """Asks other servers of the system account for an account's JWT; set by the service that speaks there."""
        self.resolver_changed: Callable[[], None] | None = None

    @property
    def _operated(self) -> Operated:
        operated = self._current.compiled.operated
        assert operated is not None
        return operated

    @property
    def accounts(self) -> ClaimedAccounts:
        """The accounts that are known."""
        return self._operated.accounts

    @property
    def linked(self) -> bool:
        """Whether there are other servers in the system account."""
        return self._linked()

    @property
    def timeout_s(self) -> float:
        """How long others may take to answer."""
        return float(self._configured.timeout / SECOND)

    @property
    def interval_s(self) -> float:
        """How often a full resolver asks others for what it may have missed."""
        return float(max(self._configured.interval / SECOND, 1.0))

    async def aside(self, function: Callable[[], _Result]) -> _Result:
        """The function's result, or its exception, from the thread that reads JWTs and files."""
        return await trio.to_thread.run_sync(function, limiter=self._worker)

    async def read(self, name: str) -> str | None:
        """The JWT that the resolver has of an account, empty where it has none; None: that cannot be read now."""
        return await self._unless_unread(partial(self.resolver.load, name))

    async def digest(self) -> bytes | None:
        """The digest of all that the resolver has; None: one of them cannot be read now."""
        return await self._unless_unread(self.resolver.digest)

    async def _unless_unread(self, function: Callable[[], _Result]) -> _Result | None:
        try:
            return await self.aside(function)
        except ResolverError as error:
            self._log.warning(f"resolver: {printable(str(error), 500)}")
            return None

    # ---- the start, and a reload

    def preload(self) -> None:
        """Before anybody may connect: keeps the configuration's JWTs, and takes in what the server itself needs. Raises
        ResolverError."""
        accounts = self.accounts
        self._keep_known()
        if self._configured.type == "url":
            return
        for _ in range(2):
            wanted = self.needed()
            found = [one for one in (self._resolved(name) for name in wanted) if one is not None]
            accounts.put(found)
            self._watch(accounts.trusted.values())

    def _keep_known(self) -> None:
        """Puts into the resolver what is known, where that keeps anything. Blocks. Raises ResolverError."""
        for name, trusted in list(self.accounts.trusted.items()) if self.resolver.keeps else ():
            if trusted.token:
                self.resolver.save(name, trusted.token, trusted.claims.iat)

    def needed(self) -> tuple[str, ...]:
        """Accounts of which nothing is known, and that the server cannot do without: its system account, those of its
        remotes and of its streams, and those that the known ones import of."""
        leafnodes, trusted = self._current.config.leafnodes, self.accounts.trusted
        names = dict.fromkeys([self.accounts.graph.system_name])
        if leafnodes is not None:
            names |= dict.fromkeys(one.account for one in leafnodes.remotes if not one.disabled)
        names |= dict.fromkeys(self._waiting())
        names |= dict.fromkeys(unknown(trusted.values(), trusted))
        return tuple(
            name
            for name in names
            if (name not in trusted or not trusted[name].token) and is_public_key(name, PREFIX_ACCOUNT)
        )

    def _resolved(self, name: str) -> TrustedAccount | None:
        """The resolver's account of that name; None where its JWT does not count. Blocks. Raises ResolverError."""
        token = self.resolver.load(name)
        return self._checked(name, token) if token else None

    def _checked(self, name: str, token: str) -> TrustedAccount | None:
        try:
            found = read_account(token, self._operated.operators.keys)
        except JwtError as error:
            self._log.warning(f"Account {name}: its JWT does not count: {error}")
            return None
        return found if found.claims.sub == name else None

    async def reconfigured(self) -> None:
        """Takes up the resolver that a reload has configured; one that cannot be made leaves the old one."""
        configured = self._operated.resolver
        try:  # anew, since files may have been put there by hand
            self.resolver = await self.aside(partial(make_resolver, configured, self._operated.resolver_tls))
            self._configured = configured
            await self.aside(self._keep_known)
        except ResolverError as error:
            self._log.error(f"resolver: {error}; the one before stays")
        await self.aside(partial(self._watch, list(self.accounts.trusted.values())))
        if self.resolver_changed is not None:
            self.resolver_changed()

    # ---- looking up

    async def look_up(self, name: str) -> bool:
        """Whether an account of which nothing is known, or whose time is over, is another one now."""
        event = self._looking.get(name)
        if event is not None:
            await event.wait()
            return name in self.accounts.trusted
        known = self.accounts.trusted.get(name)
        if known is not None and known.token and not known.expired(time.time()):
            # It came to be known after the asker was judged by what was known before.
            async with self._current.changing:
                return True
        if self._is_missing(name):
            return False
        event = self._looking[name] = trio.Event()
        try:
            with self._guard.around("looking up an account"):
                if await self._look_up(name):
                    return True
            self._missing[name] = trio.current_time() + MISSING_S
            if len(self._missing) > MISSING_MAX:
                self._missing.popitem(last=False)
            return False
        finally:
            del self._looking[name]
            event.set()

    def _is_missing(self, name: str) -> bool:
        until = self._missing.get(name)
        if until is not None and until <= trio.current_time():
            del self._missing[name]
        return name in self._missing

    async def _look_up(self, name: str) -> bool:
        known = self.accounts.trusted.get(name)
        await self._resolve(name)
        now = self.accounts.trusted.get(name)
        if now is not None and (known is None or now.token != known.token):
            return True
        found = await self._of_others(name)
        if found is None or (known is not None and found.token == known.token):
            return False
        async with self._current.changing:
            await self._take_in([found])
        return True

    async def _resolve(self, name: str) -> None:
        """Has the resolver asked for an account. The first one asks for all that are waited for by then: many
        logins after a start cost one change of threads together, not several each."""
        done = self._batch.setdefault(name, trio.Event())
        if self._resolving:
            await done.wait()
            return
        self._resolving = True
        try:
            while self._batch:
                most = 1 if self._configured.type == "url" else BATCH_MAX
                names = list(self._batch)[:most]
                events = [self._batch.pop(one) for one in names]
                try:
                    with self._guard.around("looking up accounts"):
                        await self._resolve_all(names)
                finally:
                    for event in events:
                        event.set()
        finally:
            self._resolving = False

    async def _resolve_all(self, names: list[str]) -> None:
        found, faults = await self.aside(partial(self._resolved_all, names))
        for fault in faults:
            self._log.warning(printable(fault, 500))
        if found:
            async with self._current.changing:
                await self._take_in(found)

    def _resolved_all(self, names: list[str]) -> tuple[list[TrustedAccount], list[str]]:
        """Accounts of these names and their exporters, as far as the resolver has them, and the errors. Blocks."""
        found: dict[str, TrustedAccount] = {}
        faults: list[str] = []
        wanted, most = list(names), len(names) + EXPORTERS_MAX
        seen = set(names)
        while wanted and len(found) < most:
            name = wanted.pop()
            try:
                one = self._resolved(name)
            except ResolverError as error:
                faults.append(f"Account {name} could not be looked up: {error}")
                continue
            if one is not None:
                found[name] = one
                more = [exporter for exporter in unknown([one], self.accounts.trusted) if exporter not in seen]
                seen.update(more)
                wanted += more
        return list(found.values()), faults

    async def _of_others(self, name: str) -> TrustedAccount | None:
        """An account that another server of the system account has."""
        if self.ask_others is None or not self.resolver.keeps or self._asking >= LOOKUPS_MAX:
            return None
        self._asking += 1
        try:
            token = await self.ask_others(name)
        finally:
            self._asking -= 1
        return await self.aside(partial(self._kept, name, token)) if token else None

    async def _take_in(self, found: Iterable[TrustedAccount]) -> None:
        """Accounts that were looked up; for those who hold `changing`."""
        light, heavy = [], []
        for one in found:
            known = self.accounts.trusted.get(one.claims.sub)
            if known is None and self.accounts.weight([one]) <= LIGHT_MAX:
                light.append(one)
            elif known is None or known.token != one.token:
                heavy.append(one)
        if light:
            await self._put(light)
        if heavy:
            await self._replace(heavy)

    def _kept(self, name: str, token: str) -> TrustedAccount | None:
        found = self._checked(name, token)
        if found is not None:
            self.resolver.save(name, found.token, found.claims.iat)
        return found

    async def _put(self, found: list[TrustedAccount]) -> None:
        """Accounts that were not known: nobody loses anything by them."""
        await self.aside(partial(self._watch, found))
        pause = Pause()
        changed: dict[str, Account] = {}
        for one in found:
            await pause()
            changed |= {account.name: account for account in self.accounts.put([one])}
        for one in found:
            for note in self.accounts.notes.get(one.claims.sub, ()):
                self._log.warning(printable(f"account {one.claims.sub}: {note}", 500))
        await self._make_known(tuple(changed.values()))
        await self._current.followed()

    # ---- changes

    async def update(self, token: str, name: str = "", *, newer: bool = False) -> tuple[str, str]:
        """Takes a JWT in place of the account's; the account's key and what was done. name: the account that the
        request was for. newer: only one that was issued later, or at the same time, than what is there. Raises
        ClaimsError."""
        try:
            found = await self.aside(partial(read_account, token, self._operated.operators.keys))
        except JwtError as error:
            raise ClaimsError(f"jwt update resulted in error - {error}") from None
        key = found.claims.sub
        if name and name != key:
            raise ClaimsError("jwt update resulted in error - subject does not match jwt content", name)
        if found.broken:
            raise ClaimsError(f"jwt validation failed - validation errors: [{found.broken}]", key)
        known = self.accounts.trusted.get(key)
        if newer and known is not None and known.claims.iat > found.claims.iat:
            return key, "jwt update skipped"
        try:
            if self.resolver.keeps:
                await self.aside(partial(self.resolver.save, key, found.token, found.claims.iat, newer=newer))
            elif key not in self.accounts.trusted:
                return key, "jwt update skipped"
        except ResolverError as error:
            raise ClaimsError(f"jwt update resulted in error - {error}", key) from None
        self._missing.pop(key, None)
        async with self._current.changing:
            known = self.accounts.trusted.get(key)
            if known is not None and known.token != found.token:
                await self._replace([found])
        return key, "jwt updated"

    async def delete(self, token: str) -> int:
        """Deletes the accounts that an operator wants deleted; their number. Raises ClaimsError."""
        signer = ""
        try:
            signer, names = await self.aside(partial(read_deletion, token, self._operated.operators.keys))
            if not self._configured.allow_delete:
                raise JwtError("delete must be enabled in server config")
            if self.accounts.graph.system_name in names:
                raise JwtError("not allowed to delete system account")
            for name in names:
                await self.aside(partial(self.resolver.delete, name))
        except (JwtError, ResolverError) as error:
            signer = getattr(error, "issuer", signer)
            raise ClaimsError(f"delete accounts request by {signer} failed - {error}") from None
        async with self._current.changing:
            gone = [name for name in names if name in self.accounts.trusted]
            if gone:
                await self._replace([], gone)
        return len(names)

    async def _replace(self, found: list[TrustedAccount], gone: Iterable[str] = ()) -> None:
        """Accounts that are others now, by the path of a reload; for those who hold `changing`."""
        current, operated = self._current, self._operated
        old = current.compiled
        gone = tuple(gone)
        affected = frozenset((*(one.claims.sub for one in found), *gone))

        def planned() -> Plan:
            accounts = operated.accounts.changed(found, gone)
            now = operated.with_accounts(accounts)
            new = replace(old, graph=accounts.graph, policy=now.policy, leaf_policy=now.policy, operated=now)
            both = common(old.graph, new.graph)
            less, more = compare(old.graph, both), compare(both, new.graph)
            return Plan(new, current.limits, less, more, affected)

        plan = await self.aside(planned)
        await self.aside(partial(self._watch, found))
        await self._take_over(plan)

    # ---- time

    def _watch(self, accounts: Iterable[TrustedAccount]) -> None:
        for one in accounts:
            name = one.claims.sub
            ends = [one.claims.exp, one.claims.nbf]
            for imported in one.claims.nats.imports:
                found = activation(imported) if imported.token else None
                ends.append(found.exp if found is not None else 0)
            for end in ends:
                if end > time.time():
                    heapq.heappush(self._ends, (end, name))

    async def run(self) -> None:
        """Until cancelled: takes away what is over, at the second, and looks for what is needed and not yet found."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._find_needed)
            while True:
                # Once a second, at its beginning, by the wall clock, which may be set in between.
                await trio.sleep(1.001 - time.time() % 1)
                over = set()
                while self._ends and self._ends[0][0] <= time.time():
                    over.add(heapq.heappop(self._ends)[1])
                if over:
                    with self._guard.around("the end of an account's time"):
                        await self._expire(over)

    async def _expire(self, names: Iterable[str]) -> None:
        async with self._current.changing:
            found = [self.accounts.trusted[name] for name in names if name in self.accounts.trusted]
            if found:
                await self._replace(found)

    async def _find_needed(self) -> None:
        while True:
            for name in self.needed():
                await self.look_up(name)
            await trio.sleep(AGAIN_S)
