"""Users, accounts and servers of an operator that lie, beside nats-server: names and tags that a scoped key's template
takes in, JWTs that are revoked or whose key is taken away, and what is pushed by who may and who may not.

Not here: whom a well-meant JWT lets in (interop/test_operator.py), pushes that succeed
(interop/test_resolver.py), rules of single verdicts (unit/auth/test_trust.py).
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.interop.jwt_peer import HEAD, VIOLATION, Peer, close_all
from tests.interop.test_operator_leafs import Leaf, close_leafs
from tests.interop.test_operator_web import WEB, logged_in
from tests.interop.test_resolver import answer, deletion, full, push
from tests.jwts import ACCOUNT_LIMITS, USER_LIMITS, Account, Key, Operator, User, b64, encode, issued
from tests.servers import KINDS, LEAFD, Server, running

both = pytest.mark.parametrize("kind", KINDS)
REVOKED: Final = "-ERR 'User Authentication Revoked'"
MB: Final = 1_000_000
_webs: list[socket.socket] = []


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()
    close_leafs()
    while _webs:
        _webs.pop().close()


def scoped(operator: Operator, template: dict[str, Any], account: str = "A") -> tuple[Account, Key]:
    """An account with a key that has that template."""
    key, made = Key("account"), operator.account(account)
    scope = {"kind": "user_scope", "key": key.public, "role": "r", "template": USER_LIMITS | template}
    made.nats["signing_keys"] = [scope]
    return made, key


# ---- what a template takes in

NAME: Final = "x.{{name()}}"
TAG: Final = "x.{{tag(t)}}"
TAGS: Final = "x.{{tag(t)}}.{{tag(u)}}"
OUT: Final = None
PLACES: Final = "x.{{name()}} x.{{subject()}} x.{{tag(t)}} x.{{magic()}} x.{{}} x.{{name()"
ONE_TOKEN: Final = f"x.bob x.a x.b x.1 x.BIG x.big x.y x.c x.My {PLACES}"
EVERYTHING: Final = f"{ONE_TOKEN} x.a.b x.a.b.c x.1.1 x.1.2 x.2.2 x.A.A"
PROBES: Final = [*EVERYTHING.split(), "y"]
# The template's subject, the user's name, its tags, the account's name: where it may publish; OUT: it is refused.
TAKEN: Final[dict[str, tuple[str, str, list[str], str, str | None]]] = {
    "a name": (NAME, "bob", [], "A", "x.bob"),
    "a name that is a wildcard": (NAME, "*", [], "A", ONE_TOKEN),
    "a name that is everything": (NAME, ">", [], "A", EVERYTHING),
    "everything in the middle": ("x.{{name()}}.b", ">", [], "A", ""),
    "a name of two tokens": (NAME, "a.b", [], "A", "x.a.b"),
    "a dot": (NAME, ".", [], "A", ""),
    "a dot in front": (NAME, ".b", [], "A", ""),
    "a blank": (NAME, "My Company", [], "A", ""),
    "a blank and everything": (NAME, "a >", [], "A", ""),
    "a line's end": (NAME, "a\r\nb", [], "A", ""),
    "a tab": (NAME, "a\tb", [], "A", ""),
    "no name": (NAME, "", [], "A", ""),
    "a template as name": (NAME, "{{subject()}}", [], "A", "x.{{subject()}}"),
    "its own template as name": (NAME, "{{name()}}", [], "A", "x.{{name()}}"),
    "braces as name": (NAME, "}}{{", [], "A", ""),
    "large letters in a place": ("x.{{NAME()}}", "bob", [], "A", "x.bob"),
    "blanks in a place": ("x.{{ name() }}", "bob", [], "A", "x.bob"),
    "a blank in the parentheses": ("x.{{name( )}}", "bob", [], "A", OUT),
    "a tag that is everything": (TAG, "u", ["t:>"], "A", EVERYTHING),
    "a tag without a value": (TAG, "u", ["t:"], "A", ""),
    "a tag without a colon": (TAG, "u", ["t"], "A", ""),
    "a tag in large letters": (TAG, "u", ["T:b"], "A", ""),
    "a value in large letters": (TAG, "u", ["t:BIG"], "A", "x.BIG"),
    "a pattern for a tag": ("x.{{tag(.*)}}", "u", ["t:b"], "A", ""),
    "a tag of no name": ("x.{{tag()}}", "u", [":b"], "A", "x.b"),
    "a tag with a colon": ("x.{{tag(t:b)}}", "u", ["t:b:c"], "A", "x.c"),
    "a tag with a parenthesis": ("x.{{tag(t)b)}}", "u", ["t)b:c"], "A", "x.c"),
    "a template as tag": (TAG, "u", ["t:{{name()}}"], "A", "x.{{name()}}"),
    "a tag 300 times": (TAG, "u", ["t:1"] * 300, "A", "x.1"),
    "a tag in two places": ("x.{{tag(t)}}.{{tag(t)}}", "u", ["t:1", "t:2"], "A", "x.1.1 x.2.2"),
    "two spellings of a tag": ("x.{{tag(t)}}.{{ tag(t) }}", "u", ["t:1", "t:2"], "A", "x.1.1 x.1.2 x.2.2"),
    "an account's name with a blank": ("x.{{account-name()}}", "u", [], "My Company", ""),
    "an account's name that is everything": ("x.{{account-name()}}", "u", [], ">", EVERYTHING),
    "something unknown": ("x.{{magic()}}", "u", [], "A", OUT),
    "nothing between the braces": ("x.{{}}", "u", [], "A", "x.{{}}"),
    "braces that stay open": ("x.{{name()", "u", [], "A", "x.{{name()"),
    "three braces": ("x.{{{name()}}}", "u", [], "A", OUT),
    "four braces": ("x.{{{{name()}}}}", "u", [], "A", OUT),
    "4,096 subjects": (TAGS, "u", [f"{a}:{n}" for a in "tu" for n in range(64)], "A", "x.1.1 x.1.2 x.2.2"),
    "4,225 subjects": (TAGS, "u", [f"{a}:{n}" for a in "tu" for n in range(65)], "A", OUT),
    "10,000,000,000 subjects": (
        "x." + ".".join(f"{{{{tag({a})}}}}" for a in "abcdefghij"), "u",
        [f"{a}:{n}" for a in "abcdefghij" for n in range(10)], "A", OUT,
    ),
    "90,000 of one tag": (f"{TAG}.{{{{tag(t)}}}}", "u", [f"t:{n}" for n in range(300)], "A", OUT),
}  # fmt: skip


def publishable(server: Server, user: User) -> set[str] | None:
    """The probes that this user may publish to; None: it is not let in."""
    peer = Peer(server, user)
    heard = peer.lines()
    if heard:
        assert [VIOLATION, "closed"] == heard
        return None
    peer.say(*(f"PUB {one} 0\r\n" for one in PROBES))
    refused = [line.split('"')[1] for line in peer.lines()]
    peer.socket.close()
    return set(PROBES) - set(refused)


@both
def test_a_template_gives_what_its_key_was_made_for(kind: str) -> None:
    """Names and tags fill in one place each, once, as on nats-server; what does not come out as a subject is left out,
    and what comes to thousands is refused. (Wildcards in names count: whoever holds the key chooses the names.)"""
    operator, users = Operator(), {}
    for name, (subject, called, tags, account_name, _) in TAKEN.items():
        account, key = scoped(operator, {"pub": {"allow": [subject]}}, account_name)
        users[name] = account.user(called, signer=key, scoped=True, tags=tags)
    wanted = {name: None if probes is None else set(probes.split()) for name, (*_, probes) in TAKEN.items()}
    with running(kind, HEAD + "max_control_line: 1MB\n" + operator.configuration()) as server:
        began = time.monotonic()
        assert wanted == {name: publishable(server, user) for name, user in users.items()}
        assert time.monotonic() - began < 20


def test_a_name_is_not_filled_in_again() -> None:
    """A name that is a template of a place behind it stays as it is; nats-server fills it in."""
    found = []
    for kind in KINDS:
        operator = Operator()
        account, key = scoped(operator, {"pub": {"allow": ["x.{{name()}}.{{account-name()}}"]}})
        user = account.user("{{account-name()}}", signer=key, scoped=True)
        with running(kind, HEAD + operator.configuration()) as server:
            found.append(publishable(server, user))
    assert [set(), {"x.A.A"}] == found


@both
def test_what_is_denied_is_denied_or_nobody_comes_in(kind: str) -> None:
    """A denied subject that a name or a missing tag spoils refuses the login; one that is a wildcard denies more."""
    cases: dict[str, tuple[str, str, list[str], bool]] = {
        "a blank": (NAME, "a b", [], False),
        "a dot": (NAME, ".", [], False),
        "no name": (NAME, "", [], False),
        "no tag": (TAG, "u", [], False),
        "something unknown": ("x.{{magic()}}", "u", [], False),
        "everything": (NAME, ">", [], True),
        "a value": (TAG, "u", ["t:1"], True),
    }
    operator, users = Operator(), {}
    for name, (subject, called, tags, _) in cases.items():
        account, key = scoped(operator, {"pub": {"allow": ["x.>"], "deny": [subject]}})
        users[name] = account.user(called, signer=key, scoped=True, tags=tags)
    with running(kind, HEAD + operator.configuration()) as server:
        for name, (*_, expected) in cases.items():
            found = publishable(server, users[name])
            assert expected == (found is not None), name
            assert found is None or "x.1" not in found, name


OWN: Final[dict[str, dict[str, Any]]] = {
    "publish": {"pub": {"allow": [">"]}},
    "publish, denied": {"pub": {"deny": ["a"]}},
    "subscribe": {"sub": {"allow": [">"]}},
    "answers": {"resp": {"max": 1, "ttl": 1}},
    "networks": {"src": ["127.0.0.1/32"]},
    "hours": {"times": [{"start": "00:00:00", "end": "23:59:59"}]},
    "a time zone": {"times_location": "Europe/Paris"},
    "subscriptions": {"subs": -1},
    "data": {"data": -1},
    "payload": {"payload": -1},
    "a bearer": {"bearer_token": True},
    "a proxy": {"proxy_required": True},
    "kinds of connections": {"allowed_connection_types": ["STANDARD"]},
}


@both
def test_a_scoped_user_brings_nothing_of_its_own(kind: str) -> None:
    """Whatever a user's JWT under a scoped key says of rights or limits, it is refused."""
    operator = Operator()
    account, key = scoped(operator, {"pub": {"allow": ["x.>"]}})
    with running(kind, HEAD + operator.configuration()) as server:
        assert [] == Peer(server, account.user("u", signer=key, scoped=True)).lines()
        found = {
            name: Peer(server, account.user("u", signer=key, scoped=True, **own)).lines() for name, own in OWN.items()
        }
        assert {name: [VIOLATION, "closed"] for name in OWN} == found


