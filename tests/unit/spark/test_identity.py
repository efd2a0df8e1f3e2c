"""Logins of every kind against real servers, and what a user is told who may not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from leafd_spark.identity import Login, NotIdentified
from leafd_spark.options import Options, parse_options
from leafd_spark.ranges import Range
from leafd_spark.source.reader import RangeReader
from leafd_spark.wire import Connection, Denied, Refused, parse_servers

from tests import jwts, servers
from tests.certificates import Authority

from .hub import Hub

KINDS = pytest.mark.parametrize("kind", servers.KINDS)


def greeted(url: str, login: Login) -> None:
    """Dials, and is served."""
    with Connection(parse_servers(url), login, "test", 20) as connection:
        assert connection.info["server_id"]


@KINDS
def test_an_nkey(kind: str, tmp_path: Path) -> None:
    """A seed, given as text or in a file, signs the server's nonce; another one is refused."""
    key, other = jwts.Key("user"), jwts.Key("user")
    assert key.public == Login(nkey=key.seed).fields("nonce")["nkey"]
    (tmp_path / "seed").write_text(key.seed + "\n")
    configuration = f"listen: 127.0.0.1:{{port}}\nauthorization {{ users: [ {{ nkey: {key.public} }} ] }}\n"
    with servers.running(kind, configuration) as server:
        greeted(server.url, Login(nkey=key.seed))
        greeted(server.url, Login(nkey=str(tmp_path / "seed")))
        with pytest.raises(Refused, match="Authorization Violation"):
            greeted(server.url, Login(nkey=other.seed))


@KINDS
def test_credentials(kind: str, tmp_path: Path) -> None:
    """A credentials file, by its name or as its text."""
    operator = jwts.Operator()
    user = operator.account("A").user("u")
    file = user.creds(tmp_path / "u.creds")
    with servers.running(kind, "listen: 127.0.0.1:{port}\n" + operator.configuration()) as server:
        greeted(server.url, Login(credentials=str(file)))
        greeted(server.url, Login(credentials=file.read_text()))
    fields = Login(credentials=file.read_text()).fields("nonce")
    assert (user.token, {"jwt", "sig"}) == (fields["jwt"], set(fields))


@KINDS
def test_certificates(kind: str, tmp_path: Path) -> None:
    """The server's certificate is checked against caFile, and the client's own is presented."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    mine, its = authority.issue("client"), authority.issue("server")
    configuration = (
        f'listen: 127.0.0.1:{{port}}\ntls {{ cert_file: "{its.certificate}", key_file: "{its.key}", '
        f'ca_file: "{authority.certificate}", verify: true }}\n'
    )
    ca, cert, key = str(authority.certificate), str(mine.certificate), str(mine.key)
    with servers.running(kind, configuration) as server:
        greeted(server.url, Login(ca_file=ca, cert_file=cert, key_file=key))
        texts = [Path(name).read_text() for name in (ca, cert, key)]
        greeted(server.url, Login(ca_file=texts[0], cert_file=texts[1], key_file=texts[2]))
        with pytest.raises(Refused, match="CERTIFICATE_VERIFY_FAILED"):
            greeted(server.url, Login(ca_file=str(stranger.certificate), cert_file=cert, key_file=key))
    plain = servers.running(kind, "listen: 127.0.0.1:{port}\n")
    with plain as server, pytest.raises(Refused, match="does not offer it"):
        greeted(server.url, Login(ca_file=ca))


@pytest.mark.parametrize(
    ("login", "said"),
    [
        (Login(nkey="/nowhere/seed"), "option nkey: No such file"),
        (Login(nkey="SU" + "A" * 56), "checksum"),
        (Login(credentials="-----BEGIN NATS USER JWT-----\nx\n"), "not a credentials file"),
        (Login(credentials="/nowhere/u.creds"), "option credentials: No such file"),
    ],
)
def test_what_cannot_be_a_login_is_said(login: Login, said: str) -> None:
    """A mistake in an option is named, and says nothing of the secret."""
    with pytest.raises(NotIdentified, match=said):
        login.fields("nonce")
    with pytest.raises(NotIdentified, match="caFile"):
        Login(ca_file="/nowhere/ca.pem").context()


def test_secrets_do_not_show() -> None:
    """A login's text, which ends up in logs, has no secret."""
    login = Login("u", "p4ss", "t0ken", nkey="SUX", credentials="creds", key_file="k3y")
    assert not [secret for secret in ("p4ss", "t0ken", "SUX", "creds", "k3y") if secret in repr(login)]


