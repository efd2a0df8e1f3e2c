"""Logins that the plane lets in without asking, since the same CONNECT was judged before: they are what all logins are.

Not here: which logins these are (unit/logins/test_known_logins.py), what the plane does
(native/test_plane_known.c).
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.test_reload import VIOLATION, Peer, reload
from tests.rig.raw import Refused
from tests.servers import LEAFD, Server, running

CONFIG = """
listen: "127.0.0.1:{port}"
leafnodes { listen: "127.0.0.1:{leaf_port}" }
http: "127.0.0.1:{monitor_port}"
accounts {
  A { users: [ {user: a, password: a, permissions: {publish: {deny: x}}} ] }
  B { users: [ {user: b, password: b} ] }
}
"""
DENIED = """-ERR 'Permissions Violation for Publish to "x"'"""
OFTEN = 4


@pytest.fixture
def server() -> Iterator[Server]:
    with running(LEAFD, CONFIG) as found:
        yield found


def come_often(server: Server, user: str) -> list[Peer]:
    """The last ones are known."""
    return [Peer(server, user) for _ in range(OFTEN)]


def publishes(peer: Peer) -> list[str]:
    peer.say("PUB x 0", "")
    return peer.heard()


def monitored(server: Server, path: str) -> dict[str, object]:
    url = f"http://127.0.0.1:{server.ports['monitor_port']}{path}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: dict[str, object] = json.load(answer)
    return found


def test_each_login_has_the_same_rights(server: Server) -> None:
    """What a user may not publish is denied to the first connection and to those that are let in like it."""
    assert [[DENIED]] * OFTEN == [publishes(one) for one in come_often(server, "a")]
    assert [[]] * OFTEN == [publishes(one) for one in come_often(server, "b")]


def test_reports_know_each_login_at_once(server: Server) -> None:
    """connz and accountz count a client that has just had its PONG."""
    for count in range(1, OFTEN + 1):
        Peer(server, "a")
        account = monitored(server, "/accountz?acc=A")["account_detail"]
        assert isinstance(account, dict)
        assert count == account["client_connections"]
        rows = monitored(server, "/connz?auth=1")["connections"]
        assert isinstance(rows, list)
        assert ["a"] * count == [row["authorized_user"] for row in rows]


def test_a_reload_counts_for_the_next_login(server: Server) -> None:
    """Who is let in again and again is refused once the password has changed, and has other rights once these have."""
    come_often(server, "a")
    reload(server, "publish: {deny: x}", "publish: {deny: y}")
    assert [[]] * OFTEN == [publishes(one) for one in come_often(server, "a")]
    reload(server, "password: a", "password: other")
    with pytest.raises(Refused, match=VIOLATION):
        Peer(server, "a")
    fields: dict[str, Any] = {"pass": "other"}
    assert [] == publishes(Peer(server, "a", **fields))


def test_who_is_in_loses_what_a_reload_takes(server: Server) -> None:
    """A connection that was let in by a known login is judged by a reload as every other."""
    peers = come_often(server, "b")
    reload(server, "password: b", "password: other")
    assert [[VIOLATION, "closed"]] * OFTEN == [one.heard() for one in peers]
