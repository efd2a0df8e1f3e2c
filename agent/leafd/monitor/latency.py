"""How long services take, told as the reference tells it: what the plane measured of one request becomes an event on
the subject that its export names.

    Latency --tell()--> io.nats.server.metric.v1.service_latency --> the exporter's account

A service behind a leaf link is measured at both ends: here what the request took as a whole, there, by the server that
has the service's connection, what the service took of it. That comes over a link of the system account, on
$SYS.LATENCY.M2.<this server>; until it has come nothing is told, and where it never comes nothing ever is, as with the
reference. Not here: measuring (native/plane/latency.c), what is said of connections
(logins/description.py).
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from secrets import token_hex
from typing import Any, Final

from leafd import native_types as t
from leafd.gojson import dump
from leafd.monitor.facts import Facts, stamp
from leafd.native import abi, layout
from leafd.records import dataclass

TYPE: Final = "io.nats.server.metric.v1.service_latency"
_WORDS: Final = {
    400: "Bad Request",
    408: "Request Timeout",
    503: "Service Unavailable",
    504: "Service Timeout",
}
_ANSWERED: Final = 200
FAR: Final = "$SYS.LATENCY.M2."
"""The subject on which servers at links' other ends tell what they measured; the short name of this one follows."""
HALVES_MAX: Final = 4096
"""Measurements of which one end is known."""
HALF_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class _Half:
    """The measurement of one end. account: 0 where it is the other end."""

    since: float
    event: dict[str, Any]
    account: int = 0
    subject: str = ""


class Latencies:
    """Tells what the plane has measured."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._halves: OrderedDict[str, _Half] = OrderedDict()

    def tell(self, latency: t.Latency) -> None:
        """Publishes the event of one request, or keeps it until the other end has told."""
        event = event_of(latency)
        if latency.responder != abi.CONN_LEAF:
            self._publish(latency.account, latency.subject, event)
            return
        half = self._halves.pop(latency.reply, None)
        if half is None:
            self._keep(latency.reply, _Half(time.monotonic(), event, latency.account, latency.subject))
        else:
            self._publish(latency.account, latency.subject, merged(event, half.event))

    def far(self, message: t.Message) -> bool:
        """Takes the measurement of the server at a link's other end."""
        try:
            told = json.loads(message.payload)
            reply, event = told["req_id"], told["m2"]
            int(event["service"]), int(event.get("responder", {}).get("rtt", 0))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return False
        half = self._halves.pop(str(reply), None)
        if half is not None and half.account:
            self._publish(half.account, half.subject, merged(half.event, event))
        elif half is None:
            self._keep(str(reply), _Half(time.monotonic(), event))
        return False

    def _keep(self, reply: str, half: _Half) -> None:
        self._halves[reply] = half
        while len(self._halves) > HALVES_MAX or next(iter(self._halves.values())).since < half.since - HALF_S:
            self._halves.popitem(last=False)

    def _publish(self, account: int, subject: str, event: dict[str, Any]) -> None:
        self._facts.plane.publish(account, subject, dump(event))


def event_of(latency: t.Latency) -> dict[str, Any]:
    """The event of one request, in the order of the reference's members."""
    size = layout("latency_t").size
    numbers = layout("latency_t").unpack(latency.measured)
    requester = latency.measured[size : size + numbers["requester_size"]]
    responder = latency.measured[size + numbers["requester_size"] :]
    event: dict[str, Any] = {"type": TYPE, "id": token_hex(11), "timestamp": stamp(time.time_ns())}
    event["status"] = latency.status
    if latency.status != _ANSWERED:
        event["description"] = _WORDS.get(latency.status, "")
    event["requestor"] = json.loads(requester)
    if responder:
        event["responder"] = json.loads(responder)
    if latency.header:
        event["header"] = fields(latency.header)
    event["start"] = stamp(numbers["start_wall_ns"])
    return event | {name: numbers[f"{name}_ns"] for name in ("service", "system", "total")}


def far_event(far: t.FarLatency, account: str, responder: dict[str, Any]) -> tuple[str, bytes]:
    """The event about a request of another server, as this end measured it: its subject and its text."""
    service = max(far.took_ns - far.round_trip_ns, 0)
    measured = {
        "type": "", "id": "", "timestamp": stamp(0), "status": _ANSWERED, "responder": responder,
        "start": stamp(time.time_ns() - far.took_ns), "service": service, "system": 0,
        "total": service + far.round_trip_ns,
    }  # fmt: skip
    return FAR + far.reply.split(".")[-2], dump({"account": account, "req_id": far.reply, "m2": measured})


def merged(here: dict[str, Any], there: dict[str, Any]) -> dict[str, Any]:
    """Both ends' measurements as one: what the service took is known there, what it took as a whole is known here."""
    service, responder = int(there["service"]), there.get("responder") or {}
    event = here | {"responder": responder, "service": max(service, 0)}
    event["system"] = max(here["service"] - (service + int(responder.get("rtt", 0))), 0)
    return event


def fields(lines: bytes) -> dict[str, list[str]]:
    """Header fields by their canonical names, in the order of these."""
    found: dict[str, list[str]] = {}
    for line in lines.decode("utf-8", "replace").split("\r\n"):
        name, colon, value = line.partition(": ")
        if colon:
            found.setdefault("-".join(part.capitalize() for part in name.split("-")), []).append(value)
    return dict(sorted(found.items()))
