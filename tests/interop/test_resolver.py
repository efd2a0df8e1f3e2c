"""Accounts that come, change, go and expire while a server runs, with leafd and with the reference: the requests of
nsc push, pull and delete, and what the users of such an account hear.

JWTs are made here, and the requests sent as nsc sends them. Not here: who gets in (test_operator.py).
"""

from __future__ import annotations

import hashlib
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.certificates import Authority
from tests.interop.jwt_peer import HEAD, VIOLATION, Peer, close_all
from tests.interop.test_operator import reload, with_token
from tests.jwts import Account, Key, Operator, encode, issued
from tests.rig.stopwatch import Stopwatch
from tests.rig.waiting import eventually
from tests.servers import KINDS, LEAFD, REFERENCE, Server, ServerDied, running

both = pytest.mark.parametrize("kind", KINDS)
FULL = """
resolver: {{ type: full, dir: "{{directory}}/jwt", allow_delete: {delete}, interval: "2m", timeout: "1.9s" }}
resolver_preload: {{ {name}: {token} }}
"""


def full(operator: Operator, *, preload: bool = True, delete: bool = True) -> str:
    head = f"operator: {operator.token()}\nsystem_account: {operator.system.public}\n"
    text = FULL.format(name=operator.system.public, token=operator.system.token(), delete=str(delete).lower())
    if not preload:
        text = "\n".join(line for line in text.splitlines() if "preload" not in line)
    return HEAD + head + text


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


def answer(peer: Peer, subject: str, body: bytes | str = b"") -> Any:
    """The data of a JSON answer, or its error."""
    found = json.loads(peer.answers(subject, body)[0])
    assert found["server"]["ver"] == "2.15.1"
    return found["data"] if "data" in found else found["error"]


def push(peer: Peer, account: Account, **outer: Any) -> Any:
    return answer(peer, "$SYS.REQ.CLAIMS.UPDATE", account.token(**outer))


def deletion(operator: Operator, *accounts: Account, signer: Key | None = None) -> str:
    key = signer or operator.key
    body = {"accounts": [one.public for one in accounts]}  # nsc names no type
    return encode({"sub": key.public, "nats": body}, key)


def updated(account: Account) -> dict[str, Any]:
    return {"account": account.public, "code": 200, "message": "jwt updated"}


