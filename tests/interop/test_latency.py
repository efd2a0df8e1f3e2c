"""How long services take (exports with latency): which requests are measured, and what is told of each, the same on
leafd and on the reference."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.jwts import Operator
from tests.rig import official

CONFIGURATION = """
listen: "127.0.0.1:{port}"
server_name: hub
leafnodes { listen: "127.0.0.1:{leaf_port}" }
jetstream { store_dir: "{store}" }
accounts {
  S { jetstream: enabled
      users: [{user: s, password: s}]
      exports: [{service: "svc.all", latency: "lat.all"},
                {service: "svc.shared", latency: {subject: "lat.shared"}},
                {service: "svc.silent", latency: {sampling: "100%", subject: "lat.silent"}, threshold: "500ms"},
                {service: "svc.nobody", latency: {sampling: 100, subject: "lat.nobody"}},
                {service: "svc.headers", latency: {sampling: headers, subject: "lat.headers"}},
                {service: "svc.w.*", latency: "lat.w"},
                {service: "st.x", latency: "lat.stream"}] }
  R { users: [{user: r, password: r}, {user: gone, password: r}]
      exports: [{service: "on.all", latency: "lat.on"}]
      imports: [{service: {account: S, subject: "svc.all"}, to: "on.all"},
                {service: {account: S, subject: "svc.shared"}, to: "ask.shared", share: true},
                {service: {account: S, subject: "svc.silent"}, to: "ask.silent"},
                {service: {account: S, subject: "svc.nobody"}, to: "ask.nobody"},
                {service: {account: S, subject: "svc.headers"}, to: "ask.headers"},
                {service: {account: S, subject: "svc.w.a"}, to: "ask.w"},
                {service: {account: S, subject: "st.x"}, to: "ask.stream"}] }
  Q { users: [{user: q, password: q}]
      imports: [{service: {account: R, subject: "on.all"}, to: "ask.all"}] }
}
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: leaf
leafnodes { remotes: [ { url: "nats://r:r@127.0.0.1:{hub}" } ] }
"""
SERVICE_S = 0.05
"""How long the service takes."""
QUIET_S = 1.5
"""After which nothing more comes: leafd looks twice a second whether a requester still listens."""
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"
B3 = "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-"
Headers = dict[str, str]


@dataclass
class Stage:
    """One server, the service, who asks it, and what is told meanwhile."""

    clients: dict[str, Client] = field(default_factory=dict)
    told: list[Msg] = field(default_factory=list)

    async def open(self, server: servers.Server, leaf: servers.Server) -> None:
        for name in ("s", "r", "q"):
            self.clients[name] = await nats.connect(server.url, user=name, password=name, name=f"client {name}")
        self.clients["leaf"] = await nats.connect(leaf.url)
        service = self.clients["s"]
        for subject in ("svc.all", "svc.shared", "svc.headers", "svc.w.*"):
            await service.subscribe(subject, cb=self._serve)
        await service.subscribe("svc.silent")
        for name in ("s", "r"):
            await self.clients[name].subscribe("lat.>", cb=self._tell)
        await service.jetstream().add_stream(name="ST", subjects=["st.x"])
        for client in self.clients.values():
            await client.flush()
        await asyncio.sleep(2.5)  # the first round trips are measured, and the link knows of the services

    async def close(self) -> None:
        for client in self.clients.values():
            await client.close()

    async def _serve(self, message: Msg) -> None:
        await asyncio.sleep(SERVICE_S)
        if message.reply:
            await message.respond(b"")

    async def _tell(self, message: Msg) -> None:
        self.told.append(message)

    async def ask(self, subject: str, user: str = "r", headers: Headers | None = None) -> None:
        await self.clients[user].request(subject, b"", timeout=5, headers=headers)

    async def leave(self, stage_client: Client, subject: str) -> None:
        """Asks, and no longer listens when the answer could come."""
        listening = await stage_client.subscribe("gone.away")
        await stage_client.publish(subject, b"", reply="gone.away")
        await stage_client.flush()
        await listening.unsubscribe()
        await stage_client.flush()


Play = Callable[[Stage, servers.Server], Awaitable[None]]


def asks(subject: str, user: str = "r", headers: Headers | None = None) -> Play:
    async def play(stage: Stage, _: servers.Server) -> None:
        await stage.ask(subject, user, headers)

    return play


def publishes(subject: str, user: str = "r", headers: Headers | None = None) -> Play:
    async def play(stage: Stage, _: servers.Server) -> None:
        await stage.clients[user].publish(subject, b"", headers=headers)
        await stage.clients[user].flush()

    return play


async def nobody_answers(stage: Stage, _: servers.Server) -> None:
    with pytest.raises(nats.errors.NoRespondersError):
        await stage.ask("ask.nobody")


async def silence(stage: Stage, _: servers.Server) -> None:
    with pytest.raises(nats.errors.TimeoutError):
        await stage.clients["r"].request("ask.silent", b"", timeout=1.5)


async def unsubscribes(stage: Stage, _: servers.Server) -> None:
    await stage.leave(stage.clients["r"], "ask.silent")


async def closes(stage: Stage, server: servers.Server) -> None:
    client = await nats.connect(server.url, user="gone", password="r", name="gone")
    await client.subscribe("closed.away")
    await client.publish("ask.shared", b"", reply="closed.away")
    await client.flush()
    await client.close()


PLAYS: dict[str, Play] = {
    "answered": asks("on.all"),
    "answered over two imports": asks("ask.all", "q"),
    "answered, shared": asks("ask.shared"),
    "asked behind a link": asks("on.all", "leaf"),
    "asked behind a link, shared": asks("ask.shared", "leaf"),
    "one subject of a wildcard": asks("ask.w"),
    "without a reply": publishes("on.all"),
    "without a reply, shared": publishes("ask.shared"),
    "nobody": nobody_answers,
    "silence": silence,
    "the requester no longer listens": unsubscribes,
    "the requester closes": closes,
    "answered by a stream": asks("ask.stream"),
    "no header": asks("ask.headers"),
}
SAMPLED: dict[str, Headers] = {
    "jaeger": {"Uber-Trace-Id": "479fefe9525eddb:5adb976bfc1f95c1:479fefe9525eddb:1", "uberctx-A": "b", "X": "y"},
    "jaeger, two digits": {"uber-trace-id": "1:2:3:03"},
    "jaeger, not sampled": {"Uber-Trace-Id": "1:2:3:2"},
    "jaeger, malformed": {"Uber-Trace-Id": "1:2:1", "traceparent": PARENT + "1"},
    "zipkin": {"X-B3-Sampled": "1", "X-B3-TraceId": "80f", "X-B3-SpanId": "a", "X-B3-ParentSpanId": "b", "B3": "0"},
    "zipkin, not sampled": {"X-B3-Sampled": "0", "X-B3-TraceId": "80f"},
    "zipkin, left to us": {"X-B3-TraceId": "80f"},
    "zipkin, another word": {"X-B3-Sampled": "d"},
    "b3": {"b3": B3 + "1-05e3ac9a4f6e3b90"},
    "b3, not sampled": {"B3": B3 + "0"},
    "b3, left to us": {"B3": B3[:-1]},
    "b3, no": {"B3": "0"},
    "b3, yes": {"B3": "1"},
    "w3c": {"traceparent": PARENT + "1", "Tracestate": "rojo=00f067aa0ba902b7"},
    "w3c, not sampled": {"traceparent": PARENT + "0"},
    "w3c, malformed": {"traceparent": "00-1-01"},
}
PLAYS |= {name: asks("ask.headers", headers=headers) for name, headers in SAMPLED.items()}
PLAYS["sampled without a reply"] = publishes("ask.headers", headers={"B3": "1"})


def shown(message: Msg) -> str:
    """An event without what differs from run to run, whose figures add up."""
    event: dict[str, Any] = json.loads(message.data)
    assert 22 == len(event["id"])
    connections = [event.get("requestor", {}), event.get("responder", {})]
    round_trips = [one.get("rtt", 0) for one in connections]
    if 200 == event["status"]:
        assert SERVICE_S * 0.9e9 - round_trips[1] <= event["service"] < 5e9
        assert event["total"] >= event["service"] + sum(round_trips) or not event["service"]
    for name in ("id", "timestamp", "start"):
        assert event[name]
        event[name] = name
    for name in ("service", "system", "total"):
        event[name] = event[name] >= 0
    for one in connections:
        for name in ("start", "id", "rtt"):
            if name in one:
                assert one[name], (name, one)
                one[name] = name
    return json.dumps([message.subject, event])


async def played(server: servers.Server, leaf: servers.Server) -> dict[str, list[str]]:
    """What was told of each play."""
    stage, found = Stage(), {}
    await stage.open(server, leaf)
    for name, play in PLAYS.items():
        stage.told.clear()
        await play(stage, server)
        quick = name in SAMPLED
        await asyncio.sleep(0.2 if quick else QUIET_S)
        found[name] = sorted(shown(one) for one in stage.told)
    await stage.close()
    return found


def test_what_is_told_of_each_request() -> None:
    """Requests over imports are measured as their export says (all, a share, or those whose header asks for it), and
    told of as the reference does: who asked, who answered, how long it took, or why nobody did."""
    with contextlib.ExitStack() as stack:
        pairs = []
        for kind in servers.KINDS:
            server = stack.enter_context(servers.running(kind, CONFIGURATION))
            leaf = servers.running(servers.REFERENCE, LEAF, hub=server.ports["leaf_port"])
            pairs.append((server, stack.enter_context(leaf)))

        async def all_played() -> list[dict[str, list[str]]]:
            return await asyncio.gather(*(played(*pair) for pair in pairs))

        ours, theirs = asyncio.run(all_played())
    assert any(theirs.values())
    assert [(name, ours[name], theirs[name]) for name in PLAYS if ours[name] != theirs[name]] == []


# ---- operators, links, reloads


def operated(tmp_path: Path) -> tuple[str, Callable[[str], dict[str, Any]]]:
    """An operator whose account S exports measured services to R, and what nats.connect() takes for each of them."""
    operator = Operator("O")
    service, requester = operator.account("S"), operator.account("R")
    service.export("svc.all", service_latency={"sampling": 100, "results": "lat.all"})
    service.export("svc.shared", service_latency={"sampling": "headers", "results": "lat.shared"})
    requester.imported(service, "svc.all", local_subject="ask.all")
    requester.imported(service, "svc.shared", local_subject="ask.shared", share=True)
    files = {
        name: account.user(f"user {name}", tags=["edge"]).creds(tmp_path / f"{name}.creds")
        for name, account in (("s", service), ("r", requester))
    }
    keys = {one.public: f"the key of {one.name}" for one in operator.accounts}

    def connect(name: str) -> dict[str, Any]:
        return {"user_credentials": str(files[name]), "name": name} if name in files else keys

    return operator.configuration(), connect


async def operated_events(server: servers.Server, connect: Callable[[str], dict[str, Any]]) -> list[str]:
    told: list[Msg] = []
    # (A nats-server's importer may find no responders for a moment though the service's subscription is confirmed.)
    without: dict[str, Any] = {"user": None, "password": None}
    service, requester = [await official.connect(server, **without, **connect(name)) for name in "sr"]

    async def serve(message: Msg) -> None:
        told.append(message)
        await asyncio.sleep(SERVICE_S)
        await message.respond(b"")

    async def tell(message: Msg) -> None:
        told.append(message)

    for subject, hear in (("svc.>", serve), ("lat.>", tell)):
        await service.subscribe(subject, cb=hear)
    await service.flush()
    await requester.request("ask.all", b"", timeout=5)
    await requester.request("ask.shared", b"", timeout=5, headers={"B3": "1"})
    await requester.request("ask.shared", b"", timeout=5)
    await asyncio.sleep(0.5)
    for client in (service, requester):
        await client.close()
    return sorted(told_by(message) for message in told)


def told_by(message: Msg) -> str:
    """An event, or what a service was told of who asks."""
    if message.subject.startswith("lat."):
        return shown(message)
    info = json.loads((message.headers or {})["Nats-Request-Info"])
    return json.dumps([message.subject, {name: info[name] and (name not in VARIES and info[name]) for name in info}])


VARIES = ("start", "id", "rtt")


def test_by_jwt(tmp_path: Path) -> None:
    """Where accounts come from JWTs, what their exports say of latency and their imports of sharing counts as well, and
    users are told of with their JWTs, keys and tags."""
    configuration, connect = operated(tmp_path)
    reports = []
    for kind in servers.KINDS:
        with servers.running(kind, 'listen: "127.0.0.1:{port}"\nserver_name: hub\n' + configuration) as server:
            reports.append(asyncio.run(operated_events(server, connect)))
    assert 5 == len(reports[1])
    assert "issuer_key" in "".join(reports[1])
    assert reports[1] == reports[0]


HUB_LINKED = """
listen: "127.0.0.1:{port}"
server_name: hub
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts {
  SYS { users: [{user: y, password: y}] }
  S { users: [{user: s, password: s}], exports: [{service: "svc.far", latency: "lat.far"}] }
  R { users: [{user: r, password: r}], imports: [{service: {account: S, subject: "svc.far"}}] }
}
system_account: SYS
"""
BOX_LINKED = """
listen: "127.0.0.1:{port}"
server_name: box
leafnodes { remotes: [ { url: "nats://s:s@127.0.0.1:{hub}", account: S }{more} ] }
accounts { SYS { users: [{user: y, password: y}] }
           S { users: [{user: s, password: s}], exports: [{service: "svc.far"}] } }
