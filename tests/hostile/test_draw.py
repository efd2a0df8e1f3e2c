"""The proof that nothing of what the outside can send ends, stalls or upsets the daemon, as a quick draw; and that the
draw reaches every field. For longer: python -m tests.hostile --seconds 3600."""

from __future__ import annotations

import dataclasses

from leafd.auth.connect import ClientConnect, LeafConnect
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig
from leafd.links.answers import Created
from leafd.links.leaf_info import HubInfo

from tests.hostile import fields
from tests.hostile.draw import Draw, daemon, run

SEED = 7
SECONDS = 30.0


def test_quick_draw() -> None:
    """Half a minute of hostile input by every way in: everybody else is served, nothing unforeseen is counted, and no
    turn of the control thread takes longer than 20 ms."""
    findings: list[str] = []
    passed, failed = run(SECONDS, SEED, findings.append)
    assert [] == findings
    assert 0 == failed
    assert passed > 100


def test_daemon_that_does_not_serve_is_a_finding() -> None:
    """The look behind each batch sees a daemon that has ended."""
    with daemon() as one:
        assert "" == one.complaint()
        one.server.kill()
        assert one.complaint().startswith("the daemon ended with -9")


def test_draw_reaches_every_field() -> None:
    """Every declared field of every body, with what is nested in it, gets its turn, and so does every endpoint."""
    reached = {path for line in fields.endpoints() if line.request for path in fields.paths(line.request)}
    reached |= {path for struct in (ClientConnect, LeafConnect, HubInfo, Created) for path in fields.paths(struct)}
    assert {(one.metadata["name"],) for one in dataclasses.fields(StreamConfig)} <= reached
    assert {("config", one.metadata["name"]) for one in dataclasses.fields(ConsumerConfig)} <= reached
    assert {("config", "backoff", "0"), ("config", "metadata", "key"), ("sources", "0", "external", "api")} <= reached

    draw, drawn = Draw(SEED), set()
    for case, _ in zip(draw, range(20_000), strict=False):
        drawn.add(case.way)
        if case.way == "request":
            drawn.add(case.subject.removeprefix(b"$JS.edge.API.").removeprefix(b"$JS.API.").decode("utf-8", "replace"))
    ways = {"request", "publish", "client", "leaf", "hub", "origin", "url", "system", "client lines", "leaf lines"}
    assert ways <= drawn
    for line in fields.endpoints():
        assert any(line.matches(one.split(".")) for one in drawn), line.pattern


def test_same_seed_draws_the_same() -> None:
    """A finding can be drawn again."""
    first, again = Draw(3), Draw(3)
    assert [case for case, _ in zip(first, range(200), strict=False)] == [
        case for case, _ in zip(again, range(200), strict=False)
    ]


def test_headers_and_options_are_found() -> None:
    """What C and Python look up by name is among what is drawn."""
    expected = {b"Nats-Msg-Id", b"Nats-Expected-Last-Sequence", b"Nats-TTL", b"Nats-Required-Api-Level", b"Nats-Rollup"}
    expected |= {b"Nats-Batch-Id", b"Nats-Batch-Sequence", b"Nats-Batch-Commit", b"Nats-Incr", b"Nats-Schedule-Target"}
    assert expected <= set(fields.headers())
    assert {"limit", "offset", "acc", "streams", "sort", "cid"} <= set(fields.options())
