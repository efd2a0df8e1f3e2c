"""Operator mode, with leafd and with the reference: the same JWTs, and the same people get in, with the same rights.

JWTs are made here as nsc makes them, so these tests run without it. Not here: single
rules of verdicts (unit/auth/test_trust.py).
"""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.jwt_peer import HEAD, VIOLATION, Peer, close_all
from tests.jwts import Account, Key, Operator, User, encode
from tests.rig.waiting import eventually
from tests.servers import KINDS, LEAFD, Server, running


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


# ---- a limit that is none


@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_of_data_is_not_enforced(kind: str) -> None:
    """An account or a user that may have a byte of data in all publishes more, with the reference as well."""
    operator = Operator()
    user = operator.account("A", data=1).user("u", data=1)
    with running(kind, HEAD + operator.configuration()) as server:
        peer = Peer(server, user)
        peer.say("SUB x 1", "PUB x 5\r\nhello", "PUB x 5\r\nworld")
        assert ["MSG x 1 5", "hello", "MSG x 1 5", "world"] == peer.lines()


# ---- who gets in


class Cases:
    """One operator with the accounts that the cases below need, and the cases: name, user, is it admitted."""

    def __init__(self) -> None:
        self.operator = Operator("O")
        self.found: list[tuple[str, User | None, bool, dict[str, object]]] = []
        self.plain = self.operator.account("plain")
        for fill in (self.logins, self.keys, self.times, self.accounts, self.networks, self.scopes, self.rules):
            fill()

    def case(self, name: str, by: User | None, expected: bool, **fields: object) -> None:
        self.found.append((name, by, expected, fields))

    def logins(self) -> None:
        a, user = self.plain, self.plain.user("u")
        self.case("a user", user, True)
        self.case("no JWT", None, False)
        self.case("user and password", None, False, user="u", **{"pass": "p"})
        self.case("no signature", user, False, sig="")
        self.case("another's signature", user, False, sig=a.user("v").connect("n")["sig"])
        self.case("nonsense", user, False, jwt="e.y.J")
        self.case("an account's JWT", user, False, jwt=a.token())
        self.case("a bearer", a.user("u", bearer_token=True), True, sig="")
        self.case("an unknown account", Operator("X").account("XA").user("x"), False)
        strict = self.operator.account("no bearers", disallow_bearer=True)
        self.case("a bearer where none is taken", strict.user("u", bearer_token=True), False)
        self.case("signed by the operator", a.user("u", signer=self.operator.key), False)

    def keys(self) -> None:
        key = Key("account")
        account = self.operator.account("with a signing key")
        account.nats["signing_keys"] = [key.public]
        self.case("signed by a signing key", account.user("u", signer=key), True)
        self.case("signed by a stranger's key", account.user("u", signer=Key("account")), False)
        self.case("signed by another account's key", self.plain.user("u", signer=key), False)

    def times(self) -> None:
        a, now = self.plain, int(time.time())
        self.case("expired", a.user("u", outer={"exp": now - 1}), False)
        self.case("expires later", a.user("u", outer={"exp": now + 600}), True)
        self.case("not yet valid", a.user("u", outer={"nbf": now + 600}), False)
        for name, start, end, zone, expected in (
            ("within its hours", -600, 600, "", True),
            ("after its hours", -1200, -600, "", False),
            ("before its hours", 600, 1200, "", False),
            ("within its hours, by another clock", -600, 600, "Asia/Kolkata", True),
            ("in no zone", -600, 600, "Nowhere/Land", False),
        ):
            shift = 5.5 * 3600 if zone.startswith("Asia") else 0
            ends = [time.strftime("%H:%M:%S", time.gmtime(now + shift + one)) for one in (start, end)]
            hours = [{"start": ends[0], "end": ends[1]}]
            if ends[0] < ends[1]:  # not around midnight, where the reference gives up
                self.case(name, a.user("u", times=hours, times_location=zone), expected)

    def accounts(self) -> None:
        now = int(time.time())
        account = self.operator.account("revokes")
        early, late = (account.user("u", outer={"iat": now - age}) for age in (1000, 10))
        account.nats["revocations"] = {early.key.public: now - 1000, late.key.public: now - 500}
        self.case("revoked", early, False)
        self.case("issued after its revocation", late, True)
        everybody = self.operator.account("revokes all")
        everybody.nats["revocations"] = {"*": now - 500}
        self.case("revoked with all", everybody.user("u", outer={"iat": now - 1000}), False)
        self.case("issued after the revocation of all", everybody.user("u", outer={"iat": now - 10}), True)
        over = self.operator.account("expired")
        over.outer["exp"] = now - 1
        self.case("of an expired account", over.user("u"), False)

    def networks(self) -> None:
        a = self.plain
        self.case("from its network", a.user("u", src=["10.0.0.0/8", "127.0.0.0/8"]), True)
        self.case("from another network", a.user("u", src=["10.0.0.0/8"]), False)
        self.case("not through its proxy", a.user("u", proxy_required=True), False)
        self.case("as a client", a.user("u", allowed_connection_types=["STANDARD"]), True)
        self.case("as a client in small letters", a.user("u", allowed_connection_types=["standard"]), True)
        self.case("as something else", a.user("u", allowed_connection_types=["WEBSOCKET"]), False)
        self.case("as something unknown", a.user("u", allowed_connection_types=["LATER"]), False)
        self.case("as a client or something unknown", a.user("u", allowed_connection_types=["STANDARD", "LATER"]), True)

    def scopes(self) -> None:
        def scoped(name: str, template: dict[str, Any], expected: bool, **nats: Any) -> None:
            key, account = Key("account"), self.operator.account(name)
            template = {"subs": -1, "data": -1, "payload": -1} | template
            account.nats["signing_keys"] = [
                {"kind": "user_scope", "key": key.public, "role": "r", "template": template}
            ]
            self.case(name, account.user("u", signer=key, scoped=True, **nats), expected)

        scoped("scoped", {"pub": {"allow": ["{{name()}}.>"]}}, True)
        scoped("scoped, with limits of its own", {}, False, subs=3)
        scoped("scoped, with permissions of its own", {}, False, pub={"allow": ["x"]})
        scoped("scoped, a tag that is missing from what is denied", {"pub": {"deny": ["{{tag(x)}}"]}}, False)
        scoped("scoped, a tag that is missing from what is allowed", {"pub": {"allow": ["{{tag(x)}}"]}}, True)
        scoped("scoped, something unknown", {"pub": {"allow": ["{{magic()}}"]}}, False)
        scoped("scoped, not as a client", {"allowed_connection_types": ["WEBSOCKET"]}, False)

    def rules(self) -> None:
        def account(name: str, expected: bool, limits: dict[str, Any] | None = None, **nats: Any) -> Account:
            made = self.operator.account(name, **(limits or {}))
            made.nats |= nats
            self.case(name, made.user("u"), expected)
            return made

        account("exports more than allowed", False, {"exports": 0}).export("x")
        account("exports a wildcard", False, {"exports": 5, "wildcards": False}).export("x.>")
        account("exports a wildcard without a limit", True, {"wildcards": False}).export("x.>")
        account("imports more than allowed", False, {"imports": 0}).imported(self.plain, "x")
        account("imports nothing that is exported", True).imported(self.plain, "x")
        account("exports a subject twice", False).export("x").export("x")
        account("exports a subject within another", False).export("x.>").export("x.y")
        account("a token position that is no wildcard", False).export("x.y", account_token_position=2)
        account("weights above 100", False, mappings={"a": [{"subject": "b", "weight": 60}] * 2})
        account("imports two services as one", False).imported(self.plain, "x", local_subject="z").imported(
            self.plain, "y", local_subject="z"
        )
        account("imports without an account", False, imports=[{"name": "x", "subject": "x", "type": "stream"}])
        account("shares a stream", False).imported(self.plain, "x", "stream", share=True)
        account("JetStream and tiers", True, {"disk_storage": -1, "tiered_limits": {"R1": {"disk_storage": 1}}})
        account("a signing key that is none", False, signing_keys=["OABC"])
        account("default permissions that are no subjects", False, default_permissions={"pub": {"allow": ["a b"]}})
        account("no connections", False, {"conn": 0})


