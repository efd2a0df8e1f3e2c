"""The account graph: which accounts there are, their numbers, who has JetStream, what each may use.

Numbers are given once in the life of a process and never again to another name, so a reload may add and remove
accounts while connections and streams hold on to theirs. What accounts import becomes flat rows, which the plane routes
by; the rules of sharing are config/schema/sharing.py's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Final

from leafd.config.schema.accounts import AccountLimits, ConfiguredAccount, MessageTracing
from leafd.config.schema.jetstream import AccountJetStream
from leafd.config.schema.mappings import Choices
from leafd.config.schema.server import ServerConfig
from leafd.config.schema.sharing import Shared, is_subset
from leafd.records import dataclass

GLOBAL: Final = "$G"
SYSTEM: Final = "$SYS"
_API: Final = "$JS.API.>"


@dataclass(frozen=True, slots=True)
class CompiledImport:
    """One import, as the plane takes it. order: for each wildcard of local, which of subject it stands for."""

    exporter: int
    service: bool
    subject: str
    local: str
    order: tuple[int, ...]
    singleton: bool
    threshold_ns: int
    traced: bool = False
    """Traces of messages go on at the other side."""
    shared: bool = False
    """The service is told everything of the requestor."""
    placed: bool = False
    """The service is told the requester's server."""
    sampling: int = 0
    results: str = ""
    """The subject on which the service's times are told; empty: they are not measured."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """The subject on which an account is told what became of messages with `traceparent`, and for how many percent of
    them."""

    dest: str = ""
    sampling: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """One account. jetstream: its share, None when it has none. mappings: each source with its choices. label: what
    people call it, where its name is a key."""

    id: int
    name: str
    system: bool
    limits: AccountLimits
    jetstream: AccountJetStream | None
    mappings: tuple[tuple[str, Choices], ...] = ()
    imports: tuple[CompiledImport, ...] = ()
    label: str = ""
    tiers: tuple[tuple[str, AccountJetStream], ...] = ()
    """All of JetStream's limits by number of replicas, if any are. `jetstream` is then what holds here."""
    trace: Tracing = field(default_factory=Tracing)
    serves: bool = False
    """The account has services, which a server at the other end of a link may measure."""
    described: bool = False
    """Services, or those who measure them, may be told everything of its connections."""

    @property
    def shown(self) -> str:
        """The name for people."""
        return self.label or self.name

    def imports_service(self, subject: str) -> bool:
        """Whether what is published there goes to another account's service."""
        return any(one.service and is_subset(subject, one.local) for one in self.imports)


@dataclass(frozen=True, slots=True)
class Graph:
    """All accounts of one configuration."""

    by_name: dict[str, Account]
    by_id: dict[int, Account]
    system_name: str = ""

    @property
    def system(self) -> Account | None:
        """The account whose users may ask the server for reports."""
        return self.by_name.get(self.system_name)

    def account(self, name: str) -> Account | None:
        """The account of that name."""
        return self.by_name.get(name)

    def put(self, account: Account) -> None:
        """An account that came to be known while the server runs. What changes or goes takes a new graph."""
        self.by_name[account.name] = self.by_id[account.id] = account


@dataclass(frozen=True, slots=True)
class Change:
    """The steps that a reload takes with the accounts."""

    added: tuple[Account, ...]
    changed: tuple[Account, ...]
    removed: tuple[Account, ...]


