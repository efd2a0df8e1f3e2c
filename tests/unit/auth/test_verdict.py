"""CONNECT + nonce + policy -> verdict, in the reference's order and with its texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from leafd.auth.nkeys import sign
from leafd.auth.policy import Policy, Rights, compile_leaf_policy, compile_own_policy, compile_policy, compile_rights
from leafd.auth.verdict import LEAF_TYPE, WEB_TYPE, Refusal, Verdict, identify, judge_client, takes_time
from leafd.config.bind import load_text

from tests.certificates import Authority

SEED = "SUAIWGCODIHYRJ4YY35OF6EPHWXAJV3MDW5XX24RXB6D6YDVDBCCFJPAFM"
PUBLIC = "UDGTQSMYSM5O2QAQFIBPJFEQFJBUUFAEZ5AZ6SLKAXT6FWA4FB2YJDPP"
VIOLATION = Refusal("Authorization Violation")


def policy(text: str) -> Policy:
    return compile_policy(load_text(text).server)


def judge(text: str, connect: dict[str, Any], nonce: str = "n") -> Verdict | Refusal:
    return judge_client(connect, nonce, policy(text))


TWO_ACCOUNTS = """
accounts {
  A { users: [ {user: a, password: pa} ] }
  B { users: [ {user: b, password: pb, permissions: {publish: "x.>", subscribe: {deny: "y"}}} ] }
}
"""


def test_nobody_configured() -> None:
    """Without users everybody is admitted to $G, whatever he sends."""
    assert Verdict("$G", "") == judge("", {})
    assert Verdict("$G", "") == judge("", {"user": "x", "pass": "y"})


def test_users_belong_to_their_accounts() -> None:
    """A login decides about the account."""
    assert Verdict("A", "a") == judge(TWO_ACCOUNTS, {"user": "a", "pass": "pa"})
    rights = Rights(publish_allow=("x.>",), subscribe_deny=("y",))
    assert Verdict("B", "b", rights) == judge(TWO_ACCOUNTS, {"user": "b", "pass": "pb"})


@pytest.mark.parametrize(
    "connect",
    [
        {},
        {"user": "a"},
        {"user": "a", "pass": ""},
        {"user": "a", "pass": "pb"},
        {"user": "c", "pass": "pa"},
        {"auth_token": "pa"},
        {"pass": "pa"},
        {"user": 5, "pass": ["pa"]},
        {"jwt": "e.y.J"},
        {"user": "a", "pass": "pa", "account": "B"},
    ],
)
def test_wrong_logins(connect: dict[str, Any]) -> None:
    """Everything else is an Authorization Violation, not an exception."""
    assert VIOLATION == judge(TWO_ACCOUNTS, connect)


def test_an_empty_password_is_no_certificate(tmp_path: Path) -> None:
    """Where the clients' port maps certificates, a name without a password proves nothing over WebSocket."""
    authority = Authority(tmp_path)
    own = authority.issue("server")
    files = f"cert_file: '{own.certificate}', key_file: '{own.key}', ca_file: '{authority.certificate}'"
    tls = f"tls {{ {files}, verify_and_map: true }}"
    users = "authorization { users: [ {user: 'CN=a'}, {user: guest} ] }"
    server = load_text(f"{tls}\n{users}\nno_auth_user: guest\nwebsocket {{ port: 8080, no_tls: true }}").server
    web = compile_own_policy(server, compile_policy(server), server.websocket)
    for connect in ({}, {"user": "guest"}):
        assert Verdict("$G", "guest") == judge_client(connect, "", web, kind=WEB_TYPE)
    assert VIOLATION == judge_client({"user": "CN=a"}, "", web, kind=WEB_TYPE)


def test_token() -> None:
    """A token admits to $G."""
    assert Verdict("$G", "") == judge("authorization { token: t }", {"auth_token": "t"})
    assert VIOLATION == judge("authorization { token: t }", {"auth_token": "x"})
    assert VIOLATION == judge("authorization { token: t }", {})


def test_token_and_user() -> None:
    """Where a token is asked for it decides, also about a client that carries a password for other servers."""
    assert Verdict("$G", "") == judge("authorization { token: t }", {"auth_token": "t", "user": "u", "pass": "p"})
    assert VIOLATION == judge("authorization { token: t }", {"auth_token": "x", "user": "u", "pass": "p"})
    assert VIOLATION == judge("authorization { token: t }", {"user": "u", "pass": "t"})
    assert Verdict("$G", "u") == judge(
        "authorization { user: u, pass: p }", {"auth_token": "x", "user": "u", "pass": "p"}
    )


