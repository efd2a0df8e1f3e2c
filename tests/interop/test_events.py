"""Events of the system account beside nats-server's: the same things happen to both servers, and whoever listens to
$SYS.> hears the same of them."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.interop.test_metrics import page
from tests.jwts import Key
from tests.rig.waiting import PATIENCE_S

KEY = Key("user")
HUB = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts {
  A { users: [{user: a, password: a}, {nkey: KEY}] }
  SYS { users: [{user: s, password: s}] }
}
system_account: SYS
""".replace("KEY", KEY.public)
LEAF = """
listen: "127.0.0.1:{port}"
server_name: box
leafnodes { remotes: [ { url: "nats-leaf://a:a@127.0.0.1:{hub}" } ] }
"""
CONNECT, DISCONNECT = "$SYS.ACCOUNT.A.CONNECT", "$SYS.ACCOUNT.A.DISCONNECT"
STRANGER = "$SYS.ACCOUNT.$G.DISCONNECT"
STEPS = (
    "a client comes", "it goes", "a wrong password", "a wrong password, in its account", "nobody", "a line of no sense",
    "a kicked client", "a leaf comes", "a leaf goes", "an account's numbers", "the server's numbers", "lame duck",
    "an nkey",
)  # fmt: skip
VALUES = (
    "type", "reason", "acc", "user", "name", "lang", "kind", "client_type", "name_tag", "sent", "received", "conns",
    "leafnodes", "total_conns", "issuer_key",
)  # fmt: skip
"""Members whose values are the same on both servers; of the others, that they are there and of which type."""


