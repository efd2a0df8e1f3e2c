"""Leaf links of a server in operator mode, with leafd and with the reference as the hub: a leaf logs in with a user's
JWT, has that user's rights and limits, and loses the link with them.

Not here: boxes that dial (test_fleet.py), logins of clients (test_operator.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.jwt_peer import HEAD, VIOLATION, Peer, close_all
from tests.jwts import Operator, User, issued
from tests.rig.raw import RawClient
from tests.rig.waiting import eventually
from tests.servers import KINDS, LEAFD, Server, running

HUB = HEAD + 'leafnodes { listen: "127.0.0.1:{leaf_port}" }\n'
FULL = """
operator: %s
system_account: %s
resolver: { type: full, dir: "./jwt" }
"""
_opened: list[RawClient] = []


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()
    close_leafs()


def close_leafs() -> None:
    """Closes the links that a test has opened."""
    while _opened:
        _opened.pop().close()


class Leaf(RawClient):
    """A leaf node that has sent its CONNECT."""

    def __init__(self, server: Server, user: User, name: str, **fields: object) -> None:
        about = {"version": "2.15.1", "server_id": name, "name": name, "cluster": name}
        super().__init__(server.ports["leaf_port"], signs=user.connect, waits=False, says=about | fields)
        _opened.append(self)

    def greeted(self) -> str | dict[str, Any]:
        """The connect INFO, or the error that the connection ends with."""
        line = self.line()
        while not line.startswith(("INFO ", "-ERR")):
            line = self.line()
        found: dict[str, Any] | str = json.loads(line.removeprefix("INFO ")) if line.startswith("INFO") else line
        return found

    def end(self, seconds: float = 8.0) -> list[str]:
        """The errors that came before the end of the connection."""
        lines = []
        try:
            while True:
                line = self.line(seconds)
                if line == "PING":
                    self.say("PONG")
                if line.startswith("-ERR"):
                    lines.append(line)
        except EOFError:
            return lines


@pytest.mark.parametrize("kind", KINDS)
def test_a_leaf_has_its_users_rights(kind: str) -> None:
    """The connect INFO names the account and what may cross the link; wrong signatures and types are refused."""
    operator = Operator()
    account = operator.account("A")
    with running(kind, HUB + operator.configuration()) as server:
        user = account.user("u", pub={"allow": ["up.>"], "deny": ["up.no"]}, sub={"allow": ["down.>"]})
        info = Leaf(server, user, "box").greeted()
        assert isinstance(info, dict), info
        assert (account.public, ["up.>"], ["up.no"], ["down.>"]) == (
            info["remote_account"],
            info["export"]["allow"],
            info["export"]["deny"],
            info["import"]["allow"],
        )
        assert VIOLATION == Leaf(server, user, "box2", sig="AAAA").greeted()
        assert VIOLATION == Leaf(server, account.user("c", allowed_connection_types=["STANDARD"]), "box3").greeted()
        leaf = account.user("l", allowed_connection_types=["LEAFNODE"])
        assert isinstance(Leaf(server, leaf, "box4").greeted(), dict)
        assert [VIOLATION, "closed"] == Peer(server, leaf).lines()


@pytest.mark.parametrize("kind", KINDS)
def test_an_account_has_so_many_leafs(kind: str) -> None:
    """One link more than the account's JWT allows is told so and refused."""
    operator = Operator()
    account = operator.account("A", leaf=1)
    with running(kind, HUB + operator.configuration()) as server:
        first = Leaf(server, account.user("a"), "box1")
        assert isinstance(first.greeted(), dict)
        text = "-ERR 'maximum account active connections exceeded'"
        assert text == Leaf(server, account.user("b"), "box2").greeted()
        first.close()
        eventually(lambda: isinstance(Leaf(server, account.user("c"), "box3").greeted(), dict))


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_ends_with_its_users_time(kind: str) -> None:
    """At the second that its user's JWT names a leaf hears why and is closed."""
    operator = Operator()
    account = operator.account("A")
    with running(kind, HUB + operator.configuration()) as server:
        end = int(time.time()) + 3
        leaf = Leaf(server, account.user("u", outer={"exp": end}), "box")
        assert isinstance(leaf.greeted(), dict)
        assert ["-ERR 'User Authentication Expired'"] == leaf.end()
        assert end - 1 <= time.time() < end + 1.5


@pytest.mark.parametrize("kind", KINDS)
def test_a_revoked_leaf_is_closed(kind: str) -> None:
    """A link whose user is revoked by a pushed JWT ends at once, and others stay."""
    operator = Operator()
    account = operator.account("A")
    user, other = account.user("u"), account.user("v")
    configuration = HUB + FULL % (operator.token(), operator.system.public)
    with running(kind, configuration) as server:
        system = Peer(server, operator.system.user("s"))
        assert b'"jwt updated"' in system.answers("$SYS.REQ.CLAIMS.UPDATE", operator.system.token())[0]
        system = Peer(server, operator.system.user("s"))
        assert b'"jwt updated"' in system.answers("$SYS.REQ.CLAIMS.UPDATE", account.token())[0]
        leaf, stays = Leaf(server, user, "box"), Leaf(server, other, "box2")
        assert isinstance(leaf.greeted(), dict)
        assert isinstance(stays.greeted(), dict)
        account.nats["revocations"] = {user.key.public: issued()}
        assert b'"jwt updated"' in system.answers("$SYS.REQ.CLAIMS.UPDATE", account.token())[0]
        assert ["-ERR 'User Authentication Revoked'"] == leaf.end()
        stays.send(b"PING\r\n")
        while (line := stays.line()) != "PONG":
            assert not line.startswith("-ERR"), line


def test_all_who_come_at_once_to_an_account_that_is_looked_up_get_in() -> None:
    """Whoever was judged before the account was known, and asks for it when it is, is judged again."""
    operator = Operator()
    accounts = [operator.account(f"A{number}") for number in range(20)]
    configuration = HUB + FULL % (operator.token(), operator.system.public)
    with running(LEAFD, configuration) as server:
        system = Peer(server, operator.system.user("s"))
        for account in (operator.system, *accounts):
            assert b'"jwt updated"' in system.answers("$SYS.REQ.CLAIMS.UPDATE", account.token())[0]
            system = Peer(server, operator.system.user("s")) if account is operator.system else system
        for account in accounts:
            leafs = [Leaf(server, account.user(f"u{number}"), f"{account.name}-{number}") for number in range(6)]
            assert [True] * 6 == [isinstance(leaf.greeted(), dict) for leaf in leafs]


def test_a_deleted_accounts_links_end() -> None:
    """What an operator deletes takes its links with it."""
    from tests.interop.test_resolver import deletion

    operator = Operator()
    account = operator.account("A")
    configuration = HUB + (FULL % (operator.token(), operator.system.public)).replace(
        "full,", "full, allow_delete: true,"
    )
    with running(LEAFD, configuration) as server:
        system = Peer(server, operator.system.user("s"))
        system.answers("$SYS.REQ.CLAIMS.UPDATE", account.token())
        leaf = Leaf(server, account.user("u"), "box")
        assert isinstance(leaf.greeted(), dict)
        assert b"deleted 1" in system.answers("$SYS.REQ.CLAIMS.DELETE", deletion(operator, account))[0]
        assert ["-ERR 'Account Authentication Expired'"] == leaf.end()