@pytest.fixture(scope="module")
def cases() -> Cases:
    return Cases()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_users_get_in(kind: str, cases: Cases) -> None:
    """Whom nats-server admits, leafd admits, and nobody else."""
    wrong = []
    with running(kind, HEAD + cases.operator.configuration()) as server:
        for name, user, expected, fields in cases.found:
            lines = Peer(server, user, **fields).lines()
            text = VIOLATION if name != "no connections" else "-ERR 'maximum account active connections exceeded'"
            if lines != ([] if expected else [text, "closed"]):
                wrong.append((name, lines))

    assert [] == wrong


# ---- what they may do


def connect_info(peer: Peer) -> dict[str, Any]:
    """The INFO behind the first PONG."""
    peer.say("PING")
    while not (line := peer.line()).startswith("INFO "):
        assert line == "PONG"
    found: dict[str, Any] = json.loads(line.removeprefix("INFO "))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_limits_of_user_and_account(kind: str) -> None:
    """Subscriptions, size of messages and rights are those of the user's JWT, of its signing key's template, and of the
    account, whichever is less."""
    operator = Operator()
    key = Key("account")
    template = {"subs": 1, "data": -1, "payload": 20, "pub": {"allow": ["{{name()}}.>"]}}
    account = operator.account("A", payload=50, subs=3)
    account.nats["signing_keys"] = [{"kind": "user_scope", "key": key.public, "role": "r", "template": template}]
    with running(kind, HEAD + operator.configuration()) as server:
        for user, payload, most in (
            (account.user("own", payload=10, subs=2), 10, 2),
            (account.user("larger", payload=1000, subs=1000), 50, 3),
            (account.user("none"), 50, 3),
            (account.user("scoped", signer=key, scoped=True), 20, 1),
        ):
            peer = Peer(server, user)
            assert payload == connect_info(peer)["max_payload"]
            peer.say(*(f"SUB scoped.{number} {number}" for number in range(most + 1)))
            assert ["-ERR 'maximum subscriptions exceeded'"] == peer.lines()
            peer.say(f"PUB scoped.x {payload + 1}\r\n{'x' * (payload + 1)}")
            assert ["-ERR 'Maximum Payload Violation'", "closed"] == peer.lines()
        peer = Peer(server, account.user("scoped", signer=key, scoped=True))
        peer.say("PUB other.x 0\r\n")
        assert ["-ERR 'Permissions Violation for Publish to \"other.x\"'"] == peer.lines()


