"""The account graph of operator mode: JWTs of accounts, compiled to what a configuration's accounts are compiled to.

    ClaimedAccounts.put(trusted, ...)    accounts that come to be known, into this graph: nobody loses anything by it
    ClaimedAccounts.changed(trusted)     another graph, in which accounts are others now: a reload leads from one to it

What of a JWT cannot be had (an import of an account that is not known, or not allowed) is left out and said in notes,
as the reference does; it is tried again when the exporter comes to be known or changes. Names of accounts are their
public keys. Not here: whether a JWT counts (auth/), where it comes from (daemon/), the rules of sharing
(config/schema/sharing.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from leafd.accounts.activations import activated
from leafd.accounts.graph import (
    GLOBAL,
    SYSTEM,
    Account,
    Graph,
    Numbers,
    Tracing,
    compile_import,
    tells,
    with_cluster_api,
)
from leafd.auth.jwt_claims import (
    NO_LIMIT,
    SERVICE,
    AccountBody,
    AccountClaims,
    ExportClaim,
    ImportClaim,
    JetStreamLimits,
)
from leafd.auth.trust import TrustedAccount, limit
from leafd.config.schema.accounts import AccountLimits
from leafd.config.schema.jetstream import AccountJetStream
from leafd.config.schema.mappings import Choices, choices
from leafd.config.schema.sharing import Export, Import, Latency, Origin, Sharing, SharingError, unmeasurable

ONE_REPLICA: Final = "R1"
"""The tier of streams with one replica."""
_RESPONSES: Final = {"Stream": "stream", "Chunked": "chunked"}


class ClaimedAccounts:
    """All accounts that are known, as JWTs and as a graph. graph and trusted are read by others, and written here."""

    def __init__(self, numbers: Numbers, *, system: str, jetstream: bool, clustered: bool = False) -> None:
        self._numbers = numbers
        self._clustered = clustered
        self._system = system or SYSTEM
        self._jetstream = jetstream
        self.trusted: dict[str, TrustedAccount] = {}
        self.notes: dict[str, tuple[str, ...]] = {}
        """By account: what of its JWT is left out."""
        self.graph = Graph({}, {}, self._system)
        self._exports: dict[str, dict[tuple[bool, str], ExportClaim]] = {}
        self._sharing = Sharing({}, self._approve)
        self._importers: dict[str, set[str]] = {}
        self._import: ImportClaim | None = None

    def weight(self, accounts: Iterable[TrustedAccount]) -> int:
        """How much work it is to take these in: about the pairs of imports and exports that are compared."""
        found = 0
        for one in accounts:
            found += len(one.claims.nats.exports) + len(one.claims.nats.mappings)
            importers = (self.trusted.get(name) for name in self._importers.get(one.claims.sub, ()))
            for other in (one, *(importer for importer in importers if importer is not None)):
                imports = other.claims.nats.imports
                found += sum(1 + len(self._exports.get(imported.account, ())) for imported in imports)
        return found

    # ---- coming and changing

    def start(self, accounts: Iterable[TrustedAccount], awaited: Iterable[str] = ()) -> None:
        """The first ones, with the accounts that are always there. awaited: those that have a number already."""
        for name in dict.fromkeys((GLOBAL, self._system, *awaited)):
            self.graph.put(Account(self._numbers.of(name), name, name == self._system, AccountLimits(), None))
        self.put(accounts)

    def put(self, accounts: Iterable[TrustedAccount]) -> tuple[Account, ...]:
        """Takes accounts in: those that are other accounts now than before, exporters first."""
        names = []
        for one in accounts:
            names.append(one.claims.sub)
            self._take(one)
        return tuple(self._compile(names))

    def changed(self, accounts: Iterable[TrustedAccount], gone: Iterable[str] = ()) -> ClaimedAccounts:
        """The same with these accounts in place of what they were, and without others."""
        made = ClaimedAccounts(self._numbers, system=self._system, jetstream=self._jetstream, clustered=self._clustered)
        made.trusted, made.notes, made._exports = dict(self.trusted), dict(self.notes), dict(self._exports)
        sharing = self._sharing
        made._sharing = Sharing(dict(sharing.exports), made._approve, dict(sharing.streams), dict(sharing.services))
        made._importers = {exporter: set(importers) for exporter, importers in self._importers.items()}
        made.graph = Graph(dict(self.graph.by_name), dict(self.graph.by_id), self._system)
        for name in gone:
            made._forget(name)
        made.put(accounts)
        tuple(made._compile(gone))
        return made

    def _forget(self, name: str) -> None:
        for table in (self.trusted, self.notes, self._exports, self._sharing.exports):
            table.pop(name, None)
        self._sharing.streams.pop(name, None)
        self._sharing.services.pop(name, None)
        account = self.graph.by_name.pop(name, None)
        if account is not None:
            del self.graph.by_id[account.id]

    def _take(self, one: TrustedAccount) -> None:
        claims = one.claims
        self.trusted[claims.sub] = one
        exports = claims.nats.exports if not one.broken else ()
        self._exports[claims.sub] = {(export.type == SERVICE, export.subject): export for export in exports}
        made = tuple(_export(export) for export in exports)
        self._sharing.exports[claims.sub] = tuple(
            one.replaced(latency=None) if one.latency is not None and unmeasurable(one, made) else one for one in made
        )
        for imported in claims.nats.imports:
            self._importers.setdefault(imported.account, set()).add(claims.sub)

    def _compile(self, names: Iterable[str]) -> Iterator[Account]:
        """Compiles these and those that import of them. What came first has the first say where imports make a
        circle."""
        wanted = dict.fromkeys(names)
        for name in list(wanted):
            wanted.update(dict.fromkeys(sorted(self._importers.get(name, ()))))
        for name in wanted:
            trusted = self.trusted.get(name)
            if trusted is None:
                continue
            account = self._account(trusted)
            if self.graph.by_name.get(name) != account:
                self.graph.put(account)
                yield account

    # ---- one account

    def _account(self, trusted: TrustedAccount) -> Account:
        claims, notes = trusted.claims, []
        name, body = claims.sub, claims.nats
        self._sharing.streams.pop(name, None)
        self._sharing.services.pop(name, None)
        if trusted.broken:
            notes.append(trusted.broken)
            body = AccountBody()
        notes += self._imports(name, body)
        shared = (*self._sharing.streams.get(name, ()), *self._sharing.services.get(name, ()))
        imports = tuple(compile_import(one, self._numbers, self._system) for one in shared)
        mappings, faults = _mappings(body)
        self.notes[name] = (*notes, *faults)
        system = name == self._system
        share = _jetstream(body, clustered=self._clustered) if not system else None
        if share is not None and self._clustered and not self._jetstream and self._system in self.trusted:
            imports = with_cluster_api(imports, self._numbers, self._system)
        return Account(
            self._numbers.of(name),
            name,
            system,
            _limits(body),
            share if self._jetstream else None,
            mappings,
            imports,
            claims.name,
            tuple((tier, _share(one)) for tier, one in sorted(body.limits.tiers.items())),
            Tracing(body.trace.dest, body.trace.sampling),
            any(one.service for one in self._sharing.exports.get(name, ())),
            tells(imports) or any(one.latency is not None for one in self._sharing.exports.get(name, ())),
        )

    def _imports(self, name: str, body: AccountBody) -> list[str]:
        """Streams before services, as of a configuration."""
        notes = []
        for service in (False, True):
            for one in body.imports:
                if (one.type == SERVICE) != service:
                    continue
                self._import = one
                try:
                    self._add_import(name, one, service)
                except SharingError as error:
                    kind = "service" if service else "stream"
                    notes.append(f'Error adding {kind} import "{one.subject}" of account {one.account}: {error}')
        return notes

    def _add_import(self, name: str, one: ImportClaim, service: bool) -> None:
        theirs, ours = one.names
        origin = Origin.made(account=one.account, subject=theirs)
        if service:
            self._sharing.add_service(name, Import.made(service=origin, to=ours, share=one.share), origin)
        else:
            self._sharing.add_stream(name, Import.made(stream=origin, to=ours, allow_trace=one.allow_trace), origin)

    def _approve(self, exporter: str, export: Export, importer: str, subject: str | None) -> bool:
        """True if the exporter's JWT lets that account import: the export is public, the subject names the account, or
        the account shows an activation."""
        claim = self._exports[exporter][bool(export.service), export.service or export.stream]
        if claim.account_token_position:
            tokens = subject.split(".") if subject is not None else []
            position = claim.account_token_position
            return position <= len(tokens) and tokens[position - 1] == importer
        if not claim.token_req:
            return True
        return self._import is not None and activated(self._import, claim, self.trusted[exporter], importer)


def _export(claim: ExportClaim) -> Export:
    members: dict[str, Any] = {"account_token_position": claim.account_token_position}
    if claim.type == SERVICE:
        members["service"] = claim.subject
        members["response_type"] = _RESPONSES.get(claim.response_type, "singleton")
        members["response_threshold"] = claim.response_threshold or None
        members["allow_trace"] = claim.allow_trace
        if claim.latency is not None:
            members["latency"] = Latency.made(sampling=claim.latency.sampling, subject=claim.latency.results)
    else:
        members["stream"] = claim.subject
    return Export.made(**members)


def _limits(body: AccountBody) -> AccountLimits:
    limits = body.limits
    return AccountLimits.made(
        max_connections=limit(limits.conn),
        max_subscriptions=limit(limits.subs),
        max_payload=limit(limits.payload),
        max_leafnodes=limit(limits.leaf),
    )


def _jetstream(body: AccountBody, *, clustered: bool) -> AccountJetStream | None:
    """The account's share, None when it has none: where neither memory nor disk is given to it. Of limits by number of
    replicas those of one count where this server is alone. In a cluster reports show the bytes of all together."""
    tiers = body.limits.tiers
    if not any(one.mem_storage or one.disk_storage for one in tiers.values() or (body.limits,)):
        return None
    if not tiers:
        return _share(body.limits)
    shares = [_share(one) for name, one in tiers.items() if clustered or name == ONE_REPLICA]
    share = _share(tiers.get(ONE_REPLICA, JetStreamLimits()))
    return share.replaced(
        max_memory=_together([one.max_memory for one in shares]),
        max_store=_together([one.max_store for one in shares]),
    )


def _together(most: list[int]) -> int:
    return NO_LIMIT if NO_LIMIT in most else sum(most)


def _share(limits: JetStreamLimits) -> AccountJetStream:
    return AccountJetStream.made(
        max_memory=limit(limits.mem_storage),
        max_store=limit(limits.disk_storage),
        max_streams=limit(limits.streams),
        max_consumers=limit(limits.consumer),
        # Of these, 0 is no limit either.
        max_ack_pending=limit(limits.max_ack_pending) or NO_LIMIT,
        mem_max_stream_bytes=limit(limits.mem_max_stream_bytes) or NO_LIMIT,
        disk_max_stream_bytes=limit(limits.disk_max_stream_bytes) or NO_LIMIT,
        max_bytes_required=limits.max_bytes_required,
    )


def _mappings(body: AccountBody) -> tuple[tuple[tuple[str, Choices], ...], list[str]]:
    found, faults = [], []
    for source, claims in body.mappings.items():
        entry = [{"destination": one.subject, "weight": one.weight or 100, "cluster": one.cluster} for one in claims]
        try:
            found.append((source, choices(source, entry)))
        except ValueError as error:
            faults.append(str(error))
    return tuple(found), faults


def exporters(claims: AccountClaims) -> tuple[str, ...]:
    """The accounts that an account imports of."""
    return tuple(dict.fromkeys(one.account for one in claims.nats.imports))


def unknown(accounts: Iterable[TrustedAccount], known: Mapping[str, Any]) -> tuple[str, ...]:
    """Exporters of these accounts of which nothing is known."""
    wanted = dict.fromkeys(name for one in accounts for name in exporters(one.claims))
    return tuple(name for name in wanted if name not in known)
