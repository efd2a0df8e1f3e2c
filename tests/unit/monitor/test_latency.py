"""Latencies of services, of which a link's other end measures one half."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from leafd import native_types as t
from leafd.monitor.facts import Facts
from leafd.monitor.latency import HALVES_MAX, Latencies, fields, merged
from leafd.native import abi, layout
from leafd.native_latency import Latency

from tests.rig.planes import Unwilling


class Plane(Unwilling):
    """Takes what is published."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str, dict[str, Any]]] = []

    def publish(
        self, account: int, subject: str, payload: bytes, *, reply: str = "", header: bytes = b"", flags: int = 0
    ) -> None:
        self.told.append((account, subject, json.loads(payload)))


def stage() -> tuple[Latencies, Plane]:
    plane = Plane()
    return Latencies(cast(Facts, SimpleNamespace(plane=plane))), plane


def measured(reply: str = "_R_.x.1", responder: int = 0, service_ns: int = 900) -> Latency:
    """What the plane measured of one request."""
    asker = b'{"name":"asker"}'
    numbers = {"start_wall_ns": 1, "service_ns": service_ns, "system_ns": 0, "total_ns": 1000}
    body = layout("latency_t").pack(numbers | {"requester_size": len(asker)}) + asker
    return Latency(4, 200, responder, "told.here", reply, b"", body)


def far(reply: object = "_R_.x.1", service: object = 300, **responder: object) -> t.Message:
    body = {"req_id": reply, "m2": {"service": service, "responder": {"name": "service", **responder}}}
    return message(json.dumps(body).encode())


def message(payload: bytes) -> t.Message:
    return cast(t.Message, SimpleNamespace(payload=payload))


def test_a_service_of_this_server_is_told_at_once() -> None:
    """On the subject of the export, in the exporter's account."""
    latencies, plane = stage()
    latencies.tell(measured(responder=abi.CONN_CLIENT))
    ((account, subject, event),) = plane.told
    assert (4, "told.here", 900, {"name": "asker"}) == (account, subject, event["service"], event["requestor"])


@pytest.mark.parametrize("far_first", [False, True])
def test_one_behind_a_link_is_told_once_when_both_ends_have_measured_it(far_first: bool) -> None:
    """Whichever end comes first. The service's time is that of its server; the rest is the system's."""
    latencies, plane = stage()

    def here() -> None:
        latencies.tell(measured(responder=abi.CONN_LEAF))

    def there() -> None:
        latencies.far(far(rtt=100))

    first, second = (there, here) if far_first else (here, there)
    first()
    assert [] == plane.told
    second()
    second()
    ((_, _, event),) = plane.told
    assert (300, 500, "service") == (event["service"], event["system"], event["responder"]["name"])


def test_the_other_ends_numbers_make_no_time_negative() -> None:
    """Two clocks never agree; nats-server tells 0 then."""
    event = merged({"service": 100}, {"service": 5000, "responder": {"rtt": 9}})
    assert (5000, 0) == (event["service"], event["system"])


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"5", b"[]", b"null", b"{}", b'{"req_id":"r"}', b'{"req_id":"r","m2":5}', b'{"req_id":"r","m2":{}}',
        b'{"req_id":"r","m2":{"service":"x"}}', b'{"req_id":"r","m2":{"service":1,"responder":null}}', b"[" * 200_000,
        b'{"req_id":"r","m2":{"service":Infinity}}',
        b'{"req_id":"r","m2":{"service":' + b"9" * 5000 + b"}}",
    ],
)  # fmt: skip
def test_what_another_server_says_wrong_is_passed_over(payload: bytes) -> None:
    """Whoever is in the system account can say anything there."""
    latencies, plane = stage()
    assert not latencies.far(message(payload))
    assert [] == plane.told


def test_halves_that_stay_alone_are_bounded() -> None:
    """A link that is cut leaves measurements of which the other end never comes."""
    latencies, plane = stage()
    for number in range(HALVES_MAX + 10):
        latencies.far(far(f"_R_.x.{number}"))
    latencies.tell(measured("_R_.x.0", abi.CONN_LEAF))  # had to give way
    assert [] == plane.told
    latencies.tell(measured(f"_R_.x.{HALVES_MAX + 9}", abi.CONN_LEAF))
    assert 1 == len(plane.told)


def test_header_fields_have_their_canonical_names() -> None:
    """As http.Header has them in Go: values of one name together, in whatever letters it was sent."""
    found = fields(b"uber-trace-id: 1\r\nUBER-TRACE-ID: 2\r\nB3: x\r\nnothing\r\n")
    assert {"B3": ["x"], "Uber-Trace-Id": ["1", "2"]} == found
