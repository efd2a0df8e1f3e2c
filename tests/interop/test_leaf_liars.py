"""Leaves with a login of their own that say in their CONNECT, or later, to be another one: bare sockets at a hub.

What nats-server does is written down beside it. Not here: boxes that are enrolled (test_enrol.py), what is no CONNECT
at all (hostile/).
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import KINDS, LEAFD, Server, running

HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts { BOXES { users: [
  { user: a, password: a, permissions { publish: ["telemetry.a.>"], subscribe: ["commands.a.>"] } }
  { user: b, password: b, permissions { publish: ["telemetry.b.>"], subscribe: ["commands.b.>"] } }
] } }
"""
QUIET_S = 0.5
DUPLICATE = b"-ERR 'Duplicate Remote LeafNode Connection'"


@pytest.fixture(scope="module", params=KINDS)
def hub(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.param, HUB) as server:
        yield server


class Leaf:
    """A leaf that is logged in as that user."""

    def __init__(self, server: Server, user: str, **said: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.ports["leaf_port"]), 10)
        self.socket.settimeout(10)
        self.lines = self.socket.makefile("rb")
        self.lines.readline()
        name = f"box-{user}"
        connect = {
            "user": user, "pass": user, "name": name, "server_id": name, "cluster": name, "version": "2.15.1",
            "headers": True, "protocol": 1, "remote_account": "BOX",
        }  # fmt: skip
        self.say("CONNECT " + json.dumps(connect | said) + "\r\nPING\r\n")
        self.told = self._until(b"PONG")

    def say(self, text: str) -> None:
        self.socket.sendall(text.encode())

    def ends(self) -> list[bytes]:
        """All that comes until the hub ends the link."""
        return self._until(b"no line begins so")[:-1]

    def hears(self) -> list[bytes]:
        """All that comes until the hub has answered a PING, and a moment later what others caused."""
        self.say("PING\r\n")
        heard = self._until(b"PONG")
        time.sleep(QUIET_S)
        self.say("PING\r\n")
        return heard + self._until(b"PONG")

    def _until(self, word: bytes) -> list[bytes]:
        found: list[bytes] = []
        try:
            while (line := self.lines.readline()) and not line.startswith(word):
                found.append(line.strip())
        except ConnectionError:
            line = b""
        return found if line else [*found, b""]

    def __enter__(self) -> Leaf:
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.close()
        self.socket.close()


LIES = [
    {"name": "box-b"},
    {"cluster": "box-b"},
    {"server_id": "box-b"},
    {"domain": "box-b"},
    {"name": "box-b", "cluster": "box-b", "server_id": "box-b"},
]


@pytest.mark.parametrize("lie", LIES, ids=[" ".join(lie) for lie in LIES])
def test_who_takes_a_leaf_s_names_does_not_end_its_link(hub: Server, lie: dict[str, str]) -> None:
    """With another login than that leaf has. nats-server takes him for it where name and cluster are the same."""
    with Leaf(hub, "b") as honest, Leaf(hub, "a", **lie) as liar:
        assert b"" not in liar.told
        if hub.kind != LEAFD and {"name", "cluster"} <= set(lie):
            assert honest.ends()[-1] == DUPLICATE
        else:
            assert b"" not in honest.hears()


def test_a_leaf_that_comes_back_ends_what_is_left_of_its_link(hub: Server) -> None:
    with Leaf(hub, "b") as before, Leaf(hub, "b") as now:
        assert before.ends()[-1] == DUPLICATE
        assert b"" not in now.hears()


def test_who_calls_himself_a_hub_may_do_no_more_than_before(hub: Server) -> None:
    with Leaf(hub, "b") as honest, Leaf(hub, "a", is_hub=True) as liar:
        honest.say("LS+ commands.b.now\r\n")
        liar.say("LS+ telemetry.b.>\r\nLS+ >\r\n")
        liar.hears()
        honest.say("LMSG telemetry.b.1 2\r\nhi\r\n")
        liar.say("LMSG commands.b.now 2\r\nno\r\n")
        assert not [line for line in liar.hears() if line.startswith((b"LMSG", b"LS+ commands.b"))]
        assert not [line for line in honest.hears() if line.startswith(b"LMSG")]


def test_a_leaf_does_not_hear_by_what_another_one_finds_loops(hub: Server) -> None:
    """Its rights keep that from it: saying it too would make that leaf take the hub for a loop, and stay away."""
    with Leaf(hub, "b") as honest:
        honest.say("LS+ $LDS.thatofboxb\r\nLS+ commands.b.now\r\n")
        honest.hears()
        with Leaf(hub, "a") as other:
            told = other.told + other.hears()
            (own,) = [line for line in told if line.startswith(b"LS+ $LDS.")]
            assert own != b"LS+ $LDS.thatofboxb", "it is the hub's"


def test_who_says_what_the_hub_finds_loops_by_is_sent_away_alone(hub: Server) -> None:
    with Leaf(hub, "b") as honest, Leaf(hub, "a") as liar:
        (own,) = [line[4:] for line in liar.told + liar.hears() if line.startswith(b"LS+ $LDS.")]
        liar.say(f"LS+ {own.decode()}\r\n")
        assert liar.ends()[-1].startswith(b"-ERR 'Loop detected")
        assert b"" not in honest.hears(), "the other link is still there"
