"""Traces of messages (Nats-Trace-Dest, Nats-Trace-Only, traceparent): who gets which event, and who the message, the
same on leafd and on the reference, alone and at either end of a leaf link."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers

HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
leafnodes { listen: "127.0.0.1:{leaf_port}" }
jetstream { store_dir: "{store}", domain: hub }
accounts {
  A { jetstream: enabled
      users: [{user: a, password: a},
              {user: narrow, password: a, permissions: {publish: {allow: ["in.>", "_INBOX.>"]}}}]
      mappings { "map.from": "map.to" }
      msg_trace: { dest: "outside.trace" }
      exports: [{stream: "st.>"}, {stream: "sx.>"}]
      imports: [{service: {account: B, subject: "svc.a"}, to: "ask.a"},
                {service: {account: B, subject: "svc.b"}, to: "ask.b"},
                {service: {account: B, subject: "svc.far"}, to: "ask.far"}] }
  B { users: [{user: b, password: b}]
      exports: [{service: "svc.a", allow_trace: true}, {service: "svc.b"}, {service: "svc.far", allow_trace: true}]
      imports: [{stream: {account: A, subject: "st.>"}, prefix: "fromA", allow_trace: true},
                {stream: {account: A, subject: "sx.>"}, prefix: "noA"}] }
}
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: leaf
leafnodes { remotes: [ { url: "nats://a:a@127.0.0.1:{hub}", account: A },
                       { url: "nats://b:b@127.0.0.1:{hub}", account: B } ] }
accounts { A { users: [{user: a, password: a}] }, B { users: [{user: b, password: b}] } }
"""
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"
TRACED = {"Nats-Trace-Dest": "trace.x"}
SETTLED_S = 0.5
WAIT_S = 8.0


@dataclass(frozen=True)
class Case:
    """One message: who publishes it, and its headers."""

    subject: str
    sender: str = "a"
    headers: dict[str, str] = field(default_factory=lambda: dict(TRACED))
    size: int = 5
    reply: str = ""


CASES = {
    "plain": Case("plain"),
    "queue": Case("queue"),
    "nobody": Case("nobody"),
    "mapped": Case("map.from"),
    "over a link": Case("far"),
    "a queue behind a link": Case("far.queue"),
    "up a link": Case("plain", "leaf a"),
    "stream import": Case("st.x"),
    "stream import without traces": Case("sx.x"),
    "service import": Case("ask.a"),
    "service import with an answer": Case("ask.a", reply="plain"),
    "service import without traces": Case("ask.b"),
    "service behind a link": Case("ask.far"),
    "stored": Case("s.1"),
    "too large for the stream": Case("s.1", size=200),
    "nobody wants it stored": Case("i.1"),
    "expected in another stream": Case("s.1", headers=TRACED | {"Nats-Expected-Stream": "ZZ"}),
    "no echo": Case("in.x", "narrow", headers={"Nats-Trace-Dest": "in.trace"}),
    "may not be published": Case("out.x", "narrow", headers={"Nats-Trace-Dest": "in.trace"}),
    "may not be told there": Case("in.x", "narrow"),
    "no destination": Case("plain", headers={"X": "y"}),
    "no valid destination": Case("plain", headers={"Nats-Trace-Dest": "a..b"}),
    "disabled": Case("plain", headers={"Nats-Trace-Dest": "trace disabled"}),
    "a header of old servers": Case("plain", headers=TRACED | {"Nats-Trace-Origin-Account": "A"}),
}
CASES |= {
    f"{name}, traced only": Case(
        case.subject, case.sender, case.headers | {"Nats-Trace-Only": "true"}, case.size, case.reply
    )
    for name, case in CASES.items()
}
CASES |= {
    "of outside": Case("plain", headers={"TraceParent": PARENT + "1", "x-Other": "y"}),
    "of outside, not sampled": Case("plain", headers={"traceparent": PARENT + "0"}),
    "of outside, over a link": Case("far", headers={"traceparent": PARENT + "1"}),
    "of outside, in an account without a destination": Case("svc.a", "b", headers={"traceparent": PARENT + "1"}),
}


def told(message: Msg) -> str:
    """An event without what differs from run to run."""
    event = json.loads(message.data)
    event["server"] = event["server"]["name"]
    for one in event["events"]:
        assert one.pop("ts").endswith("Z")
        if "cid" in one:
            assert one.pop("cid") > 0
    for values in event["request"].get("header", {}).values():
        values[:] = ["_R_" if value.startswith("_R_.") else value for value in values]
    if event["request"].get("header", {}).pop("Nats-Request-Info", None):
        del event["request"]["msgsize"]  # it has a round-trip time
    return json.dumps(event)


def heard(message: Msg) -> str:
    """A delivered message without what differs from run to run."""
    headers = {name: "_R_" if value.startswith("_R_.") else value for name, value in (message.headers or {}).items()}
    headers.pop("Nats-Request-Info", None)
    return json.dumps([message.subject, sorted(headers.items())])