@both
def test_a_pushed_account_is_there_at_once_and_after_a_restart(kind: str) -> None:
    """nsc push brings an account; its file is where nats-server has it, and a restart finds it."""
    operator = Operator()
    account = operator.account("A")
    user = account.user("u")
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        assert [VIOLATION, "closed"] == Peer(server, user).lines()
        assert updated(account) == push(system, account)
        assert [] == Peer(server, user).lines()
        for subject in (
            f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE",
            f"$SYS.ACCOUNT.{account.public}.CLAIMS.UPDATE",
        ):
            assert updated(account) == answer(system, subject, account.token())
        kept = (server.directory / "jwt" / f"{account.public}.jwt").read_text()
        assert account.public in json.loads(system.answers("$SYS.REQ.CLAIMS.LIST")[0])["data"]
        assert kept.encode() == system.answers(f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.LOOKUP")[0]
        server.stop()
        server.start()
        assert [] == Peer(server, user).lines()


@both
def test_a_server_without_any_account_can_be_given_them(kind: str) -> None:
    """With an empty directory a user of the system account can log in and push, its own account first."""
    operator = Operator()
    account = operator.account("A")
    with running(kind, full(operator, preload=False)) as server:
        system = Peer(server, operator.system.user("s"))
        assert [] == system.lines()
        assert updated(operator.system) == push(system, operator.system)
        assert updated(account) == push(Peer(server, operator.system.user("t")), account)
        assert [] == Peer(server, account.user("u")).lines()


@both
def test_what_is_no_jwt_of_the_operator_is_refused(kind: str) -> None:
    """Errors come as answers, and what they refuse leaves everything as it was."""
    operator = Operator()
    account, faulty = operator.account("A"), operator.account("F", exports=0).export("x")
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        for body in ("", "e.y.J"):
            found = answer(system, "$SYS.REQ.CLAIMS.UPDATE", body)
            assert ("n/a", 500) == (found["account"], found["code"])
            assert found["description"].startswith("jwt update resulted in error - ")
        for subject in ("$SYS.REQ.CLAIMS.UPDATE", f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE"):
            found = answer(system, subject, "garbage")
            assert ("n/a", "jwt update resulted in error - expected 3 chunks") == (
                found["account"],
                found["description"],
            )
        found = push(system, faulty)
        reason = "[the account contains more exports than allowed by the operator]"
        assert (faulty.public, f"jwt validation failed - validation errors: {reason}") == (
            found["account"],
            found["description"],
        )
        found = answer(system, f"$SYS.REQ.ACCOUNT.{operator.system.public}.CLAIMS.UPDATE", account.token())
        assert "jwt update resulted in error - subject does not match jwt content" == found["description"]
        assert operator.system.public == found["account"]
        stranger = Operator("X").account("XA")
        push(system, stranger)
        assert [VIOLATION, "closed"] == Peer(server, stranger.user("u")).lines()
        assert [] == Peer(server, account.user("u")).lines()


def test_only_the_operator_can_sign_what_is_kept() -> None:
    """A JWT that the account itself or a stranger has signed is not kept. nats-server keeps it, and the account is lost
    with its next start."""
    operator = Operator()
    account = operator.account("A")
    with running(LEAFD, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        for token in (account.token(signer=account.key), Operator("X").account("XA").token()):
            found = answer(system, "$SYS.REQ.CLAIMS.UPDATE", token)
            assert "jwt update resulted in error - not signed by a trusted operator" == found["description"]
        server.stop()
        server.start()
        assert [] == Peer(server, account.user("u")).lines()


@both
def test_users_feel_a_new_jwt_at_once(kind: str) -> None:
    """A revoked user is told and closed, other users stay, and what the account imports is there."""
    operator = Operator()
    account, other = operator.account("A"), operator.account("B").export("svc")
    revoked, stays = account.user("u"), account.user("v")
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, other), push(system, account)
        first, second, service = Peer(server, revoked), Peer(server, stays), Peer(server, other.user("o"))
        assert [[], [], []] == [first.lines(), second.lines(), service.lines()]
        service.say("SUB svc 1")
        assert [] == service.lines()
        account.nats["revocations"] = {revoked.key.public: issued()}
        account.imported(other, "svc", local_subject="mine")
        assert updated(account) == push(system, account)
        assert ["-ERR 'User Authentication Revoked'", "closed"] == first.lines()
        second.say("PUB mine 2\r\nhi")
        assert [] == second.lines()
        assert "svc 1 " in service.line()


@both
def test_an_older_jwt_can_be_pushed(kind: str) -> None:
    """What the operator pushes is what counts, also when it was issued before what is there."""
    operator = Operator()
    account = operator.account("A")
    user = account.user("u", outer={"iat": 1000})
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        assert [] == Peer(server, user).lines()
        account.nats["revocations"] = {user.key.public: 2000}
        assert 200 == push(system, account, iat=1000)["code"]
        assert [VIOLATION, "closed"] == Peer(server, user).lines()
        server.stop()
        server.start()
        assert [VIOLATION, "closed"] == Peer(server, user).lines()


@both
def test_deleted_accounts(kind: str) -> None:
    """What an operator deletes is gone with its users; the file is kept under another name, and a push brings it
    back."""
    operator = Operator()
    account, unknown = operator.account("A"), operator.account("B")
    user = account.user("u")
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        client = Peer(server, user)
        assert [] == client.lines()

        def delete(body: str) -> Any:
            return answer(system, "$SYS.REQ.CLAIMS.DELETE", body)

        by = f"delete accounts request by {account.public} failed - not trusted"
        assert {"code": 500, "description": by} == delete(deletion(operator, account, signer=account.key))
        by = f"delete accounts request by {operator.key.public} failed - not allowed to delete system account"
        assert {"code": 500, "description": by} == delete(deletion(operator, operator.system))
        assert delete("e.y.J")["description"].startswith("delete accounts request by  failed - ")
        assert {"code": 200, "message": "deleted 2 accounts"} == delete(deletion(operator, account, unknown))
        assert ["-ERR 'Account Authentication Expired'", "closed"] == client.lines()
        assert (server.directory / "jwt" / f"{account.public}.jwt.deleted").exists()
        assert not (server.directory / "jwt" / f"{account.public}.jwt").exists()
        assert [VIOLATION, "closed"] == Peer(server, user).lines()
        assert updated(account) == push(system, account)
        assert [] == Peer(server, user).lines()


@both
def test_deletion_has_to_be_allowed(kind: str) -> None:
    """Without allow_delete nothing is deleted."""
    operator = Operator()
    account = operator.account("A")
    with running(kind, full(operator, delete=False)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        found = answer(system, "$SYS.REQ.CLAIMS.DELETE", deletion(operator, account))
        refused = f"delete accounts request by {operator.key.public} failed - delete must be enabled in server config"
        assert (500, refused) == (found["code"], found["description"])
        assert [] == Peer(server, account.user("u")).lines()


@both
def test_only_keys_are_looked_up(kind: str) -> None:
    """What is not an account's key is not answered; a key that nobody has is, with nothing."""
    operator = Operator()
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        assert [b""] == system.answers(f"$SYS.REQ.ACCOUNT.{operator.account('A').public}.CLAIMS.LOOKUP")
        with pytest.raises(TimeoutError):
            system.answers("$SYS.REQ.ACCOUNT.NOTAKEY.CLAIMS.LOOKUP", seconds=1)


@both
def test_a_report_says_which_exports_take_a_token(kind: str) -> None:
    """accountz of an account with a private export and a public one."""
    operator = Operator()
    account = operator.account("A").export("public").export("private", token_req=True)
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        assert [] == Peer(server, account.user("u")).lines()
        found = answer(system, "$SYS.REQ.SERVER.PING.ACCOUNTZ", json.dumps({"account": account.public}))
        exports = found["account_detail"]["exports"]
        assert {"public": False, "private": True} == {one["subject"]: one.get("token_req", False) for one in exports}


@both
def test_all_accounts_are_handed_to_who_has_others(kind: str) -> None:
    """PACK brings every account and an empty message at the end; that alone for who has the same ones."""
    operator = Operator()
    account = operator.account("A")
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, account)
        *found, last = system.answers("$SYS.REQ.CLAIMS.PACK", count=3)
        tokens = dict(one.decode().split("|") for one in found)
        assert ({operator.system.public, account.public}, b"") == (set(tokens), last)
        combined = 0
        for token in tokens.values():
            combined ^= int.from_bytes(hashlib.sha256(token.encode()).digest(), "big")
        assert [b""] == system.answers("$SYS.REQ.CLAIMS.PACK", combined.to_bytes(32, "big"))
        assert [b""] == system.answers(f"$SYS.REQ.ACCOUNT.{operator.account('C').public}.CLAIMS.LOOKUP")


def heard_until_closed(peer: Peer) -> tuple[list[str], float]:
    lines: list[str] = []
    try:
        while True:
            line = peer.line()
            if line == "PING":
                peer.say("PONG")
            elif line != "PONG" and not line.startswith("INFO"):
                lines.append(line)
    except EOFError:
        return lines, time.time()


@both
def test_expiry_comes_at_its_second(kind: str) -> None:
    """A user and an account are closed in the second that their JWTs name, with the reference's words."""
    operator = Operator()
    a, b = operator.account("A"), operator.account("B")
    end = int(time.time()) + 6  # on a busy machine a server and two logins take seconds
    b.outer["exp"] = end
    with running(kind, HEAD + operator.configuration()) as server:
        user, of_account = Peer(server, a.user("u", outer={"exp": end})), Peer(server, b.user("v"))
        assert [[], []] == [user.lines(), of_account.lines()]
        watch, left = Stopwatch(server), end - time.time()
        for peer, text in ((user, "User Authentication Expired"), (of_account, "Account Authentication Expired")):
            lines, closed = heard_until_closed(peer)
            assert [f"-ERR '{text}'"] == lines
            assert end - 1 <= closed
            assert watch.seconds() < left + 1.5
        assert [VIOLATION, "closed"] == Peer(server, b.user("w")).lines()


@both
def test_a_memory_resolver_takes_updates_of_what_it_has(kind: str) -> None:
    """An account of the configuration can be updated until the next start; another one is skipped."""
    operator = Operator()
    account = operator.account("A")
    configuration = operator.configuration()
    unknown = operator.account("B")
    user = account.user("u")
    with running(kind, HEAD + configuration) as server:
        system, client = Peer(server, operator.system.user("s")), Peer(server, user)
        assert [] == client.lines()
        subject = f"$SYS.REQ.ACCOUNT.{unknown.public}.CLAIMS.UPDATE"
        assert "jwt update skipped" == answer(system, subject, unknown.token())["message"]
        account.nats["revocations"] = {user.key.public: issued()}
        subject = f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE"
        assert updated(account) == answer(system, subject, account.token())
        assert ["-ERR 'User Authentication Revoked'", "closed"] == client.lines()


def test_a_reload_gives_the_server_a_directory() -> None:
    """From the memory to a directory: what is known is there, and accounts can be pushed from then on."""
    operator = Operator()
    account, token = operator.account("A"), operator.token()
    text = with_token(operator, token)
    with running(LEAFD, text) as server:
        client = Peer(server, account.user("u"))
        assert [] == client.lines()
        assert "Reloaded" in reload(server, text.replace("MEMORY", '{ type: full, dir: "./jwt" }'))
        new = operator.account("B")
        assert updated(new) == push(Peer(server, operator.system.user("s")), new)
        assert [[], []] == [client.lines(), Peer(server, new.user("v")).lines()]
        assert 3 == len(list((server.directory / "jwt").glob("*.jwt")))


# ---- resolvers elsewhere


class _Accounts(http.server.BaseHTTPRequestHandler):
    tokens: ClassVar[dict[str, str]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self.asked.append(name)
        token = self.tokens.get(name)
        self.send_response(200 if token is not None or not name else 404)
        self.end_headers()
        self.wfile.write((token or "").encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def account_server(operator: Operator, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """An HTTP server with the operator's accounts: its address, and who was asked for."""
    handler = type(
        "Accounts", (_Accounts,), {"tokens": {one.public: one.token() for one in operator.accounts}, "asked": []}
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{server.server_port}/jwt/v1/accounts/", handler.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@both
def test_accounts_by_http(kind: str) -> None:
    """A URL resolver is asked when an account is first needed, with what that imports of."""
    operator = Operator()
    exporter = operator.account("E").export("svc")
    importer = operator.account("I").imported(exporter, "svc")
    with account_server(operator) as (url, asked):
        configuration = (
            f"operator: {operator.token()}\nsystem_account: {operator.system.public}\nresolver: URL({url})\n"
        )
        with running(kind, HEAD + configuration) as server:
            client, service = Peer(server, importer.user("u")), Peer(server, exporter.user("v"))
            assert [[], []] == [client.lines(), service.lines()]
            service.say("SUB svc 1")
            assert [] == service.lines()
            client.say("PUB svc 2\r\nhi")
            assert "svc 1 " in service.line()
            assert [VIOLATION, "closed"] == Peer(server, Operator("X").account("XA").user("x")).lines()
            assert {importer.public, exporter.public} <= set(asked)


@both
def test_accounts_by_https(kind: str, tmp_path: Path) -> None:
    """With resolver_tls, a URL resolver is asked over TLS: it has to be whom ca_file vouches for, and sees the
    certificate that it asks for."""
    operator, authority = Operator(), Authority(tmp_path)
    account, own, shown = operator.account("A"), authority.issue("accounts"), authority.issue("box")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(own.certificate), str(own.key))
    context.load_verify_locations(str(authority.certificate))
    context.verify_mode = ssl.CERT_REQUIRED
    with account_server(operator, context) as (url, asked):
        configuration = (
            f"operator: {operator.token()}\nsystem_account: {operator.system.public}\nresolver: URL({url})\n"
            f'resolver_tls {{ ca_file: "{authority.certificate}", cert_file: "{shown.certificate}",'
            f' key_file: "{shown.key}" }}\n'
        )
        with running(kind, HEAD + configuration) as server:
            assert [] == Peer(server, account.user("u")).lines()
        assert account.public in asked
        stranger = Authority(tmp_path, "stranger")
        asked.clear()
        trusts_another = configuration.replace(str(authority.certificate), str(stranger.certificate))
        if kind == LEAFD:  # the reference does not start
            with running(kind, HEAD + trusts_another) as server:
                assert [VIOLATION, "closed"] == Peer(server, account.user("u")).lines()
            assert not asked


@both
@pytest.mark.parametrize(("word", "taken_by_reference"), [
    ("curve_preferences: [CurveP384]", False), (f'pinned_certs: ["{"ab" * 32}"]', True),
    ("cipher_suites: [TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]", False),
])  # fmt: skip
def test_what_of_resolver_tls_has_no_effect(kind: str, word: str, taken_by_reference: bool, tmp_path: Path) -> None:
    """An account server with TLS 1.2, one suite and one group: leafd asks it whatever of these its configuration names;
    nats-server does not start where it offers others. Neither looks at pinned_certs there."""
    operator, authority = Operator(), Authority(tmp_path)
    account, own = operator.account("A"), authority.issue("accounts")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(own.certificate), str(own.key))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    context.set_ecdh_curve("prime256v1")
    with account_server(operator, context) as (url, asked):
        configuration = (
            f"operator: {operator.token()}\nsystem_account: {operator.system.public}\nresolver: URL({url})\n"
            f'resolver_tls {{ ca_file: "{authority.certificate}", {word} }}\n'
        )
        if kind == LEAFD or taken_by_reference:
            with running(kind, HEAD + configuration) as server:
                assert [] == Peer(server, account.user("u")).lines()
            assert account.public in asked
        else:
            with pytest.raises(ServerDied), running(kind, HEAD + configuration):
                pass


def test_a_box_starts_while_its_account_server_cannot_be_reached() -> None:
    """Nobody logs in until it can; nats-server does not start at all."""
    operator = Operator()
    configuration = f"operator: {operator.token()}\nresolver: URL(http://127.0.0.1:1/)\n"
    with running(LEAFD, HEAD + configuration) as server:
        assert [VIOLATION, "closed"] == Peer(server, operator.account("A").user("u")).lines()


def linked(operator: Operator, hub: Server, creds: Path) -> str:
    """A server with a cache, whose system account is linked to a hub's."""
    url = f"nats-leaf://127.0.0.1:{hub.ports['leaf_port']}"
    remote = f'{{ url: "{url}", credentials: "{creds}", account: {operator.system.public} }}'
    return (
        HEAD + f"operator: {operator.token()}\nsystem_account: {operator.system.public}\n"
        f"resolver_preload: {{ {operator.system.public}: {operator.system.token()} }}\n"
        'resolver: { type: cache, dir: "{directory}/jwt", timeout: "1.5s" }\n'
        f"leafnodes {{ remotes: [ {remote} ] }}\n"
    )


@pytest.mark.parametrize("hub_kind", [LEAFD, REFERENCE])
def test_a_box_with_a_cache_asks_its_hub(hub_kind: str, tmp_path: Path) -> None:
    """Over a link of the system account a box looks accounts up at its hub, keeps them, and needs no hub for those it
    has."""
    operator = Operator()
    account = operator.account("A")
    user = account.user("u")
    creds = operator.system.user("box").creds(tmp_path / "box.creds")
    with running(hub_kind, full(operator) + 'leafnodes { listen: "127.0.0.1:{leaf_port}" }\n') as hub:
        push(Peer(hub, operator.system.user("s")), account)
        with running(LEAFD, linked(operator, hub, creds)) as box:
            eventually(lambda: Peer(box, user).lines() == [], lambda: box.log)
            assert (box.directory / "jwt" / f"{account.public}.jwt").exists()
            hub.stop()
            box.stop()
            box.start()
            assert [] == Peer(box, user).lines()


@both
def test_an_activation_ends_at_its_second(kind: str) -> None:
    """What is imported by an activation can be had until its time is over, or it is revoked by the exporter."""
    operator = Operator()
    exporter = operator.account("E").export("svc", token_req=True)
    importer = operator.account("I")
    later = operator.account("L")
    later.imported(exporter, "svc", token=exporter.activation(later, "svc", "service"))
    with running(kind, full(operator)) as server:
        system = Peer(server, operator.system.user("s"))
        push(system, exporter), push(system, later)
        service, other = (Peer(server, one.user("u")) for one in (exporter, later))
        service.say("SUB svc 1")
        assert [[], []] == [service.lines(), other.lines()]

        def reaches(peer: Peer) -> bool:
            peer.say("PUB svc 2\r\nhi")
            assert [] == peer.lines()
            return any("svc 1 " in line for line in service.lines())

        for seconds in (3, 10, 30):  # on a slow machine it may be over before it is used
            end = int(time.time()) + seconds
            importer.nats["imports"] = []
            importer.imported(exporter, "svc", token=exporter.activation(importer, "svc", "service", exp=end))
            push(system, importer)
            client = Peer(server, importer.user("u"))
            if (reached := reaches(client)) and time.time() < end:
                break
        assert [True, True] == [reached, reaches(other)]
        while time.time() < end + 1.2:
            time.sleep(0.1)
        assert [False, True] == [reaches(client), reaches(other)]
        exporter.nats["exports"][0]["revocations"] = {later.public: int(time.time())}
        assert updated(exporter) == push(system, exporter)
        assert not reaches(other)


@pytest.mark.parametrize("hub_kind", [LEAFD, REFERENCE])
def test_two_full_resolvers_come_to_have_the_same(hub_kind: str, tmp_path: Path) -> None:
    """A box with a full resolver learns from its hub what it missed while it was away, and what is pushed while it is
    there."""
    operator = Operator()
    early, late = operator.account("early"), operator.account("late")
    creds = operator.system.user("box").creds(tmp_path / "box.creds")
    with running(hub_kind, full(operator) + 'leafnodes { listen: "127.0.0.1:{leaf_port}" }\n') as hub:
        system = Peer(hub, operator.system.user("s"))
        push(system, early)
        configuration = linked(operator, hub, creds).replace("type: cache", 'type: full, interval: "1s"')
        with running(LEAFD, configuration) as box:

            def until_it_has(account: Account) -> None:
                eventually((box.directory / "jwt" / f"{account.public}.jwt").exists, lambda: box.log)

            until_it_has(early)
            system.say(
                "SUB _INBOX.all 1", f"PUB $SYS.REQ.CLAIMS.UPDATE _INBOX.all {len(late.token())}\r\n{late.token()}"
            )
            until_it_has(late)
            assert [] == Peer(box, late.user("u")).lines()


def test_streams_wait_for_their_account(tmp_path: Path) -> None:
    """Streams of an account that cannot be looked up at a start are served as soon as it can: nothing is lost."""
    operator = Operator()
    account = operator.account("A", disk_storage=-1)
    user = account.user("u")
    store = f'jetstream {{ store_dir: "{tmp_path}/store" }}\n'
    with account_server(operator) as (url, _):
        configuration = HEAD + store + f"operator: {operator.token()}\nresolver: URL({url})\n"
        with running(LEAFD, configuration) as server:
            peer = Peer(server, user)
            assert b'"did_create":true' in peer.answers("$JS.API.STREAM.CREATE.S", '{"name":"S","subjects":["s"]}')[0]
            assert b'"seq":1' in peer.answers("s", "kept")[0]
            pull = '{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}'
            assert b'"error"' not in peer.answers("$JS.API.CONSUMER.DURABLE.CREATE.S.C", pull)[0]
    unreachable = configuration.replace(url, "http://127.0.0.1:1/")
    with running(LEAFD, unreachable) as server:
        assert [VIOLATION, "closed"] == Peer(server, user).lines()
        with account_server(operator) as (url, _):
            assert "Reloaded" in reload(server, unreachable.replace("http://127.0.0.1:1/", url))
            eventually(lambda: Peer(server, user).lines() == [], lambda: server.log)
            peer = Peer(server, user)
            info = json.loads(peer.answers("$JS.API.STREAM.INFO.S")[0])
            assert (1, 1) == (info["state"]["messages"], info["state"]["consumer_count"])
            assert b"kept" in b"".join(peer.answers("$JS.API.CONSUMER.MSG.NEXT.S.C"))
