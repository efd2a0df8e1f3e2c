"""`leafd doctor` and ways to log in: keys and credentials at the hub, over TCP and over WebSocket; TLS before all else;
a box whose clients come through a proxy. Each with a hub of either kind, and each with what is wrong about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from leafd.doctor.findings import Check, Level

from tests import jwts, servers
from tests.certificates import Authority
from tests.interop.test_doctor_faults import doctor, found, until, written

HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
leafnodes { listen: "127.0.0.1:{leaf_port}" MORE }
websocket { listen: "127.0.0.1:{web_port}", no_tls: true }
"""
WAYS = {"nats-leaf": "leaf_port", "ws": "web_port"}


def file_of(folder: Path, url: str, more: str) -> Path:
    return written(folder, f'leafnodes {{ remotes: [ {{ url: "{url}", {more} }} ] }}\n')


@pytest.fixture(scope="module", params=servers.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# ---- keys and credentials


@dataclass
class Known:
    """A hub that knows keys, and one that knows an operator; and one user of each."""

    by_key: servers.Server
    by_operator: servers.Server
    key: jwts.Key
    account: jwts.Account


@pytest.fixture(scope="module")
def known(kind: str) -> Iterator[Known]:
    key, operator = jwts.Key("user"), jwts.Operator("O")
    account = operator.account("BOXES")
    users = f"accounts {{ BOXES {{ users: [ {{ nkey: {key.public} }} ] }} }}\n"
    text = HUB.replace("MORE", "")
    with (
        servers.running(kind, text + users) as by_key,
        servers.running(kind, text + operator.configuration()) as by_operator,
    ):
        yield Known(by_key, by_operator, key, account)


@pytest.mark.parametrize("scheme", WAYS)
def test_a_box_with_a_key_logs_in_and_one_that_is_not_known_is_told(known: Known, tmp_path: Path, scheme: str) -> None:
    """The remote's nkey is a seed in a file; the hub has the public key of one, and not of the other."""
    url = f"{scheme}://127.0.0.1:{known.by_key.ports[WAYS[scheme]]}"
    other = jwts.Key("user")
    for name, key in (("known", known.key), ("other", other)):
        (tmp_path / name).write_text(key.seed)
    said = until(file_of(tmp_path, url, f'nkey: "{tmp_path}/known"'), Check.HUB_LOGIN, Level.WELL)
    assert "logged in to the account BOXES" in [one.text for one in said]
    file = file_of(tmp_path, url, f'nkey: "{tmp_path}/other"')
    one = found(file, Check.HUB_LOGIN, Level.FAULT)
    assert ("public key of this box's nkey" in one.owner, other.seed in str(doctor(file))) == (True, False)


@pytest.mark.parametrize("scheme", WAYS)
def test_a_box_with_credentials_logs_in_and_revoked_ones_are_told(known: Known, tmp_path: Path, scheme: str) -> None:
    """A .creds file of an account that the hub knows, and one of another operator."""
    url = f"{scheme}://127.0.0.1:{known.by_operator.ports[WAYS[scheme]]}"
    known.account.user("box").creds(tmp_path / "box.creds")
    jwts.Operator("P").account("BOXES").user("box").creds(tmp_path / "other.creds")
    said = until(file_of(tmp_path, url, f'credentials: "{tmp_path}/box.creds"'), Check.HUB_LOGIN, Level.WELL)
    assert f"logged in to the account {known.account.public}" in [one.text for one in said]
    one = found(file_of(tmp_path, url, f'credentials: "{tmp_path}/other.creds"'), Check.HUB_LOGIN, Level.FAULT)
    assert ("new credentials" in one.owner, "eyJ" in str(one)) == (True, False)


# ---- TLS before all else


def test_a_hub_that_wants_tls_before_all_else(kind: str, tmp_path: Path) -> None:
    """With handshake_first the box is let in; without it the box's owner is told what is missing."""
    authority = Authority(tmp_path)
    shown = authority.issue("hub")
    block = f", tls {{ cert_file: {shown.certificate}, key_file: {shown.key}, handshake_first: true, timeout: 1 }}"
    with servers.running(kind, HUB.replace("MORE", block)) as hub:
        url = f"nats-leaf://localhost:{hub.ports['leaf_port']}"
        tls = f"tls {{ ca_file: {authority.certificate} FIRST }}"
        said = until(
            file_of(tmp_path, url, tls.replace("FIRST", ", handshake_first: true")), Check.HUB_LOGIN, Level.WELL
        )
        assert Level.WELL in [one.level for one in said if one.check == Check.HUB_TLS]
        one = found(file_of(tmp_path, url, tls.replace("FIRST", "")), Check.HUB_PROTOCOL, Level.FAULT)
    assert "handshake_first: true" in one.owner


# ---- a box whose clients come through a proxy


def test_a_box_that_wants_the_header_of_a_proxy_is_asked_too(kind: str) -> None:
    """The doctor is a client of the daemon, and comes to its port without a proxy and without a header."""
    box = """
    listen: "127.0.0.1:{port}"
    http: "127.0.0.1:{http_port}"
    proxy_protocol: true
    leafnodes { reconnect: 1, remotes: [ { url: "nats-leaf://127.0.0.1:{hub_port}" } ] }
    """
    with (
        servers.running(servers.REFERENCE, HUB.replace("MORE", "")) as hub,
        servers.running(kind, box, hub_port=hub.ports["leaf_port"]) as leaf,
    ):
        found(leaf.directory / "server.conf", Check.FLOW_UP, Level.WELL)
        found(leaf.directory / "server.conf", Check.FLOW_DOWN, Level.WELL)
