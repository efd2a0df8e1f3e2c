"""The first INFO of each listener, field by field beside nats-server's: what clients, pages, leaves, routes and
gateways are told before they log in.

Not here: what an INFO tells later of other servers (test_cluster_told.py, test_websocket_told.py).
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.certificates import Authority, Issued
from tests.interop.callout_service import ISSUER, public
from tests.jwts import Key, Operator

TEXT = """
listen: "127.0.0.1:{port}"
server_name: S
{tls}
cluster { name: C, listen: "127.0.0.1:{route_port}"
{tls}
{cluster}
}
gateway { name: C, listen: "127.0.0.1:{gateway_port}"
{tls}
}
leafnodes { listen: "127.0.0.1:{leaf_port}"
{tls}
}
websocket { listen: "127.0.0.1:{web_port}"
{web_tls}
}
"""
USERS = """
accounts { SYS { users: [ {user: sys, password: p} ] }, A { users: [ {user: a, password: a} ] } }
system_account: SYS
"""
NKEYS = f"""
accounts {{ SYS {{ users: [ {{user: sys, password: p}} ] }}, A {{ users: [ {{nkey: {Key("user").public}}} ] }} }}
system_account: SYS
"""
CALLOUT = f"""{USERS}
authorization {{ auth_callout {{ issuer: {public(ISSUER)}, auth_users: [a], account: A }} }}
"""
OWN = {"server_id", "version", "go", "nonce", "git_commit", "xkey", "client_id"}
"""Each server has its own: there, or not there."""
NEVER = {"git_commit", "xkey"}
"""Of no use to a client, or a leaf: leafd says neither."""
DIFFERS: dict[str, dict[str, tuple[Any, Any]]] = {
    "port": {},
    "web_port": {},
    "route_port": {"leafd_dials": (None, 1), "ln": (True, None)},
    "gateway_port": {"leafd_letters": (None, -1)},
    "leaf_port": {"go": ("there", None), "ip": ("there", None), "jetstream": (None, False), "leafd": (None, 3)},
}
"""Of each listener: what nats-server says and leafd otherwise. "there": whatever it is."""
WEB = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
PORTS = tuple(DIFFERS)


def named(value: Any, ports: dict[str, int]) -> Any:
    """With the names of ports for their numbers."""
    match value:
        case dict():
            return {key: named(one, ports) for key, one in value.items()}
        case list():
            return [named(one, ports) for one in value]
        case str():
            for name, port in ports.items():
                value = value.replace(f":{port}", f":{name}")
        case int():
            value = next((name for name, port in ports.items() if port == value), value)
    return value


def first(server: servers.Server, where: str, shown: ssl.SSLContext | None) -> dict[str, Any]:
    """The INFO of a listener."""
    with contextlib.ExitStack() as stack:
        end = stack.enter_context(socket.create_connection(("127.0.0.1", server.ports[where]), 10))
        if shown is not None:
            end = stack.enter_context(shown.wrap_socket(end, server_hostname="localhost"))
        if where == "web_port":
            end.sendall(WEB + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        got = b""
        while b"INFO {" not in got or not got.endswith(b"\r\n"):
            more = end.recv(65536)
            assert more, got
            got += more
    found: dict[str, Any] = named(json.loads(got[got.index(b"INFO {") + 5 : got.rindex(b"}") + 1]), server.ports)
    return found


def told(kind: str, text: str, words: dict[str, str], shown: ssl.SSLContext | None) -> dict[str, dict[str, Any]]:
    with servers.running(kind, text, **words) as server:
        first_tls = {"web_port", "route_port", "gateway_port"}
        return {where: first(server, where, shown if where in first_tls else None) for where in PORTS}


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    found = {}
    for name in sorted({*theirs, *ours} - NEVER):
        pair = theirs.get(name), ours.get(name)
        if name in OWN and None not in pair:
            continue
        if pair[0] != pair[1]:
            found[name] = ("there", None) if name in ("go", "ip") and pair[1] is None else pair
    return found


def block(own: Issued, authority: Path, more: str = "") -> str:
    return f'tls {{ cert_file: "{own.certificate}", key_file: "{own.key}", ca_file: "{authority}"{more} }}'


CASES: dict[str, dict[str, str]] = {
    "users": {},
    "nobody logs in": {"top": USERS + "no_auth_user: a\n"},
    "nkeys": {"top": NKEYS},
    "operator": {"top": "operator"},
    "callout": {"top": CALLOUT},
    "routes with a login, without a pool": {"cluster": "authorization { user: r, password: s }, pool_size: -1"},
    "compression and rights": {
        "cluster": 'compression: s2_fast, permissions { import: {deny: x}, export: {allow: "y.>"} }'
    },
    "tls": {"tls": ""},
    "tls with certificates of clients": {"tls": ", verify: true"},
    "tls or not": {"tls": "", "top": USERS + "allow_non_tls: true\n"},
}


@pytest.mark.parametrize("case", CASES)
def test_each_listener_says_what_nats_server_says(case: str, tmp_path: Path) -> None:
    """But for what is listed here."""
    parts = CASES[case]
    top = parts.get("top", USERS)
    words = {"tls": "", "web_tls": "no_tls: true", "cluster": parts.get("cluster", "")}
    shown, expected = None, {where: dict(one) for where, one in DIFFERS.items()}
    if "tls" in parts:
        authority = Authority(tmp_path)
        own = authority.issue("localhost")
        words["tls"] = block(own, authority.certificate, parts["tls"])
        words["web_tls"] = block(own, authority.certificate)
        shown = ssl.create_default_context(cafile=authority.certificate)
        shown.load_cert_chain(own.certificate, own.key)
    if case == "nobody logs in":
        expected["web_port"]["auth_required"] = (True, None)
    if "verify" in parts.get("tls", ""):
        expected["web_port"]["tls_verify"] = (True, None)
    text = TEXT + (Operator().configuration() if top == "operator" else top)
    theirs, ours = (told(kind, text, words, shown) for kind in (servers.REFERENCE, servers.LEAFD))
    assert expected == {where: differences(theirs[where], ours[where]) for where in PORTS}
