"""WebSocket with official programs: nats-py over ws:// and wss://, leaf links with nats-server at either end."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import ssl
import time
import urllib.request
from pathlib import Path
from typing import Any, cast

import nats
import nats.errors
import pytest
from nats.aio.client import Client

from tests import servers
from tests.certificates import Authority

# nats-py's own: an argument that aiohttp has renamed, and a session that it leaves open when a login fails.
pytestmark = [
    pytest.mark.filterwarnings("ignore:parameter 'timeout' of type:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
USERS = """
accounts { A { users: [
  {user: a, password: a}
  {user: web, password: web, allowed_connection_types: [WEBSOCKET]}
  {user: plain, password: plain, allowed_connection_types: [STANDARD]}
] } }
"""
SIZES = (0, 10, 126, 5000, 70_000, 900_000)


async def exchange(url: str, **options: Any) -> None:
    """Messages of all sizes come back."""
    client = Client()
    try:
        await client.connect(url, allow_reconnect=False, connect_timeout=10, max_reconnect_attempts=1, **options)
    except Exception:
        await cast(Any, client._transport)._client.close()  # nats-py leaves it open
        raise
    heard = await client.subscribe("x.>")
    for size in SIZES:
        await client.publish("x.y", os.urandom(size // 2) + bytes(size - size // 2))
    sizes = [len((await heard.next_msg(timeout=20)).data) for _ in SIZES]
    await client.close()
    assert list(SIZES) == sizes


@pytest.mark.parametrize("kind", servers.KINDS)
def test_an_official_client_speaks_over_websocket(kind: str) -> None:
    """nats-py over ws://: messages of all sizes, and logins that are for WebSocket only or not for it."""
    with servers.running(kind, "port: {port}\nwebsocket { port: {web_port}, no_tls: true }\n" + USERS) as server:
        url = f"ws://127.0.0.1:{server.ports['web_port']}"
        asyncio.run(exchange(url, user="web", password="web"))
        with pytest.raises(nats.errors.Error):
            asyncio.run(exchange(url, user="plain", password="plain"))


@pytest.mark.parametrize("kind", servers.KINDS)
def test_certificates_are_logins_over_wss(kind: str, tmp_path: Path) -> None:
    """wss:// with verify_and_map: the certificate's name is the user; without one there is no connection."""
    authority = Authority(tmp_path)
    server_side, client_side = authority.issue("server"), authority.issue("box", names="DNS:web.example")
    block = (
        f"tls {{ cert_file: '{server_side.certificate}', key_file: '{server_side.key}', "
        f"ca_file: '{authority.certificate}', verify_and_map: true, timeout: 10 }}"
    )
    users = "accounts { A { users: [ {user: web.example} ] } }\n"
    with servers.running(kind, "port: {port}\nwebsocket { port: {web_port}\n" + block + "}\n" + users) as server:
        url = f"wss://localhost:{server.ports['web_port']}"
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        with pytest.raises(Exception):  # noqa: B017, PT011  (what a refused handshake is differs by version)
            asyncio.run(exchange(url, tls=trusting))
        trusting.load_cert_chain(client_side.certificate, client_side.key)
        asyncio.run(exchange(url, tls=trusting))


@pytest.mark.parametrize("options", ["", "ws_compression: true", "ws_no_masking: true, ws_compression: true"])
@pytest.mark.parametrize(
    ("hub_kind", "leaf_kind"),
    [(servers.LEAFD, servers.REFERENCE), (servers.REFERENCE, servers.LEAFD), (servers.LEAFD, servers.LEAFD)],
)
def test_a_leaf_link_over_websocket(hub_kind: str, leaf_kind: str, options: str) -> None:
    """A message published at the leaf is heard at the hub, and the other way round."""
    hub_text = "port: {port}\nserver_name: hub\nleafnodes { port: {leaf_port} }\n"
    hub_text += "websocket { port: {web_port}, no_tls: true, compression: true }\n" + USERS
    with servers.running(hub_kind, hub_text) as hub:
        remote = f"ws://a:a@127.0.0.1:{hub.ports['web_port']}"
        leaf_text = f"port: {{port}}\nserver_name: edge\nleafnodes {{ remotes [ {{ url: '{remote}', {options} }} ] }}\n"
        with servers.running(leaf_kind, leaf_text) as leaf:
            asyncio.run(over_the_link(f"nats://a:a@127.0.0.1:{hub.port}", leaf.url))


async def over_the_link(hub_url: str, leaf_url: str) -> None:
    hub = await nats.connect(hub_url, connect_timeout=10)
    leaf = await nats.connect(leaf_url, connect_timeout=10)
    for here, there in ((hub, leaf), (leaf, hub)):
        heard = await here.subscribe("data")
        payload = os.urandom(3000) + bytes(60_000)
        for _ in range(100):
            await there.publish("data", payload)
            try:
                assert payload == (await heard.next_msg(timeout=0.3)).data
                break
            except nats.errors.TimeoutError:
                pass
        else:
            raise AssertionError("nothing came over the link")
        await heard.unsubscribe()
    await hub.close()
    await leaf.close()