@pytest.mark.parametrize("kind", KINDS)
def test_connections_of_an_account(kind: str) -> None:
    """An account has as many connections as its JWT says, and a place is free again when one ends."""
    operator = Operator()
    account = operator.account("A", conn=2)
    with running(kind, HEAD + operator.configuration()) as server:
        first, second = Peer(server, account.user("a")), Peer(server, account.user("b"))
        assert [[], []] == [first.lines(), second.lines()]
        text = "-ERR 'maximum account active connections exceeded'"
        assert [text, "closed"] == Peer(server, account.user("c")).lines()
        first.socket.close()
        eventually(lambda: Peer(server, account.user("c")).lines() == [], "its place is not given to the next")


@pytest.mark.parametrize("kind", KINDS)
def test_pinned_accounts_and_the_sentinel(kind: str) -> None:
    """Where accounts are pinned, users of others are refused; whoever brings no JWT is the default sentinel."""
    operator = Operator()
    pinned, other = operator.account("P"), operator.account("X")
    guest = pinned.user("guest", bearer_token=True, pub={"deny": ["secret"]})
    more = f"resolver_pinned_accounts: [{pinned.public}]\ndefault_sentinel: {guest.token}\n"
    with running(kind, HEAD + operator.configuration() + more) as server:
        assert [] == Peer(server, pinned.user("u")).lines()
        assert [] == Peer(server, operator.system.user("s")).lines()
        assert [VIOLATION, "closed"] == Peer(server, other.user("u")).lines()
        nobody = Peer(server)
        nobody.say("PUB secret 0\r\n")
        assert ["-ERR 'Permissions Violation for Publish to \"secret\"'"] == nobody.lines()


@pytest.mark.parametrize("kind", KINDS)
def test_trusted_keys_stand_for_an_operator(kind: str) -> None:
    """Public keys vouch for accounts without an operator's JWT, and accounts that another has signed are refused."""
    operator = Operator()
    account, system = operator.account("A"), operator.system
    stranger = Operator("X")
    accounts = ((one.public, one.token()) for one in (account, system))
    preload = "\n".join(f"{name}: {token}" for name, token in accounts)
    text = f"trusted_keys: [{operator.key.public}]\nsystem_account: {system.public}\nresolver: MEMORY\n"
    with running(kind, f"{HEAD}{text}resolver_preload: {{\n{preload}\n}}\n") as server:
        assert [] == Peer(server, account.user("u")).lines()
        assert [VIOLATION, "closed"] == Peer(server, stranger.account("XA").user("x")).lines()