# ---- who is taken out


def ended(peer: Peer | Leaf) -> list[str]:
    """The errors of a connection that ends."""
    found = []
    try:
        while True:
            line = peer.line(8)
            if line == "PING":
                peer.send(b"PONG\r\n")
            found += [line] if line.startswith("-ERR") else []
    except (EOFError, ConnectionError):
        return found


def ended_web(connection: socket.socket) -> bytes:
    connection.settimeout(8)
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionError:
        pass
    return found


class Connected:
    """A user that is connected as a client, as a leaf, and over WebSocket."""

    def __init__(self, server: Server, user: User, name: str) -> None:
        self.client, self.leaf = Peer(server, user), Leaf(server, user, name)
        self.web = socket.create_connection(("127.0.0.1", server.ports["web_port"]), 10)
        _webs.append(self.web)
        assert [] == self.client.lines()
        assert isinstance(self.leaf.greeted(), dict)
        assert "PONG" == logged_in(self.web, user, cookie=False)

    def stays(self) -> bool:
        self.leaf.send(b"PING\r\n")
        while (line := self.leaf.line()) != "PONG":
            assert not line.startswith("-ERR"), line
        return self.client.lines() == []

    def end(self) -> tuple[list[str], list[str], bool]:
        """What each hears before its end; of WebSocket whether it is the client's error."""
        client, leaf = ended(self.client), ended(self.leaf)
        web = ended_web(self.web)
        return client, leaf, (client[0].encode() in web) if client else b"-ERR" not in web


