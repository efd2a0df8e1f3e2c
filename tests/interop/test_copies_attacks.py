"""Somebody else than the origin delivers to a mirror or a source: a leaf of the same account that has heard where the
deliveries go, and goes on in the origin's place.

nats-server stores what comes, under whatever name it has. What an origin itself may say: hostile/test_origin.py; who
may answer for it: unit/links/test_replicas.py.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final

import pytest

from tests.hostile.wires import Asker, Wire
from tests.rig.waiting import PATIENCE_S
from tests.servers import KINDS, LEAFD, Server, running

CONFIGURATION: Final = """
listen: 127.0.0.1:{port}
server_name: box
jetstream { store_dir: "{store}", domain: edge }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
no_auth_user: a
accounts { A { jetstream: enabled, users: [
    { user: a, password: p }
    { user: far, password: p }
    { user: leaf, password: p, permissions: { publish: { allow: ">", deny: ["secret.>", "o.>"] } } } ] } }
"""
COPIES: Final[dict[str, dict[str, Any]]] = {"mirror": {"mirror": {"name": "O"}}, "source": {"sources": [{"name": "O"}]}}


class Leaf(Wire):
    """A link by hand, which asks for these subjects."""

    def __init__(self, server: Server, user: str, *subjects: str, domain: str = "") -> None:
        super().__init__(server.ports["leaf_port"], 0.5)
        self.line()
        connect = {"user": user, "pass": "p", "name": user, "server_id": user, "domain": domain, "headers": True}
        asked = "".join(f"LS+ {subject}\r\n" for subject in subjects)
        self.send(f"CONNECT {json.dumps(connect | {'proto': 1, 'version': '2.10.0'})}\r\n{asked}".encode())
        self.settle()

    def settle(self) -> None:
        """What was sent before was acted on."""
        self.send(b"PING\r\n")
        assert self.until(b"PONG")

    def until(self, *verbs: bytes, seconds: float = PATIENCE_S) -> list[bytes]:
        """The words of the next line that begins so; [] when none comes."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            words = self.line().split()
            if words[:1] == [b"PING"]:
                self.send(b"PONG\r\n")
            if words[:1] in ([b"LMSG"], [b"HMSG"]):
                self.data = self.file.read(int(words[-1]) + 2)[:-2]
            if words and words[0] in verbs:
                return words
        return []

    def delivery(self) -> tuple[bytes, bytes]:
        """Where the next message that a consumer delivers goes, and its reply."""
        while words := self.until(b"LMSG", b"HMSG"):
            if words[2].startswith(b"$JS.ACK."):
                return words[1], words[2].partition(b"@")[0]
        raise AssertionError("nothing was delivered")


def next_of(ack: bytes) -> bytes:
    """The reply of the delivery behind that one."""
    tokens = ack.split(b".")
    first = 2 if len(tokens) == 9 else 4
    for place in (first + 3, first + 4):
        tokens[place] = b"%d" % (int(tokens[place]) + 1)
    return b".".join(tokens)


def subjects_of(client: Asker, stream: str) -> dict[str, int]:
    """How many messages each subject has."""
    state = client.asked(f"$JS.API.STREAM.INFO.{stream}", {"subjects_filter": ">"})["state"]
    found: dict[str, int] = state.get("subjects") or {}
    return found


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_leaf_puts_no_name_that_it_may_not_publish_into_a_copy(kind: str, copy: str) -> None:
    """It goes on where the consumer is; the copy has what the origin has, and nothing else, as long as the leaf tries.
    nats-server stores it, denied or not."""
    with running(kind, CONFIGURATION) as server, Asker(server.port) as client:
        client.asked("$JS.API.STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
        leaf = Leaf(server, "leaf", "$JS.M.>", "$JS.S.>")
        client.asked("$JS.API.STREAM.CREATE.M", {"name": "M"} | COPIES[copy])
        client.ask("o.x", b"1")
        to, ack = leaf.delivery()
        leaf.send(b"LMSG %s %s@secret.y 6\r\nforged\r\n" % (to, next_of(ack)))
        leaf.settle()
        client.ask("o.x", b"2")
        deadline = time.monotonic() + PATIENCE_S
        wanted = {"o.x": 2} if kind == LEAFD else {"o.x": 1, "secret.y": 1}
        while (found := subjects_of(client, "M")) != wanted and time.monotonic() < deadline:
            time.sleep(0.1)
        if kind == LEAFD:
            assert wanted == found
        else:
            assert 1 == found.get("secret.y")
        leaf.close()