@pytest.mark.parametrize("kind", KINDS)
def test_who_am_i(kind: str) -> None:
    """A user is told its key, its account's key, and the names of both."""
    operator = Operator()
    user = (account := operator.account("A")).user("u")
    with running(kind, HEAD + operator.configuration()) as server:
        found = json.loads(Peer(server, user).answers("$SYS.REQ.USER.INFO")[0])["data"]
        wanted = {"user": user.key.public, "account": account.public, "account_name": "A", "user_name": "u"}
        assert wanted == {name: found[name] for name in wanted}


# ---- a reload


def reload(server: Server, configuration: str) -> str:
    """What the log says of a reload."""
    before = len(server.log)
    (server.directory / "server.conf").write_text(configuration.replace("{port}", str(server.port)))
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)
    outcome = re.compile(r"(Reloaded|Failed to reload) server configuration.*")
    found = eventually(lambda: outcome.search(server.log[before:]), lambda: server.log[before:])
    assert found is not None
    return found[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reload_takes_preloaded_accounts(kind: str) -> None:
    """An account that was preloaded comes with a reload, and a user that is revoked in its new JWT is closed."""
    operator = Operator()
    token = operator.token()
    account = operator.account("A")
    user = account.user("u")

    with running(kind, with_token(operator, token)) as server:
        client = Peer(server, user)
        assert [] == client.lines()
        new = operator.account("B")
        assert "Reloaded" in reload(server, with_token(operator, token))
        assert [] == Peer(server, new.user("b")).lines()
        assert [] == client.lines()
        account.nats["revocations"] = {user.key.public: int(time.time()) + 1}
        assert "Reloaded" in reload(server, with_token(operator, token))
        assert [VIOLATION, "closed"] == Peer(server, user).lines()
        if kind == LEAFD:
            assert ["-ERR 'User Authentication Revoked'", "closed"] == client.lines()


def with_token(operator: Operator, token: str) -> str:
    """A configuration with the operator's JWT as it was before: it differs in its time otherwise."""
    text = HEAD + operator.configuration()
    return re.sub(r"operator: \S+", f"operator: {token}", text)


@pytest.mark.parametrize("kind", KINDS)
def test_what_takes_a_restart(kind: str) -> None:
    """Another operator, and other accounts than those of JWTs, are refused as a whole."""
    operator = Operator()
    account = operator.account("A")
    text = HEAD + operator.configuration()
    with running(kind, text) as server:
        client = Peer(server, account.user("u"))
        for other in (
            HEAD + "accounts { A { users: [{user: a, password: a}] } }\n",
            HEAD + Operator("P").configuration(),
        ):
            assert "Failed" in reload(server, other)
            assert [] == client.lines()
    with running(kind, HEAD + "accounts { A { users: [{user: a, password: a}] } }\n") as server:
        assert "Failed" in reload(server, text)


# ---- what is told of them


@pytest.mark.parametrize("kind", KINDS)
def test_reports_know_the_jwts(kind: str) -> None:
    """connz, accountz, accstatz, jsz and varz name keys, tags and JWTs of users, accounts and operators. What an
    account asks of JetStream that it does not have is counted nowhere."""
    operator = Operator()
    key = Key("account")
    account, without = operator.account("A", mem_storage=-1, disk_storage=-1), operator.account("B")
    account.nats |= {"signing_keys": [key.public], "tags": ["site:north"], "revocations": {Key("user").public: 100}}
    user = account.user("u", signer=key, tags=["x:y"])
    head = HEAD + 'http: "127.0.0.1:{http_port}"\njetstream { store_dir: "{store}" }\n'
    with running(kind, head + operator.configuration()) as server:

        def page(name: str) -> dict[str, Any]:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/{name}", timeout=5) as found:
                read: dict[str, Any] = json.load(found)
                return read

        assert [] == Peer(server, user).lines()
        (connection,) = page("connz?auth=1")["connections"]
        wanted: dict[str, Any] = {
            "authorized_user": user.key.public,
            "account": account.public,
            "jwt": user.token,
            "issuer_key": key.public,
            "name_tag": "A",
            "tags": ["x:y"],
        }
        assert wanted == {name: connection[name] for name in wanted}
        detail = page(f"accountz?acc={account.public}")["account_detail"]
        wanted = {"name_tag": "A", "issuer_key": operator.key.public, "tags": ["site:north"], "expired": False,
                  "complete": True}  # fmt: skip
        assert wanted == {name: detail[name] for name in wanted}
        assert ["1970-01-01T00:01:40Z"] == list(detail["revoked_user"].values())
        assert account.public == detail["decoded_jwt"]["sub"]
        assert 10039 == answers(Peer(server, without.user("v")), "STREAM.NAMES")
        assert not {"tags", "revoked_user"} & set(page(f"accountz?acc={without.public}")["account_detail"])
        stats = {one["acc"]: one["name"] for one in page("accstatz?unused=1")["account_statz"]}
        assert ("A", "B") == (stats[account.public], stats[without.public])
        assert answers(Peer(server, user), "INFO")["limits"]
        jsz = page(f"jsz?acc={account.public}")
        found = jsz["account_details"][0]
        assert ("A", account.public, 1) == (found["name"], found["id"], jsz["api"]["total"])
        assert "eyJ" == detail["jwt"][:3]
        varz = page("varz")
        assert operator.key.public == varz["trusted_operators_claim"][0]["sub"]
        assert varz["auth_required"]


def test_a_bearers_jwt_is_in_no_report() -> None:
    """Whoever has a bearer's JWT can log in with it, so that it is not shown. nats-server shows it."""
    operator = Operator()
    user = operator.account("A").user("u", bearer_token=True)
    with running(LEAFD, HEAD + 'http: "127.0.0.1:{http_port}"\n' + operator.configuration()) as server:
        assert [] == Peer(server, user).lines()
        url = f"http://127.0.0.1:{server.ports['http_port']}/connz?auth=1"
        with urllib.request.urlopen(url, timeout=5) as found:
            text = found.read().decode()
        assert user.key.public in text
        assert user.token not in text
        assert user.token not in server.log


# ---- JetStream by tiers


def answers(peer: Peer, subject: str, body: str = "") -> Any:
    found = json.loads(peer.answers(f"$JS.API.{subject}", body)[0])
    return found.get("error", {}).get("err_code") or found


@pytest.mark.parametrize("kind", KINDS)
def test_tiers_of_jetstream(kind: str) -> None:
    """Where limits are by number of replicas, streams of one replica have those of R1, or none at all."""
    operator = Operator()
    tiers = {"R1": {"disk_storage": 1000, "streams": 2, "disk_max_stream_bytes": 500}, "R3": {"disk_storage": 5000}}
    with_r1 = operator.account("A", tiered_limits=tiers)
    without = operator.account("B", tiered_limits={"R3": {"disk_storage": 5000}})
    store = 'jetstream { store_dir: "{store}" }\n'
    with running(kind, HEAD + store + operator.configuration()) as server:
        peer = Peer(server, with_r1.user("u"))
        found = []
        for name, more in (
            ("S", {"max_bytes": 400}),
            ("TOO_LARGE", {"max_bytes": 600}),
            ("MEMORY", {"storage": "memory"}),
            ("T", {"max_bytes": 400}),
            ("ONE_MORE", {"max_bytes": 100}),
        ):
            config = {"name": name, "subjects": [name]} | more
            found.append(answers(peer, f"STREAM.CREATE.{name}", json.dumps(config)))
        assert [10122, 10028, 10027] == [one for one in found if isinstance(one, int)]
        info = answers(peer, "INFO")
        assert (2, 800, 0) == (info["streams"], info["reserved_storage"], info["limits"]["max_storage"])
        assert (1000, 2, 500) == tuple(
            info["tiers"]["R1"]["limits"][name] for name in ("max_storage", "max_streams", "storage_max_stream_bytes")
        )
        assert (800, 0) == (info["tiers"]["R1"]["reserved_storage"], info["tiers"]["R3"]["reserved_storage"])
        peer = Peer(server, without.user("u"))
        assert 10120 == answers(peer, "STREAM.CREATE.S", '{"name":"S","subjects":["s"]}')
        assert {"R3"} == set(answers(peer, "INFO")["tiers"])


def test_metrics_name_what_each_tier_may_take() -> None:
    """Of leafd: what the account has taken, and what it may, by tier; the limit of 0 that reports show is no sample."""
    operator = Operator()
    tiers = {"R1": {"disk_storage": 1000, "mem_storage": -1}, "R3": {"disk_storage": 5000}}
    account = operator.account("A", tiered_limits=tiers)
    head = HEAD + 'http: "127.0.0.1:{http_port}"\njetstream { store_dir: "{store}" }\n'
    with running(LEAFD, head + operator.configuration()) as server:
        peer = Peer(server, account.user("u"))
        answers(peer, "STREAM.CREATE.S", '{"name":"S","subjects":["s"]}')
        assert json.loads(peer.answers("s", "x" * 69)[0])["seq"] == 1
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/metrics", timeout=5) as found:
            lines = found.read().decode().splitlines()
        samples = {}
        for line in lines:
            if line.startswith("leafd_account_tier_"):
                name, value = line.rsplit(" ", 1)
                samples[name.partition("{")[0], name.partition('tier="')[2][:2]] = float(value)
        unbounded = float(2**64 - 1)
        assert {
            ("leafd_account_tier_storage_used", "R1"): 100.0,  # of which 31 are subject and the message's own
            ("leafd_account_tier_storage_used", "R3"): 0.0,
            ("leafd_account_tier_max_storage", "R1"): 1000.0,
            ("leafd_account_tier_max_storage", "R3"): 5000.0,
            ("leafd_account_tier_memory_used", "R1"): 0.0,
            ("leafd_account_tier_memory_used", "R3"): 0.0,
            ("leafd_account_tier_max_memory", "R1"): unbounded,
            ("leafd_account_tier_max_memory", "R3"): 0.0,
        } == samples
        assert not [line for line in lines if line.startswith("jetstream_account_max_")]


def test_accounts_whose_jwts_grant_more_than_there_is_are_served_until_it_is_taken() -> None:
    """Of leafd: the server's own limit refuses what one of them would take of it. nats-server answers no request of the
    account that it hears of last."""
    operator = Operator()
    accounts = [operator.account(name, disk_storage=70_000, mem_storage=0, streams=-1) for name in "AB"]
    store = 'jetstream { store_dir: "{store}", max_file: 100K }\n'
    with running(LEAFD, HEAD + store + operator.configuration()) as server:
        stored = []
        for one in accounts:
            peer, count = Peer(server, one.user("u")), 0
            assert "config" in answers(peer, "STREAM.CREATE.S", '{"name":"S","subjects":["s"]}')
            while "error" not in (answer := json.loads(peer.answers("s", "x" * 968)[0])):  # 999 bytes as it is counted
                count += 1
            stored.append((count, answer["error"]["err_code"]))
        assert [(70_000 // 999, 10002), (100_000 // 999 - 70_000 // 999, 10023)] == stored


@pytest.mark.parametrize("kind", KINDS)
def test_users_of_version_1_have_the_limits_that_their_jwts_name_and_no_others(kind: str) -> None:
    """JWTs of that form were made until 2020, and long-lived ones are still in use: nothing said is no limit."""
    operator, key = Operator("O"), Key("account")
    account = operator.account("A")
    account.nats["signing_keys"] = [key.public]

    def user(signer: Key, nats: dict[str, Any], **outer: Any) -> User:
        own = Key("user")
        claims = {"sub": own.public, "name": "old", "type": "user", "nats": nats} | outer
        return User(own, encode(claims, signer, alg="ed25519"))

    tokens = "".join(f"{one.public}: {one.token()}\n" for one in (operator.system, account))
    text = f"operator: {operator.token()}\nsystem_account: {operator.system.public}\nresolver: MEMORY\n"
    with running(kind, f"{HEAD}{text}resolver_preload: {{\n{tokens}}}\n") as server:
        for one in (
            user(account.key, {"pub": {}, "sub": {}}),
            user(key, {"pub": {}, "sub": {}}, issuer_account=account.public),
        ):
            peer = Peer(server, one)
            peer.say("SUB foo 1", "SUB bar 2", "PUB foo 5", "hello")
            assert peer.lines() == ["MSG foo 1 5", "hello"]
        peer = Peer(server, user(account.key, {"subs": 1, "payload": 4}))
        peer.say("SUB foo 1", "SUB bar 2")
        assert peer.lines() == ["-ERR 'maximum subscriptions exceeded'"]
        peer.say("PUB foo 5", "hello")
        assert peer.lines()[0] == "-ERR 'Maximum Payload Violation'"