PORTS: Final = 'leafnodes { listen: "127.0.0.1:{leaf_port}" }\n' + WEB


@both
def test_revoked_users_lose_each_kind_of_connection(kind: str) -> None:
    """Revoking one user, and all, ends their connections; whose JWT is made anew afterwards comes in, with the old key
    or another, and the old JWT never again. Revocations of nobody, and far in the future, do what they say."""
    operator = Operator()
    account = operator.account("A")
    user, other = account.user("u"), account.user("v")
    with running(kind, full(operator) + PORTS) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        one, two = Connected(server, user, "box1"), Connected(server, other, "box2")
        account.nats["revocations"] = {user.key.public: issued()}
        assert 200 == push(system, account)["code"]
        assert ([REVOKED], [REVOKED], True) == one.end()
        assert two.stays()
        account.nats["revocations"] = {"*": issued()}
        assert 200 == push(system, account)["code"]
        assert ([REVOKED], [REVOKED], True) == two.end()
        claims = {"sub": user.key.public, "name": "u", "nats": {"type": "user", "version": 2} | USER_LIMITS}
        anew = User(user.key, encode(claims, account.key))
        assert [[], [], [VIOLATION, "closed"], [VIOLATION, "closed"]] == [
            Peer(server, each).lines() for each in (anew, account.user("w"), user, other)
        ]
        account.nats["revocations"] = {anew.key.public: 2**62, "nobody": 1, "": 2, "*": -1}
        assert 200 == push(system, account)["code"]
        assert [[VIOLATION, "closed"], []] == [Peer(server, each).lines() for each in (anew, other)]
        account.nats["revocations"] = {"*": 2**63}
        assert 500 == push(system, account)["code"]
        assert [[VIOLATION, "closed"], []] == [Peer(server, each).lines() for each in (anew, other)]