class Stage:
    """Two servers with a link for each of two accounts, their clients, and what these get."""

    def __init__(self, hub: servers.Server, leaf: servers.Server) -> None:
        self._hub, self._leaf = hub, leaf
        self.clients: dict[str, Client] = {}
        self.told: list[Msg] = []
        self.heard: list[Msg] = []

    async def open(self) -> None:
        for name, server, user, password in (
            ("a", self._hub, "a", "a"),
            ("b", self._hub, "b", "b"),
            ("narrow", self._hub, "narrow", "a"),
            ("leaf a", self._leaf, "a", "a"),
            ("leaf b", self._leaf, "b", "b"),
        ):
            self.clients[name] = await nats.connect(
                server.url, user=user, password=password, name=name, no_echo=name == "narrow", error_cb=ignore
            )
        for client, subject, queue in (
            ("a", "plain", ""), ("a", "queue", "group"), ("a", "map.to", ""), ("narrow", "in.x", ""),
            ("b", "fromA.st.x", ""), ("b", "noA.sx.x", ""), ("leaf a", "far", ""), ("leaf a", "far.queue", "group"),
            ("b", "svc.a", ""), ("b", "svc.b", ""), ("leaf b", "svc.far", ""),
        ):  # fmt: skip
            await self.clients[client].subscribe(subject, queue=queue, cb=self._hear)
        for subject in ("trace.x", "outside.trace", "in.trace"):
            await self.clients["a"].subscribe(subject, cb=self._tell)
        context = self.clients["a"].jetstream()
        await context.add_stream(name="S", subjects=["s.>"], max_msg_size=100)
        await context.add_stream(name="I", subjects=["i.>"], retention="interest")
        for connected in self.clients.values():
            await connected.flush()
        await self._linked()

    async def _linked(self) -> None:
        """Both links carry messages."""
        for account in "ab":
            deadline = time.monotonic() + WAIT_S
            far = await self.clients[f"leaf {account}"].subscribe(f"linked.{account}")
            while time.monotonic() < deadline:
                await self.clients[account].publish(f"linked.{account}", b"")
                try:
                    await far.next_msg(0.2)
                    break
                except nats.errors.TimeoutError:
                    continue
            await far.unsubscribe()

    async def _tell(self, message: Msg) -> None:
        self.told.append(message)

    async def _hear(self, message: Msg) -> None:
        self.heard.append(message)
        if message.reply:
            await self.clients["b"].publish(message.reply, b"answer")

    async def play(self, case: Case, expected: object = None) -> tuple[list[str], list[str]]:
        """What is told and heard because of a message: what has come when nothing is expected to come any more."""
        self.told.clear()
        self.heard.clear()
        client = self.clients[case.sender]
        await client.publish(case.subject, b"x" * case.size, headers=dict(case.headers), reply=case.reply)
        await client.flush()
        began = time.monotonic()
        while True:
            await asyncio.sleep(0.05)
            found = sorted(map(told, self.told)), sorted(map(heard, self.heard))
            gone = time.monotonic() - began
            if gone > SETTLED_S if expected is None else (found == expected and gone > 0.1) or gone > WAIT_S:
                return found

    async def close(self) -> None:
        for client in self.clients.values():
            await client.close()


async def ignore(error: Exception) -> None:
    """What nats-py would print of a refused publish."""


@asynccontextmanager
async def stage(hub: str, leaf: str) -> AsyncIterator[Stage]:
    with (
        servers.running(hub, HUB) as first,
        servers.running(leaf, LEAF, hub=first.ports["leaf_port"]) as second,
    ):
        made = Stage(first, second)
        await made.open()
        try:
            yield made
        finally:
            await made.close()


@pytest.fixture(scope="module")
def reference() -> dict[str, tuple[list[str], list[str]]]:
    """What nats-server tells at both ends."""

    async def run() -> dict[str, tuple[list[str], list[str]]]:
        async with stage(servers.REFERENCE, servers.REFERENCE) as made:
            return {name: await made.play(case) for name, case in CASES.items()}

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("hub", "leaf"),
    [
        (servers.LEAFD, servers.LEAFD),
        (servers.LEAFD, servers.REFERENCE),
        (servers.REFERENCE, servers.LEAFD),
    ],
)
def test_traces(reference: dict[str, tuple[list[str], list[str]]], hub: str, leaf: str) -> None:
    """Each message is told of by the same events, and heard by the same subscribers, as with nats-server."""

    async def run() -> dict[str, Any]:
        async with stage(hub, leaf) as made:
            return {name: await made.play(case, reference[name]) for name, case in CASES.items()}

    found = asyncio.run(run())
    assert {} == {name: (reference[name], found[name]) for name in CASES if reference[name] != found[name]}


SAMPLED = """
listen: "127.0.0.1:{port}"
server_name: hub
accounts { A { users: [{user: a, password: a}], msg_trace: { dest: "outside.trace", sampling: "25%" } } }
"""
MANY = 400


@pytest.mark.parametrize("kind", servers.KINDS)
def test_some_messages_of_outside_traces_are_sampled(kind: str) -> None:
    """Of 400 messages a quarter, as chance has it; all of them arrive."""

    async def main() -> int:
        client = await nats.connect(server.url, user="a", password="a")
        traces, messages = await client.subscribe("outside.trace"), await client.subscribe("plain")
        for _ in range(MANY):
            await client.publish("plain", b"", headers={"traceparent": PARENT + "1"})
        # The last one asks for its trace itself, so it ends the row of traces.
        await client.publish("plain", b"", headers={"Nats-Trace-Dest": "outside.trace"})
        for _ in range(MANY + 1):
            await messages.next_msg(WAIT_S)
        told = 0
        while b"Nats-Trace-Dest" not in (await traces.next_msg(WAIT_S)).data:
            told += 1
        await client.close()
        return told

    with servers.running(kind, SAMPLED) as server:
        told = asyncio.run(main())
    # Seven standard deviations: 8.7 each.
    assert 40 < told < 160
