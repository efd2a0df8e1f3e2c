"""What a service is told of who asks (Nats-Request-Info), and fast batches whose stream is behind an import: the same
on leafd and on the reference."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers

CONFIGURATION = """
listen: "127.0.0.1:{port}"
server_name: hub
leafnodes { listen: "127.0.0.1:{leaf_port}" }
jetstream { store_dir: "{store}" }
accounts {
  S { jetstream: enabled
      users: [{user: s, password: s}]
      exports: [{service: "svc.>"}, {service: "batch.>"}, {service: "$JS.API.>", response: stream}] }
  R { users: [{user: r, password: r}]
      exports: [{service: "through.>"}]
      imports: [{service: {account: S, subject: "svc.plain"}, to: "ask.plain"},
                {service: {account: S, subject: "svc.shared"}, to: "ask.shared", share: true},
                {service: {account: S, subject: "svc.first"}, to: "through.first"},
                {service: {account: S, subject: "svc.both"}, to: "through.both", share: true},
                {service: {account: S, subject: "batch.one"}, to: "put.one"},
                {service: {account: S, subject: "batch.shared"}, to: "put.shared", share: true},
                {service: {account: S, subject: "batch.chained"}, to: "through.batch"},
                {service: {account: SYS, subject: "sys.svc"}, to: "ask.sys"}] }
  Q { users: [{user: q, password: q}]
      imports: [{service: {account: R, subject: "through.first"}, to: "ask.first", share: true},
                {service: {account: R, subject: "through.both"}, to: "ask.both"},
                {service: {account: R, subject: "through.batch"}, to: "put.chained"}] }
  SYS { users: [{user: y, password: y}], exports: [{service: "sys.svc"}] }
}
system_account: SYS
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: leaf
leafnodes { remotes: [ { url: "nats://r:r@127.0.0.1:{hub}" } ] }
"""
ASKED = {
    "plain": ("r", "ask.plain", "svc.plain"),
    "shared": ("r", "ask.shared", "svc.shared"),
    "over two imports, of which the first shares": ("q", "ask.first", "svc.first"),
    "over two imports, of which the second shares": ("q", "ask.both", "svc.both"),
    "of the system account": ("r", "ask.sys", "sys.svc"),
    "behind a link, plain": ("leaf", "ask.plain", "svc.plain"),
    "behind a link, shared": ("leaf", "ask.shared", "svc.shared"),
    "behind a link, with a header of its own": ("leaf", "ask.shared", "svc.shared"),
}
BATCHES = {"plain": ("r", "put.one"), "shared": ("r", "put.shared"), "over two imports": ("q", "put.chained")}


def info_of(message: Msg) -> str:
    """The header without what differs from run to run."""
    info = json.loads((message.headers or {})["Nats-Request-Info"])
    for name in ("start", "id", "rtt"):
        if name in info:
            assert info[name]
            info[name] = name
    return json.dumps(info)


async def asked(server: servers.Server, leaf: servers.Server) -> dict[str, str]:
    """What services were told in each case."""
    found = {}
    clients = {
        name: await nats.connect((leaf if name == "leaf" else server).url, name=f"client {name}", **login)
        for name, login in {
            "s": {"user": "s", "password": "s"},
            "y": {"user": "y", "password": "y"},
            "r": {"user": "r", "password": "r"},
            "q": {"user": "q", "password": "q"},
            "leaf": {},
        }.items()
    }
    services = {
        "svc": await clients["s"].subscribe("svc.>"),
        "sys": await clients["y"].subscribe("sys.svc"),
    }
    for client in clients.values():
        await client.flush()
    await asyncio.sleep(2.5)  # the first round trips are measured, and the link knows of the service
    for name, (user, subject, behind) in ASKED.items():
        headers = {"Nats-Request-Info": '{"acc":"X"}'} if "of its own" in name else None
        await clients[user].publish(subject, b"", reply="answers", headers=headers)
        message = await services[behind.split(".")[0]].next_msg(timeout=5)
        assert behind == message.subject
        found[name] = info_of(message)
    for client in clients.values():
        await client.close()
    return found


def test_who_asks() -> None:
    """A service is told the account and the round-trip time of who asks; over an import that shares it, and where the
    service is the system account's, also what the reference tells: connection, user, client, server."""
    reports = []
    for kind in servers.KINDS:
        with (
            servers.running(kind, CONFIGURATION) as server,
            servers.running(servers.REFERENCE, LEAF, hub=server.ports["leaf_port"]) as leaf,
        ):
            reports.append(asyncio.run(asked(server, leaf)))
    assert reports[1] == reports[0]


