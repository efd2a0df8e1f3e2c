"""Traces of messages: what the plane recorded of one message, as the reference tells it, published where its sender
wants to hear of it (Nats-Trace-Dest).

    MessageTrace --> {"server", "request": {"header", "msgsize"}, "hops"?, "events": [...]} --> destination

The destination lies in the account that the message came from, and whether its sender may publish there was looked at
by the plane. Not here: which message is traced, and where it went (native/plane/trace.c).
"""

from __future__ import annotations

import time
from typing import Any, Final

from leafd import native_types as t
from leafd.gojson import dump
from leafd.monitor.facts import Facts, stamp
from leafd.native import abi
from leafd.native_traces import Record, records

_KINDS: Final = {abi.CONN_CLIENT: 0, abi.CONN_ROUTE: 1, abi.CONN_GATEWAY: 2, abi.CONN_LEAF: 4}
"""The reference's numbers of kinds of connections."""
_FAULTS: Final = {
    abi.TRACE_FAULT_NO_ECHO: "Not delivered because of no echo",
    abi.TRACE_FAULT_DENIED_OUT: "Not delivered because publish denied for this subject",
    abi.TRACE_FAULT_DENIED_IN: "Not delivered because subscription denies this subject",
    abi.TRACE_FAULT_SUBSCRIPTION_CLOSED: "Not delivered because subscription is closed",
    abi.TRACE_FAULT_CLIENT_CLOSED: "Not delivered because client is closed",
    abi.TRACE_FAULT_ONLY_UNKNOWN: "Not delivered because remote does not support message tracing",
    abi.TRACE_FAULT_UNKNOWN: (
        "Message delivered but remote does not support message tracing so no trace event generated from there"
    ),
}
_REFUSALS: Final = {"message size exceeds maximum allowed": "maximum payload exceeded"}
"""Refusals of streams for which the reference has other words here than in its answers."""


def headers(block: bytes) -> dict[str, list[str]]:
    """The fields of a header block that have a value, in the order of their names."""
    found: dict[str, list[str]] = {}
    for line in block.decode("utf-8", "replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if name and colon and value.strip(" \t"):
            found.setdefault(name, []).append(value.strip(" \t"))
    return dict(sorted(found.items()))


class Traces:
    """Tells what the plane has traced."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def tell(self, trace: t.MessageTrace) -> None:
        """Publishes the event of one message."""
        header, records_ = headers(trace.header), tuple(records(trace.records))
        event: dict[str, Any] = {"server": self._facts.server_info(), "request": {"header": header}}
        if trace.size:
            event["request"]["msgsize"] = trace.size
        if trace.hops:
            event["hops"] = trace.hops
        event["events"] = [self._ingress(trace, records_)]
        event["events"] += [self._event(one, trace.account) for one in records_ if one.type != abi.TRACE_INGRESS]
        self._facts.plane.publish(trace.account, trace.destination, dump(event))

    def _ingress(self, trace: t.MessageTrace, found: tuple[Record, ...]) -> dict[str, Any]:
        first = found[0].wall_ns if found else 0
        event = _base("in", first or time.time_ns()) | self._connection(trace.kind, trace.connection)
        event |= {"acc": self._account(trace.account), "subj": trace.subject}
        for one in found:
            if one.type == abi.TRACE_INGRESS:
                event["error"] = one.texts[3]
        return event

    def _event(self, one: Record, ingress: int) -> dict[str, Any]:
        first, second, third, fourth = one.texts
        if one.type == abi.TRACE_EGRESS:
            more = {
                "hop": third,
                "acc": self._account(one.account) if one.account not in (0, ingress) else "",
                "sub": first,
                "queue": second,
                "error": _FAULTS.get(one.fault, ""),
            }
            return _base("eg", one.wall_ns) | self._connection(one.kind, one.connection) | _present(more)
        if one.type == abi.TRACE_MAPPING:
            return _base("sm", one.wall_ns) | {"to": first}
        if one.type == abi.TRACE_STREAM_EXPORT:
            return _base("se", one.wall_ns) | {"acc": self._account(one.account), "to": first}
        if one.type == abi.TRACE_SERVICE_IMPORT:
            return _base("si", one.wall_ns) | {"acc": self._account(one.account), "from": second, "to": first}
        told: dict[str, Any] = {
            "subject": "" if fourth else second,
            "nointerest": bool(one.fault),
            "error": _REFUSALS.get(fourth, fourth),
        }
        return _base("js", one.wall_ns) | {"stream": first} | _present(told)

    def _connection(self, kind: int, connection: int) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": _KINDS.get(kind, 0), "cid": connection}
        return found | _present({"name": self._name(connection)})

    def _name(self, connection: int) -> str:
        """The name that a client gives itself, or that of the server at the other end of a link."""
        facts = self._facts
        client = facts.clients.get(connection)
        if client is not None:
            return str(client.connect.get("name") or "")
        bind = facts.leafs.bind_of(connection)
        if bind is not None:
            return bind.remote_name
        others = (one for one in (facts.routes, facts.gateways) if one is not None)
        return next(filter(None, (one.remote_name(connection) for one in others)), "")

    def _account(self, number: int) -> str:
        account = self._facts.graph.by_id.get(number)
        return account.name if account is not None else ""


def _base(kind: str, wall_ns: int) -> dict[str, Any]:
    return {"type": kind, "ts": stamp(wall_ns)}


def _present(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
