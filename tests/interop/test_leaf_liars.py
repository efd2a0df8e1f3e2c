"""Leaves with a login of their own that say in their CONNECT, or later, to be another one: bare sockets at a hub.

What nats-server does is written down beside it. Not here: boxes that are enrolled (test_enrol.py), what is no CONNECT
at all (hostile/).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.rig.raw import CLOSED, RawLeaf
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
DUPLICATE = ["-ERR 'Duplicate Remote LeafNode Connection'", CLOSED]


@pytest.fixture(scope="module", params=KINDS)
def hub(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.param, HUB) as server:
        yield server


class Leaf(RawLeaf):
    """A leaf that is logged in as that user."""

    def __init__(self, server: Server, user: str, **said: Any) -> None:
        name = f"box-{user}"
        super().__init__(server, name, user, says={"cluster": name, "remote_account": "BOX"} | said)

    def hears(self) -> list[str]:
        """All that comes until the hub has answered a PING, and a moment later what others caused."""
        heard = self.lines()
        time.sleep(QUIET_S)
        return heard + self.lines()


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
    with Leaf(hub, "b") as honest, Leaf(hub, "a", **lie):
        if hub.kind != LEAFD and {"name", "cluster"} <= set(lie):
            assert honest.ending()[-2:] == DUPLICATE
        else:
            assert CLOSED not in honest.hears()


def test_a_leaf_that_comes_back_ends_what_is_left_of_its_link(hub: Server) -> None:
    with Leaf(hub, "b") as before, Leaf(hub, "b") as now:
        assert before.ending()[-2:] == DUPLICATE
        assert CLOSED not in now.hears()


def test_who_calls_himself_a_hub_may_do_no_more_than_before(hub: Server) -> None:
    with Leaf(hub, "b") as honest, Leaf(hub, "a", is_hub=True) as liar:
        honest.say("LS+ commands.b.now")
        liar.say("LS+ telemetry.b.>", "LS+ >")
        liar.hears()
        honest.say("LMSG telemetry.b.1 2", "hi")
        liar.say("LMSG commands.b.now 2", "no")
        assert not [line for line in liar.hears() if line.startswith(("LMSG", "LS+ commands.b"))]
        assert not [line for line in honest.hears() if line.startswith("LMSG")]


def test_a_leaf_does_not_hear_by_what_another_one_finds_loops(hub: Server) -> None:
    """Its rights keep that from it: saying it too would make that leaf take the hub for a loop, and stay away."""
    with Leaf(hub, "b") as honest:
        honest.say("LS+ $LDS.thatofboxb", "LS+ commands.b.now")
        honest.hears()
        with Leaf(hub, "a") as other:
            told = other.told + other.hears()
            (own,) = [line for line in told if line.startswith("LS+ $LDS.")]
            assert own != "LS+ $LDS.thatofboxb", "it is the hub's"


def test_who_says_what_the_hub_finds_loops_by_is_sent_away_alone(hub: Server) -> None:
    with Leaf(hub, "b") as honest, Leaf(hub, "a") as liar:
        (own,) = [line[4:] for line in liar.told + liar.hears() if line.startswith("LS+ $LDS.")]
        liar.say(f"LS+ {own}")
        assert liar.ending()[-2].startswith("-ERR 'Loop detected")
        assert CLOSED not in honest.hears(), "the other link is still there"
