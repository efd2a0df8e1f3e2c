"""An account's mappings, exports and imports, as accountz shows them. The order of members and the words are the
reference's. Not here: connections and traffic (reports.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from leafd.accounts.graph import Account, CompiledImport
from leafd.config.schema.sharing import Export
from leafd.monitor.facts import Facts

_RESPONSES: Final = {"stream": "Streamed", "chunked": "Chunked"}
_API: Final = "$JS.API.>"
_OF_ACCOUNT: Final = ("$SYS.REQ.ACCOUNT.*.CONNZ", "$SYS.REQ.ACCOUNT.*.STATZ")
_OF_USER: Final = "$SYS.REQ.USER.*.INFO"
_SERVED: Final = (
    ("$SYS.REQ.ACCOUNT.PING.CONNZ", _OF_ACCOUNT[0], False), ("$SYS.REQ.SERVER.PING.CONNZ", _OF_ACCOUNT[0], False),
    ("$SYS.REQ.ACCOUNT.PING.STATZ", _OF_ACCOUNT[1], False), ("$SYS.REQ.USER.INFO", _OF_USER, True),
)  # fmt: skip
"""The services of every account, their subjects in the system account, and whether the account's name goes along.
Accounts are served without such imports here; they are listed since they say what there is."""
_IN_DOMAIN: Final = (
    *((f"API.{name}", f"$JS.API.{name}") for name in (
        "ACCOUNT.>", "CONSUMER.>", "DIRECT.>", "INFO", "META.>", "SERVER.>", "STREAM.>",
    )),
    ("API.$KV.>", "$KV.>"), ("API.$OBJ.>", "$OBJ.>"),
)  # fmt: skip


def shared(facts: Facts, account: Account) -> dict[str, Any]:
    """mappings, exports and imports, where there are any."""
    found = {
        "mappings": {
            source: [{"subject": subject, "weight": below} for subject, below in choices]
            for source, choices in (*account.mappings, *_domain(facts, account))
        },
        "exports": [*_exports(facts, account.name), *_system_exports(facts, account)],
        "imports": [*(_import(facts, one) for one in account.imports), *_system_imports(facts, account)],
    }
    return {name: value for name, value in found.items() if value}


def _domain(facts: Facts, account: Account) -> Iterable[tuple[str, tuple[tuple[str, int], ...]]]:
    """The API behind the domain's name."""
    if facts.jetstream is None or not facts.domain:
        return
    for source, subject in (("API.>", _API),) if account == facts.graph.system else _IN_DOMAIN:
        yield f"$JS.{facts.domain}.{source}", ((subject, 100),)


def _system_exports(facts: Facts, account: Account) -> Iterable[dict[str, Any]]:
    """The server's services, which are the system account's."""
    if account == facts.graph.system:
        for subject in (*((_API,) if facts.jetstream else ()), "$SYS.DEBUG.SUBSCRIBERS", _OF_USER, *_OF_ACCOUNT):
            yield _export(subject, "service", "Streamed" if subject in _OF_ACCOUNT else "Singleton", (), None)


def _system_imports(facts: Facts, account: Account) -> Iterable[dict[str, Any]]:
    """The account's imports of the server's services."""
    system = facts.graph.system
    if system is None:
        return
    own = account == system
    for local, subject, named in _SERVED[-1:] if own else ((_API, _API, True), *_SERVED):
        if local != _API or facts.jetstream is not None:
            yield _imported(subject.replace("*", account.name), system.name, local, service=True, shared=named)


def _exports(facts: Facts, name: str) -> Iterable[dict[str, Any]]:
    trusted = facts.accounts.trusted.get(name) if facts.accounts is not None else None
    if trusted is not None:
        for claim in trusted.claims.nats.exports:
            kind = claim.response_type or "Singleton"
            latency = (claim.latency.sampling, claim.latency.results) if claim.latency is not None else None
            response = "Streamed" if kind == "Stream" else kind
            yield _export(claim.subject, claim.type, response, (), latency, private=claim.token_req)
        return
    configured = facts.config.accounts.get(name)
    for export in configured.exports if configured else ():
        kind, subject = ("service", export.service) if export.service else ("stream", export.stream)
        latency = (export.latency.sampling, export.latency.subject) if export.latency is not None else None
        yield _export(subject, kind, _response(export), export.accounts or (), latency)


def _response(export: Export) -> str:
    return _RESPONSES.get(export.response_type or "", "Singleton")


def _export(
    subject: str,
    kind: str,
    response: str,
    accounts: Iterable[str],
    latency: tuple[int, str] | None,
    *,
    private: bool = False,
) -> dict[str, Any]:
    found: dict[str, Any] = {"subject": subject, "type": kind} | ({"token_req": True} if private else {})
    if kind == "service":
        found["response_type"] = response
    if latency is not None:
        found["service_latency"] = _latency(*latency)
    approved = list(accounts)
    return found | {"approved_accounts": approved} if approved else found


def _latency(sampling: int, results: str) -> dict[str, Any]:
    return {"sampling": sampling or "headers", "results": results}


def _import(facts: Facts, one: CompiledImport) -> dict[str, Any]:
    exporter = facts.graph.by_id.get(one.exporter)
    name = exporter.name if exporter else ""
    found = _imported(one.subject, name, one.local, service=one.service, shared=one.shared)
    return found | {"latency": _latency(one.sampling, one.results)} if one.results else found


def _imported(subject: str, exporter: str, local: str, *, service: bool, shared: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"subject": subject, "account": exporter}
    if service:
        found["to"] = local
    found |= {"local_subject": local, "type": "service" if service else "stream"}
    return found | {"invalid": not exporter, "share": shared, "tracking": False}
