"""The accounts block: names, users, limits, and what accounts share, whose rules are in sharing.py."""

from __future__ import annotations

from typing import Annotated, Any

from leafd.config.schema.base import Number
from leafd.config.schema.jetstream import AccountJetStream, switch
from leafd.config.schema.mappings import Mappings
from leafd.config.schema.permissions import Permissions, User
from leafd.config.schema.section import Reader, Section, Takes, later, option
from leafd.config.schema.sharing import Export, Import


class AccountLimits(Section):
    """What an account may use; -1: no limit."""

    max_connections: Number = option(
        -1, "How many clients may be connected at a time? -1: no limit.", aliases=("max_conn",), takes=Takes.LIVE
    )
    max_subscriptions: Number = option(
        -1, "How many subscriptions may one connection have? -1: no limit.", aliases=("max_subs",), takes=Takes.LIVE
    )
    max_payload: Number = option(
        -1,
        "How large may a message be, in bytes? -1: as large as the server allows.",
        aliases=("max_pay",),
        takes=Takes.LIVE,
    )
    max_leafnodes: Number = option(
        -1, "How many leaf links may there be? -1: no limit.", aliases=("max_leafs",), takes=Takes.LIVE
    )


class ConfiguredAccount(Section):
    """One account as it is configured: a name space of subjects and streams of its own."""

    users: tuple[User, ...] = option((), "The users of this account.", takes=Takes.LIVE)
    jetstream: Annotated[AccountJetStream | None, Reader(switch)] = option(
        None, "May the account have streams? enabled, disabled, or a block of limits.", takes=Takes.LIVE
    )
    default_permissions: Permissions | None = option(
        None, "What users may do that have no permissions of their own.", takes=Takes.LIVE
    )
    limits: AccountLimits = option(AccountLimits, "Limits of the account.", takes=Takes.LIVE)
    exports: tuple[Export, ...] = option((), "Which subjects other accounts may import.", takes=Takes.LIVE)
    imports: tuple[Import, ...] = option(
        (), "Which subjects of other accounts are heard or asked here.", takes=Takes.LIVE
    )
    mappings: Mappings = option(
        {},
        "Other names for subjects that are published: { from: to }, with weights if wanted.",
        aliases=("maps",),
        takes=Takes.LIVE,
    )
    trace_dest: Any = later("message tracing is not in this build", refuse=False)
    msg_trace: Any = later("message tracing is not in this build", refuse=False, aliases=("message_trace",))
    nkey: Any = later("it has a meaning only in operator mode", refuse=False)