system_account: SYS
"""
SYSTEM_LINK = ', { url: "nats://y:y@127.0.0.1:{hub}", account: SYS }'


async def far_events(hub: servers.Server, box: servers.Server) -> list[str]:
    """What is told at the hub of a request whose service is at the box."""
    told: list[Msg] = []
    owner = await nats.connect(hub.url, user="s", password="s")
    service = await nats.connect(box.url, user="s", password="s", name="far")
    requester = await nats.connect(hub.url, user="r", password="r")

    async def serve(message: Msg) -> None:
        await asyncio.sleep(SERVICE_S)
        await message.respond(b"")

    async def tell(message: Msg) -> None:
        told.append(message)

    await owner.subscribe("lat.far", cb=tell)
    await service.subscribe("svc.far", cb=serve)
    for client in (owner, service):
        await client.flush()
    await asyncio.sleep(2.5)  # the links know of both, and of the system account
    await requester.request("svc.far", b"", timeout=5)
    await asyncio.sleep(QUIET_S)
    for client in (owner, service, requester):
        await client.close()
    return [shown(message) for message in told]


def far_reports(hub_kind: str, box_kind: str, more: str) -> list[str]:
    with (
        servers.running(hub_kind, HUB_LINKED) as hub,
        servers.running(box_kind, BOX_LINKED.replace("{more}", more), hub=hub.ports["leaf_port"]) as box,
    ):
        return asyncio.run(far_events(hub, box))


@pytest.mark.parametrize("more", ["", SYSTEM_LINK], ids=["without", "with"])
def test_a_service_behind_a_link(more: str) -> None:
    """A service that a box has is measured at both ends, and told of as one, where the system accounts are linked, too;
    where they are not, nothing is told. In every line-up."""
    line_ups = [(hub, box) for hub in servers.KINDS for box in servers.KINDS]
    reports = {f"{hub}, {box}": far_reports(hub, box, more) for hub, box in line_ups}
    expected = reports[f"{servers.REFERENCE}, {servers.REFERENCE}"]
    assert (1 if more else 0) == len(expected)
    assert dict.fromkeys(reports, expected) == reports
