"""The accounts block: names, users, limits, and what accounts share, whose rules are in sharing.py."""

from __future__ import annotations

from typing import Annotated, Any

from leafd.config.schema.base import Number, Text
from leafd.config.schema.declared import CONSUMERS, KV, OBJECTS, STREAMS, AsWritten
from leafd.config.schema.jetstream import AccountJetStream, switch
from leafd.config.schema.mappings import Mappings
from leafd.config.schema.permissions import Permissions, User, is_subject
from leafd.config.schema.section import Reader, Section, Takes, later, option
from leafd.config.schema.sharing import Export, Import


class AccountLimits(Section):
    """The limits of an account; -1: no limit."""

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


def _tracing(value: object) -> object:
    return {"dest": value} if isinstance(value, str) else value


def _percent(value: object) -> object:
    return int(value.removesuffix("%")) if isinstance(value, str) and value.removesuffix("%").isdigit() else value


class MessageTracing(Section):
    """Traces that other systems ask for (traceparent)."""

    dest: Text = option("", "The subject that the traces are published to.", takes=Takes.LIVE)
    sampling: Annotated[Number, Reader(_percent)] = option(
        100, "How many percent of such messages are traced?", takes=Takes.LIVE, ge=1, le=100
    )

    def check(self) -> None:
        if self.dest and (not is_subject(self.dest) or {"*", ">"} & set(self.dest.split("."))):
            raise ValueError(f'Trace destination "{self.dest}" is not valid')


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
    msg_trace: Annotated[MessageTracing | None, Reader(_tracing)] = option(
        None,
        "Where it is told what became of messages with a sampled traceparent: a subject, or { dest, sampling }.",
        aliases=("trace_dest",),
        takes=Takes.LIVE,
    )
    streams: AsWritten = STREAMS
    consumers: AsWritten = CONSUMERS
    kv: AsWritten = KV
    objects: AsWritten = OBJECTS
    nkey: Any = later("it has a meaning only in operator mode", refuse=False)
