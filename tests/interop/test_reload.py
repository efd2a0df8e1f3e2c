"""A reload (SIGHUP) under connected clients and links, with leafd and with the reference: who is told what, who stays.

Where leafd does more than the reference (links, whose rights the reference leaves as they were), the test is leafd's
alone. Not here: what a reload does to the configuration itself (unit/daemon/test_process.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.rig.raw import RawClient
from tests.rig.reloads import exchanged
from tests.servers import KINDS, LEAFD, Server, running

HEAD = """
listen: "127.0.0.1:{port}"
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
TAIL = "accounts { SYS { users: [{user: sys, password: sys}] } }\nsystem_account: SYS\n"
VIOLATION = "-ERR 'Authorization Violation'"


_opened: list[RawClient] = []


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


class Peer(RawClient):
    """A client or a leaf, logged in."""

    def __init__(self, server: Server, user: str = "", *, leaf: bool = False, **fields: object) -> None:
        about = {"version": "2.15.1", "server_id": user, "name": user, "cluster": user} if leaf else {}
        super().__init__(server.ports["leaf_port" if leaf else "port"], user, says=about | fields)
        _opened.append(self)

    def heard(self) -> list[str]:
        """What a client is told, and of what a leaf is told all but interest."""
        return [line for line in self.lines() if not line.startswith(("LS+", "LS-"))]


@contextmanager
def serving(kind: str, text: str) -> Iterator[Server]:
    with running(kind, HEAD + text) as server:
        yield server


def reload(server: Server, old: str, new: str) -> None:
    """Changes the file and has it reloaded; what follows from it for connections is a moment later."""
    exchanged(server, old, new)
    time.sleep(0.2)


ONE = """accounts { A { users: [{user: a, password: a}, {user: b, password: b}] }
  SYS { users: [{user: sys, password: sys}] } }
system_account: SYS
"""


@pytest.mark.parametrize("kind", KINDS)
def test_permissions_hold_for_who_is_connected(kind: str) -> None:
    """Subscriptions that may no longer be go with an error each, others are filtered, publishing is refused."""
    with serving(kind, ONE) as server:
        a, b = Peer(server, "a"), Peer(server, "b")
        a.say("SUB foo.* 1", "SUB bar q 2", "SUB baz 3", "SUB some.> 4")
        assert [] == a.heard()
        rights = 'permissions: {publish: {deny: [secret]}, subscribe: {deny: ["foo.>", bar, "some.x"]}}'
        reload(server, "{user: a, password: a}", "{user: a, password: a, " + rights + "}")
        told = [
            '-ERR \'Permissions Violation for Subscription to "bar" using queue "q" (sid "2")\'',
            '-ERR \'Permissions Violation for Subscription to "foo.*" (sid "1")\'',
        ]
        assert told == sorted(a.heard())
        for subject in ("foo.1", "bar", "baz", "some.x", "some.y"):
            b.say(f"PUB {subject} 1", "x")
        assert [] == b.heard()
        assert ["MSG baz 3 1", "x", "MSG some.y 4 1", "x"] == a.heard()
        a.say("PUB secret 1", "x", "SUB foo.1 9")
        refused = [
            "-ERR 'Permissions Violation for Publish to \"secret\"'",
            "-ERR 'Permissions Violation for Subscription to \"foo.1\"'",
        ]
        assert refused == a.heard()
        assert 'Removed sub "foo.*" (sid "1")' in server.log
        reload(server, ", " + rights, "")
        a.say("SUB foo.1 9", "PUB secret 1", "x")
        assert [] == a.heard()


@pytest.mark.parametrize("kind", KINDS)
def test_logins_that_no_longer_hold_end(kind: str) -> None:
    """A new password ends the connection with a word, a user who is gone or in another account without; others stay."""
    before = "{user: b, password: b}, {user: c, password: c}, {user: d, password: d}] }\n B { users: ["
    text = (
        f"accounts {{\n A {{ users: [{{user: a, password: a}}, {before}{{user: x, password: x}}] }}\n"
        " SYS { users: [{user: sys, password: sys}] } }\nsystem_account: SYS\n"
    )
    with serving(kind, text) as server:
        a, b, c, d, x = (Peer(server, user) for user in "abcdx")
        reload(
            server,
            "{user: a, password: a}, " + before,
            "{user: a, password: new}, {user: d, password: d}] }\n B { users: [{user: c, password: c}, ",
        )
        assert [[VIOLATION, "closed"], ["closed"], ["closed"], [], []] == [one.heard() for one in (a, b, c, d, x)]
        reload(server, " B { users: [{user: c, password: c}, {user: x, password: x}] }\n", "")
        assert [[], ["closed"]] == [d.heard(), x.heard()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("authorization { token: t }", "authorization { token: u }", [VIOLATION, "closed"]),
        ("authorization { token: t }", "authorization { token: t, timeout: 3 }", []),
        ("debug: false", "authorization { token: t }", [VIOLATION, "closed"]),
        ("debug: false", "authorization { users: [{user: a, password: a}] }", [VIOLATION, "closed"]),
    ],
    ids=["other token", "same token", "from open to a token", "from open to users"],
)
def test_logins_without_a_name(kind: str, before: str, after: str, expected: list[str]) -> None:
    """A token is a login like others, and whoever came in while nobody was asked is asked again."""
    with serving(kind, before + "\n") as server:
        client = Peer(server, auth_token="t") if "token" in before else Peer(server)
        reload(server, before, after)
        assert expected == client.heard()


