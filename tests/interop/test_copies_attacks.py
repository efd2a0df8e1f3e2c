"""Somebody else than the origin delivers to a mirror or a source: a leaf of the same account that has heard where the
deliveries go, and goes on in the origin's place.

nats-server stores what comes, under whatever name it has. What an origin itself may say: hostile/test_origin.py; who
may answer for it: unit/links/test_replicas.py.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from tests.hostile.wires import Asker
from tests.rig.raw import RawLeaf
from tests.rig.waiting import PATIENCE_S
from tests.servers import KINDS, LEAFD, running

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


def delivery(leaf: RawLeaf) -> tuple[str, str]:
    """Where the next message that a consumer delivers goes, and its reply."""
    while not (found := leaf.message()).reply.startswith("$JS.ACK."):
        pass
    return found.subject, found.reply.partition("@")[0]


def next_of(ack: str) -> str:
    """The reply of the delivery behind that one."""
    tokens = ack.split(".")
    first = 2 if len(tokens) == 9 else 4
    for place in (first + 3, first + 4):
        tokens[place] = str(int(tokens[place]) + 1)
    return ".".join(tokens)


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
        leaf = RawLeaf(server, "leaf", "leaf", says={"pass": "p"})
        for subject in ("$JS.M.>", "$JS.S.>"):
            leaf.subscribe(subject)
        client.asked("$JS.API.STREAM.CREATE.M", {"name": "M"} | COPIES[copy])
        client.ask("o.x", b"1")
        to, ack = delivery(leaf)
        leaf.publish(to, "forged", reply=f"{next_of(ack)}@secret.y")
        leaf.lines()
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
