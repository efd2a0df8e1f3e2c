"""Logins over the plane that test_clients.py writes down its calls on, and over the real one: what the fake was told
is what a client at the other end of a real socket sees.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from leafd import native_types as t
from leafd.jetstream.subjects import subset
from leafd.logins.clients import Clients
from leafd.native_plane import Plane

from tests.rig.logs import QuietLog
from tests.rig.waiting import PATIENCE_S
from tests.unit.logins import test_clients as fakes
from tests.unit.real_plane import real_plane

CONFIG = """
accounts {
  A { users: [ {user: a, password: a, permissions: {publish: x}}, {user: b, password: b} ], limits { max_conn: 2 } }
  B { users: [ {user: c, password: c, permissions: {publish: {deny: "y"}}} ] }
}
"""
OPEN = "max_payload: 1000"
PROBES = ("x", "y", "z.z")
LISTENER = 1
OTHER_OP = 4


@dataclass
class Seen:
    """What a client knows of its connection: closed and why, or its account and what it may publish."""

    closed: str | None = None
    account: str = ""
    may: tuple[str, ...] = ()
    max_payload: int = 0


@dataclass(frozen=True)
class Step:
    """A client says something. None: it leaves."""

    client: int
    says: dict[str, Any] | str | None


def login(client: int, user: str, password: str | None = None, **more: Any) -> Step:
    """A CONNECT that asks for all that can be seen from outside."""
    fields = {"verbose": False, "pedantic": False, "protocol": 1, "headers": True}
    return Step(client, fields | {"user": user, "pass": user if password is None else password} | more)


def odd(client: int, **fields: Any) -> Step:
    """A CONNECT with fields of other types than they should have."""
    return Step(client, {"protocol": 1, "user": "a", "pass": "a"} | fields)


CASES: dict[str, tuple[str, list[Step]]] = {
    "logins": (CONFIG, [login(1, "a"), login(2, "b"), login(3, "c")]),
    "wrong password": (CONFIG, [login(1, "a", "b"), login(2, "b")]),
    "nobody": (CONFIG, [login(1, "nobody"), login(2, "")]),
    "no text": (CONFIG, [odd(1, user=7), odd(2, **{"pass": ["a"]}), odd(3, user="\ud800"), odd(4, user=None)]),
    "no JSON": (CONFIG, [Step(1, "CONNECT {"), Step(2, "CONNECT []"), Step(3, "CONNECT")]),
    "deep JSON": (CONFIG, [Step(1, "CONNECT " + '{"a":' * 500), Step(2, "CONNECT " + "[" * 3000)]),
    "no CONNECT": (CONFIG, [Step(1, "PING"), Step(2, "SUB a 1")]),
    "full account": (CONFIG, [login(1, "a"), login(2, "b"), login(3, "b"), login(4, "c")]),
    "a place given back": (CONFIG, [login(1, "a"), login(2, "b"), Step(1, None), login(3, "b")]),
    "another login": (CONFIG, [login(1, "a"), login(1, "c"), login(2, "a"), login(3, "b")]),
    "a login that fails later": (CONFIG, [login(1, "a"), login(1, "a", "x")]),
    "open": (OPEN, [Step(1, {"verbose": False, "protocol": 1, "pedantic": False}), login(2, "anybody")]),
}


# ---- over the fake


def over_the_fake(text: str, steps: list[Step]) -> dict[int, Seen]:
    """What the fake's records say of each connection."""

    async def main() -> dict[int, Seen]:
        plane = fakes.Plane()
        clients = Clients(plane, QuietLog(), lambda: {"server_id": "N"}, fakes.terms(text))
        for number in sorted({one.client for one in steps}):
            clients.handle(t.Opened(number, t.ConnKind.CLIENT, LISTENER, "127.0.0.1:5"))
        for step in steps:
            if step.client in plane.closed:
                continue
            if step.says is None:
                clients.handle(t.Closed(step.client, t.CloseReason.CLIENT, ""))
            elif isinstance(step.says, str):
                verb, _, rest = step.says.partition(" ")
                kind = t.LineKind.CONNECT if verb == "CONNECT" else OTHER_OP
                clients.handle(t.Line(step.client, kind, rest.encode()))
            else:
                clients.handle(t.Line(step.client, t.LineKind.CONNECT, json.dumps(step.says).encode()))
        left = {one.client for one in steps if one.says is None}
        return {one.client: recorded(plane, one.client) for one in steps if one.client not in left}

    return trio.run(main)