@both
def test_a_signing_key_that_is_taken_away_takes_its_users(kind: str) -> None:
    """Users of a removed signing key lose each kind of connection and do not come back, whether the key had a scope or
    not; the account's own stay."""
    operator = Operator()
    account, scope = scoped(operator, {})
    plain = Key("account")
    account.nats["signing_keys"].append(plain.public)
    users = [account.user("a", signer=plain), account.user("b", signer=scope, scoped=True)]
    with running(kind, full(operator) + PORTS) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        gone = [Connected(server, user, f"box{number}") for number, user in enumerate(users)]
        stays = Connected(server, account.user("c"), "own")
        account.nats["signing_keys"] = []
        assert 200 == push(system, account)["code"]
        heard = [each.end() for each in gone]
        assert kind != LEAFD or [([], [], True)] * 2 == heard  # nats-server complains of subscriptions first, at times
        assert stays.stays()
        assert [[VIOLATION, "closed"]] * 2 == [Peer(server, user).lines() for user in users]


def test_an_account_that_has_expired_when_it_is_pushed_is_closed() -> None:
    """Its users lose their connections and do not come back; nats-server goes on serving them."""
    found = []
    for kind in KINDS:
        operator = Operator()
        account = operator.account("A")
        with running(kind, full(operator)) as server:
            system = Peer(server, operator.system.user("s"))
            push(system, account)
            peer = Peer(server, account.user("u"))
            assert [] == peer.lines()
            assert 200 == push(system, account, exp=int(time.time()) - 1)["code"]
            found.append(([] if kind != LEAFD else ended(peer), Peer(server, account.user("v")).lines()))
    assert [(["-ERR 'Account Authentication Expired'"], [VIOLATION, "closed"]), ([], [])] == found


# ---- what is pushed


@both
def test_only_users_of_the_system_account_push(kind: str) -> None:
    """A user and a leaf of another account that have everything the operator signed can neither push, delete, list nor
    fetch: nobody answers them, and nothing changes. Who may publish to none of it in the system account is told so."""
    operator = Operator()
    account = operator.account("A")
    user = account.user("u")
    with running(kind, full(operator) + PORTS) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        account.nats["revocations"] = {"*": int(time.time()) + 1000}
        body = account.token()
        orders = {
            "$SYS.REQ.CLAIMS.UPDATE": body,
            f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE": body,
            f"$SYS.ACCOUNT.{account.public}.CLAIMS.UPDATE": body,
            "$SYS.REQ.CLAIMS.DELETE": deletion(operator, account),
            "$SYS.REQ.CLAIMS.PACK": "",
            "$SYS.REQ.CLAIMS.LIST": "",
            f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.LOOKUP": "",
        }
        peer, leaf = Peer(server, user), Leaf(server, user, "box")
        assert isinstance(leaf.greeted(), dict)
        peer.say("SUB answers.> 1")
        for subject, text in orders.items():
            peer.send(f"PUB {subject} answers.1 {len(text)}\r\n{text}\r\n".encode())
            leaf.send(f"LMSG {subject} answers.2 {len(text)}\r\n{text}\r\n".encode())
        leaf.send(b"PING\r\n")
        while leaf.line() != "PONG":
            pass
        fenced = Peer(
            server, operator.system.user("f", pub={"deny": ["$SYS.REQ.CLAIMS.>", "$SYS.*.*.CLAIMS.>", "$SYS.>"]})
        )
        fenced.say(*(f"PUB {subject} {len(text)}\r\n{text}" for subject, text in orders.items()))
        assert len(orders) == sum("Permissions Violation for Publish" in line for line in fenced.lines())
        assert account.public in answer(system, "$SYS.REQ.CLAIMS.LIST")
        assert [[], []] == [peer.lines(), Peer(server, user).lines()]


