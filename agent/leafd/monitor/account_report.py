"""What an account maps, exports and imports, as accountz shows it.

The order of members and the words are the reference's. What does not live here: connections and traffic (reports.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from leafd.accounts.graph import Account, CompiledImport
from leafd.config.schema.sharing import Export
from leafd.monitor.facts import Facts

_RESPONSES: Final = {"stream": "Streamed", "chunked": "Chunked"}


def shared(facts: Facts, account: Account) -> dict[str, Any]:
    """mappings, exports and imports, where there are any."""
    found = {
        "mappings": {
            source: [{"subject": subject, "weight": below} for subject, below in choices]
            for source, choices in account.mappings
        },
        "exports": list(_exports(facts, account.name)),
        "imports": [_import(facts, one) for one in account.imports],
    }
    return {name: value for name, value in found.items() if value}


def _exports(facts: Facts, name: str) -> Iterable[dict[str, Any]]:
    trusted = facts.accounts.trusted.get(name) if facts.accounts is not None else None
    if trusted is not None:
        for claim in trusted.claims.nats.exports:
            kind = claim.response_type or "Singleton"
            latency = (claim.latency.sampling, claim.latency.results) if claim.latency is not None else None
            yield _export(claim.subject, claim.type, "Streamed" if kind == "Stream" else kind, (), latency)
        return
    configured = facts.config.accounts.get(name)
    for export in configured.exports if configured else ():
        kind, subject = ("service", export.service) if export.service else ("stream", export.stream)
        latency = (export.latency.sampling, export.latency.subject) if export.latency is not None else None
        yield _export(subject, kind, _response(export), export.accounts or (), latency)


def _response(export: Export) -> str:
    return _RESPONSES.get(export.response_type or "", "Singleton")


def _export(
    subject: str, kind: str, response: str, accounts: Iterable[str], latency: tuple[int, str] | None
) -> dict[str, Any]:
    found: dict[str, Any] = {"subject": subject, "type": kind}
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
    found: dict[str, Any] = {"subject": one.subject, "account": exporter.name if exporter else ""}
    if one.service:
        found["to"] = one.local
    found |= {"local_subject": one.local, "type": "service" if one.service else "stream"}
    found |= {"invalid": exporter is None, "share": one.shared, "tracking": False}
    return found | {"latency": _latency(one.sampling, one.results)} if one.results else found