@pytest.mark.parametrize("kind", KINDS)
def test_rights_of_the_nameless_user_change(kind: str) -> None:
    """Who was let in as the no_auth_user has that user's rights of today."""
    with serving(kind, ONE + "no_auth_user: a\n") as server:
        client = Peer(server)
        client.say("SUB foo 1")
        assert [] == client.heard()
        reload(server, "{user: a, password: a}", "{user: a, password: a, permissions: {subscribe: {deny: [foo]}}}")
        assert ['-ERR \'Permissions Violation for Subscription to "foo" (sid "1")\''] == client.heard()


@pytest.mark.parametrize("kind", KINDS)
def test_limits_hold_for_who_is_connected(kind: str) -> None:
    """Too many subscriptions or connections end connections; a larger message than there may be is refused."""
    with serving(kind, ONE) as server:
        many, few = Peer(server, "a"), Peer(server, "b")
        many.say("SUB x 1", "SUB y 2", "SUB z 3")
        assert [] == many.heard()
        reload(server, "accounts { A {", "accounts { A { limits { max_subs: 2\n max_payload: 100 }\n")
        assert ["-ERR 'maximum subscriptions exceeded'", "closed"] == many.heard()
        few.say("SUB x 1", f"PUB x {101}", "x" * 101)
        assert ["-ERR 'Maximum Payload Violation'", "closed"] == few.heard()
        clients = [Peer(server, "a") for _ in range(3)]
        reload(server, "max_subs: 2\n", "max_conn: 1\n")
        heard = [one.heard() for one in clients]
        full = ["-ERR 'maximum account active connections exceeded'", "closed"]
        assert (2, 1) == (heard.count(full), heard.count([]))


@pytest.mark.parametrize("kind", KINDS)
def test_how_large_a_message_may_be_changes_for_who_is_connected(kind: str) -> None:
    """With a raised max_payload the first larger message is taken, with a lowered one it is refused."""
    with serving(kind, "max_payload: 1000\n" + ONE) as server:
        peer, other = Peer(server, "a"), Peer(server, "b")
        other.say("SUB x 1")
        assert [] == other.heard()
        reload(server, "max_payload: 1000", "max_payload: 70000")
        peer.say(f"PUB x {70000}", "x" * 70000)
        assert [] == peer.heard()
        assert ["MSG x 1 70000", "x" * 70000] == other.heard()
        reload(server, "max_payload: 70000", "max_payload: 1000")
        peer.say(f"PUB x {1001}", "x" * 1001)
        assert ["-ERR 'Maximum Payload Violation'", "closed"] == peer.heard()


def test_of_too_many_connections_the_first_stays() -> None:
    """Where a reload leaves more connections than an account or the server may have, who came last goes."""
    with serving(LEAFD, ONE) as server:
        clients = [Peer(server, user) for user in "aaab"]
        reload(server, "accounts { A {", "accounts { A { limits { max_conn: 3 }\n")
        heard = [one.heard() for one in clients]
        assert [[], [], [], ["-ERR 'maximum account active connections exceeded'", "closed"]] == heard
        reload(server, "system_account: SYS", "system_account: SYS\nmax_connections: 1")
        full = ["-ERR 'maximum connections exceeded'", "closed"]
        assert [[], full, full] == [one.heard() for one in clients[:3]]


def test_links_that_no_longer_hold_end() -> None:
    """A leaf whose login is gone is closed with a word, one whose rights changed without: it comes back with them."""
    with serving(LEAFD, ONE) as server:
        a, b, sys = (Peer(server, user, leaf=True) for user in ("a", "b", "sys"))
        client = Peer(server, "a")
        client.say("SUB > 1")
        assert [] == client.heard()
        reload(
            server,
            "{user: a, password: a}, {user: b, password: b}",
            "{user: a, password: a, permissions: {publish: {deny: [secret]}}}",
        )
        assert [["closed"], [VIOLATION, "closed"], []] == [one.heard() for one in (a, b, sys)]
        again = Peer(server, "a", leaf=True)
        again.say("LMSG secret 1", "x")
        assert ["-ERR 'Permissions Violation for Publish to \"secret\"'", "closed"] == again.heard()


def test_logins_of_the_leaf_listener_change() -> None:
    """The logins of the leaf listener are taken up without a restart, and hold for links that are up."""
    logins = "leafnodes { authorization { users: [{user: one, password: one}, {user: two, password: two}] }\n listen"
    with running(LEAFD, HEAD.replace("leafnodes { listen", logins)) as server:
        one, two = (Peer(server, user, leaf=True) for user in ("one", "two"))
        reload(server, ", {user: two, password: two}", ", {user: three, password: three}")
        assert [[], [VIOLATION, "closed"]] == [one.heard(), two.heard()]
        assert [] == Peer(server, "three", leaf=True).heard()