class Numbers:
    """Gives each account name its number."""

    def __init__(self) -> None:
        self._by_name: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The number of a name, the same for ever."""
        return self._by_name.setdefault(name, len(self._by_name) + 1)


def compile_graph(server: ServerConfig, numbers: Numbers) -> Graph:
    """The accounts of a configuration: the configured ones, $G always, $SYS unless another serves or none is wanted."""
    system_name = server.system_account or ("" if server.no_system_account else SYSTEM)
    names = [GLOBAL, *(name for name in server.accounts if name != GLOBAL)]
    if system_name and system_name not in names:
        names.append(system_name)
    # As in the reference, $G has JetStream of its own accord only where it is the one account of the users.
    global_alone = all(name in (GLOBAL, system_name) for name in names)
    imports = _imports(server, numbers, system_name)
    measures = any(one.results for rows in imports.values() for one in rows)
    accounts = []
    for name in names:
        configured = server.accounts.get(name)
        share = configured.jetstream if configured else None
        if name == GLOBAL and share is None and global_alone:
            share = AccountJetStream()
        own = imports.get(name, ())
        if name == system_name:
            share = None
        elif server.jetstream is None or not server.jetstream.enabled:
            if share is not None and system_name and (server.cluster is not None or server.gateway is not None):
                own = with_cluster_api(own, numbers, system_name)
            share = None
        limits = configured.limits if configured else AccountLimits()
        mappings = dict(configured.mappings) if configured else {}
        if name == GLOBAL:
            mappings |= server.mappings
        accounts.append(
            Account(
                numbers.of(name),
                name,
                name == system_name,
                limits,
                share,
                tuple(mappings.items()),
                own,
                trace=_tracing(configured.msg_trace if configured else None),
                serves=configured is not None and _serves(configured),
                described=tells(own) or (measures and configured is not None and _serves(configured)),
            )
        )
    by_name = {account.name: account for account in accounts}
    return Graph(by_name, {account.id: account for account in accounts}, system_name)


def with_cluster_api(own: tuple[CompiledImport, ...], numbers: Numbers, system: str) -> tuple[CompiledImport, ...]:
    """The imports of an account with JetStream at a server of a cluster that has no JetStream itself: requests go to
    the system account, where the cluster's servers with JetStream listen, and name the account that asks. As in the
    reference."""
    if any(one.service and is_subset(_API, one.local) for one in own):
        return own
    api = CompiledImport(numbers.of(system), True, _API, _API, (0,), True, 0, shared=True, placed=True)
    return (*own, api)


def _tracing(configured: MessageTracing | None) -> Tracing:
    return Tracing(configured.dest, configured.sampling) if configured is not None else Tracing()


def tells(imports: Iterable[CompiledImport]) -> bool:
    """Whether one of them tells more of the requestor than its account."""
    return any(one.shared or one.placed for one in imports)


def _serves(configured: ConfiguredAccount) -> bool:
    return any(one.service for one in configured.exports)


def _imports(server: ServerConfig, numbers: Numbers, system: str) -> dict[str, tuple[CompiledImport, ...]]:
    found: dict[str, list[CompiledImport]] = {}
    for one in server.shared():
        found.setdefault(one.importer, []).append(compile_import(one, numbers, system))
    return {importer: tuple(rows) for importer, rows in found.items()}


def compile_import(one: Shared, numbers: Numbers, system: str = "") -> CompiledImport:
    """An import that was found to fit its export. system: the name of the system account."""
    latency = one.export.latency if one.service else None
    return CompiledImport(
        numbers.of(one.exporter),
        one.service,
        one.names.subject,
        one.names.local,
        one.names.order,
        one.export.response_type in (None, "singleton"),
        one.export.response_threshold or 0,
        one.traced,
        one.shares,
        one.service and (one.shares or one.exporter == system),
        latency.sampling if latency is not None else 0,
        latency.subject if latency is not None else "",
    )


def common(old: Graph, new: Graph) -> Graph:
    """The accounts that are in both, with what both let them have: a reload passes through it, so that nobody has an
    import of one configuration with the permissions of the other. What is neither more nor less (limits) is new
    already; mappings are still the old ones."""
    both = {}
    for name, before in old.by_name.items():
        after = new.by_name.get(name)
        if after is before:
            both[name] = before
        elif after is not None:
            stay = {(one.exporter, one.service, one.subject, one.local, one.order) for one in after.imports}
            both[name] = replace(
                after,
                jetstream=after.jetstream if before.jetstream is not None else None,
                mappings=before.mappings,
                imports=tuple(
                    one
                    for one in before.imports
                    if (one.exporter, one.service, one.subject, one.local, one.order) in stay
                ),
            )
    return Graph(both, {account.id: account for account in both.values()}, new.system_name)


def compare(old: Graph, new: Graph) -> Change:
    """The difference between two graphs."""
    both = [name for name in new.by_name if name in old.by_name]
    return Change(
        tuple(account for name, account in new.by_name.items() if name not in old.by_name),
        tuple(
            new.by_name[name]
            for name in both
            if new.by_name[name] is not old.by_name[name] and new.by_name[name] != old.by_name[name]
        ),
        tuple(account for name, account in old.by_name.items() if name not in new.by_name),
    )
