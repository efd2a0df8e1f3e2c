"""The second half of a reload: a new configuration takes effect, first what it takes away, then what it gives.

    plan() --Plan--> apply(): narrow logins -> forget remotes -> less -> withdraw -> more -> the server's Compiled
                                  is the new one -> dial remotes -> limits -> widen logins

In between everybody has what both configurations allow, so that at no time anybody has something of one of them that
only the other one lets him use. Not here: reading and checking the file (reload.py), what each room
does with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING

from leafd import native_types as t
from leafd.accounts.graph import Account, Change, common, compare
from leafd.auth.verdict import AUTHORIZATION_VIOLATION
from leafd.config.schema.server import ServerConfig
from leafd.daemon.compiled import Compiled, compile_config, jetstream_settings
from leafd.daemon.store import plane_limits
from leafd.logins.handshakes import Made
from leafd.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leafd.accounts.graph import Numbers
    from leafd.daemon.about import About
    from leafd.daemon.current import Current
    from leafd.daemon.listening import Listeners
    from leafd.daemon.tenants import Tenants
    from leafd.enrol.register import Register
    from leafd.guard import Guard
    from leafd.jetstream.service import JetStream
    from leafd.links.leafs import Leafs
    from leafd.logins.clients import Clients
    from leafd.logins.handshakes import Handshakes
    from leafd.logins.leaf_logins import LeafLogins
    from leafd.monitor.facts import Facts
    from leafd.native_plane import Plane


@dataclass(frozen=True, slots=True)
class Plan:
    """The two halves of a reload: first the rights and limits that shrink, then those that grow. compiled: of a
    configuration with the old one's fields where only a restart changes them."""

    compiled: Compiled
    limits: t.Limits
    less: Change
    more: Change
    affected: frozenset[str] | None = None
    """Names of the accounts that have changed, if not all have. Logins of others are not judged again."""
    tls: Made = field(default_factory=Made)


@dataclass(slots=True, eq=False)
class Takeover:
    """How a server takes over what a reload has read: the rooms that follow it, in the order of apply()."""

    plane: Plane
    current: Current
    numbers: Numbers
    register: Register | None
    about: About
    facts: Facts
    guard: Guard
    clients: Clients
    leaf_logins: LeafLogins
    leafs: Leafs
    tenants: Tenants
    handshakes: Handshakes
    listeners: Listeners
    jetstream: JetStream | None
    cluster: Callable[[], str]
    """The name of the cluster that leaf links belong to."""

    def plan(self, config: ServerConfig, remote_place: Callable[[int], str]) -> Plan:
        """The plan of a reload with this configuration. Changes nothing and takes its time: for a thread of its own.
        remote_place: where the remote of that number stands, for errors. Raises ConfigError."""
        current = self.current
        old = current.compiled
        new = compile_config(config, self.numbers, old.remotes, remote_place, old.operated, self.register)
        limits = replace(
            plane_limits(config, current.store),
            max_file_store=current.limits.max_file_store,
            max_memory_store=current.limits.max_memory_store,
            sync_interval_ns=current.limits.sync_interval_ns,
        )
        both = common(old.graph, new.graph)
        made = self.handshakes.make(new)
        return Plan(new, limits, compare(old.graph, both), compare(both, new.graph), tls=made)

    async def apply(self, coming: Plan) -> None:
        """The live part of a new configuration takes effect."""
        old, new = self.current.compiled, coming.compiled
        self.leaf_logins.expect(new.leaf_terms)
        with self.guard.around("the first half of a reload"):
            await self.clients.narrow(new.client_terms, coming.affected)
            await self.leaf_logins.judge_again()
        kept = {id(one.remote) for one in new.remotes} & {id(one.remote) for one in old.remotes}
        self.leafs.forget(one.remote for one in old.remotes if id(one.remote) not in kept)
        await self.tenants.make_known(coming.less.changed)
        await self._withdraw(coming.less.removed)
        await self.tenants.make_known((*coming.more.added, *coming.more.changed))
        await self.handshakes.put(coming.tls)
        self._adopt(new, coming.limits)
        self.plane.forget_authors()
        self.listeners.again()
        self.leaf_logins.set_terms(new.leaf_terms)
        self.leafs.belong_to(self.cluster())
        self.leafs.told_each = new.config.connect_error_reports, new.config.reconnect_error_reports
        for one in new.remotes:
            self.leafs.sending.change(one.remote, *one.sending)
        self.leafs.dial(one.remote for one in new.remotes if id(one.remote) not in kept)
        self.plane.set_limits(coming.limits)
        with self.guard.around("the second half of a reload"):
            await self.clients.set_terms(new.client_terms, coming.affected)
        await self.handshakes.clear(coming.tls)
        if self.jetstream is not None and new.config.jetstream is not None:
            name, domain = self.about.name, self.about.domain
            self.jetstream.set_settings(jetstream_settings(new.config, coming.limits, name, domain))
            with self.guard.around("judging again what streams publish"):
                await self.jetstream.judge_again()
        if coming.affected is None:
            self.facts.loaded_ns = time.time_ns()
        await self.current.followed()

    def _adopt(self, compiled: Compiled, limits: t.Limits) -> None:
        self.current.adopt(compiled, limits)
        self.leafs.web_ping_interval_ns = compiled.web_ping_ns
        facts, operated = self.facts, compiled.operated
        facts.config, facts.graph, facts.limits = compiled.config, compiled.graph, limits
        facts.cluster = self.cluster()
        if operated is not None:
            facts.accounts, facts.operators = operated.accounts, operated.operators.tokens

    async def _withdraw(self, accounts: Sequence[Account]) -> None:
        """Accounts that the configuration no longer has: their links end with them."""
        names = {account.name for account in accounts}
        for link in self.leafs.links() if names else ():
            if link.account in names:
                self.plane.close_connection(link.connection, AUTHORIZATION_VIOLATION, t.CloseReason.AUTHENTICATION)
        await self.tenants.withdraw(accounts)