ACCOUNTS = """
listen: 127.0.0.1:{port}
jetstream {{ store_dir: "{store}" }}
authorization {{
  users: [
    {{ user: all, password: p }}
    {{ user: some, password: p, permissions: {{
        publish: {{ deny: [{denied}] }}
        subscribe: ["_INBOX.>"] }} }}
    {{ user: deaf, password: p, permissions: {{ subscribe: ["x"] }} }}
  ]
}}
"""


def reading(hub: Hub, user: str, **more: str) -> Options:
    given = {"servers": hub.server.url, "stream": "S", "user": user, "password": "p", "retrySeconds": "600"}
    return parse_options(given | more)


@KINDS
@pytest.mark.parametrize(
    "denied", ["$JS.API.STREAM.INFO.S", "$JS.API.DIRECT.GET.S", "$JS.API.STREAM.MSG.GET.S", "$JS.API.CONSUMER.CREATE.>"]
)
def test_a_permission_that_is_missing_is_named_at_once(kind: str, denied: str) -> None:
    """Whatever of the API a user may not use that reading needs, the query ends with its name, not after a while."""
    configuration = ACCOUNTS.replace("{denied}", f'"{denied}"').replace("{{", "{").replace("}}", "}")
    with servers.running(kind, configuration) as server:
        hub = Hub(server, {"user": "all", "password": "p"})
        direct = "CONSUMER" not in denied
        hub.create(allow_direct=direct)
        hub.fill(1, 20)
        hub.remove(20 if "MSG.GET" in denied else 5)
        began = time.monotonic()
        with pytest.raises(Denied, match=denied.rstrip(">").replace("$", r"\$").replace(".", r"\.")):
            list(RangeReader(reading(hub, "some"), Range(1, 20)).batches())
        with pytest.raises(Denied, match="_INBOX"):
            list(RangeReader(reading(hub, "deaf"), Range(1, 20)).batches())
        assert time.monotonic() - began < 60


@KINDS
def test_who_must_not_answer_flow_control_pulls(kind: str) -> None:
    """A user without $JS.FC.> reads a stream that no server pushes without it, to its end."""
    configuration = ACCOUNTS.replace("{denied}", '"$JS.FC.>"').replace("{{", "{").replace("}}", "}")
    with servers.running(kind, configuration) as server:
        hub = Hub(server, {"user": "all", "password": "p"})
        hub.create(allow_direct=False)
        hub.fill(1, 20_000, size=300)
        batches = RangeReader(reading(hub, "some"), Range(1, 20_000)).batches()
        assert list(range(1, 20_001)) == [n for batch in batches for n in batch.column("sequence").to_pylist()]


IMPORTED = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}" }
accounts {
  OWNER { jetstream: enabled, users: [{ user: all, password: p }]
          exports: [{ service: "$JS.API.>", response_type: stream }] }
  GUEST { users: [{ user: guest, password: p }], imports: [{ service: { account: OWNER, subject: "$JS.API.>" } }] }
}
"""


@KINDS
def test_the_streams_of_another_account_are_pulled_from(kind: str) -> None:
    """Where the API is imported from another account, deliveries would go to nobody there; answers find their way."""
    with servers.running(kind, IMPORTED) as server:
        hub = Hub(server, {"user": "all", "password": "p"})
        hub.create(allow_direct=False)
        hub.fill(1, 100)
        batches = RangeReader(reading(hub, "guest"), Range(1, 100)).batches()
        assert list(range(1, 101)) == [n for batch in batches for n in batch.column("sequence").to_pylist()]