class Heard:
    """Who listens, and what was heard."""

    def __init__(self, server: servers.Server, client: Client) -> None:
        self.server, self.client = server, client
        self.every: list[tuple[str, Any]] = []
        self.id = json.loads(page(server, "/varz"))["server_id"]

    async def take(self, message: Msg) -> None:
        """One event."""
        if message.subject.startswith(("$SYS.ACCOUNT", "$SYS.SERVER")):
            self.every.append((message.subject.replace(self.id, "ID"), json.loads(message.data)))

    async def next(self, subject: str, **client: Any) -> Any:
        """The first event on that subject about that client; it is taken from the list."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for place, (found, event) in enumerate(self.every):
                about = event.get("client", event)
                if found == subject and all(about.get(key) == value for key, value in client.items()):
                    del self.every[place]
                    return event
            await asyncio.sleep(0.02)
        raise AssertionError(f"{subject} {client} was not heard; {[subject for subject, _ in self.every]}")


async def play(server: servers.Server) -> dict[str, Any]:
    """What was heard, by step."""
    client = await nats.connect(server.url, user="s", password="s")
    heard, found = Heard(server, client), dict[str, Any]()
    await client.subscribe("$SYS.>", cb=heard.take)
    await client.flush()
    app = await nats.connect(server.url, user="a", password="a", name="app")
    found["a client comes"] = await heard.next(CONNECT, name="app")
    found["an account's numbers"] = await heard.next("$SYS.ACCOUNT.A.SERVER.CONNS")
    await heard.next("$SYS.SERVER.ACCOUNT.A.CONNS")
    await app.publish("x", b"12345")
    await app.flush()
    await app.close()
    found["it goes"] = await heard.next(DISCONNECT, name="app")
    keyed = await nats.connect(server.url, nkeys_seed_str=KEY.seed, name="keyed")
    found["an nkey"] = await heard.next(CONNECT, name="keyed")
    shown = json.loads(await asyncio.to_thread(page, server, "/connz?auth=1&acc=A"))["connections"]
    assert ["A"] == [one["issuer_key"] for one in shown]
    await keyed.close()
    found["the server's numbers"] = await heard.next("$SYS.SERVER.ID.STATSZ")
    with said(server, b'CONNECT {"user":"a","pass":"b","name":"thief","verbose":false}\r\nPING\r\n'):
        found["a wrong password"] = await heard.next("$SYS.SERVER.ID.CLIENT.AUTH.ERR", name="thief")
        found["a wrong password, in its account"] = await heard.next(STRANGER, name="thief")
    with said(server, b"") as stranger:
        stranger.shutdown(socket.SHUT_WR)
        await asyncio.to_thread(stranger.recv, 4096)  # closed before the server reads, it would be an error of reading
    found["nobody"] = await heard.next(STRANGER, reason=None)
    with said(server, b'CONNECT {"user":"a","pass":"a","name":"odd","verbose":false}\r\nPING\r\nNONSENSE\r\n'):
        await heard.next(CONNECT, name="odd")
        found["a line of no sense"] = await heard.next(DISCONNECT, name="odd")
    with said(server, b'CONNECT {"user":"a","pass":"a","name":"bad","verbose":false}\r\nPING\r\n'):
        number = (await heard.next(CONNECT, name="bad"))["client"]["id"]
        await client.request(f"$SYS.REQ.SERVER.{heard.id}.KICK", json.dumps({"cid": number}).encode(), PATIENCE_S)
        found["a kicked client"] = await heard.next(DISCONNECT, name="bad")
    with servers.running(servers.REFERENCE, LEAF, hub=server.ports["leaf_port"]):
        found["a leaf comes"] = await heard.next(CONNECT, kind="Leafnode")
    found["a leaf goes"] = await heard.next(DISCONNECT, kind="Leafnode")
    found["gone"] = json.loads(page(server, "/connz?state=closed&auth=1&sort=stop"))
    assert server.process is not None
    server.process.send_signal(signal.SIGUSR2)
    found["lame duck"] = await heard.next("$SYS.SERVER.ID.LAMEDUCK")
    await client.close()
    server.kill()  # a lame duck takes its time
    return found


def said(server: servers.Server, text: bytes) -> socket.socket:
    """A connection that has said this after it got INFO."""
    connection = socket.create_connection(("127.0.0.1", server.port), 20)
    connection.recv(4096)
    connection.sendall(text)
    return connection


@pytest.fixture(scope="module")
def heard() -> Iterator[dict[str, dict[str, Any]]]:
    """By server, what was heard of each step."""

    def one(kind: str) -> dict[str, Any]:
        with servers.running(kind, HUB) as server:
            return asyncio.run(play(server))

    with ThreadPoolExecutor() as pool:
        yield dict(zip(servers.KINDS, pool.map(one, servers.KINDS), strict=True))


def form(event: Any, place: str = "") -> Any:
    """An event with the types of what differs between servers in the place of values. A round trip is told of when it
    was measured, which may be never."""
    if place in ("server", "statsz"):
        return sorted(event)
    if isinstance(event, dict):
        return {
            key: value if key in VALUES else form(value, f"{place}.{key}".strip("."))
            for key, value in event.items()
            if key != "rtt"
        }
    return "number" if isinstance(event, int | float) else type(event).__name__


@pytest.mark.parametrize("step", STEPS)
def test_the_same_is_heard_of_what_happens(heard: dict[str, dict[str, Any]], step: str) -> None:
    """Members, and the values of those that do not depend on the server."""
    theirs, ours = (form(heard[kind][step]) for kind in (servers.REFERENCE, servers.LEAFD))
    assert theirs == ours


def test_connections_that_have_gone_are_told_of(heard: dict[str, dict[str, Any]]) -> None:
    """connz?state=closed: who it was, why it ended and what it carried."""
    names = ("name", "reason", "kind", "type", "authorized_user", "account", "in_msgs", "in_bytes", "out_msgs")
    told = {
        kind: [
            tuple(one.get(name) for name in names)
            for one in found["gone"]["connections"]
            if one.get("name") in ("app", "thief", "odd", "bad", "box")
        ]
        for kind, found in heard.items()
    }
    assert told[servers.LEAFD] == told[servers.REFERENCE]
    assert len(told[servers.LEAFD]) == 5


@pytest.mark.parametrize("kind", servers.KINDS)
def test_those_that_came_last_are_told_of_first(heard: dict[str, dict[str, Any]], kind: str) -> None:
    """connz?sort=stop lists closed connections with the latest first."""
    stops = [one["stop"] for one in heard[kind]["gone"]["connections"]]
    assert len(stops) > 5
    assert all("reason" in one and one["start"] <= one["stop"] for one in heard[kind]["gone"]["connections"])
