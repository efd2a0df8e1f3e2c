"""What a CONNECT says of somebody and what it proves are two things: a login that is in counts as nobody whom it only
names. Beside nats-server where that has the same.

The names are a box's key, the cluster and name that a budget is kept by, and a user whom a callout service does not
judge. Not here: services that lie (test_callout.py), what an honest box is given (test_enrol.py).
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.certificates import Authority, Issued
from tests.hostile.wires import Wire
from tests.interop.enrolment import HUB, Login, close_all, report, token, within
from tests.interop.test_enrol_commands import TEMPLATE, Fleet
from tests.jwts import Key
from tests.servers import KINDS, LEAFD, Server, running

AGENT: Final = Path(__file__).resolve().parents[2] / "agent" / "leafd"
BUDGET: Final = HUB.replace('{leaf_port}" }', '{leaf_port}", limits { bytes_per_day: 20M } }')
CALLOUT: Final = """
listen: "127.0.0.1:{port}"
tls {{ cert_file: "{cert}", key_file: "{key}", ca_file: "{ca}", verify_and_map: true, timeout: 10 }}
accounts {{
  AUTH {{ users: [ {{ user: auth, password: auth }}{more} ] }}
  APP {{ users: [ {{ user: "CN=client" }} ] }}
}}
authorization {{ timeout: 1, auth_callout {{ issuer: {issuer}, auth_users: [auth], account: AUTH }} }}
"""
SHOWS_CLAIMS: Final = {"auth/connect.py", "auth/callout.py", "logins/description.py", "links/link.py",
                       "monitor/connections.py"}  # fmt: skip


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


def _alive(login: Login) -> None:
    """Answers each PING, as a link does that is there."""

    def answer() -> None:
        for line in iter(login.lines.readline, b""):
            if line.startswith(b"PING"):
                login.socket.sendall(b"PONG\r\n")

    threading.Thread(target=answer, daemon=True).start()


def test_a_user_of_another_account_who_names_a_box_s_key_keeps_the_box_out_of_nothing(tmp_path: Path) -> None:
    """With an operator a login is the JWT's: `nkey` beside it proves nothing, and makes no link a box's."""
    fleet, key = Fleet(**TEMPLATE), Key("user")
    stranger = fleet.operator.account("OTHER").user("mallory")
    with ExitStack() as stack:
        server = fleet.start(stack, tmp_path)
        Login(server, key, "box-1", auth_token=token(server, "box-1")).close()
        within(5, lambda: not report(server)["boxes"][0]["linked"])
        forged = Login(server, stranger.key, "box-1", nkey=key.public, jwt=stranger.token, server_id="another")
        assert forged.is_in
        _alive(forged)
        assert [("box-1", False)] == [(one["name"], one["linked"]) for one in report(server)["boxes"]]
        box = Login(server, key, "box-1")
        assert box.is_in, box.answer
        assert [("box-1", True)] == [(one["name"], one["linked"]) for one in report(server)["boxes"]]


def test_a_user_of_the_same_account_who_calls_itself_like_a_box_does_not_end_the_box_s_link() -> None:
    """As a link that has not noticed its end is ended by the next one of its server. Nor does the box end that one."""
    with running(LEAFD, HUB) as server:
        key, said = Key("user"), {"remote_account": "A", "cluster": "box-1"}
        box = Login(server, key, "box-1", auth_token=token(server, "box-1"), **said)
        other = Login(server, Key("user"), "box-1", nkey="", sig="", user="app", **{"pass": "app"}, **said)
        assert box.is_in
        assert other.is_in
        for one in (other, box):
            _alive(one)
        again = Login(server, key, "box-1", server_id="another", **said)
        assert again.answer == f"the box box-1 is linked already, from {_peer(box)}: two machines have its key"
        assert len(report(server, "/leafz")["leafs"]) == 2


def _peer(login: Login) -> str:
    return "{}:{}".format(*login.socket.getsockname())


NAMES: Final[dict[str, dict[str, Any]]] = {
    "its own": {},
    "a cluster": {"cluster": "another"},
    "an account of its own": {"remote_account": "another"},
    "its doctor": {"name": "leafd-doctor-0123", "server_id": "leafd-doctor-0123", "domain": ""},
}


def test_a_box_has_one_budget_whatever_else_it_says_to_be() -> None:
    """Cluster, account and the doctor's name are the box's choice; its key is not."""
    with running(LEAFD, BUDGET) as server:
        key = Key("user")
        ticket, used = token(server, "box-1"), 0
        for what, said in NAMES.items():
            said = {"name": "box-1", "auth_token": ticket} | said
            login = Login(server, key, **said)
            assert login.is_in, login.answer
            login.socket.sendall(b"LMSG telemetry.box-1.x 20000\r\n" + b"x" * 20_000 + b"\r\nPING\r\n")
            within(5, partial(_has_used, server, used + 20_000))
            now = _used(server)
            assert now > used + 20_000, what
            used = now
            login.close()
            within(5, lambda: not report(server, "/leafz")["leafs"])


def _has_used(server: Server, more_than: int) -> bool:
    return _used(server) > more_than


def _used(server: Server) -> int:
    links = (one["leafd"].get("budget") for one in report(server, "/leafz")["leafs"])
    return sum(int(budget["day"]["used"]) for budget in links if budget is not None)


CLAIMS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"user": "auth"},
    {"nkey": "auth"},
    {"user": "auth", "nkey": "auth"},
    {"user": "CN=client"},
)


@pytest.mark.parametrize("more", ["", ", { nkey: NKEY }"], ids=["no nkeys", "nkeys"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_certificate_s_user_who_names_another_one_is_judged_by_the_service(
    kind: str, more: str, tmp_path: Path
) -> None:
    """`auth_users` need no service, and are who has proven to be one. Nobody serves here, so whoever is in was not
    judged."""
    authority = Authority(tmp_path)
    own, shown = authority.issue("server"), authority.issue("client")
    text = CALLOUT.format(
        port="{port}", cert=own.certificate, key=own.key, ca=authority.certificate, issuer=Key("account").public,
        more=more.replace("NKEY", Key("user").public),
    )  # fmt: skip
    with running(kind, text) as server:
        for said in CLAIMS:
            assert _answer(server, authority, shown, said) == b"-ERR 'Authorization Violation'\r\n", said


def _answer(server: Server, authority: Authority, shown: Issued, said: dict[str, str]) -> bytes:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.check_hostname = False
    context.load_cert_chain(str(shown.certificate), str(shown.key))
    with socket.create_connection(("127.0.0.1", server.ports["port"]), 10) as plain:
        while plain.recv(1) != b"\n":  # INFO, and no byte of what comes behind it
            pass
        with context.wrap_socket(plain) as secure:
            secure.sendall(b"CONNECT " + json.dumps({"verbose": False} | said).encode() + b"\r\nPING\r\n")
            return secure.recv(200)


NOBODY_S_KEY: Final = {
    "accounts {{ A {{ users: [ {{ user: a, password: a }} ] }} }}": [False, True, False, False],
    "accounts {{ A {{ users: [ {{ user: a, password: a }} ] }} }}\nno_auth_user: a": [True, True, False, False],
    "authorization {{ token: t }}": [False, False, True, False],
    "authorization {{ user: a, password: a }}": [False, True, False, False],
    "accounts {{ A {{ users: [ {{ user: a, password: a }}, {{ nkey: {key} }} ] }} }}": [False] * 4,
}
"""Who of those below is let in."""


@pytest.mark.parametrize("users", NOBODY_S_KEY)
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_where_nobody_has_one_is_as_if_it_were_not_sent(kind: str, users: str) -> None:
    """Alone, or beside a password, a token, a wrong password. Where somebody has a key, it is the one that counts."""
    claimed, known = Key("user").public, Key("user").public
    sent: tuple[dict[str, str], ...] = ({}, {"user": "a", "pass": "a"}, {"auth_token": "t"}, {"user": "a", "pass": "b"})
    found = []
    with running(kind, "listen: 127.0.0.1:{port}\n" + users.format(key=known)) as server:
        for one in sent:
            with Wire(server.port, 60.0) as wire:
                wire.heard()
                options = json.dumps({"verbose": False, "nkey": claimed, "sig": "x"} | one)
                wire.send(f"CONNECT {options}\r\nPING\r\n".encode())
                found.append(wire.heard() == b"PONG")
    assert found == NOBODY_S_KEY[users]


def test_what_a_connect_claims_is_only_shown() -> None:
    """Nothing else asks for it: who acts on somebody's name takes that of the verdict."""
    asks = re.compile(r"\bclaimed_user\(")
    found = {str(file.relative_to(AGENT)) for file in AGENT.rglob("*.py") if asks.search(file.read_text())}
    assert found == SHOWS_CLAIMS