def recorded(plane: fakes.Plane, connection: int) -> Seen:
    if connection in plane.closed:
        return Seen(closed=plane.closed[connection])
    _, verdict, permissions, after_pong = plane.admitted[connection][-1]
    may = tuple(one for one in PROBES if allowed(permissions, one))
    return Seen(account=json.loads(after_pong[5:])["remote_account"], may=may, max_payload=verdict.max_payload)


def allowed(permissions: t.Permissions, subject: str) -> bool:
    allow, deny = permissions.publish_allow, permissions.publish_deny
    return (not allow or any(subset(subject, one) for one in allow)) and not any(subset(subject, one) for one in deny)


# ---- over the real plane


@dataclass
class Peer:
    """A socket at the other end."""

    stream: trio.SocketStream
    input: bytearray = field(default_factory=bytearray)
    account: str = ""
    max_payload: int = 0
    closed: str | None = None

    async def until_pong(self) -> list[str]:
        """Every line up to a PONG, or to the end."""
        lines: list[str] = []
        while self.closed is None:
            while (end := self.input.find(b"\r\n")) >= 0:
                line = self.input[:end].decode()
                del self.input[: end + 2]
                lines.append(line)
                self.take(line)
                if line == "PONG":
                    return lines
            more = b""
            try:
                more = await self.stream.receive_some(65536)
            except trio.BrokenResourceError:
                pass
            if not more:
                self.closed = next((line[6:-1] for line in reversed(lines) if line.startswith("-ERR")), "")
            self.input += more
        return lines

    def take(self, line: str) -> None:
        if line.startswith("INFO ") and "remote_account" in (info := json.loads(line[5:])):
            self.account, self.max_payload = info["remote_account"], info["max_payload"]

    async def say(self, text: str) -> list[str]:
        """Sends and hears the answers."""
        try:
            await self.stream.send_all(f"{text}\r\nPING\r\n".encode())
        except trio.BrokenResourceError:
            pass
        return await self.until_pong()


def over_the_plane(text: str, steps: list[Step]) -> dict[int, Seen]:
    """What clients see at real sockets."""
    clients: list[Clients] = []

    def handle(event: t.Event) -> None:
        clients[0].handle(event)

    async def main() -> dict[int, Seen]:
        async with real_plane(handle) as plane:
            clients.append(Clients(plane, QuietLog(), lambda: {"server_id": "N"}, fakes.terms(text)))
            for account in fakes.terms(text).graph.by_id.values():
                plane.account(account.id, account.name, "", 0)
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                listener.listen()
                address = listener.getsockname()
                plane.listen(LISTENER, listener.detach(), t.ConnKind.CLIENT)
            with trio.fail_after(PATIENCE_S):
                return await play(plane, address, steps)

    return trio.run(main)


async def play(plane: Plane, address: tuple[str, int], steps: list[Step]) -> dict[int, Seen]:
    peers = {number: Peer(await trio.open_tcp_stream(*address)) for number in sorted({one.client for one in steps})}
    for step in steps:
        peer = peers[step.client]
        if step.says is None:
            await peer.stream.aclose()
            del peers[step.client]
            while len(await plane.connections()) > len(peers):
                await trio.sleep(0.01)
        elif peer.closed is None:
            await peer.say(step.says if isinstance(step.says, str) else f"CONNECT {json.dumps(step.says)}")
    seen = {number: await probed(peer) for number, peer in peers.items()}
    for peer in peers.values():
        await peer.stream.aclose()
    return seen


async def probed(peer: Peer) -> Seen:
    if peer.closed is not None:
        return Seen(closed=peer.closed)
    may = []
    for subject in PROBES:
        refused = f"-ERR 'Permissions Violation for Publish to \"{subject}\"'"
        if refused not in await peer.say(f"PUB {subject} 0\r\n"):
            may.append(subject)
    return Seen(account=peer.account, may=tuple(may), max_payload=peer.max_payload)


@pytest.mark.parametrize(("text", "steps"), CASES.values(), ids=CASES)
def test_what_the_fake_is_told_is_what_clients_see(text: str, steps: list[Step]) -> None:
    """Each login ends alike over both planes: closed with that text, or in that account with those rights."""
    assert over_the_plane(text, steps) == over_the_fake(text, steps)