def lies(operator: Operator, account: Account) -> dict[str, bytes]:
    """What is pushed that is no account of the operator."""
    forged = {"type": "account", "version": 2, "limits": ACCOUNT_LIMITS | {"conn": "x\r\n[1] forged"}}
    return {
        "nothing": b"",
        "a megabyte of zeros": bytes(MB),
        "a megabyte of a token's beginning": b"eyJ" * (MB // 3),
        "brackets": b".".join(
            [account.token().split(".")[0].encode(), b64(b'{"nats":' + b"[" * (MB // 2)).encode(), b"AAAA"]
        ),
        "a user": account.user("x").token.encode(),
        "an operator": operator.token().encode(),
        "an activation": account.activation(account, "x", "service").encode(),
        "a deletion": deletion(operator, account).encode(),
        "a line for the log": encode(
            {"sub": account.public, "name": "a\r\n[1] b", "nats": forged}, operator.key
        ).encode(),
        "a changed signature": account.token()[:-4].encode() + b"AAAA",
        "no signature": account.token().rsplit(".", 1)[0].encode() + b".",
    }


def undeletable(operator: Operator, account: Account) -> dict[str, bytes]:
    """What deletes nothing."""
    names: dict[str, Any] = {
        "paths": ["../../x", account.public + "/../x"],
        "numbers": [account.public, 5],
        "an object": {"a": 1},
        "none": None,
    }
    found = lies(operator, account)
    del found["a deletion"]
    found |= {
        "signed by the account": deletion(operator, account, signer=account.key).encode(),
        "signed by a stranger": deletion(operator, account, signer=Key("operator")).encode(),
        "signed by a user": deletion(operator, account, signer=Key("user")).encode(),
    }
    return found | {
        name: encode({"sub": operator.key.public, "nats": {"accounts": one}}, operator.key).encode()
        for name, one in names.items()
    }


@both
def test_lies_that_are_pushed_change_nothing(kind: str) -> None:
    """Each is answered with an error, in a line of JSON; the account is served as it was, and the log has no line that
    the server did not write."""
    operator = Operator()
    account = operator.account("A")
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        before = answer(system, "$SYS.REQ.CLAIMS.LIST")
        peer = Peer(server, account.user("u"))
        for subject, bodies in (("UPDATE", lies(operator, account)), ("DELETE", undeletable(operator, account))):
            for name, body in bodies.items():
                found = answer(system, f"$SYS.REQ.CLAIMS.{subject}", body)
                assert 500 == found["code"] or name in ("paths", "none"), (subject, name, found)
        assert before == answer(system, "$SYS.REQ.CLAIMS.LIST")
        assert [[], []] == [peer.lines(), Peer(server, account.user("v")).lines()]
        assert "nexpected error" not in server.log
        assert kind != LEAFD or all(line.startswith("[") for line in server.log.splitlines())
        assert not [line for line in server.log.splitlines() if line.startswith("[1] ")]


@both
def test_floods_of_pushes_hold_nobody(kind: str) -> None:
    """While 1,000 JWTs of one account, 1,000 lies and the deletion of 5,000 accounts are worked through, a user of
    another account logs in within a quarter of a second, and all is answered."""
    operator = Operator()
    account, other = operator.account("A"), operator.account("B")
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account), push(system, other)
        peers = [Peer(server, account.user("u")) for _ in range(20)]
        assert not any(peer.lines() for peer in peers)
        waits: list[float] = []
        over, user = threading.Event(), other.user("v")

        def log_in() -> None:
            while not over.is_set():
                began = time.monotonic()
                assert [] == Peer(server, user).lines()
                waits.append(time.monotonic() - began)
                time.sleep(0.02)

        orders = [("UPDATE", account.token(jti=str(number))) for number in range(1000)] + [
            ("UPDATE", "eyJ" * 300)
        ] * 1000
        names = [Key("account").public for _ in range(5000)]
        deleting = encode({"sub": operator.key.public, "nats": {"accounts": names}}, operator.key)
        thread = threading.Thread(target=log_in)
        thread.start()
        try:
            system.say("SUB done.> 9")
            system.send(
                b"".join(
                    f"PUB $SYS.REQ.CLAIMS.{what} done.1 {len(text)}\r\n{text}\r\n".encode()
                    for what, text in [*orders, ("DELETE", deleting)]
                )
            )
            answers = 0
            while answers < len(orders) + 1:
                if (line := system.line(20)).startswith("MSG done."):
                    system.payload(int(line.split()[-1]))
                    answers += 1
        finally:
            over.set()
            thread.join()
        assert len(waits) > 3
        assert sorted(waits)[len(waits) * 9 // 10] < 0.25
        assert max(waits) < 1.0  # on a machine whose processors have other work
        assert not any(peer.lines() for peer in peers)
