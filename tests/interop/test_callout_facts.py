"""What a service that judges logins is told of a connection: its TLS, its certificates, WebSocket, the user that it has
proven to be. The same on leafd and on the reference."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import nats
import pytest

from tests import servers
from tests.certificates import Authority, Issued
from tests.interop.callout_service import ISSUER, Answer, Request, judging, public, read, response, user
from tests.interop.jwt_peer import Peer, close_all
from tests.jwts import Operator, User

# The client leaves sockets under TLS to the collector, which complains in whichever test is next.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BLOCK = 'tls { cert_file: "{cert}", key_file: "{key}", ca_file: "{ca}", {tls_more} }'
CONFIGURATION = (
    """
listen: "127.0.0.1:{port}"
server_name: "judged"
"""
    + BLOCK
    + """
websocket { listen: "127.0.0.1:{web_port}", """
    + BLOCK
    + """ }
accounts { AUTH { users: [{user: auth, password: auth}] }, APP {} }
authorization { timeout: 5, auth_callout { issuer: {issuer}, auth_users: [auth], account: AUTH } }
"""
)
LEAF = """
listen: "127.0.0.1:{port}"
server_name: "box"
leafnodes { remotes: [ { url: "tls://who:ever@127.0.0.1:{hub}", tls { ca_file: "{ca}", {shown} } } ] }
"""
Told = list[dict[str, Any]]


def trusting(authority: Authority, shown: Issued | None, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.minimum_version = context.maximum_version = version
    if shown is not None:
        context.load_cert_chain(str(shown.certificate), str(shown.key))
    return context


def without_keys(claims: dict[str, Any]) -> dict[str, Any]:
    """A request without what differs from run to run."""
    del claims["server_id"]["id"], claims["user_nkey"], claims["client_info"]["id"]
    if "nonce" in claims["client_info"]:
        claims["client_info"]["nonce"] = "nonce"
    claims["connect_opts"].pop("sig", None)
    return claims


async def over_websocket(port: int, context: ssl.SSLContext) -> None:
    """Logs in."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    asking = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = base64.b64encode(bytes(16)).decode()
    writer.write(f"GET / HTTP/1.1\r\nHost: x\r\n{asking}Sec-WebSocket-Key: {key}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    line = b'CONNECT {"verbose":false,"user":"who","pass":"ever"}\r\nPING\r\n'
    writer.write(bytes([0x82, 0x80 | len(line)]) + bytes(4) + line)  # masked by zeros
    await reader.readuntil(b"PONG\r\n")
    writer.close()


async def told(server: servers.Server, contexts: list[ssl.SSLContext], shown: Issued | None) -> Told:
    """What is said of a client with each context, and of one over WebSocket."""
    showing = contexts[-1]

    def judge(request: Request) -> Answer:
        return response(request, user(request))

    options: dict[str, Any] = {"user": "who", "password": "ever", "allow_reconnect": False}
    service = await nats.connect(server.url, user="auth", password="auth", tls=showing)
    async with judging(service, judge) as asked:
        for context in contexts:
            client = await nats.connect(server.url, tls=context, **options)
            await client.close()
        await over_websocket(server.ports["web_port"], showing)
    return [without_keys(read(message.data.decode())["nats"]) for message in asked]


@pytest.mark.parametrize("verify", [False, True])
def test_tls_and_websocket(tmp_path: Path, verify: bool) -> None:
    """Version, suite, and, where a certificate has to be shown, the chain that proves it; a client over WebSocket is
    called one."""
    authority = Authority(tmp_path)
    own, guest = authority.issue("server"), authority.issue("guest")
    shown = guest if verify else None
    contexts = [trusting(authority, shown, one) for one in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)]
    reports = []
    for kind in servers.KINDS:
        more = "verify: true" if verify else ""
        values = {"cert": own.certificate, "key": own.key, "ca": authority.certificate, "tls_more": more}
        with servers.running(kind, CONFIGURATION, issuer=public(ISSUER), **values) as server:
            reports.append(asyncio.run(told(server, contexts, shown)))
    assert 3 == len(reports[1])
    chains = [one["client_tls"].get("verified_chains") for one in reports[1]]
    assert verify == all(chains)
    for ours, theirs in zip(*reports, strict=True):
        # Which of the suites that both offer is taken is the servers' business.
        assert ours["client_tls"].pop("cipher").startswith("TLS_")
        assert theirs["client_tls"].pop("cipher").startswith("TLS_")
        assert ours == theirs


def test_who_is_asked_about_in_operator_mode(tmp_path: Path) -> None:
    """The user of a JWT is named by its key, with its name and tags."""
    operator = Operator("O")
    account = operator.account("A")
    service, person = account.user("service"), account.user("person", tags=["where:here", "edge"])
    account.nats["authorization"] = {"auth_users": [service.key.public]}
    configuration = 'listen: "127.0.0.1:{port}"\nserver_name: hub\n' + operator.configuration()
    file = service.creds(tmp_path / "service")
    reports = []
    for kind in servers.KINDS:
        with servers.running(kind, configuration) as server:
            reports.append(asyncio.run(asked_about(server, file, person)))
    assert {"where:here", "edge"} == set(reports[1]["client_info"]["tags"])
    assert reports[1] == reports[0]


async def asked_about(server: servers.Server, service: Path, person: User) -> dict[str, Any]:
    def judge(request: Request) -> Answer:
        return response(request, error="no")

    client = await nats.connect(server.url, user_credentials=str(service))
    async with judging(client, judge) as asked:
        heard = await asyncio.to_thread(lambda: Peer(server, person, name="n").lines())
    close_all()
    assert "-ERR 'Authorization Violation'" in heard
    return without_keys(read(asked[0].data.decode())["nats"])