# ---- fast batches


class Batch:
    """One client that publishes a batch, and what it is answered."""

    def __init__(self, client: Client, subject: str, name: str) -> None:
        self._client, self._subject, self._inbox = client, subject, f"_INBOX.{name}.{name}"
        self.answers: list[tuple[str, Any]] = []

    async def open(self) -> None:
        async def hear(message: Msg) -> None:
            self.answers.append((message.subject.removeprefix(self._inbox), message_of(message)))

        await self._client.subscribe(f"{self._inbox}.>", cb=hear)

    async def put(self, sequence: int, operation: int, gap: str = "ok", flow: int = 2) -> None:
        """0 starts, 1 appends, 2 commits, 3 commits without a message of its own, 4 asks where it is."""
        reply = f"{self._inbox}.{flow}.{gap}.{sequence}.{operation}.$FI"
        await self._client.publish(self._subject, b"x", reply=reply)
        await self._client.flush()
        await asyncio.sleep(0.1)


def message_of(message: Msg) -> Any:
    return json.loads(message.data) if message.data else dict(message.headers or {})


PLAYS = {
    "a whole batch": [(1, 0), (2, 1), (3, 1), (4, 1), (5, 2)],
    "a batch of one": [(1, 2)],
    "committed without a message": [(1, 0), (2, 1), (3, 3)],
    "a gap": [(1, 0), (3, 1), (4, 2)],
    "asked where it is": [(1, 0), (2, 1), (2, 4), (3, 2)],
    "unknown": [(2, 1)],
}


async def batches(server: servers.Server) -> dict[str, Any]:
    found: dict[str, Any] = {}
    owner = await nats.connect(server.url, user="s", password="s")
    config = {"name": "B", "subjects": ["batch.>"], "storage": "file", "allow_batched": True}
    made = json.loads((await owner.request("$JS.API.STREAM.CREATE.B", json.dumps(config).encode())).data)
    assert "error" not in made, made
    for kind, (user, subject) in BATCHES.items():
        client = await nats.connect(server.url, user=user, password=user)
        for number, (name, steps) in enumerate(PLAYS.items()):
            batch = Batch(client, subject, f"{user}{len(found)}x{number}")
            await batch.open()
            for sequence, operation in steps:
                await batch.put(sequence, operation)
            found[f"{name}, {kind}"] = batch.answers
        await client.close()
    state = json.loads((await owner.request("$JS.API.STREAM.INFO.B", b"")).data)["state"]
    found["stored"] = {name: state[name] for name in ("messages", "last_seq")}
    last = json.loads((await owner.request("$JS.API.STREAM.MSG.GET.B", b'{"seq": 1}')).data)["message"]
    found["headers"] = last.get("hdrs")
    await owner.close()
    return found


def test_fast_batches_over_imports() -> None:
    """A client whose account imports a stream's subject publishes fast batches into it, and is answered as one of the
    stream's account is."""
    reports = []
    for kind in servers.KINDS:
        with servers.running(kind, CONFIGURATION) as server:
            reports.append(asyncio.run(batches(server)))
    for name in reports[0]:
        assert reports[1][name] == reports[0][name], name
