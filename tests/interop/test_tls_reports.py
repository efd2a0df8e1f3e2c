"""What varz and connz say of TLS and WebSocket is what nats-server says; a leaf's certificate is its login."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path
from typing import Any

import nats
import pytest

from tests import servers
from tests.certificates import Authority
from tests.rig.reports import report

pytestmark = [
    pytest.mark.filterwarnings("ignore:parameter 'timeout' of type:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def block(authority: Authority, name: str, more: str = "", **how: str) -> str:
    issued = authority.issue(name, **how)  # type: ignore[arg-type]
    files = f"cert_file: '{issued.certificate}', key_file: '{issued.key}', ca_file: '{authority.certificate}'"
    return f"tls {{ {files}, timeout: 7 {more} }}"


def test_reports_say_what_the_reference_says(tmp_path: Path) -> None:
    """The fields of TLS in varz, and in connz of a client with a certificate and one over WebSocket."""
    authority = Authority(tmp_path)
    mine = authority.issue("client", subject="/O=Farm/OU=a+CN=client/emailAddress=a@b.c")
    tls = block(authority, "server", ", verify: true")
    web = block(authority, "web")
    text = f"port: {{port}}\nhttp: '127.0.0.1:{{http_port}}'\n{tls}\n"
    text += f"leafnodes {{ port: {{leaf_port}}, {block(authority, 'leaf', ', verify: true')} }}\n"
    text += f"websocket {{ port: {{web_port}}, compression: true, same_origin: true, {web} }}\n"
    seen = {}
    for kind in servers.KINDS:
        with servers.running(kind, text) as server:
            seen[kind] = asyncio.run(look(server, authority, mine.certificate, mine.key))

    assert seen[servers.REFERENCE] == seen[servers.LEAFD]


async def look(server: servers.Server, authority: Authority, certificate: Path, key: Path) -> list[dict[str, Any]]:
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    trusting.load_cert_chain(certificate, key)
    plain = await nats.connect(f"tls://localhost:{server.port}", tls=trusting, connect_timeout=10)
    web = await nats.connect(f"wss://localhost:{server.ports['web_port']}", tls=trusting, connect_timeout=10)
    varz, connz = report(server, "/varz"), report(server, "/connz?auth=1")
    await plain.close()
    await web.close()
    names = ("tls_required", "tls_verify", "tls_timeout", "tls_cert_not_after", "auth_timeout")
    found = [{name: part.get(name) for name in names} for part in (varz, varz["leaf"])]
    for one in found[1:]:
        one.pop("tls_timeout")
    kept = ("compression", "same_origin", "no_tls", "tls_cert_not_after", "handshake_timeout")
    found.append({name: varz["websocket"].get(name) for name in kept})
    for one in connz["connections"]:
        del one.get("tls_peer_certs", [None])[1:]  # the reference lists what else the client sent, too
        found.append({name: one.get(name) for name in ("type", "tls_version", "tls_peer_certs")})
    return found


def test_a_leafs_certificate_is_its_login(tmp_path: Path) -> None:
    """verify_and_map of the leaf listener: a real nats-server is linked to the account of its certificate's user."""
    authority = Authority(tmp_path)
    hub_tls = block(authority, "hub", ", verify_and_map: true")
    edge_tls = block(authority, "edge", names="DNS:edge.example")
    users = "accounts { A { users: [ {user: other, password: x} ] }, B { users: [ {user: edge.example} ] } }\n"
    text = f"port: {{port}}\nserver_name: hub\nhttp: '127.0.0.1:{{http_port}}'\n{users}"
    text += f"leafnodes {{ port: {{leaf_port}}, {hub_tls} }}\n"
    with servers.running(servers.LEAFD, text) as hub:
        remote = f"tls://localhost:{hub.ports['leaf_port']}"
        edge_text = (
            f"port: {{port}}\nserver_name: edge\nleafnodes {{ remotes [ {{ url: '{remote}', {edge_tls} }} ] }}\n"
        )
        with servers.running(servers.REFERENCE, edge_text):
            deadline = time.monotonic() + 15
            links: list[Any] = []
            while not links and time.monotonic() < deadline:
                links = [one["account"] for one in report(hub, "/leafz")["leafs"]]
                time.sleep(0.1)
    assert ["B"] == links


TIMEOUTS = (
    "authorization { user: a, password: b }\nleafnodes { port: {leaf_port} }\n",
    "{tls}\nauthorization { user: a, password: b, timeout: 1 }\n"
    "leafnodes { port: {leaf_port}, authorization { user: c, password: d, timeout: 3 } }\n",
    "{tls}\nauthorization { user: a, password: b }\n"
    "leafnodes { port: {leaf_port}, authorization { user: c, password: d }, {tls} }\n",
)


@pytest.mark.parametrize("text", TIMEOUTS)
def test_a_login_may_take_as_long_as_with_nats_server(text: str, tmp_path: Path) -> None:
    """What is configured; else two seconds, or one more than the handshake may take. A leaf has a minute."""
    tls, seen = block(Authority(tmp_path), "server"), []
    for kind in servers.KINDS:
        with servers.running(
            kind, "port: {port}\nhttp: '127.0.0.1:{http_port}'\n" + text.replace("{tls}", tls)
        ) as server:
            varz = report(server, "/varz")
            seen.append((varz["auth_timeout"], varz["leaf"]["auth_timeout"]))
    said = "timeout" in text.replace("{tls}", tls).partition("leafnodes")[2]
    ours, theirs = seen if servers.KINDS[0] == servers.LEAFD else seen[::-1]
    assert ours == (theirs if said else (theirs[0], theirs[1] + 58))
