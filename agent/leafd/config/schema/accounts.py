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

    max_connections: Number = option(-1, "Client connections.", aliases=("max_conn",), takes=Takes.LIVE)
    max_subscriptions: Number = option(-1, "Subscriptions of one connection.", aliases=("max_subs",), takes=Takes.LIVE)
    max_payload: Number = option(-1, "Bytes of a message.", aliases=("max_pay",), takes=Takes.LIVE)
    max_leafnodes: Number = option(-1, "Leaf links.", aliases=("max_leafs",), takes=Takes.LIVE)


class ConfiguredAccount(Section):
    """One account as it is configured: a name space of subjects and streams of its own."""

    users: tuple[User, ...] = option((), "Who belongs to it.", takes=Takes.LIVE)
    jetstream: Annotated[AccountJetStream | None, Reader(switch)] = option(
        None, "enabled, disabled, or a map of limits.", takes=Takes.LIVE
    )
    default_permissions: Permissions | None = option(
        None, "For users that have no permissions of their own.", takes=Takes.LIVE
    )
    limits: AccountLimits = option(AccountLimits, "What it may use.", takes=Takes.LIVE)
    exports: tuple[Export, ...] = option((), "What other accounts may import.", takes=Takes.LIVE)
    imports: tuple[Import, ...] = option((), "What of other accounts is to be had here.", takes=Takes.LIVE)
    mappings: Mappings = option(
        {}, "Subjects that go elsewhere, with weights if wanted.", aliases=("maps",), takes=Takes.LIVE
    )
    trace_dest: Any = later("message tracing is not in this build", refuse=False)
    msg_trace: Any = later("message tracing is not in this build", refuse=False, aliases=("message_trace",))
    nkey: Any = later("it has a meaning only in operator mode", refuse=False)
