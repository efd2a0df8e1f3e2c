"""The second half of a reload: a new configuration takes effect, first what it takes away, then what it gives.

    plan() --Plan--> take_over(): narrow logins -> forget remotes -> less -> withdraw -> more -> the server's Compiled
                                  is the new one -> dial remotes -> limits -> widen logins

In between everybody has what both configurations allow, so that at no time anybody has something of one of them that
only the other one lets him use. What does not live here: reading and checking the file (reload.py), what each room
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

    from leafd.daemon.server import Server


@dataclass(frozen=True, slots=True)
class Plan:
    """The two halves of a reload: first the rights and limits that shrink, then those that grow. compiled: of a
    configuration with the old one's fields where only a restart changes them."""

    compiled: Compiled
    limits: t.Limits
    less: Change
    more: Change
    affected: frozenset[str] | None = None
    """Where only some accounts have changed: their names. Logins of others are not judged again."""
    tls: Made = field(default_factory=Made)


def plan(server: Server, config: ServerConfig, remote_place: Callable[[int], str]) -> Plan:
    """The plan of a reload with this configuration. Changes nothing and takes its time: for a thread of its own.
    remote_place: where the remote of that number stands, for errors. Raises ConfigError."""
    old = server.compiled
    roll = server.boxes.roll if server.boxes is not None else None
    new = compile_config(config, server.numbers, old.remotes, remote_place, old.operated, roll)
    limits = replace(
        plane_limits(config, server.store),
        max_file_store=server.limits.max_file_store,
        max_memory_store=server.limits.max_memory_store,
        sync_interval_ns=server.limits.sync_interval_ns,
    )
    both = common(old.graph, new.graph)
    made = server.handshakes.make(new)
    return Plan(new, limits, compare(old.graph, both), compare(both, new.graph), tls=made)


async def take_over(server: Server, coming: Plan) -> None:
    """The live part of a new configuration takes effect."""
    old, new = server.compiled, coming.compiled
    server.leaf_logins.expect(new.leaf_terms)
    with server.guard.around("the first half of a reload"):
        await server.clients.narrow(new.client_terms, coming.affected)
        await server.leaf_logins.judge_again()
    kept = {id(one.remote) for one in new.remotes} & {id(one.remote) for one in old.remotes}
    server.leafs.forget(one.remote for one in old.remotes if id(one.remote) not in kept)
    await server.tenants.make_known(coming.less.changed)
    await _withdraw(server, coming.less.removed)
    await server.tenants.make_known((*coming.more.added, *coming.more.changed))
    await server.handshakes.put(coming.tls)
    server.adopt(new, coming.limits)
    server.plane.forget_authors()
    server.listen_again()
    server.leaf_logins.set_terms(new.leaf_terms)
    server.leafs.belong_to(server.leaf_cluster)
    server.leafs.told_each = new.config.connect_error_reports, new.config.reconnect_error_reports
    for one in new.remotes:
        server.leafs.sending.change(one.remote, *one.sending)
    server.leafs.dial(one.remote for one in new.remotes if id(one.remote) not in kept)
    server.plane.set_limits(coming.limits)
    with server.guard.around("the second half of a reload"):
        await server.clients.set_terms(new.client_terms, coming.affected)
    await server.handshakes.clear(coming.tls)
    if server.jetstream is not None and new.config.jetstream is not None:
        about = server.about
        server.jetstream.set_settings(jetstream_settings(new.config, coming.limits, about.name, about.domain))
        with server.guard.around("judging again what streams publish"):
            await server.jetstream.judge_again()
    if coming.affected is None:
        server.facts.loaded_ns = time.time_ns()
    for callback in server.on_reload:
        with server.guard.around("what follows a reload"):
            await callback()


async def _withdraw(server: Server, accounts: Sequence[Account]) -> None:
    """Accounts that the configuration no longer has: their links end with them."""
    names = {account.name for account in accounts}
    for link in server.leafs.links() if names else ():
        if link.account in names:
            server.plane.close_connection(link.connection, AUTHORIZATION_VIOLATION, t.CloseReason.AUTHENTICATION)
    await server.tenants.withdraw(accounts)
