"""Links that are not told what other links want, on leafd and on the reference: by the hub's choice, and by the leaf's.

The leaves are bare connections, so that every line that they hear can be looked at.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.rig.raw import CLOSED, RawLeaf
from tests.rig.waiting import eventually
from tests.servers import KINDS, Server, running, subscribed

HUB = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: hub
leafnodes { listen: "127.0.0.1:{leaf_port}", compression: off ISOLATE }
"""
BY_THE_HUB = ", isolate_leafnode_interest: true"
CLUSTERED = HUB.replace("ISOLATE", BY_THE_HUB).replace("server_name: hub", 'server_name: "NAME"') + (
    'cluster { name: hub, listen: "127.0.0.1:{route_port}", routes: [ ROUTES ] }\n'
)


class Leaf(RawLeaf):
    """A leaf that is linked."""

    def __init__(self, hub: Server, name: str, **more: object) -> None:
        self.heard: set[str] = set()
        super().__init__(hub, name, says={"cluster": name, "protocol": 3} | more)

    def acted_on(self) -> None:
        """What this leaf has sent was acted on; others hear of it before they hear of anything that comes later."""
        found = self.lines()
        assert CLOSED not in found, found
        self.heard.update(line for line in found if "$SYS." not in line)

    def news(self, until: str = "") -> set[str]:
        """What came since the last call, but for the conversation of the link itself and what its server wants. until:
        a line that has to come."""
        self.acted_on()

        def came() -> bool:
            self.acted_on()
            return until in self.heard

        if until:
            eventually(came, lambda: f"no {until!r} in {self.heard}")
        found, self.heard = self.heard, set()
        return found


@contextmanager
def linked(kind: str, isolate: str, first: bool, second: bool) -> Iterator[tuple[Server, Leaf, Leaf]]:
    """A hub and two leaves, of which the first wants `early` before the other comes. first, second: whether that leaf
    asks to be isolated."""
    with (
        running(kind, HUB.replace("ISOLATE", isolate)) as hub,
        Leaf(hub, "first", **({"isolate": True} if first else {})) as one,
    ):
        one.send(b"LS+ early\r\nLS+ group q 2\r\n")
        one.news()
        with Leaf(hub, "second", **({"isolate": True} if second else {})) as other:
            yield hub, one, other


@pytest.mark.parametrize("kind", KINDS)
def test_leaves_of_a_hub_that_isolates_hear_of_the_hub_alone(kind: str) -> None:
    """Neither hears what the other wants; both hear what a client of the hub wants, and when it leaves."""
    with linked(kind, BY_THE_HUB, False, False) as (hub, one, other):
        other.send(b"LS+ late\r\n")
        other.acted_on()
        assert not {"LS+ early", "LS+ group q 2"} & other.news()
        assert "LS+ late" not in one.news()
        with subscribed(hub, b"early"):
            assert one.news("LS+ early") == other.news("LS+ early") == {"LS+ early"}
            one.send(b"LS- early\r\n")
            one.acted_on()
            assert other.news() == set()
        assert one.news("LS- early") == other.news("LS- early") == {"LS- early"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_leaf_may_ask_to_be_isolated_and_others_are_not(kind: str) -> None:
    """Who asked hears nothing of the other, and is heard of."""
    with linked(kind, "", False, True) as (_hub, one, other):
        other.send(b"LS+ late\r\n")
        other.acted_on()
        assert "LS+ early" not in other.news()
        assert "LS+ late" in one.news("LS+ late")
    with linked(kind, "", True, False) as (_hub, one, other):
        other.send(b"LS+ late\r\n")
        other.acted_on()
        assert "LS+ late" not in one.news()


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_isolated_leaf_sends_all_the_same_is_passed_on(kind: str) -> None:
    """Isolation is of interest: a message that comes goes to whoever asked for it."""
    with linked(kind, BY_THE_HUB, False, False) as (_hub, one, other):
        other.send(b"LMSG early 2\r\nhi\r\n")
        other.acted_on()
        assert {"LMSG early 2", "hi"} <= one.news("hi")


@pytest.mark.parametrize("kind", KINDS)
def test_leaves_of_other_servers_stay_apart(kind: str) -> None:
    """A leaf of a cluster hears what clients of its other server want, and nothing of leaves there."""
    with running(kind, CLUSTERED.replace("NAME", "one").replace("ROUTES", "")) as one:
        routes = f'"nats-route://127.0.0.1:{one.ports["route_port"]}"'
        with (
            running(kind, CLUSTERED.replace("NAME", "two").replace("ROUTES", routes)) as two,
            Leaf(one, "first") as first,
            Leaf(two, "second") as second,
            subscribed(one, b"early"),
        ):
            second.news("LS+ early")
            first.send(b"LS+ late\r\nLS+ group q 2\r\n")
            first.acted_on()
            with subscribed(one, b"latest"):
                assert not {"LS+ late", "LS+ group q 2"} & second.news("LS+ latest")


@pytest.mark.parametrize("kind", KINDS)
def test_reports_say_which_link_is_isolated(kind: str) -> None:
    """`is_isolated` is there where it holds."""
    for isolate, is_there in ((BY_THE_HUB, [True, True]), ("", [None, None])):
        with (
            linked(kind, isolate, False, False) as (hub, _one, _other),
            urllib.request.urlopen(f"http://127.0.0.1:{hub.ports['http_port']}/leafz") as answer,
        ):
            assert [one.get("is_isolated") for one in json.load(answer)["leafs"]] == is_there


@pytest.mark.parametrize(("key", "field"), [("request_isolation: true", "isolate"), ("isolate: true", "")])
@pytest.mark.parametrize("kind", KINDS)
def test_who_dials_a_hub_asks_it_only_if_told_to(kind: str, key: str, field: str) -> None:
    """`request_isolation` is said in CONNECT; `isolate_leafnode_interest` of a remote is kept at this end."""
    import socket

    with socket.socket() as hub:
        hub.bind(("127.0.0.1", 0))
        hub.listen()
        hub.settimeout(20)
        remote = f'{{ url: "nats://127.0.0.1:{hub.getsockname()[1]}", {key} }}'
        with running(kind, 'listen: "127.0.0.1:{port}"\nleafnodes { remotes: [ ' + remote + " ] }"):
            connection, _ = hub.accept()
            with connection:
                connection.settimeout(20)
                info = {
                    "server_id": "S",
                    "client_id": 6,
                    "headers": True,
                    "max_payload": 1 << 20,
                    "info_on_connect": True,
                }
                connection.sendall(b"INFO " + json.dumps(info).encode() + b"\r\n")
                line = connection.makefile("rb").readline()
    said = json.loads(line.split(b" ", 1)[1])
    assert said.get("isolate", False) is (field == "isolate")
