"""The context of a trace (W3C: traceparent, tracestate, baggage; as OpenTelemetry puts it into headers) travels with a
message, unchanged: over links, through streams, mirrors, sources, transforms, republishing and schedules, and to who
gets it from there. The same asked of both servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests import servers
from tests.rig.official import must

HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
BOX = """
listen: "127.0.0.1:{{port}}"
server_name: box
jetstream {{ store_dir: "{{store}}", domain: box }}
leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{hub}" }} ] }}
"""
CONTEXT = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
    "baggage": "box=0001,region=north%20sea;unit=m",
}
STREAMS: dict[str, dict[str, dict[str, Any]]] = {
    "box": {
        "S": {"subjects": ["s.>"], "republish": {"src": "s.>", "dest": "told.>"}},
        "T": {"subjects": ["t.>"], "subject_transform": {"src": "t.>", "dest": "kept.>"}},
        "L": {"subjects": ["l.>", "later.>"], "allow_msg_schedules": True},
    },
    "hub": {
        "MIRROR": {"mirror": {"name": "S", "external": {"api": "$JS.box.API"}}},
        "SOURCE": {
            "sources": [
                {
                    "name": "S",
                    "external": {"api": "$JS.box.API"},
                    "subject_transforms": [{"src": "s.>", "dest": "at.hub.>"}],
                }
            ],
            "republish": {"src": "at.hub.>", "dest": "again.>"},
        },
    },
}
STOPS = [
    "over the link", "stored", "by a consumer", "directly", "republished", "transformed", "scheduled", "mirrored",
    "sourced", "republished at the hub",
]  # fmt: skip


@pytest.fixture(scope="module", params=servers.KINDS)
def stops(request: pytest.FixtureRequest) -> Iterator[dict[str, dict[str, str]]]:
    """The headers of one message, by where it was seen."""
    with ExitStack() as stack:
        hub = stack.enter_context(servers.running(request.param, HUB))
        box = stack.enter_context(servers.running(request.param, BOX.format(hub=hub.ports["leaf_port"])))
        yield asyncio.run(travelled(hub, box))


async def until_stored(client: Client, stream: str, subject: str) -> dict[str, str]:
    """The headers of the last message on that subject, once there is one."""
    jetstream = client.jetstream()
    deadline = time.monotonic() + 30
    while True:
        try:
            return dict((await jetstream.get_last_msg(stream, subject)).headers or {})
        except nats.js.errors.NotFoundError:
            assert time.monotonic() < deadline, subject
            await asyncio.sleep(0.05)


async def travelled(hub: servers.Server, box: servers.Server) -> dict[str, dict[str, str]]:
    here, there = await nats.connect(box.url), await nats.connect(hub.url)
    for client, name in ((here, "box"), (there, "hub")):
        for stream, config in STREAMS[name].items():
            more = {"allow_direct": True, "storage": "file", "retention": "limits", "discard": "old"}
            await must(client, f"$JS.API.STREAM.CREATE.{stream}", {"name": stream} | more | config)
    told, over, again = (
        await here.subscribe("told.>"), await there.subscribe("s.>"), await there.subscribe("again.>"),
    )  # fmt: skip
    await there.flush()
    # The first message goes when the link is up, since the hub's copies are: then it is there at each stop.
    for stream in STREAMS["hub"]:
        await until_heard(there, stream)
    await here.jetstream().publish("s.1", b"x", headers=dict(CONTEXT))
    await here.jetstream().publish("t.1", b"x", headers=dict(CONTEXT))
    due = {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "later.1"}
    await here.jetstream().publish("l.1", b"x", headers={**CONTEXT, **due})
    consumer = await here.jetstream().pull_subscribe("s.>", durable="C", stream="S")
    found = {
        "over the link": (await over.next_msg(30)).headers,
        "stored": await until_stored(here, "S", "s.1"),
        "by a consumer": (await consumer.fetch(1, timeout=10))[0].headers,
        "directly": (await here.jetstream().get_msg("S", 1, direct=True)).headers,
        "republished": (await told.next_msg(30)).headers,
        "transformed": await until_stored(here, "T", "kept.1"),
        "scheduled": await until_stored(here, "L", "later.1"),
        "mirrored": await until_stored(there, "MIRROR", "s.1"),
        "sourced": await until_stored(there, "SOURCE", "at.hub.1"),
        "republished at the hub": (await again.next_msg(30)).headers,
    }
    await here.close()
    await there.close()
    return {name: dict(headers or {}) for name, headers in found.items()}


async def until_heard(client: Client, stream: str) -> None:
    """The copy has heard of its origin."""
    deadline = time.monotonic() + 60
    while True:
        info = await must(client, f"$JS.API.STREAM.INFO.{stream}", {})
        if (info.get("mirror") or info["sources"][0]).get("active", -1) >= 0:
            return
        assert time.monotonic() < deadline, info
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("stop", STOPS)
def test_the_context_arrives_unchanged(stops: dict[str, dict[str, str]], stop: str) -> None:
    """Names in their case and values byte for byte, wherever the message is seen."""
    assert {name: value for name, value in stops[stop].items() if not name.startswith("Nats-")} == CONTEXT
