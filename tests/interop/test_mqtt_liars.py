"""A device that lies: with names and passwords that are none, the client identifier of somebody else, group names that
are wildcards. Nobody gets in, and nobody gets what is not his; leafd and nats-server.

Not here: denials of a user's own subjects, path by path (test_mqtt_denials.py), what the server keeps
(test_mqtt_inside.py).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final

import bcrypt
import pytest

from tests import jwts, mqtt, servers
from tests.interop.mqtt_walks import client, port
from tests.interop.test_mqtt_logins import answer
from tests.mqtt import LEVELS, PUBACK, PUBLISH, PUBREC, Ended, Packet, Peer
from tests.rig.waiting import eventually

HASHED: Final = bcrypt.hashpw(b"p", bcrypt.gensalt(4)).decode()
NKEY: Final = jwts.Key("user").public
CONFIGURATION: Final = f"""
port: {{port}}
server_name: one
jetstream {{ store_dir: "{{store}}" }}
mqtt {{ listen: "127.0.0.1:{{mqtt_port}}" }}
accounts {{
  A {{ jetstream: true, users: [
    {{user: wide, password: p}}
    {{user: narrow, password: p, permissions: {{publish: {{allow: ["open.>"]}}, subscribe: {{allow: ["open.>"]}}}}}}
    {{user: hashed, password: "{HASHED}"}}
    {{user: wire, password: p, allowed_connection_types: [STANDARD]}}
    {{nkey: {NKEY}}}
  ] }}
  B {{ jetstream: true, users: [ {{user: other, password: p}} ] }}
}}
"""
QUIET_S: Final = 0.5
UNSIGNED: Final = "eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0.e30."
LOGINS: Final[dict[str, dict[str, Any]]] = {
    "nobody": {},
    "without a password": {"user": "wide"},
    "with none": {"user": "wide", "password": ""},
    "a hash for its password": {"user": "hashed", "password": HASHED},
    "a key without a signature": {"user": NKEY},
    "a key and a password": {"user": NKEY, "password": NKEY},
    "a user of other connections": {"user": "wire", "password": "p"},
    "a name with a blank": {"user": "wide ", "password": "p"},
    "another case": {"user": "WIDE", "password": "p"},
    "a password that goes on": {"user": "wide", "password": b"p\0"},
    "an unsigned JWT as name": {"user": UNSIGNED, "password": "p"},
    "an unsigned JWT as password": {"user": "wide", "password": UNSIGNED},
}


@pytest.fixture(scope="module", params=servers.KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.running(request.param, CONFIGURATION) as one:
        yield one


@pytest.fixture(scope="module")
def ours() -> Iterator[servers.Server]:
    with servers.running(servers.LEAFD, CONFIGURATION) as one:
        yield one


def user(server: servers.Server, name: str, identifier: str, *, clean: bool = True) -> Peer:
    """nats-server lets one in that comes right behind another one when it has tried a few times."""

    def tried() -> Peer | None:
        with contextlib.suppress(Ended):
            return client(server, identifier, user=name, password="p", clean=clean)
        return None

    found = tried() if server.kind == servers.LEAFD else eventually(tried, "the device is not let in")
    assert found is not None
    return found


def say(server: servers.Server, *topics: str) -> None:
    """Each with QoS 1, by who may."""
    with user(server, "wide", "says") as peer:
        for topic in topics:
            peer.publish(topic, topic.encode(), qos=1)
            peer.expect(PUBACK)


def taken(peer: Peer, count: int = 0) -> list[str]:
    """The topics of so many messages, and of what comes beyond them, acknowledged."""
    found: list[Packet] = []
    while len([one for one in found if one.kind == PUBLISH]) < count:
        found.append(peer.packet())
    time.sleep(QUIET_S)
    messages = [one for one in (*found, *peer.round_trip()) if one.kind == PUBLISH]
    for one in messages:
        if one.qos:
            peer.send(mqtt.acknowledge(PUBACK if one.qos == 1 else PUBREC, one.id))
    return [one.topic for one in messages]


@pytest.mark.parametrize("name", LOGINS)
def test_nobody_gets_in_by_a_name_alone(server: servers.Server, name: str) -> None:
    """Nor by anything that looks like a proof."""
    assert 5 == answer(port(server), **LOGINS[name])
    assert 0 == answer(port(server), user="wide", password="p")
    assert 0 == answer(port(server), user="hashed", password="p")


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_jwt_is_no_name_and_one_of_elsewhere_no_password(kind: str) -> None:
    """In operator mode: of a bearer token the password counts alone, and its account has to be known."""
    operator, stranger = jwts.Operator(), jwts.Operator("P")
    account = operator.account("A", mem_storage=-1, disk_storage=-1)
    right = account.user("u", bearer_token=True).token
    theirs = stranger.account("A", mem_storage=-1, disk_storage=-1).user("u", bearer_token=True).token
    head, body, signature = right.split(".")
    text = CONFIGURATION.partition("accounts")[0]
    with servers.running(kind, text + operator.configuration()) as server:
        found = {
            "right": answer(port(server), user="any", password=right),
            "name": answer(port(server), user=right),
            "name and password": answer(port(server), user=right, password="p"),
            "of another operator": answer(port(server), user="any", password=theirs),
            "of an account": answer(port(server), user="any", password=account.token()),
            "of the operator": answer(port(server), user="any", password=operator.token()),
            "unsigned": answer(port(server), user="any", password=f"{head}.{body}."),
            "with another body": answer(
                port(server), user="any", password=f"{head}.{theirs.split('.')[1]}.{signature}"
            ),
        }
    assert [name for name, code in found.items() if code == 0] == ["right"]


@pytest.mark.parametrize("qos", [1, 2])
def test_who_takes_the_session_of_another_user_gets_nothing_that_is_denied(server: servers.Server, qos: int) -> None:
    """Neither what waited for it nor what comes. With leafd that is lost, as with mosquitto; with nats-server it is
    there for who may have it. The session keeps its subscription for that one."""
    with user(server, "wide", "device", clean=False) as peer:
        assert [qos, qos] == peer.subscribe(("open/x", qos), ("secret/x", qos))
        peer.send(mqtt.disconnect())
        peer.ended()
    say(server, "secret/x", "open/x")
    with user(server, "narrow", "device", clean=False) as liar:
        assert liar.welcome.session_present
        assert ["open/x"] == taken(liar, 1)
        say(server, "secret/x", "open/x")
        assert ["open/x"] == taken(liar, 1)
    with user(server, "wide", "device", clean=False) as peer:
        assert peer.welcome.session_present
        left = [] if server.kind == servers.LEAFD else ["secret/x"] * 2
        assert left == taken(peer, len(left))
        say(server, "secret/x", "open/x")
        assert ["open/x", "secret/x"] == sorted(taken(peer, 2))  # (nats-server keeps no order of two subscriptions)
    with user(server, "wide", "device"):
        pass  # its session ends


def test_what_another_user_has_not_acknowledged_is_not_said_again_to_who_may_not_hear_it(
    server: servers.Server,
) -> None:
    """In the middle of a handshake."""
    with user(server, "wide", "half", clean=False) as peer:
        assert [2, 1] == peer.subscribe(("secret/y", 2), ("secret/z", 1))
        say(server, "secret/y", "secret/z")
        assert {"secret/y", "secret/z"} == {peer.expect(PUBLISH).topic for _ in range(2)}
    with user(server, "narrow", "half", clean=False) as liar:
        assert [] == taken(liar)
    with user(server, "wide", "half"):
        pass


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("group", ["+", "#", "*", ">", "", "a b", "a\tb", "open.>"])
def test_no_group_is_a_wildcard(level: int, group: str, ours: servers.Server) -> None:
    """5: 4.8.2 forbids + and # in a share's name, and a queue of NATS has no blank and no wildcard. So such a filter is
    refused to whoever says it."""
    refused = [0x80 if level == 4 else 0x8F]
    for name in ("wide", "narrow"):
        with client(ours, "shares", level=level, user=name, password="p") as peer:
            assert refused == peer.subscribe((f"$share/{group}/secret/x", 1))
            say(ours, "secret/x")
            assert [] == [one for one in peer.round_trip() if one.kind == PUBLISH]


def test_an_identifier_is_of_its_account(ours: servers.Server) -> None:
    """One of another account neither ends the connection nor has the session."""
    with user(ours, "wide", "twin", clean=False) as peer:
        assert [1] == peer.subscribe(("twin/x", 1))
        with user(ours, "other", "twin", clean=False) as liar:
            assert not liar.welcome.session_present
            say(ours, "twin/x")
            assert [] == taken(liar)
        with user(ours, "other", "twin"):
            pass
        assert ["twin/x"] == taken(peer, 1)
    with user(ours, "wide", "twin", clean=False) as peer:
        assert peer.welcome.session_present
    with user(ours, "wide", "twin"):
        pass