def test_bcrypt() -> None:
    """A hashed password is compared as bcrypt does; the hash itself is no password."""
    import bcrypt

    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    text = f"authorization {{ user: u, password: '{hashed}' }}"
    assert Verdict("$G", "u") == judge(text, {"user": "u", "pass": "secret"})
    assert VIOLATION == judge(text, {"user": "u", "pass": "Secret"})
    assert VIOLATION == judge(text, {"user": "u", "pass": hashed})
    assert takes_time({"user": "u", "pass": "x"}, policy(text))
    assert not takes_time({"user": "x", "pass": "x"}, policy(text))


def test_nkey() -> None:
    """An nkey user signs the nonce; a signature of another nonce is worth nothing."""
    text = f"accounts {{ A {{ users: [ {{nkey: {PUBLIC}}} ] }} }}"
    assert policy(text).asks_for_nkeys
    _, signature = sign(SEED, "nonce1")
    connect = {"nkey": PUBLIC, "sig": signature}
    assert Verdict("A", PUBLIC) == judge(text, connect, "nonce1")
    assert VIOLATION == judge(text, connect, "nonce2")
    assert VIOLATION == judge(text, {"nkey": PUBLIC}, "nonce1")
    assert VIOLATION == judge(text, connect, "")


def test_no_auth_user() -> None:
    """It stands for those who sent no login, not for those with a wrong one; INFO then does not ask for a login."""
    text = TWO_ACCOUNTS + "no_auth_user: b"
    assert not policy(text).auth_required
    assert policy(TWO_ACCOUNTS).auth_required
    verdict = judge(text, {})
    assert isinstance(verdict, Verdict)
    assert ("B", "b") == (verdict.account, verdict.user)
    assert VIOLATION == judge(text, {"user": "a", "pass": "wrong"})
    assert VIOLATION == judge(text, {"auth_token": "x"})


def test_connection_types() -> None:
    """A user for leaf links alone is no client."""
    text = "accounts { A { users: [ {user: l, password: p, allowed_connection_types: [leafnode]} ] } }"
    connect = {"user": "l", "pass": "p"}
    assert VIOLATION == judge(text, connect)
    assert Verdict("A", "l") == identify(connect, "", policy(text), LEAF_TYPE)


def test_protocol_refusals() -> None:
    """Texts of the reference for a CONNECT that contradicts itself."""
    assert Refusal("invalid client protocol", False) == judge("", {"protocol": 2})
    assert Refusal("no responders requires headers support", False) == judge("", {"no_responders": True})
    assert Verdict("$G", "") == judge("", {"no_responders": True, "headers": True, "protocol": 1})


def test_leaf_logins_of_their_own() -> None:
    """Users of the leafnodes block replace those of the accounts on that listener, and carry no permissions."""
    text = TWO_ACCOUNTS + "leafnodes { port: -1, authorization { users: [ {user: b, password: q, account: A} ] } }"
    leaf = compile_leaf_policy(load_text(text).server)
    assert Verdict("A", "b") == identify({"user": "b", "pass": "q"}, "", leaf, LEAF_TYPE)
    assert VIOLATION == identify({"user": "a", "pass": "pa"}, "", leaf, LEAF_TYPE)
    assert compile_policy(load_text(text).server).users == policy(TWO_ACCOUNTS).users


def rights(text: str) -> Rights:
    server = load_text(f"authorization {{ users: [ {{user: u, password: p, permissions: {text}}} ] }}").server
    assert server.authorization is not None
    assert server.authorization.users is not None
    return compile_rights(server.authorization.users[0].permissions)


def test_permissions() -> None:
    """A subject, a list, or allow and deny; an empty allow list denies all."""
    assert Rights(publish_allow=("a",)) == rights("{publish: a}")
    assert Rights(subscribe_allow=("a", "b q")) == rights('{subscribe: [a, "b q"]}')
    assert Rights(publish_allow=("a",), publish_deny=("b",)) == rights("{pub: {allow: a, deny: [b]}}")
    assert Rights(publish_deny=(">",)) == rights("{publish: {allow: []}}")


def test_allow_responses() -> None:
    """Who may answer and has no publish list may do nothing else; the default is one answer in two minutes."""
    two_minutes = 120 * 10**9
    assert Rights(publish_deny=(">",), response_max=1, response_ttl_ns=two_minutes) == rights("{allow_responses: true}")
    expected = Rights(publish_allow=("a",), response_max=5, response_ttl_ns=10**9)
    assert expected == rights("{publish: a, allow_responses: {max: 5, expires: '1s'}}")
    assert Rights() == rights("{allow_responses: false}")


def test_default_permissions() -> None:
    """They hold for users without permissions of their own."""
    text = """authorization { default_permissions: {publish: d}
      users: [ {user: a, password: p}, {user: b, password: p, permissions: {publish: own}} ] }"""
    found = policy(text)
    assert ("d",) == found.users["a"].rights.publish_allow
    assert ("own",) == found.users["b"].rights.publish_allow