def ask(port: int, *more: str, path: str = "/", method: str = "GET", leave_out: str = "") -> tuple[str, bytes]:
    """The status of the answer to a request, and what comes behind its head."""
    lines = [
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: keep-alive, Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}",
        "Sec-WebSocket-Version: 13",
    ]
    lines = [line for line in lines if not leave_out or not line.startswith(leave_out)]
    head = "\r\n".join((f"{method} {path} HTTP/1.1", *lines, *more, "", ""))
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stream:
        stream.sendall(head.encode())
        heard = b""
        while b"\r\n\r\n" not in heard and (more_bytes := stream.recv(4096)):
            heard += more_bytes
        found, _, behind = heard.partition(b"\r\n\r\n")
        if b" 101 " in found and not behind:
            behind = stream.recv(4096)
    return found.split(b" ")[1].decode(), behind


REQUESTS: list[tuple[tuple[str, ...], dict[str, str]]] = [
    ((), {}),
    ((), {"method": "POST"}),
    ((), {"leave_out": "Host"}),
    ((), {"leave_out": "Upgrade"}),
    ((), {"leave_out": "Connection"}),
    ((), {"leave_out": "Sec-WebSocket-Key"}),
    ((), {"leave_out": "Sec-WebSocket-Version"}),
    (("Sec-WebSocket-Key: xx",), {"leave_out": "Sec-WebSocket-Key"}),
    (("Sec-WebSocket-Version: 12",), {"leave_out": "Sec-WebSocket-Version"}),
    (("Origin: https://good.example",), {}),
    (("Origin: https://good.example:444",), {}),
    (("Origin: http://good.example",), {}),
    (("Origin: https://bad.example",), {}),
    (("Origin: http://other.example:8080",), {}),
    (("Origin: ::bad",), {}),
    ((), {"path": "/any/path?x=y"}),
    ((), {"path": "/mqtt"}),
]


def test_requests_are_answered_as_by_the_reference() -> None:
    """Method, headers, key, version and origin: the same answers to the same requests."""
    text = "port: {port}\nwebsocket { port: {web_port}, no_tls: true, "
    text += 'origins: ["https://good.example", "http://other.example:8080"] }\n'
    answers = {}
    for kind in servers.KINDS:
        with servers.running(kind, text) as server:
            answers[kind] = [ask(server.ports["web_port"], *more, **how)[0] for more, how in REQUESTS]
    assert answers[servers.REFERENCE] == answers[servers.LEAFD]


def test_cookies_are_credentials() -> None:
    """What CONNECT leaves out is taken from the cookies that the configuration names."""
    text = "port: {port}\nhttp: '127.0.0.1:{http_port}'\n"
    text += (
        "websocket { port: {web_port}, no_tls: true, user_cookie: u, pass_cookie: p, headers { X-Who: box } }\n" + USERS
    )
    with servers.running(servers.LEAFD, text) as server:
        key = base64.b64encode(bytes(16)).decode()
        head = (
            "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\nCookie: u=web; other=1; p=web\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", server.ports["web_port"]), timeout=10) as stream:
            stream.sendall(head.encode())
            heard = b""
            while b"INFO " not in heard:
                heard += stream.recv(4096)
            body = b'CONNECT {"verbose":false}\r\nPING\r\n'
            stream.sendall(bytes([0x82, 0x80 | len(body), 0, 0, 0, 0]) + body)
            while b"PONG" not in heard:
                heard += stream.recv(4096)
            address = f"http://127.0.0.1:{server.ports['http_port']}/connz?auth=1"
            with urllib.request.urlopen(address, timeout=10) as answer:
                listed = json.load(answer)["connections"]
    assert b"\r\nX-Who: box\r\n" in heard
    assert ["web"] == [one["authorized_user"] for one in listed]


def test_who_never_asks_is_sent_away_and_others_are_served() -> None:
    """Silent connections, half requests, endless heads and half frames before a login: all end within the time of a
    handshake or a login, and a client is served meanwhile."""
    text = "port: {port}\nwebsocket { port: {web_port}, no_tls: true, handshake_timeout: '1s' }\n"
    with servers.running(servers.LEAFD, text + USERS) as server:
        port = server.ports["web_port"]
        key = base64.b64encode(bytes(16)).decode()
        whole = (
            "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\n\r\n"
        ).encode()
        beginnings = [
            b"",
            b"GET / HT",
            b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 20_000,
            whole + b"\x82\x85early",
            whole,
            b"\x16\x03\x01\x00\x05",
        ]
        later = [b"", b"", b"", b"", b"\x82\xff\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00CONN", b""]
        streams = []
        for beginning in beginnings * 100:
            stream = socket.create_connection(("127.0.0.1", port), timeout=15)
            stream.sendall(beginning)
            streams.append(stream)
        for stream, more in zip(streams, later * 100, strict=True):
            if more:
                heard = b""
                while b"INFO" not in heard:
                    heard += stream.recv(4096)
                stream.sendall(more)
        began = time.monotonic()
        asyncio.run(exchange(f"ws://127.0.0.1:{port}", user="web", password="web"))
        for stream in streams:
            try:
                while stream.recv(65536):
                    pass
            except ConnectionError:
                pass
            stream.close()
        assert time.monotonic() - began < 14
        asyncio.run(exchange(f"ws://127.0.0.1:{port}", user="web", password="web"))
