"""The rules within an account's JWT beyond the types of its fields, as in the reference's JWT library.

    problem(claims)  -->  "" or the first thing that is wrong: such an account cannot be used, and an update is refused

Time is not among them (trust.py). Not here: whether imports fit the exports of other accounts
(accounts/claims.py), types (jwt_claims.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from leafd.auth.jwt_claims import (
    NO_LIMIT,
    SERVICE,
    STREAM,
    USER_SCOPE,
    AccountBody,
    AccountClaims,
    AccountLimits,
    ExportClaim,
    ImportClaim,
    Permissions,
)
from leafd.auth.nkeys import PREFIX_ACCOUNT, is_public_key
from leafd.config.schema.permissions import is_subject
from leafd.config.schema.sharing import is_literal, is_subset

LISTED_MAX: Final = 4_096
"""The most exports of one account, and so of imports, mappings and signing keys: rules compare some with each other."""
COMPARED_MAX: Final = 500_000
"""The most pairs of subjects that are compared with each other."""
HUNDRED: Final = 100
_RESPONSES: Final = ("", "Singleton", "Stream", "Chunked")


def problem(claims: AccountClaims) -> str:
    """The first fault, empty when there is none."""
    return next(_problems(claims), "")


def _problems(claims: AccountClaims) -> Iterator[str]:
    body = claims.nats
    for name in ("imports", "exports", "mappings", "signing_keys"):
        if len(getattr(body, name)) > LISTED_MAX:
            yield f"nats.{name}: more than {LISTED_MAX}"
            return
    yield from _exports(body)
    yield from _imports(body)
    yield from _limits(body, body.limits)
    yield from _permissions(body.default_permissions, "nats.default_permissions")
    yield from _mappings(body)
    for one in body.signing_keys:
        if not is_public_key(one.key, PREFIX_ACCOUNT):
            yield f"nats.signing_keys: {one.key[:60]!r} is not a public nkey of an account"
        if one.kind not in ("", USER_SCOPE):
            yield f"nats.signing_keys: the kind {one.kind[:60]!r} is not known"


def _exports(body: AccountBody) -> Iterator[str]:
    for number, one in enumerate(body.exports):
        where = f"nats.exports.{number}"
        if one.type not in (STREAM, SERVICE):
            yield f"{where}.type: {one.type[:60]!r} is neither stream nor service"
        if not is_subject(one.subject):
            yield f"{where}.subject: {one.subject[:60]!r} is no valid subject"
        if one.response_type not in _RESPONSES:
            yield f"{where}.response_type: {one.response_type[:60]!r} is not known"
        if one.type == STREAM and (one.response_type or one.response_threshold):
            yield f"{where}: only services have answers"
        if one.response_threshold < 0:
            yield f"{where}.response_threshold: below 0"
        yield from _latency(one, f"{where}.service_latency")
        yield from _position(one, where)
    for kind in (STREAM, SERVICE):
        yield from _contained(kind, [one.subject for one in body.exports if one.type == kind])


def _latency(one: ExportClaim, where: str) -> Iterator[str]:
    if one.latency is None:
        return
    if one.type != SERVICE:
        yield f"{where}: latency tracking only permitted for services"
    if not 0 <= one.latency.sampling <= HUNDRED:
        yield f"{where}: sampling percentage needs to be between 1-100"
    if not is_subject(one.latency.results) or not is_literal(one.latency.results):
        yield f"{where}.results: {one.latency.results[:60]!r} is no valid subject without wildcards"


def _position(one: ExportClaim, where: str) -> Iterator[str]:
    position, tokens = one.account_token_position, one.subject.split(".")
    if position and (not 0 < position <= len(tokens) or tokens[position - 1] != "*"):
        yield f"{where}.account_token_position: {position} is not a * of the subject"


def _contained(kind: str, subjects: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for subject in subjects:
        if subject in seen:
            yield f'nats.exports: {kind} export subject "{subject}" is exported twice'
        seen.add(subject)
    wild = [subject for subject in seen if not is_literal(subject)]
    if len(wild) * len(seen) > COMPARED_MAX:
        yield f"nats.exports: {len(wild)} of {len(seen)} subjects have wildcards, which is too many to compare"
        return
    for outer in wild:
        for inner in seen:
            if inner != outer and is_subset(inner, outer):
                yield f'nats.exports: {kind} export subject "{outer}" already exports "{inner}"'


def _imports(body: AccountBody) -> Iterator[str]:
    services: list[str] = []
    for number, one in enumerate(body.imports):
        where = f"nats.imports.{number}"
        yield from _import(one, where)
        if one.type == SERVICE:
            services.append(one.names[1])
    if len(set(services)) != len(services):
        yield "nats.imports: two services have the same subject here"


def _import(one: ImportClaim, where: str) -> Iterator[str]:
    if one.type not in (STREAM, SERVICE):
        yield f"{where}.type: {one.type[:60]!r} is neither stream nor service"
    if not one.account:
        yield f"{where}.account: missing"
    if not is_subject(one.subject):
        yield f"{where}.subject: {one.subject[:60]!r} is no valid subject"
    if one.local_subject and one.to:
        yield f"{where}: local_subject and to exclude each other"
    if one.share and one.type != SERVICE:
        yield f"{where}.share: only for services"


def _limits(body: AccountBody, limits: AccountLimits) -> Iterator[str]:
    if NO_LIMIT != limits.imports < len(body.imports):
        yield "the account contains more imports than allowed by the operator"
    if limits.exports != NO_LIMIT:
        if limits.exports < len(body.exports):
            yield "the account contains more exports than allowed by the operator"
        if not limits.wildcards and not all(is_literal(one.subject) for one in body.exports):
            yield "the account contains wildcard exports that are not allowed by the operator"
    if "" in limits.tiers:
        yield "nats.limits.tiered_limits: a tier has no name"


def _permissions(permissions: Permissions, where: str) -> Iterator[str]:
    for name, one in (("pub", permissions.pub), ("sub", permissions.sub)):
        for text in (*one.allow, *one.deny):
            words = text.split(" ")
            if len(words) > (2 if name == "sub" else 1) or not is_subject(words[0]):
                yield f"{where}.{name}: {text[:60]!r} is no valid subject"


def _mappings(body: AccountBody) -> Iterator[str]:
    for source, choices in body.mappings.items():
        if not is_subject(source):
            yield f"nats.mappings: {source[:60]!r} is no valid subject"
        totals: dict[str, int] = {}
        for one in choices:
            if not 0 <= one.weight <= HUNDRED:
                yield f"nats.mappings.{source[:60]}: a weight of {one.weight}"
            totals[one.cluster] = totals.get(one.cluster, 0) + (one.weight or HUNDRED)
        if any(total > HUNDRED for total in totals.values()):
            yield f"nats.mappings.{source[:60]}: the weights come to more than 100"
