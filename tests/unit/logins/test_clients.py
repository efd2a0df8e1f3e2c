"""Logins of clients against a plane that only writes down what it is told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import trio
import trio.testing
from hypothesis import given, settings, strategies as st
from leafd import native_types as t
from leafd.accounts.graph import Numbers, compile_graph
from leafd.auth.policy import compile_policy
from leafd.config.bind import load_text
from leafd.logins.client import Terms
from leafd.logins.clients import Clients

from tests.rig.logs import QuietLog
from tests.rig.planes import Unwilling

CONFIG = """
accounts {
  A { users: [ {user: a, password: a, permissions: {publish: x}}, {user: b, password: b} ], limits { max_conn: 2 } }
  B { users: [ {user: c, password: c} ] }
}
"""


@dataclass
class Plane(Unwilling):
    """What the plane was told, by connection."""

    sent: dict[int, list[bytes]] = field(default_factory=dict)
    closed: dict[int, str] = field(default_factory=dict)
    admitted: dict[int, list[tuple[int, t.ConnVerdict, t.Permissions, bytes]]] = field(default_factory=dict)

    greetings: list[tuple[bytes, bytes]] = field(default_factory=list)
    known: dict[bytes, tuple[int, t.ConnVerdict, t.Permissions, bytes]] = field(default_factory=dict)

    def send(self, connection: int, frame: bytes) -> None:
        self.sent.setdefault(connection, []).append(frame)

    def secure(
        self, connection: int, how: t.Secure, *, before: bytes = b"", behind: bytes = b"", name: str = ""
    ) -> None:
        raise AssertionError("TLS is tested with the real plane: interop/test_tls.py")

    def close_connection(self, connection: int, text: str = "", reason: int = 0) -> None:
        assert connection not in self.closed
        self.closed[connection] = text

    def end_silence(self, connection: int, text: str) -> None:
        self.close_connection(connection, text)

    def admit(
        self, connection: int, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> None:
        self.admitted.setdefault(connection, []).append((account, verdict, permissions, after_pong))

    async def change_rights(
        self, connection: int, account: int, verdict: t.ConnVerdict, permissions: t.Permissions, after_pong: bytes
    ) -> int:
        raise AssertionError("a reload is tested with the real plane: interop/test_reload.py")

    def greet(self, listener: int, how: t.Secure | None, before: bytes, behind: bytes = b"") -> None:
        self.greetings.append((before, behind))

    def remember(
        self,
        kind: int,
        connect: bytes,
        account: int,
        verdict: t.ConnVerdict,
        permissions: t.Permissions,
        after_pong: bytes,
    ) -> None:
        self.known[connect] = (account, verdict, permissions, after_pong)

    def forget_login(self, kind: int, connect: bytes) -> None:
        del self.known[connect]

    def forget_logins(self) -> None:
        self.known.clear()

    async def settled(self) -> None:
        """Nothing waits."""


NUMBERS = Numbers()


def terms(text: str = CONFIG) -> Terms:
    server = load_text(text).server
    return Terms(compile_policy(server), compile_graph(server, NUMBERS), server.max_payload, 0, 2.0)


def make(text: str = CONFIG) -> tuple[Plane, Clients]:
    plane = Plane()
    return plane, Clients(plane, QuietLog(), lambda: {"server_id": "N"}, terms(text))


def connect(clients: Clients, connection: int, **fields: Any) -> None:
    clients.handle(t.Line(connection, t.LineKind.CONNECT, json.dumps(fields).encode()))


def test_flags_of_a_verdict() -> None:
    """Absent options mean what they mean in the reference: verbose, pedantic and echo on, the others off."""

    async def main() -> None:
        plane, clients = make()
        clients.handle(t.Opened(1, t.ConnKind.CLIENT, 1, "127.0.0.1:5"))
        connect(clients, 1, user="b", **{"pass": "b"})
        flags = t.VerdictFlag.VERBOSE | t.VerdictFlag.PEDANTIC | t.VerdictFlag.ECHO
        account, verdict, permissions, after_pong = plane.admitted[1][0]
        assert (int(flags), t.Permissions(author='["user","STANDARD","b"]'), b"") == (
            verdict.flags,
            permissions,
            after_pong,
        )
        connect(
            clients, 1, user="a", verbose=False, pedantic=False, echo=False, headers=True, protocol=1, **{"pass": "a"}
        )
        account, verdict, permissions, after_pong = plane.admitted[1][1]
        assert int(t.VerdictFlag.HEADERS | t.VerdictFlag.PROTOCOL_1) == verdict.flags
        assert ("x",) == permissions.publish_allow
        assert after_pong.endswith(b" \r\n")
        assert "A" == json.loads(after_pong[5:])["remote_account"]
        assert NUMBERS.of("A") == account

    trio.run(main)


def test_places_are_given_back() -> None:
    """A new CONNECT, and the end of a connection, give the account's place back."""

    async def main() -> None:
        plane, clients = make()
        for connection in (1, 2, 3):
            clients.handle(t.Opened(connection, t.ConnKind.CLIENT, 1, "127.0.0.1:5"))
        account = NUMBERS.of("A")
        connect(clients, 1, user="a", **{"pass": "a"})
        connect(clients, 1, user="a", **{"pass": "a"})
        connect(clients, 2, user="b", **{"pass": "b"})
        assert 2 == clients.count(account)
        connect(clients, 3, user="b", **{"pass": "b"})
        assert "maximum account active connections exceeded" == plane.closed[3]
        connect(clients, 2, user="c", **{"pass": "c"})
        clients.handle(t.Closed(1, t.CloseReason.CLIENT, ""))
        assert (0, 1) == (clients.count(account), clients.count(NUMBERS.of("B")))

    trio.run(main)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "user",
        "pass",
        "auth_token",
        "nkey",
        "sig",
        "jwt",
        "protocol",
        "headers",
        "no_responders",
        "name",
        "verbose",
        "account",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(KEYS, JSON | st.sampled_from(["a", "b", 1, 0])) | JSON, st.booleans())
def test_any_connect_gets_one_answer(body: Any, cut: bool) -> None:
    """Whatever a CONNECT holds, it is admitted or closed, once, and nothing is raised."""

    async def main() -> None:
        plane, clients = make()
        clients.handle(t.Opened(7, t.ConnKind.CLIENT, 1, "[::1]:5"))
        payload = json.dumps(body).encode()
        clients.handle(t.Line(7, t.LineKind.CONNECT, payload[:-1] if cut else payload))
        assert 1 == len(plane.closed) + len(plane.admitted)
        clients.handle(t.Closed(7, t.CloseReason.CLIENT, ""))
        assert [] == clients.present.connections()

    trio.run(main)
